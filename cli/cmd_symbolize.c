/*
 * tidemark symbolize: functions and lines at addresses of an image; with --serve, the symbol helper
 * of this and other commands (symbols/helper/helper.h).
 */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/options/resolve_options.h"
#include "naming/resolver.h"
#include "report/write/json_value.h"
#include "symbols/helper/helper_serve.h"

static const char usage[] =
    "usage: tidemark symbolize IMAGE [OPTIONS] [ADDRESS…]\n"
    "\n"
    "Prints which functions, files and lines are at addresses of a program or library, with the\n"
    "calls that were inlined there, innermost first. Addresses are hexadecimal, with or without\n"
    "0x; without any they are read from standard input, one a line. IMAGE may be left out where\n"
    "-e gives it, as to addr2line.\n";

static const char footer[] = "Exit status: 0 done; 2 usage; 3 IMAGE cannot be read.\n";

struct symbolize_command {
    const char *image;
    bool inlines, demangle, pretty, basenames, addresses, columns, returns, file_offsets, json,
        serve;
    uint64_t base;
    bool has_base;
    VEC(uint64_t) asked; /* as given */
    VEC(struct place) places;
    struct resolve_options options;
    struct resolver resolver;
    struct buf out;
    json_t *list;
};

static bool parse_address(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 16);
    return errno == 0 && end != text && *end == 0 && isxdigit((unsigned char)text[0]);
}

static bool take_base(void *ctx, const char *option, const char *value, struct err *e)
{
    return parse_address(value, &((struct symbolize_command *)ctx)->base) ||
           refuse_value(e, option, "a hexadecimal address", value);
}

#define FIELD(NAME) OPTION_FIELD(struct symbolize_command, NAME)

static const struct option_row rows[] = {
    {"--exe", "IMAGE", "the image", .letter = 'e', FIELD(image)},
    {"--obj", "IMAGE", FIELD(image)},
    {"--no-inlines", NULL, "only the function that the code is in, at the innermost line",
     .type = VALUE_SET, .least = false, FIELD(inlines)},
    {"--addresses", NULL, "print each address before what is there", .letter = 'a',
     FIELD(addresses)},
    {"--functions", NULL, "(always done)", .letter = 'f', .type = VALUE_IGNORED},
    {"--inlines", NULL, "(always done)", .letter = 'i', .type = VALUE_IGNORED},
    {"--demangle", NULL, "(always done)", .letter = 'C', .type = VALUE_IGNORED},
    {"--no-demangle", NULL, "names as the linker has them", .type = VALUE_SET, .least = false,
     FIELD(demangle)},
    {"--pretty-print", NULL, "one line for each function", .letter = 'p', FIELD(pretty)},
    {"--basenames", NULL, "files without their folders", .letter = 's', FIELD(basenames)},
    {"--columns", NULL, "columns behind lines", FIELD(columns)},
    {"--returns", NULL, "addresses are those of calls' returns: use the byte before",
     FIELD(returns)},
    {"--base", "ADDRESS", "subtract this from all addresses: where the image was mapped",
     .take = take_base, .given = offsetof(struct symbolize_command, has_base)},
    {"--file-offsets", NULL, "addresses are offsets in the file", FIELD(file_offsets)},
    {"--format", "F", "{}", "text", .type = VALUE_WORD, .words = "text or json", FIELD(json)},
    {"--serve", FIELD(serve)},
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = resolve_source_rows,
     .base = offsetof(struct symbolize_command, options),
     .title = "Debug information"},
    {.rows = resolve_file_rows, .base = offsetof(struct symbolize_command, options)},
    {.rows = resolve_thread_rows, .base = offsetof(struct symbolize_command, options)},
    {0},
};

static int take_address(struct symbolize_command *c, const char *text, struct err *e)
{
    uint64_t address;
    if (!parse_address(text, &address))
        return err_set(e, ERR_USAGE, "'%s' is no hexadecimal address", text);
    if (c->has_base && address < c->base)
        return err_set(e, ERR_USAGE, "%s is below the base", text);
    struct place place = {c->file_offsets ? PLACE_FILE
                          : c->has_base   ? PLACE_OFFSET
                                          : PLACE_ADDRESS,
                          address - c->base};
    if (c->returns && place.value > 0)
        place.value--;
    if (!vec_push(&c->asked, address) || !vec_push(&c->places, place))
        return err_no_memory(e, "addresses");
    return 0;
}

