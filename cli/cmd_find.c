/* tidemark find: which allocations covered an address or overlapped a range. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options/question.h"
#include "report/find_report.h"

#define TEXT_LIMIT 20

static const char usage[] =
    "usage: tidemark find FILE ADDRESS [OPTIONS]\n"
    "       tidemark find FILE FIRST-LAST [OPTIONS]\n"
    "       tidemark find FILE FIRST+LENGTH [OPTIONS]\n"
    "\n"
    "Prints which allocations covered an address, or overlapped a range of addresses, and\n"
    "the call stacks that allocated and freed them. With --at: which did at that time, and\n"
    "in each pool which one was there last before and which came next. FILE - is standard\n"
    "input. Addresses are hexadecimal with 0x, else decimal.\n";

static const char footer[] =
    "Exit status: 0 done, also when nothing was found; 1 the trace has figures only, no events;\n"
    "2 usage; 3 unreadable trace; 4 output\n"
    "exists or cannot be written.\n";

struct find_command {
    struct question question;
    struct find_options find;
    struct find_report_options report;
    bool limit_given;
};

#define FIELD(NAME) OPTION_FIELD(struct find_command, NAME)

static const struct option_row rows[] = {
    {"--stack-traces", NULL, "the whole call stacks (text; JSON has them always)",
     FIELD(report.stack_traces)},
    {"--limit", "N", "allocations to print, the newest ones, 0 for all (text: 20, else all)",
     .type = VALUE_NUMBER, FIELD(find.limit), .given = offsetof(struct find_command, limit_given)},
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_format_rows, .base = offsetof(struct find_command, question)},
    QUESTION_GROUPS(struct find_command),
    {0},
};

/* A number up to `end`, 0x for hexadecimal. */
static bool parse_number(const char *text, const char *end, uint64_t *out)
{
    char copy[32];
    char *after;
    size_t n = (size_t)(end - text);
    if (n == 0 || n >= sizeof copy || text[0] < '0' || text[0] > '9')
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    bool hexadecimal = copy[0] == '0' && (copy[1] == 'x' || copy[1] == 'X');
    errno = 0;
    *out = strtoull(copy, &after, hexadecimal ? 16 : 10);
    return errno == 0 && *after == 0 && (!hexadecimal || n > 2);
}

static bool take_addresses(struct find_command *c, const char *text, struct err *e)
{
    const char *mark = strpbrk(text, "-+");
    const char *end = text + strlen(text);
    uint64_t more = 0;
    struct find_options *f = &c->find;
    bool ok = parse_number(text, mark ? mark : end, &f->low);
    f->high = f->low;
    if (ok && mark && *mark == '-')
        ok = parse_number(mark + 1, end, &f->high) && f->high >= f->low;
    else if (ok && mark) {
        ok = parse_number(mark + 1, end, &more) && more > 0;
        f->high = more - 1 > UINT64_MAX - f->low ? UINT64_MAX : f->low + (more - 1);
    }
    if (!ok)
        err_set(e, ERR_USAGE, "'%s' is no address and no range such as 0x1000-0x1fff", text);
    return ok;
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct find_command *c = ctx;
    struct selection_options *s = &c->question.selection;
    c->report.format = c->question.format;
    if (!c->limit_given && c->report.format == REPORT_TEXT)
        c->find.limit = TEXT_LIMIT;
    /* The time is a part of the question: blocks before and after it are needed, too. */
    c->find.has_time = s->has_at;
    c->find.time = s->at;
    s->has_at = false;
    if (n < 2) {
        err_set(e, ERR_USAGE, n == 0 ? "which trace?" : "which address?");
        return false;
    }
    c->question.trace = arguments[0];
    if (n > 2) {
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[2]);
        return false;
    }
    return take_addresses(c, arguments[1], e);
}

static int answer(void *ctx, struct trace *t, FILE *out, struct err *e)
{
    struct find_command *c = ctx;
    struct selection s;
    struct history h;
    struct find_result r;
    c->question.selection.all_pools = true;
    if (selection_init(&s, t, &c->question.selection, e) != 0)
        return -1;
    int status = history_build(&h, &s, e);
    if (status == 0) {
        status = find_run(&r, &h, &c->find, e);
        if (status == 0) {
            status = find_write(&r, &h, &c->report, out, e);
            find_release(&r);
        }
        history_release(&h);
    }
    selection_release(&s);
    return status;
}

int cmd_find(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .rest = take_rest};
    struct find_command c = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    return status >= 0 ? status : question_run(&c.question, answer, &c);
}
