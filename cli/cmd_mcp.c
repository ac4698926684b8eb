/* tidemark mcp: answers questions of agents on standard input and output. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_bound.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "mcp/mcp_session.h"
#include "mcp/rpc.h"

static const char usage[] =
    "usage: tidemark mcp [OPTIONS]\n"
    "\n"
    "Serves the Model Context Protocol on standard input and output: an agent asks questions of\n"
    "traces with tools such as report, leaks and diff, and gets answers in pages. Traces are\n"
    "only read.\n";

static const char footer[] =
    "Exit status: 0 the input ended; 2 usage; 3 the input cannot be read; 4 answers cannot be\n"
    "written.\n";

struct mcp_command {
    const char *root;
    uint64_t memory;
};

#define FIELD(NAME) OPTION_FIELD(struct mcp_command, NAME)

static const struct option_row rows[] = {
    {"--root", "DIR", "only traces in this folder, and those below it, can be read", FIELD(root)},
    {"--memory", "SIZE",
     "take at most so much memory, for all traces that are kept open and for each answer; SIZE may "
     "end in K, M, G",
     "1G", .type = VALUE_BYTES, FIELD(memory)},
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_row positional[] = {{0}}; /* an agent names its traces itself */

/* ---- lines */

struct lines {
    struct buf in, out;
    size_t looked; /* bytes of `in` without an end of line */
    bool skipping; /* within a line that is too long */
};

static int put_answers(struct lines *l, struct err *e)
{
    if (l->out.failed)
        return err_no_memory(e, "an answer");
    size_t put = l->out.len ? fwrite(l->out.data, 1, l->out.len, stdout) : 0;
    bool ok = put == l->out.len && fflush(stdout) == 0;
    buf_clear(&l->out);
    return ok ? 0 : err_errno(e, ERR_OUTPUT, "cannot write an answer");
}

static void take_line(struct lines *l, struct session *s, const char *text, size_t n)
{
    if (n && text[n - 1] == '\r')
        n--;
    if (l->skipping || n > RPC_LINE_MAX)
        session_take_too_long(&l->out);
    else if (n)
        session_take(s, (struct view){text, n}, &l->out);
    l->skipping = false;
}

/* Takes all complete lines; moves the rest to the front. */
static int take_lines(struct lines *l, struct session *s, struct err *e)
{
    const char *text = (const char *)l->in.data;
    size_t begin = 0;
    const char *end;
    while ((end = memchr(text + l->looked, '\n', l->in.len - l->looked))) {
        take_line(l, s, text + begin, (size_t)(end - text) - begin);
        begin = l->looked = (size_t)(end - text) + 1;
        if (put_answers(l, e) != 0)
            return -1;
    }
    l->in.len -= begin;
    memmove(l->in.data, l->in.data + begin, l->in.len);
    if (l->in.len > RPC_LINE_MAX) {
        l->skipping = true;
        l->in.len = 0;
    }
    l->looked = l->in.len;
    return 0;
}

static int serve(struct session *s, struct lines *l, struct err *e)
{
    for (;;) {
        uint8_t *room = buf_reserve(&l->in, 65536);
        if (!room)
            return err_no_memory(e, "a question");
        ssize_t n = read(STDIN_FILENO, room, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ERR_INPUT, "cannot read standard input");
        if (n == 0)
            break;
        l->in.len += (size_t)n;
        if (take_lines(l, s, e) != 0)
            return -1;
    }
    if (l->in.len == 0 && !l->skipping)
        return 0;
    take_line(l, s, (const char *)l->in.data, l->in.len); /* the last line has no end */
    return put_answers(l, e);
}

int cmd_mcp(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
    struct mcp_command c = {0};
    struct session session;
    struct lines lines = {0};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    memory_bound_set(c.memory);
    status = session_init(&session, c.root, c.memory, &e);
    if (status == 0) {
        status = serve(&session, &lines, &e);
        session_release(&session);
    }
    buf_release(&lines.in);
    buf_release(&lines.out);
    if (status == 0)
        return 0;
    memory_bound_explain(c.memory, &e);
    return print_error(&e);
}
