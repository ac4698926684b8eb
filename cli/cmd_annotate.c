/* tidemark annotate: a function's instructions, with the allocations made through each call. */

#include "analysis/code/annotate.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/options/question.h"
#include "cli/trace_code.h"
#include "naming/image_code.h"
#include "protocol/handshake.h"
#include "report/annotate_report.h"
#include "report/write/terminal_form.h"
#include "trace/load/load.h"

static const char usage[] =
    "usage: tidemark annotate FILE FUNCTION [OPTIONS]\n"
    "       tidemark annotate FILE ADDRESS [OPTIONS]\n"
    "\n"
    "Prints the machine code of a function as the trace holds it, or else as the program's image\n"
    "does, with the source lines that it comes from and, at each call, what was allocated through\n"
    "it. FUNCTION is a name, with or without parameters, or else a part of one; ADDRESS is\n"
    "hexadecimal with 0x, anywhere in the function. If several functions match, they are listed.\n"
    "Of functions whose frames have no addresses, as those of Python, the source lines are "
    "printed;\n"
    "FILE:FUNCTION is one of them.\n"
    "FILE - is standard input.\n";

static const char footer[] =
    "Through it: allocations whose call stacks pass through the function; own: those that\n"
    "it made itself, as in report --by function.\n"
    "Exit status: 0 done; 1 several functions, or no machine code of it; 2 usage, or no such\n"
    "function; 3 unreadable trace; 4 output exists or cannot be written.\n";

struct annotate_command {
    struct question question;
    struct annotate_texts texts;
    struct sample_input samples;
    struct image_code images;
    const char *function;
    bool regex;
};

static const struct option_row rows[] = {
    {"--regex", NULL, "FUNCTION is a regular expression (as in Perl)",
     OPTION_FIELD(struct annotate_command, regex)},
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_format_rows, .base = offsetof(struct annotate_command, question)},
    QUESTION_GROUPS(struct annotate_command),
    {0},
};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct annotate_command *c = ctx;
    if (n < 2) {
        err_set(e, ERR_USAGE, n == 0 ? "which trace?" : "which function?");
        return false;
    }
    if (n > 2) {
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[2]);
        return false;
    }
    c->question.trace = arguments[0];
    c->function = arguments[1];
    return true;
}

/* Code, sources and samples. */
static int put_beside(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct annotate_command *c = ctx;
    if (annotate_texts_put(&c->texts, type, recs, n, e) != 0)
        return -1;
    return sample_input_put(&c->samples, type, recs, n, e);
}

static int load(void *ctx, struct trace *t, struct err *e)
{
    struct annotate_command *c = ctx;
    const struct selection_options *s = &c->question.selection;
    const struct record_sink beside = {c, put_beside};
    bool wanted[REC_TYPE_COUNT] = {false};
    annotate_texts_init(&c->texts, t);
    c->samples = (struct sample_input){.has_range = s->has_range, .begin = s->begin, .end = s->end};
    annotate_texts_wanted(wanted);
    sample_input_wanted(wanted);
    const struct trace_load_options options = {.zones = s->zone != NULL,
                                               .frames = s->has_frame,
                                               .beside = &beside,
                                               .beside_wanted = wanted};
    return trace_load_with(t, c->question.trace, &options, NULL, NULL, e);
}

static void unload(void *ctx)
{
    struct annotate_command *c = ctx;
    annotate_texts_release(&c->texts);
    sample_input_release(&c->samples);
    image_code_release(&c->images);
}

/* CSV has no field for it. */
static void tell_origin(const struct annotate_function *f)
{
    struct buf path = {0};
    format_terminal(&path, f->origin.path.len ? f->origin.path : f->image);
    fprintf(stderr, "tidemark: the machine code is that of %s%s\n", buf_str(&path),
            f->origin.checked ? "" : ", which may be another build");
    buf_release(&path);
}