static bool parse_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct symbolize_command *c = ctx;
    int i = 0;
    if (!c->image && n > 0)
        c->image = arguments[i++];
    if (!c->image && !c->serve) {
        err_set(e, ERR_USAGE, "which image?");
        return false;
    }
    for (; i < n; i++) {
        if (take_address(c, arguments[i], e) != 0)
            return false;
    }
    return true;
}

/* ---- output */

static struct view shown_file(const struct symbolize_command *c, struct view file)
{
    const char *slash = c->basenames && file.len ? memrchr(file.p, '/', file.len) : NULL;
    size_t n = slash ? (size_t)(slash - file.p) + 1 : 0;
    return (struct view){file.p + n, file.len - n};
}

static void put_function(struct symbolize_command *c, const struct place_answer *a,
                         const struct symbol_frame *f)
{
    struct view image = view_of(c->image);
    const char *slash = memrchr(image.p, '/', image.len);
    struct view name = {0};
    if (f)
        name = !c->demangle && f->linkage.len ? f->linkage : f->function;
    if (name.len) {
        format_terminal(&c->out, name);
    } else if (a->source != SOURCE_NONE) {
        format_terminal(&c->out, slash ? view_of(slash + 1) : image);
        buf_printf(&c->out, "+0x%" PRIx64, a->address);
    } else {
        buf_puts(&c->out, "??");
    }
}

static void put_line(struct symbolize_command *c, const struct symbol_frame *f)
{
    if (!f || f->file.len == 0) {
        buf_puts(&c->out, "??:0");
        return;
    }
    format_terminal(&c->out, shown_file(c, f->file));
    buf_printf(&c->out, ":%" PRIu32, f->line);
    if (c->columns)
        buf_printf(&c->out, ":%" PRIu32, f->column);
}

static void put_frame(struct symbolize_command *c, const struct place_answer *a,
                      const struct symbol_frame *function, const struct symbol_frame *line,
                      bool inner)
{
    if (c->pretty && !inner)
        buf_puts(&c->out, " (inlined by) ");
    put_function(c, a, function);
    buf_puts(&c->out, c->pretty ? " at " : "\n");
    put_line(c, line);
    buf_u8(&c->out, '\n');
}

static void put_text(struct symbolize_command *c, uint64_t address, const struct place_answer *a)
{
    if (c->addresses)
        buf_printf(&c->out, "0x%016" PRIx64 "%s", address, c->pretty ? ": " : "\n");
    if (a->n == 0)
        put_frame(c, a, NULL, NULL, true);
    else if (!c->inlines)
        put_frame(c, a, &a->frames[a->n - 1], &a->frames[0], true);
    for (size_t i = 0; c->inlines && i < a->n; i++)
        put_frame(c, a, &a->frames[i], &a->frames[i], i == 0);
}

static int put_json(struct symbolize_command *c, uint64_t address, const struct place_answer *a,
                    struct err *e)
{
    static const char *const sources[PLACE_SOURCES] = {
        [SOURCE_NONE] = "none",        [SOURCE_IMAGE] = "image",   [SOURCE_DYNSYM] = "symbol",
        [SOURCE_DEBUGDATA] = "symbol", [SOURCE_SYMTAB] = "symbol", [SOURCE_PUBLIC] = "symbol",
        [SOURCE_DEBUG] = "debug"};
    static const char *const tables[PLACE_SOURCES] = {[SOURCE_DYNSYM] = ".dynsym",
                                                      [SOURCE_DEBUGDATA] = ".gnu_debugdata",
                                                      [SOURCE_SYMTAB] = ".symtab",
                                                      [SOURCE_PUBLIC] = "public symbols"};
    json_t *frames = json_array();
    bool ok = frames != NULL;
    for (size_t i = 0; ok && i < a->n; i++) {
        const struct symbol_frame *f = &a->frames[i];
        ok = json_array_append_new(
                 frames,
                 json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:b}", "function",
                           json_text_or_null(f->function), "linkage", json_text_or_null(f->linkage),
                           "file", json_text_or_null(shown_file(c, f->file)), "line",
                           (json_int_t)f->line, "column", (json_int_t)f->column, "start",
                           f->start ? json_address(f->start) : json_null(), "inlined",
                           (int)f->inlined)) == 0;
    }
    json_t *one =
        ok ? json_pack("{s:o, s:o, s:s, s:s?, s:o}", "address", json_address(address),
                       "image_address",
                       a->source == SOURCE_NONE ? json_null() : json_address(a->address), "source",
                       sources[a->source], "table", tables[a->source], "frames", frames)
           : NULL;
    if (!ok)
        json_decref(frames);
    return json_array_append_new(c->list, one) == 0 ? 0 : err_no_memory(e, "answers");
}

