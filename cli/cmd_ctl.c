/* tidemark ctl: remote control of a daemon that runs with --http. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/format.h"
#include "base/json_reader.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "server/daemon/token.h"
#include "server/net/address.h"
#include "server/net/http_client.h"

#define ANSWER_MAX ((size_t)64 << 20)
#define TIMEOUT_SECONDS 60

static const char usage[] =
    "usage: tidemark ctl [OPTIONS] COMMAND [ARGUMENT]\n"
    "\n"
    "Shows what a daemon that runs with --http records, and controls it.\n"
    "\n"
    "  status             its clients: number, state, program, address, memory in use\n"
    "  start ADDRESS:PORT capture a client, the address in numbers\n"
    "  stop N             end the capture of client N, and save it; it is left alone then\n"
    "  save N             save what there is of client N, and go on in a next trace\n"
    "  counters N, history N, sites N, tree N\n"
    "                     what client N has in memory now, as JSON\n"
    "  traces             the traces that are there\n"
    "  get NAME           a trace, to the file NAME or to that of -o\n"
    "  metrics            figures for Prometheus\n";

static const char footer[] =
    "Exit status: 0 done; 1 the daemon refuses; 2 usage; 4 FILE cannot be written; 5 no daemon.\n";

struct ctl {
    const char *at;
    char *token;
    const char *output;
    const char *command;
    const char *argument; /* NULL: none */
    bool replace;
    bool json;
    struct buf answer;
};

struct ctl_command {
    const char *name;
    const char *method;
    const char *path; /* %s: the argument */
    bool argument;
    int (*show)(struct ctl *c, struct err *e);
};

/* ---- requests */

static int keep(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct buf *answer = ctx;
    if (answer->len + n > ANSWER_MAX)
        return err_set(e, ERR_CONNECT, "the daemon's answer is too long");
    buf_put(answer, bytes, n);
    return answer->failed ? err_no_memory(e, "the daemon's answer") : 0;
}

/* 0 when the daemon did it; -1 with `e`. Text of clients may be in what it says. */
static int check_status(const struct ctl *c, unsigned status, struct err *e)
{
    if (status >= 200 && status < 300)
        return 0;
    json_t *said;
    (void)json_read(buf_view(&c->answer), true, &said);
    const char *why = json_string_value(json_object_get(said, "error"));
    err_set(e, ERR_CHECK, "the daemon says: %s (%u)", why ? why : "no", status);
    json_decref(said);
    return -1;
}

static int ask(struct ctl *c, const char *method, const char *path, const char *body, struct err *e)
{
    unsigned status;
    const struct http_question q = {.address = c->at,
                                    .method = method,
                                    .path = path,
                                    .token = c->token,
                                    .body = body,
                                    .timeout = TIMEOUT_SECONDS,
                                    .take = keep,
                                    .ctx = &c->answer};
    return http_ask(&q, &status, e) != 0 ? -1 : check_status(c, status, e);
}

/* ---- output */

static int show_as_it_is(struct ctl *c, struct err *e)
{
    size_t n = c->answer.len;
    bool line = n == 0 || c->answer.data[n - 1] != '\n';
    if (fwrite(buf_str(&c->answer), 1, n, stdout) != n || (line && putchar('\n') == EOF) ||
        fflush(stdout) != 0)
        return err_errno(e, ERR_OUTPUT, "standard output");
    return 0;
}

static json_t *parse(const struct ctl *c, struct err *e)
{
    json_t *said;
    if (json_read(buf_view(&c->answer), true, &said) != JSON_READ)
        err_set(e, ERR_CONNECT, "what answers at %s is no tidemark daemon", c->at);
    return said;
}

static void put_text(struct buf *out, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    format_terminal(out, view_of(text ? text : ""));
}

static uint64_t number_of(const json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    return n > 0 ? (uint64_t)n : 0;
}

static void show_client(struct buf *out, const json_t *client)
{
    char bytes[FORMAT_SIZE], blocks[FORMAT_SIZE], where[ADDRESS_TEXT_SIZE];
    const json_t *counters = json_object_get(client, "counters");
    const char *address = json_string_value(json_object_get(client, "address"));
    struct buf host = {0};
    format_terminal(&host, view_of(address ? address : ""));
    buf_printf(out, "%3" PRIu64 "  ", number_of(client, "number"));
    put_text(out, client, "state");
    buf_puts(out, "  ");
    put_text(out, client, "program");
    buf_printf(out, " @ %s",
               address_text(where, buf_str(&host), (uint16_t)number_of(client, "port")));
    if (json_is_object(counters))
        buf_printf(out, "  %s in %s", format_bytes(bytes, number_of(counters, "live_bytes")),
                   format_counted(blocks, number_of(counters, "live_allocations"), "block"));
    if (json_is_string(json_object_get(client, "trace"))) {
        buf_puts(out, "  ");
        put_text(out, client, "trace");
    }
    if (json_is_string(json_object_get(client, "left_alone"))) {
        buf_puts(out, "  left alone (");
        put_text(out, client, "left_alone");
        buf_puts(out, ")");
    }
    buf_puts(out, "\n");
    buf_release(&host);
}