/* A trace has no number for RISC-V: the program's image says what its code is. */
static bool begin_disassembler(struct disassembler *d, const struct annotate_command *c,
                               const struct annotate_function *f, const struct trace *t)
{
    return (!f->is_elsewhere && trace_code_disassembler(d, t)) ||
           image_code_disassembler(d, c->images.machine, c->images.is_64);
}

static int annotate_one(struct annotate_command *c, const struct annotate_function *f,
                        struct trace *t, FILE *out, struct err *e)
{
    const struct annotate_report_options options = {.format = c->question.format,
                                                    .colors = c->question.format == REPORT_TEXT &&
                                                              terminal_takes_colors(out)};
    struct disassembler d;
    struct selection s;
    struct annotation a;
    if (f->by_line)
        d = (struct disassembler){0};
    else if (!begin_disassembler(&d, c, f, t))
        return err_set(e, ERR_CHECK, "%s",
                       c->images.machine
                           ? "code of the image's processor cannot be read: only that "
                             "of x86, Arm and, with Capstone 5, 64-bit RISC-V"
                           : "the trace does not say which processor its code is for");
    int status = f->is_elsewhere ? image_code_lines(&c->images, f->address, &d, e) : 0;
    if (status != 0) {
        trace_code_release(&d);
        return -1;
    }
    status = selection_init(&s, t, &c->question.selection, e);
    if (status == 0) {
        if (f->is_elsewhere && c->question.format == REPORT_CSV)
            tell_origin(f);
        status = annotate_build(&a, &c->texts, &c->samples, f, &s, &d, e);
        if (status == 0) {
            status = annotate_write(&a, &options, out, e);
            annotation_release(&a);
        }
        selection_release(&s);
    }
    trace_code_release(&d);
    return status;
}

/* Searches the trace's code; if that has none of the function, or of an unknown processor, the
 * program's images. */
static int find(struct annotate_command *c, struct annotate_functions *found, struct err *e)
{
    struct err none = {0};
    int status = annotate_find(found, &c->texts, c->function, c->regex, &none);
    size_t before = c->texts.codes.len;
    if (status == 0 && !found->is_part && c->texts.trace->facts.cpu_arch != ARCH_UNKNOWN)
        return 0;
    if (status != 0 && none.code == ERR_MEMORY) {
        *e = none;
        return -1;
    }
    int looked = image_code_find(&c->images, c->question.resolver, &c->texts, c->function, c->regex,
                                 status == 0, e);
    if (looked == 0 && c->texts.codes.len == before && status == 0)
        return 0;
    if (status == 0)
        annotate_functions_release(found);
    if (looked != 0)
        return -1;
    if (c->texts.codes.len > before)
        return annotate_find(found, &c->texts, c->function, c->regex, e);
    *e = none;
    if (c->images.problem[0])
        err_set(e, none.code, "%.300s; nor is it to be had of %.300s", none.text,
                c->images.problem);
    return -1;
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct annotate_command *c = ctx;
    struct annotate_functions found;
    char n[FORMAT_SIZE];
    if (find(c, &found, e) != 0)
        return -1;
    int status;
    if (found.list.len == 1) {
        status = annotate_one(c, &found.list.at[0], t, out, e);
    } else {
        status = annotate_write_matches(&found, t, c->question.format, out, e);
        if (status == 0)
            status =
                err_set(e, ERR_CHECK, "%s fit '%.120s': choose one by its %s",
                        format_counted(n, found.list.len, "function"), c->function,
                        !found.list.at[0].by_line                   ? "address"
                        : found.list.at[found.list.len - 1].by_line ? "FILE:FUNCTION"
                                                                    : "address or FILE:FUNCTION");
    }
    annotate_functions_release(&found);
    return status;
}

int cmd_annotate(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct annotate_command c = {
        .question = {.load = load, .unload = unload, .reads_images = true}};
    int status = command_line_parse(&line, &c, argc, argv);
    return status < 0 ? question_run(&c.question, answer, &c) : status;
}
