#include "naming/update_resolve.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/format.h"
#include "base/print_error.h"
#include "symbols/elf/regular_file.h"
#include "symbols/pdb/msf_file.h"
#include "symbols/pdb/pe_image.h"

/* The resolution of one image. */
struct asking {
    struct update_resolve *resolve;
    struct symbolize *symbols;
    size_t image;
    const uint64_t *offsets;
    const char *path; /* as displayed */
    struct buf text;
};

static int take_entry(void *ctx, const struct addr2line_entry *entry, struct err *e)
{
    struct asking *a = ctx;
    struct buf shown = {0};
    struct view name = entry->function;
    buf_clear(&a->text);
    /* The official tool's text for an unknown frame. */
    if (name.len == 0) {
        buf_printf(&a->text, "[unknown] + %" PRIu64, a->offsets[entry->i]);
        name = (struct view){buf_str(&a->text), a->text.len};
    }
    if (a->resolve->verbose) {
        format_terminal(&shown, name);
        fprintf(a->resolve->say, "0x%" PRIx64 " of '%s' -> '%s'\n", a->offsets[entry->i], a->path,
                buf_str(&shown));
        buf_release(&shown);
    }
    return symbolize_answer(a->symbols, a->image, entry->i, name, entry->file, entry->line, e);
}

/*
 * Whether addr2line may open the path. A name in a trace can be that of a pipe or a device, which
 * would block addr2line. A tool that the user chose may know images that are no files here.
 */
static bool can_be_asked(const struct update_resolve *r, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return r->tool.tool != NULL;
    return S_ISREG(st.st_mode);
}

/* ---- without addr2line */

static int take_own(void *ctx, size_t i, const struct place_answer *a, struct err *e)
{
    struct addr2line_entry entry = {.i = i};
    if (a->source > SOURCE_NEIGHBOUR) {
        entry.function = a->frames[a->n - 1].function;
        entry.file = a->frames[0].file;
        entry.line = a->frames[0].line;
    }
    return take_entry(ctx, &entry, e);
}

/* An unreadable image leaves its frames unresolved: *answered stays 0. */
static int ask_own(struct asking *a, const char *path, size_t n, size_t *answered, struct err *e)
{
    struct resolver *r = &a->resolve->resolver;
    struct image_facts facts;
    struct err cause = {0};
    struct place *places = calloc(n ? n : 1, sizeof *places);
    int status = places ? 0 : err_no_memory(e, "addresses");
    for (size_t i = 0; i < n && places; i++)
        places[i] = (struct place){PLACE_ADDRESS, a->offsets[i]};
    if (status == 0 && resolver_open(r, view_of(path), NULL, (struct image_proof){.trusted = true},
                                     &facts, &cause) == 0) {
        status = helper_look_up(&r->helper, places, n, take_own, a, &cause);
        helper_close_image(&r->helper);
        *answered = status == 0 ? n : 0;
    }
    free(places);
    if (cause.code != ERR_MEMORY)
        return places ? 0 : -1;
    *e = cause;
    return -1;
}

static bool start_own(struct update_resolve *r)
{
    struct err e = {0};
    r->own = r->own || resolver_init(&r->resolver, &r->options, &e) == 0;
    if (!r->own)
        print_error(&e);
    return r->own;
}

/* addr2line reads no PDB files. */
static bool is_of_windows(const char *path)
{
    char head[32];
    int fd = regular_file_open(path);
    ssize_t n = fd >= 0 ? pread(fd, head, sizeof head, 0) : 0;
    if (fd >= 0)
        close(fd);
    struct view bytes = {head, n > 0 ? (size_t)n : 0};
    return pe_image_is(bytes) || msf_file_is(bytes);
}

/* Whether our own reader answers for an image; starts the helper then. */
static bool reads_itself(struct update_resolve *r, const char *path)
{
    if (r->tool.tool || r->tool.arguments)
        return false;
    if (is_of_windows(path))
        return start_own(r);
    if (r->replaces || addr2line_is_there())
        return r->replaces;
    r->replaces = start_own(r);
    if (r->replaces)
        fprintf(stderr, "tidemark: there is no addr2line here: our own reader answers\n");
    return r->replaces;
}

static int ask(struct update_resolve *r, struct symbolize *s, size_t image, const char *path,
               struct err *e)
{
    size_t n, answered = 0;
    struct buf shown = {0};
    struct asking a = {.resolve = r, .symbols = s, .image = image};
    int status = 0;
    format_terminal(&shown, view_of(path));
    a.path = buf_str(&shown);
    a.offsets = symbolize_offsets(s, image, &n);
    if (can_be_asked(r, path) && reads_itself(r, path))
        status = ask_own(&a, path, n, &answered, e);
    else if (can_be_asked(r, path))
        status = addr2line_ask(&r->tool, path, a.offsets, n, take_entry, &a, &answered, e);
    if (status == 0 && answered < n)
        fprintf(stderr, "tidemark: '%s': %zu of %zu frames stay unresolved%s\n", a.path,
                n - answered, n, answered == 0 ? ": the image cannot be read" : "");
    buf_release(&a.text);
    buf_release(&shown);
    return status;
}

static int resolve_image(struct update_resolve *r, struct symbolize *s, size_t image, struct err *e)
{
    size_t n;
    struct buf path = {0}, other = {0}, shown = {0};
    struct view name = symbolize_image(s, image);
    int status = 0;
    symbolize_offsets(s, image, &n);
    format_terminal(&shown, name);
    fprintf(r->say, "Resolving %zu symbols for image: '%s'\n", n, buf_str(&shown));
    buf_put(&path, name.p, name.len);
    const char *text = buf_str(&path);
    if (substitutions_apply(&r->substitutions, text, &other)) {
        text = buf_str(&other);
        buf_clear(&shown);
        format_terminal(&shown, view_of(text));
        fprintf(r->say, "\tPath substituted to: '%s'\n", buf_str(&shown));
    }
    if (path.failed || other.failed)
        status = err_no_memory(e, "the name of an image");
    else
        status = ask(r, s, image, text, e);
    buf_release(&path);
    buf_release(&other);
    buf_release(&shown);
    return status;
}

int update_resolve(void *resolve, struct symbolize *s, struct err *e)
{
    struct update_resolve *r = resolve;
    int status = 0;
    fprintf(r->say, "Resolving and patching symbols...\n");
    fprintf(r->say, "Found %" PRIu64 " callstack frames. Batching into image groups...\n",
            symbolize_frames(s));
    fprintf(r->say, "Batched into %zu unique image groups\n", symbolize_images(s));
    for (size_t i = 0; i < symbolize_images(s) && status == 0; i++)
        status = resolve_image(r, s, i, e);
    /* Without the tool the trace is written unchanged, as the official tool does. */
    if (status != 0 && e->code == ERR_CHECK) {
        struct buf shown = {0};
        format_terminal(&shown, view_of(e->text));
        fprintf(stderr, "tidemark: %s; frames stay unresolved\n", buf_str(&shown));
        buf_release(&shown);
        *e = (struct err){0};
        status = 0;
    }
    return status;
}
