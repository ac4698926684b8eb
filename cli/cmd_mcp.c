/* tidemark mcp: answers questions of agents on standard input and output. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "mcp/mcp_session.h"
#include "mcp/rpc.h"

#define DEFAULT_MEMORY (UINT64_C(1) << 30)

static const char usage[] =
    "usage: tidemark mcp [OPTIONS]\n"
    "\n"
    "Serves the Model Context Protocol on standard input and output: an agent asks questions of\n"
    "traces with the tools info, verify, report, peak, leaks, tree, find and diff, and gets "
    "answers\n"
    "in pages. Traces are only read.\n"
    "\n"
    "      --root DIR      only traces in this folder, and those below it, can be read\n"
    "      --memory SIZE   bytes that traces which are kept open may take together; SIZE may end\n"
    "                      in K, M, G (1G)\n"
    "  -h, --help          this text\n"
    "\n"
    "Exit status: 0 the input ended; 2 usage; 3 the input cannot be read; 4 answers cannot be\n"
    "written.\n";

enum { OPTION_ROOT = 256, OPTION_MEMORY };

static const struct option long_options[] = {
    {"root", required_argument, NULL, OPTION_ROOT},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct mcp_command {
    const char *root;
    uint64_t memory;
};

static bool take_option(void *ctx, int option, const char *value, struct err *e)
{
    struct mcp_command *c = ctx;
    if (option == OPTION_ROOT)
        c->root = value;
    else if (option == OPTION_MEMORY)
        return format_parse_bytes("--memory", value, &c->memory, e) == 0;
    return option == OPTION_ROOT;
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    (void)ctx;
    if (n)
        err_set(e, ERR_USAGE, "what is '%s' for? An agent names its traces itself", arguments[0]);
    return n == 0;
}

/* ---- lines */

struct lines {
    struct buf in, out;
    size_t looked; /* bytes of `in` that hold no end of a line */
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

/* All lines that are whole; what is left of the last one moves to the front. */
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
        .letters = "h",
        .names = long_options,
        .usage = usage,
        .hint = "usage: tidemark mcp [OPTIONS]; try 'tidemark mcp --help'\n",
        .take = take_option,
        .rest = take_rest};
    struct mcp_command c = {.memory = DEFAULT_MEMORY};
    struct session session;
    struct lines lines = {0};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status >= 0)
        return status;
    status = session_init(&session, c.root, c.memory, &e);
    if (status == 0) {
        status = serve(&session, &lines, &e);
        session_release(&session);
    }
    buf_release(&lines.in);
    buf_release(&lines.out);
    if (status == 0)
        return 0;
    print_error(&e);
    return err_exit_status(&e);
}