static int print_text(struct buf *out, struct err *e)
{
    int status = 0;
    if (out->failed)
        status = err_no_memory(e, "the daemon's answer");
    else if (fwrite(buf_str(out), 1, out->len, stdout) != out->len || fflush(stdout) != 0)
        status = err_errno(e, ERR_OUTPUT, "standard output");
    buf_release(out);
    return status;
}

static int show_status(struct ctl *c, struct err *e)
{
    json_t *said = c->json ? NULL : parse(c, e);
    struct buf out = {0};
    char saved[FORMAT_SIZE];
    size_t i;
    const json_t *client;
    if (c->json)
        return show_as_it_is(c, e);
    if (!said)
        return -1;
    json_array_foreach(json_object_get(said, "clients"), i, client) show_client(&out, client);
    buf_printf(&out, "%" PRIu64 " recorded now, %s saved\n", number_of(said, "running"),
               format_counted(saved, number_of(said, "traces_saved"), "trace"));
    json_decref(said);
    return print_text(&out, e);
}

static int show_traces(struct ctl *c, struct err *e)
{
    json_t *said = c->json ? NULL : parse(c, e);
    struct buf out = {0};
    char bytes[FORMAT_SIZE], date[FORMAT_SIZE];
    size_t i;
    const json_t *trace;
    if (c->json)
        return show_as_it_is(c, e);
    if (!said)
        return -1;
    json_array_foreach(json_object_get(said, "traces"), i, trace)
    {
        buf_printf(&out, "%10s  %s  ", format_bytes(bytes, number_of(trace, "bytes")),
                   format_date(date, number_of(trace, "modified")));
        put_text(&out, trace, "name");
        buf_puts(&out, "\n");
    }
    json_decref(said);
    return print_text(&out, e);
}

static int show_nothing(struct ctl *c, struct err *e)
{
    (void)c;
    (void)e;
    return 0;
}

static const struct ctl_command ctl_commands[] = {
    {"status", "GET", "/api/v1/status", false, show_status},
    {"traces", "GET", "/api/v1/traces", false, show_traces},
    {"metrics", "GET", "/metrics", false, show_as_it_is},
    {"stop", "POST", "/api/v1/clients/%s/stop", true, show_nothing},
    {"save", "POST", "/api/v1/clients/%s/save", true, show_nothing},
    {"counters", "GET", "/api/v1/clients/%s/counters", true, show_as_it_is},
    {"history", "GET", "/api/v1/clients/%s/history", true, show_as_it_is},
    {"sites", "GET", "/api/v1/clients/%s/sites", true, show_as_it_is},
    {"tree", "GET", "/api/v1/clients/%s/tree", true, show_as_it_is},
};

static int run_table(struct ctl *c, const struct ctl_command *command, struct err *e)
{
    const char *hole = strstr(command->path, "%s");
    struct buf path = {0};
    uint64_t n;
    if (command->argument && !option_u64(c->argument, command->name, 1, UINT32_MAX, &n, e))
        return -1;
    if (hole)
        buf_printf(&path, "%.*s%s%s", (int)(hole - command->path), command->path, c->argument,
                   hole + 2);
    else
        buf_puts(&path, command->path);
    int status = path.failed ? err_no_memory(e, "a request")
                             : ask(c, command->method, buf_str(&path), NULL, e);
    buf_release(&path);
    return status == 0 ? command->show(c, e) : -1;
}

static int run_start(struct ctl *c, struct err *e)
{
    char host[NI_MAXHOST];
    uint8_t number[16];
    const char *port;
    uint64_t n = 8086;
    struct buf body = {0};
    if (address_split(c->argument, host, &port) != 0 ||
        (inet_pton(AF_INET, host, number) != 1 && inet_pton(AF_INET6, host, number) != 1))
        return err_set(e, ERR_USAGE, "start takes an address in numbers, not '%s'", c->argument);
    if (port && !option_u64(port, "start", 1, 65535, &n, e))
        return -1;
    buf_printf(&body, "{\"address\":\"%s\",\"port\":%" PRIu64 "}", host, n);
    int status = body.failed ? err_no_memory(e, "a request")
                             : ask(c, "POST", "/api/v1/clients", buf_str(&body), e);
    buf_release(&body);
    json_t *client = status == 0 ? parse(c, e) : NULL;
    if (client)
        printf("%" PRIu64 "\n", number_of(client, "number"));
    json_decref(client);
    return client ? 0 : -1;
}

