/* tidemark selftest: checks the whole path from a client's port to a verdict on this machine. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/selftest/selftest_client.h"
#include "cli/selftest/selftest_machine.h"
#include "cli/selftest/selftest_run.h"

static const char usage[] =
    "usage: tidemark selftest [OPTIONS]\n"
    "\n"
    "Plays a client whose events are counted as they are sent, captures it through a port of the\n"
    "loopback, and compares the trace, its report, the stripped trace and the verdicts of\n"
    "`verify` with these counts: a line each, \"ok\" or \"DIFFERS\". Then it tries what this\n"
    "machine and this build allow: the sandbox of the process that reads images, debug\n"
    "information, debuginfod, the disassembler, the preload library, ptrace, the report page,\n"
    "and whether port 8086 is free: a line each, \"here\", \"MISSING\" or, if the time was up "
    "first,\n"
    "\"UNKNOWN\". It takes about a second and leaves no file behind.\n";

static const char footer[] =
    "Exit status: 0 all counts are right, whatever is missing; 1 one differs, or a step failed;\n"
    "2 usage; 4 no folder for temporary files, or no output; 5 the client cannot listen.\n";

struct selftest {
    uint64_t protocol;
    struct selftest_run run;
    struct selftest_client client;
    char trace[SELFTEST_PATH], stripped[SELFTEST_PATH];
    struct buf line; /* of the current check */
    bool differs;    /* its result differs */
    unsigned checks, different;
};

static const struct option_row rows[] = {
    {"--protocol", "N", "the protocol number that the client speaks (82)", .type = VALUE_NUMBER,
     .least = PROTOCOL_MIN, .most = PROTOCOL_MAX, OPTION_FIELD(struct selftest, protocol)},
    {"--timeout", "SECONDS", "for all steps together; then the running one is killed (5)",
     .type = VALUE_NUMBER, .least = 1, .most = 3600, OPTION_FIELD(struct selftest, run.seconds)},
    OPTION_HELP_ROW,
    {0},
};
static const struct option_group groups[] = {{.rows = rows}, {0}};
static const struct option_row positional[] = {{0}};

/* ---- checks: expectations add to the current line, conclude() prints it */

static void separate(struct selftest *s)
{
    if (s->line.len && s->line.data[s->line.len - 1] != ' ')
        buf_puts(&s->line, ", ");
}

static void add(struct selftest *s, const char *text)
{
    separate(s);
    buf_puts(&s->line, text);
}

static void expect(struct selftest *s, const char *noun, const json_t *got, uint64_t wanted)
{
    char number[FORMAT_SIZE], found[FORMAT_SIZE];
    separate(s);
    buf_printf(&s->line, "%s %s", format_count(number, wanted), noun);
    if (json_is_integer(got) && (uint64_t)json_integer_value(got) == wanted)
        return;
    s->differs = true;
    buf_printf(&s->line, " (found: %s)",
               json_is_integer(got) ? format_count(found, (uint64_t)json_integer_value(got))
                                    : "none");
}

static void fail(struct selftest *s, const char *why)
{
    s->differs = true;
    add(s, why);
}

static void conclude(struct selftest *s, const char *what)
{
    struct buf text = {0};
    format_terminal(&text, buf_view(&s->line));
    printf("%-8s %-18s %s\n", s->differs ? "DIFFERS" : "ok", what, buf_str(&text));
    fflush(stdout);
    s->checks++;
    s->different += s->differs;
    s->differs = false;
    buf_clear(&s->line);
    buf_release(&text);
}

/* ---- steps */

static int serve(void *ctx, struct err *e)
{
    return selftest_client_step(ctx, 20, e);
}

static void check_capture(struct selftest *s)
{
    const char *address = offer_address(s->client.offer);
    const char *const words[] = {"capture",
                                 "-o",
                                 s->trace,
                                 "-p",
                                 strrchr(address, ':') + 1,
                                 "--connect-timeout",
                                 "5",
                                 "--symbols",
                                 "client",
                                 "--memory-plots=0",
                                 NULL};
    struct buf out = {0};
    struct err why = {0}, e = {0};
    int status = selftest_run(&s->run, words, &out, &why, serve, &s->client, &e);
    buf_printf(&s->line, "protocol %" PRIu64 " at %s", s->protocol, address);
    if (status != 0) {
        fail(s, status < 0 ? e.text : why.text);
        if (status > 0)
            buf_printf(&s->line, " (exit status %d)", status);
    } else if (!offer_is_done(s->client.offer)) {
        fail(s, "it ended before the client had sent everything");
    }
    buf_release(&out);
    conclude(s, "capture");
}

