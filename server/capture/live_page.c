/*
 * The data of the report's page while the client is recorded. A child makes them of its copy of the
 * store, as `report --format html` does of a trace, but without texts of sources.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/html/html_data.h"
#include "analysis/html/html_lanes.h"
#include "base/memory_bound.h"
#include "base/monotonic.h"
#include "base/tempfile.h"
#include "report/html/html.h"
#include "server/capture/monitor.h"
#include "trace/save/save.h"

/* What the child may take beside its copies of the session's memory. */
#define CHILD_MEMORY ((uint64_t)768 << 20)

struct page_task {
    struct trace *trace;
    struct memory_limit limit;
    int fd;
    int64_t time;
};

bool live_page_ask(struct live_page *p, uint64_t reference)
{
    return vec_push(&p->waiting, reference);
}

/* ---- the child */

static int write_data(struct trace *t, const struct summary *s, const struct skiplist *skip,
                      struct related_input *input, FILE *out, struct err *e)
{
    const struct page_texts texts = {0};
    struct page_lanes lanes = {0};
    struct page_data d;
    if (page_data_build(&d, t, s, skip, PAGE_SIZE, e) != 0)
        return -1;
    int status = page_lanes_build(&lanes, &d, t, input, e);
    if (status == 0)
        status = html_write_data(&d, &texts, &lanes, out, e);
    page_lanes_release(&lanes);
    page_data_release(&d);
    return status;
}

static int write_page(struct trace *t, FILE *out, struct err *e)
{
    const struct skiplist skip = {0};
    const struct summary_options options = {.by = GROUP_THREAD, .stacks = true, .skip = &skip};
    struct related_input input;
    struct summary s;
    const struct record_sink sink = {&input, related_input_put};
    if (related_input_init(&input, t, NULL, RELATED_INPUT_BUDGET, e) != 0)
        return -1;
    int status = trace_save(t, &sink, e);
    if (status == 0)
        status = summary_build(&s, t, &options, e);
    if (status == 0) {
        status = write_data(t, &s, &skip, &input, out, e);
        summary_release(&s);
    }
    related_input_release(&input);
    return status;
}

static void be_child(void *ctx, struct part_result *r)
{
    struct page_task *task = ctx;
    memory_limit_open_gate(&task->limit);
    memory_bound_set(2 * memory_anonymous() + CHILD_MEMORY);
    task->trace->facts.last_time = task->time;
    FILE *out = fdopen(task->fd, "w");
    if (!out)
        err_errno(&r->e, ERR_OUTPUT, "cannot write the report");
    r->saved = out && write_page(task->trace, out, &r->e) == 0;
}

/* ---- the session */

static void answer(struct live_page *p, struct channel *c, enum monitor_message type,
                   const void *text, size_t len)
{
    for (size_t i = 0; i < p->waiting.len; i++)
        (void)channel_send(c, type, p->waiting.at[i], text, len);
    p->waiting.len = 0;
}

static void fail(struct live_page *p, struct channel *c, const char *why)
{
    answer(p, c, MONITOR_NONE, why, strlen(why));
}

static void start(struct live_page *p, struct channel *c, struct trace *t,
                  const struct memory_limit *limit, int64_t time)
{
    struct err e = {0};
    struct page_task task = {.trace = t, .limit = *limit, .time = time};
    p->fd = task.fd = tempfile_open(tempfile_dir(NULL), &e);
    p->began = monotonic_ns();
    if (p->fd >= 0 && part_saver_start(&p->child, be_child, &task))
        return;
    fail(p, c, p->fd < 0 ? e.text : "no process can be started");
    live_page_release(p);
}

static void send_page(struct live_page *p, struct channel *c, const struct part_result *r)
{
    struct err e = r->e;
    struct stat st;
    char *text = NULL;
    size_t len = 0;
    if (r->saved && fstat(p->fd, &st) == 0 && (uint64_t)st.st_size <= CHANNEL_TEXT_MAX) {
        len = (size_t)st.st_size;
        text = malloc(len + 1);
    }
    if (r->saved && !text)
        err_set(&e, ERR_OUTPUT, "the report is too large");
    if (text && tempfile_read(p->fd, "the temporary folder", text, len, 0, &e) == 0)
        answer(p, c, MONITOR_ANSWER, text, len);
    else
        fail(p, c, e.text);
    free(text);
}

void live_page_turn(struct live_page *p, struct channel *c, struct trace *t,
                    const struct memory_limit *limit, int64_t time)
{
    struct part_result r;
    long long now = monotonic_ns();
    if (p->child.pid && part_saver_ended(&p->child, false, &r)) {
        send_page(p, c, &r);
        close(p->fd);
        p->fd = -1;
        p->next = now + (now - p->began);
    }
    if (!p->child.pid && p->waiting.len && now >= p->next)
        start(p, c, t, limit, time);
}

void live_page_release(struct live_page *p)
{
    part_saver_stop(&p->child);
    if (p->fd >= 0)
        close(p->fd);
    vec_release(&p->waiting);
    *p = (struct live_page){.fd = -1, .next = p->next};
}