/* ---- a trace */

#define REFUSAL_MAX 4096u

struct getting {
    struct ctl *ctl;
    struct outfile file;
};

/* Keeps the first bytes, too: the response may be an error. */
static int put_file(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct getting *g = ctx;
    const char *p = bytes;
    if (g->ctl->answer.len + n <= REFUSAL_MAX)
        buf_put(&g->ctl->answer, bytes, n);
    while (n) {
        ssize_t written = write(g->file.fd, p, n);
        if (written < 0 && errno != EINTR)
            return err_errno(e, ERR_OUTPUT, "%s", g->file.path);
        p += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* Appends a name to a path, with special characters escaped. */
static void put_name(struct buf *path, const char *name)
{
    for (; *name; name++) {
        if (strchr("/%?# ", *name) || (unsigned char)*name < ' ' || (unsigned char)*name > '~')
            buf_printf(path, "%%%02X", (unsigned)(unsigned char)*name);
        else
            buf_put(path, name, 1);
    }
}

static int run_get(struct ctl *c, struct err *e)
{
    struct getting g = {.ctl = c};
    struct buf path = {0};
    unsigned status;
    const char *output = c->output ? c->output : c->argument;
    if (!c->output && (strchr(output, '/') || output[0] == '.'))
        return err_set(e, ERR_USAGE, "'%s' is no trace's name", output);
    if (outfile_open(&g.file, output, c->replace, e) != 0)
        return -1;
    buf_puts(&path, "/api/v1/traces/");
    put_name(&path, c->argument);
    const struct http_question q = {.address = c->at,
                                    .method = "GET",
                                    .path = buf_str(&path),
                                    .token = c->token,
                                    .timeout = TIMEOUT_SECONDS,
                                    .take = put_file,
                                    .ctx = &g};
    int result = path.failed ? err_no_memory(e, "a request") : http_ask(&q, &status, e);
    if (result == 0)
        result = check_status(c, status, e);
    buf_release(&path);
    if (result != 0) {
        outfile_abort(&g.file);
        return -1;
    }
    return outfile_commit(&g.file, e);
}

/* ---- the command line */

static bool take_token(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    struct ctl *c = ctx;
    free(c->token);
    c->token = token_parse(value, e);
    return c->token != NULL;
}

#define FIELD(NAME) OPTION_FIELD(struct ctl, NAME)

static const struct option_row rows[] = {
    {"--at", "HOST:PORT", "where the daemon is", "127.0.0.1:8088", FIELD(at)},
    {"--token", "TOKEN", "that it asks for; @FILE: what is in FILE", .take = take_token},
    {"--format", "FORMAT", "of status and traces: {}", "text", .type = VALUE_WORD,
     .words = "text or json", FIELD(json)},
    {"--output", "FILE", "where a trace goes", .letter = 'o', FIELD(output)},
    {"--force", NULL, "replace FILE", .letter = 'f', FIELD(replace)},
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};

static const struct ctl_command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof ctl_commands / sizeof ctl_commands[0]; i++) {
        if (strcmp(ctl_commands[i].name, name) == 0)
            return &ctl_commands[i];
    }
    return NULL;
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct ctl *c = ctx;
    const struct ctl_command *command = n > 0 ? find_command(arguments[0]) : NULL;
    bool own = n > 0 && (strcmp(arguments[0], "start") == 0 || strcmp(arguments[0], "get") == 0);
    int wanted = own || (command && command->argument) ? 2 : 1;
    c->command = n > 0 ? arguments[0] : NULL;
    c->argument = n > 1 ? arguments[1] : NULL;
    if (n == 0)
        err_set(e, ERR_USAGE, "what is to be done?");
    else if (!own && !command)
        err_set(e, ERR_USAGE, "there is no command '%s'", arguments[0]);
    else if (n < wanted)
        err_set(e, ERR_USAGE, "%s takes an argument", arguments[0]);
    else if (n > wanted)
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[wanted]);
    else
        return true;
    return false;
}

int cmd_ctl(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups,
        .usage = usage,
        .footer = footer,
        .arguments =
            "status, start, stop, save, counters, history, sites, tree, traces, get or metrics",
        .rest = take_rest};
    struct ctl c = {0};
    struct err e = {0};
    int status = command_line_parse(&line, &c, argc, argv);
    if (status < 0) {
        const struct ctl_command *command = find_command(c.command);
        int done = command                         ? run_table(&c, command, &e)
                   : strcmp(c.command, "get") == 0 ? run_get(&c, &e)
                                                   : run_start(&c, &e);
        status = done == 0 ? 0 : err_exit_status(&e);
        if (done != 0)
            print_error(&e);
    }
    free(c.token);
    buf_release(&c.answer);
    return status;
}