static int take_answer(void *ctx, size_t i, const struct place_answer *a, struct err *e)
{
    struct symbolize_command *c = ctx;
    /* Other such programs do not name neighbours. */
    struct place_answer exact = *a;
    if (a->source == SOURCE_NEIGHBOUR) {
        exact.source = SOURCE_IMAGE;
        exact.n = 0;
    }
    if (c->json)
        return put_json(c, c->asked.at[i], &exact, e);
    put_text(c, c->asked.at[i], &exact);
    if (c->out.len > 65536) {
        fwrite(c->out.data, 1, c->out.len, stdout);
        buf_clear(&c->out);
    }
    return c->out.failed ? err_no_memory(e, "answers") : 0;
}

static int ask(struct symbolize_command *c, struct err *e)
{
    int status =
        helper_look_up(&c->resolver.helper, c->places.at, c->places.len, take_answer, c, e);
    if (c->out.len > 0)
        fwrite(c->out.data, 1, c->out.len, stdout);
    buf_clear(&c->out);
    fflush(stdout);
    return status;
}

/* Answers line by line, so that a program can ask through pipes. */
static int ask_input(struct symbolize_command *c, struct err *e)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int status = 0;
    while (status == 0 && (len = getline(&line, &cap, stdin)) >= 0) {
        char *text = line;
        while (len > 0 && isspace((unsigned char)line[len - 1]))
            line[--len] = 0;
        while (isspace((unsigned char)*text))
            text++;
        if (*text == 0)
            continue;
        c->asked.len = c->places.len = 0;
        status = take_address(c, text, e);
        if (status == 0)
            status = ask(c, e);
    }
    free(line);
    return status;
}

static int run(struct symbolize_command *c, struct err *e)
{
    struct image_facts facts;
    c->options.linkage = c->json || !c->demangle;
    if (resolver_init(&c->resolver, &c->options, e) != 0)
        return -1;
    if (resolver_open(&c->resolver, view_of(c->image), NULL, (struct image_proof){.trusted = true},
                      &facts, e) != 0) {
        e->code = e->code == ERR_CHECK ? ERR_INPUT : e->code;
        return err_prefix(e, "%s", c->image);
    }
    if (c->json && !(c->list = json_array()))
        return err_no_memory(e, "answers");
    int status = c->places.len > 0 ? ask(c, e) : ask_input(c, e);
    helper_close_image(&c->resolver.helper);
    if (status != 0 && e->code == ERR_CHECK) {
        e->code = ERR_INPUT;
        return err_prefix(e, "%s", c->image);
    }
    if (status == 0 && c->json) {
        json_t *all = json_pack("{s:s, s:o, s:o}", "schema", "tidemark.symbolize/1", "image",
                                json_text(view_of(c->image)), "addresses", json_incref(c->list));
        if (!json_put(&c->out, all, JSON_INDENT(1)))
            return err_no_memory(e, "answers");
        buf_u8(&c->out, '\n');
        fwrite(c->out.data, 1, c->out.len, stdout);
    }
    return status;
}

int cmd_symbolize(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = parse_rest};
    struct symbolize_command c = {.inlines = true, .demangle = true, .resolver = RESOLVER_NONE};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0 && c.serve) {
        /* The requesting process prints the error. Exit handlers no longer have the rights they
         * need. */
        _exit(helper_serve(STDIN_FILENO, &symbolizer_backend, &e) == 0 ? 0 : 3);
    } else if (status < 0) {
        status = run(&c, &e) == 0 ? 0 : print_error(&e);
        resolver_release(&c.resolver);
    }
    json_decref(c.list);
    vec_release(&c.asked);
    vec_release(&c.places);
    buf_release(&c.out);
    resolve_options_release(&c.options);
    return status;
}
