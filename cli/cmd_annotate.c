/* tidemark annotate: a function's instructions, with what was allocated through each call. */

#include "analysis/annotate.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/question.h"
#include "cli/trace_code.h"
#include "report/annotate.h"
#include "trace/load.h"

static const char usage[] =
    "usage: tidemark annotate FILE FUNCTION [OPTIONS]\n"
    "       tidemark annotate FILE ADDRESS [OPTIONS]\n"
    "\n"
    "Prints the machine code of a function as the trace holds it, with the source lines that it\n"
    "comes from and, at each call, what was allocated through it. FUNCTION is a name, with or\n"
    "without parameters, or else a part of one; ADDRESS is hexadecimal with 0x, anywhere in the\n"
    "function. When there are several, they are listed. FILE - is standard input.\n"
    "\n"
    "      --regex         FUNCTION is a regular expression (as in Perl)\n"
    "\n" SELECTION_USAGE "\n" OUTPUT_USAGE "\n"
    "Through it: allocations whose call stacks pass through the function; own: those of them that\n"
    "no other function of the program stands behind, as in report --by function.\n"
    "Exit status: 0 done; 1 several functions, or no machine code of it; 2 usage, or no such\n"
    "function; 3 unreadable trace; 4 output exists or cannot be written.\n";

struct annotate_command {
    struct question question;
    struct annotate_texts texts;
    const char *function;
    bool regex;
};

enum { OPTION_REGEX = 256 };

static const struct option long_options[] = {
    {"regex", no_argument, NULL, OPTION_REGEX},
    SELECTION_LONG_OPTIONS,
    OUTPUT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct annotate_command *c = ctx;
    if (option == OPTION_REGEX)
        return c->regex = true;
    return question_take(&c->question, option, value, e);
}

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

static int load(void *ctx, struct trace *t, struct err *e)
{
    struct annotate_command *c = ctx;
    const struct selection_options *s = &c->question.selection;
    const struct record_sink texts = {&c->texts, annotate_texts_put};
    bool wanted[REC_TYPE_COUNT];
    annotate_texts_init(&c->texts, t);
    annotate_texts_wanted(wanted);
    const struct trace_load_options options = {.zones = s->zone != NULL,
                                               .frames = s->has_frame,
                                               .beside = &texts,
                                               .beside_wanted = wanted};
    return trace_load_with(t, c->question.trace, &options, NULL, NULL, e);
}

static void unload(void *ctx)
{
    struct annotate_command *c = ctx;
    annotate_texts_release(&c->texts);
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
    if (!trace_code_disassembler(&d, t))
        return err_set(e, ERR_CHECK, "the trace does not say which processor its code is for");
    int status = selection_init(&s, t, &c->question.selection, e);
    if (status == 0) {
        status = annotate_build(&a, &c->texts, f, &s, &d, e);
        if (status == 0) {
            status = annotate_write(&a, &options, out, e);
            annotation_release(&a);
        }
        selection_release(&s);
    }
    trace_code_release(&d);
    return status;
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct annotate_command *c = ctx;
    struct annotate_functions found;
    char n[FORMAT_SIZE];
    if (annotate_find(&found, &c->texts, c->function, c->regex, e) != 0)
        return -1;
    int status;
    if (found.list.len == 1) {
        status = annotate_one(c, &found.list.at[0], t, out, e);
    } else {
        status = annotate_write_matches(&found, t, c->question.format, out, e);
        if (status == 0)
            status = err_set(e, ERR_CHECK, "%s fit '%.120s': choose one by its address",
                             format_counted(n, found.list.len, "function"), c->function);
    }
    annotate_functions_release(&found);
    return status;
}

int cmd_annotate(int argc, char **argv)
{
    const struct command_line line = {
        .letters = "fho:",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark annotate FILE FUNCTION [OPTIONS]; `tidemark annotate --help` "
                "tells more\n",
        .take = take_option,
        .rest = take_rest};
    struct annotate_command c = {.question = {.load = load, .unload = unload}};
    int status = command_line_parse(&line, &c, argc, argv);
    return status < 0 ? question_run(&c.question, answer, &c) : status;
}