/* The counts of `info` for a trace, with or without memory events. */
static void check_counts(struct selftest *s, const char *trace, bool memory)
{
    const struct selftest_truth *t = &s->client.truth;
    const char *const words[] = {"info", "--format", "json", trace, NULL};
    struct err e = {0};
    uint64_t allocations = 0;
    json_t *document = selftest_run_json(&s->run, words, &e);
    const json_t *counts = json_object_get(document, "counts");
    for (unsigned i = 0; i < SELFTEST_POOLS && memory; i++)
        allocations += t->pools[i].allocations;
    if (!document) {
        fail(s, e.text);
        return;
    }
    expect(s, "allocations", json_object_get(counts, "memory_allocations"), allocations);
    expect(s, "threads", json_object_get(counts, "threads"), t->threads);
    expect(s, "zones", json_object_get(counts, "zones"), t->zones);
    expect(s, "messages", json_object_get(counts, "messages"), t->messages);
    expect(s, "plot points", json_object_get(counts, "plot_points"), t->plot_points);
    /* The program's own set begins with two frames of its start. */
    expect(s, "frames", json_object_get(counts, "frames"), t->frame_marks + 2);
    json_decref(document);
}

static const json_t *find_by(const json_t *list, const char *key, const char *value)
{
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one)
    {
        const char *name = json_string_value(json_object_get(one, key));
        if (name && strcmp(name, value) == 0)
            return one;
    }
    return NULL;
}

static void check_pool(struct selftest *s, const struct selftest_pool *pool, const json_t *report)
{
    const json_t *got = find_by(json_object_get(report, "pools"), "name", pool->name);
    buf_printf(&s->line, "pool %s: ", pool->name);
    expect(s, "allocations", json_object_get(got, "allocations"), pool->allocations);
    expect(s, "frees", json_object_get(got, "frees"), pool->frees);
    expect(s, "live blocks", json_object_get(got, "live_allocations"),
           pool->allocations - pool->frees);
    expect(s, "bytes in all", json_object_get(got, "total_bytes"), pool->total_bytes);
    expect(s, "live", json_object_get(got, "live_bytes"), pool->live_bytes);
    expect(s, "at the peak", json_object_get(got, "peak_bytes"), pool->peak_bytes);
}

static void check_sites(struct selftest *s, const json_t *report)
{
    const struct selftest_truth *t = &s->client.truth;
    json_t *number = json_integer((json_int_t)json_array_size(json_object_get(report, "sites")));
    const struct selftest_site *wrong = NULL;
    unsigned count = 0;
    expect(s, "functions that allocate", number, SELFTEST_SITES);
    json_decref(number);
    for (unsigned i = 0; i < SELFTEST_SITES; i++) {
        const struct selftest_site *want = &t->sites[i];
        const json_t *got = find_by(json_object_get(report, "sites"), "function", want->function);
        const char *pool = json_string_value(json_object_get(got, "pool"));
        if (json_integer_value(json_object_get(got, "count")) != (json_int_t)want->allocations ||
            json_integer_value(json_object_get(got, "bytes")) != (json_int_t)want->bytes ||
            json_integer_value(json_object_get(got, "line")) != (json_int_t)want->line || !pool ||
            strcmp(pool, t->pools[want->pool].name) != 0) {
            wrong = wrong ? wrong : want;
            count++;
        }
    }
    if (!wrong)
        return;
    s->differs = true;
    buf_printf(&s->line,
               " (%u of them with other figures; %s should have %" PRIu64 " allocations, %" PRIu64
               " bytes, line %u)",
               count, wrong->function, wrong->allocations, wrong->bytes, wrong->line);
}

/* Once with the figures that the capture stored, once from the events. */
static void check_report(struct selftest *s, const char *option, const char *what)
{
    const struct selftest_truth *t = &s->client.truth;
    const char *const words[] = {"report", "--format", "json", "--limit",
                                 "100",    s->trace,   option, NULL};
    struct err e = {0};
    json_t *report = selftest_run_json(&s->run, words, &e);
    const json_t *faults = json_object_get(report, "faults");
    if (!report) {
        fail(s, e.text);
        conclude(s, what);
        return;
    }
    for (unsigned i = 0; i < SELFTEST_POOLS; i++) {
        check_pool(s, &t->pools[i], report);
        conclude(s, what);
    }
    check_sites(s, report);
    add(s, "no memory faults");
    if (!json_is_array(faults) || json_array_size(faults) != 0)
        fail(s, "but the trace has some");
    conclude(s, what);
    json_decref(report);
}

static void check_strip(struct selftest *s)
{
    const char *const words[] = {"update", "-s", "M", s->trace, s->stripped, NULL};
    struct buf out = {0};
    struct err why = {0}, e = {0};
    int status = selftest_run(&s->run, words, &out, &why, NULL, NULL, &e);
    if (status != 0)
        fail(s, status < 0 ? e.text : why.text);
    else
        check_counts(s, s->stripped, false);
    buf_release(&out);
    conclude(s, "strip");
}

static void expect_verdict(struct selftest *s, const char *const *words, int wanted,
                           const char *text)
{
    struct buf out = {0};
    struct err why = {0}, e = {0};
    int status = selftest_run(&s->run, words, &out, &why, NULL, NULL, &e);
    add(s, text);
    s->differs |= status != wanted;
    if (status < 0)
        buf_printf(&s->line, " (%s)", e.text);
    else if (status != wanted)
        buf_printf(&s->line, " (exit status %d, not %d)", status, wanted);
    buf_release(&out);
}

static void check_verify(struct selftest *s)
{
    const struct selftest_truth *t = &s->client.truth;
    char number[24];
    const char *const whole[] = {
        "verify",   s->trace, "--expect-allocations",     number,
        "--within", "1",      "--require-callstacks=100", "--require-symbols",
        "100",      NULL};
    const char *const stripped[] = {"verify", s->stripped, NULL};
    snprintf(number, sizeof number, "%" PRIu64, t->pools[0].allocations + t->pools[1].allocations);
    expect_verdict(s, whole, 0, "passes on the trace");
    expect_verdict(s, stripped, 1, "fails on the stripped one");
    conclude(s, "verify");
}

static void run_checks(struct selftest *s)
{
    check_capture(s);
    check_counts(s, s->trace, true);
    conclude(s, "info");
    check_report(s, NULL, "report");
    check_report(s, "--recount", "report --recount");
    check_strip(s);
    check_verify(s);
    selftest_machine(&s->run, s->trace);
}

static int finish(struct selftest *s, long long began, struct err *e)
{
    char time[FORMAT_SIZE];
    if (selftest_run_close(&s->run, e) != 0) {
        fail(s, e->text);
        conclude(s, "nothing left");
    }
    format_duration(time, (int64_t)(monotonic_ns() - began));
    if (s->different)
        printf("%u of %u checks differ from what the client sent, %s\n", s->different, s->checks,
               time);
    else
        printf("%u checks, all as the client sent it, %s\n", s->checks, time);
    return s->different ? 1 : 0;
}

int cmd_selftest(int argc, char **argv)
{
    struct selftest s = {.protocol = PROTOCOL_MAX, .run.seconds = SELFTEST_SECONDS};
    const struct command_line line = {
        .options = groups, .usage = usage, .footer = footer, .positional = positional};
    long long began = monotonic_ns();
    struct err e = {0};
    int status = command_line_parse(&line, &s, argc, argv);
    if (status >= 0)
        return status;
    if (selftest_run_open(&s.run, &e) == 0 &&
        selftest_client_open(&s.client, (uint32_t)s.protocol, s.run.folder, &e) == 0) {
        selftest_path(&s.run, "selftest.tracy", s.trace);
        selftest_path(&s.run, "stripped.tracy", s.stripped);
        run_checks(&s);
        status = finish(&s, began, &e);
    } else {
        status = print_error(&e);
        (void)selftest_run_close(&s.run, &e);
    }
    selftest_client_release(&s.client);
    buf_release(&s.line);
    return status;
}
