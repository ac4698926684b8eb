/*
 * Begins a part with tables that hold only the needed elements. The lasting state is written as for
 * a checkpoint, with the numbers of the smaller tables, and read back. So one description
 * (trace/ingest/store_snapshot.h) serves both, and derived state is rebuilt.
 */

#include <unistd.h>

#include "trace/ingest/ingest_internal.h"
#include "trace/ingest/store_snapshot.h"

/* ---- call stacks that other modules hold */

static void note_id(void *ctx, uint32_t *id)
{
    (void)renumber_from_1(ctx, RENUMBER_CALLSTACKS, *id);
}

static void change_id(void *ctx, uint32_t *id)
{
    *id = renumber_from_1(ctx, RENUMBER_CALLSTACKS, *id);
}

/* ---- marking needed elements */

static int note_all(struct renumbering *r, struct ingest *in, const struct ingest_holder *holder,
                    struct err *e)
{
    struct snapshot s;
    if (snapshot_write(&s, -1, 0, e) != 0)
        return -1;
    s.renumbering = r;
    s.in_place = true;
    holder->each(holder->ctx, note_id, &s);
    snapshot_note(&s, in);
    int status = s.failed ? -1 : 0;
    snapshot_release(&s);
    if (status == 0)
        renumbering_settle(r, in->trace);
    return status;
}

static bool is_worth_it(const struct renumbering *r, uint32_t least)
{
    static const enum renumber_table bounded[] = {RENUMBER_STRINGS, RENUMBER_CALLSTACKS,
                                                  RENUMBER_THREADS, RENUMBER_LOCATIONS,
                                                  RENUMBER_PAYLOADS};
    for (size_t i = 0; i < sizeof bounded / sizeof bounded[0]; i++) {
        uint32_t len = r->tables[bounded[i]].len, go = len - r->tables[bounded[i]].kept;
        if (go > 0 && go >= least && go >= len / COMPACT_SHARE)
            return true;
    }
    return false;
}

/* ---- writing and reading back */

static int write_state(struct ingest *in, struct renumbering *r, int fd, uint64_t *len,
                       struct err *e)
{
    struct snapshot s;
    if (snapshot_write(&s, fd, 0, e) != 0)
        return -1;
    s.renumbering = r;
    s.in_place = true;
    trace_snapshot(&s, in->trace);
    ingest_snapshot(&s, in);
    int status = snapshot_end(&s);
    *len = s.at;
    snapshot_release(&s);
    return status;
}

static int read_state(struct ingest *in, int fd, uint64_t len, struct err *e)
{
    struct snapshot s;
    struct trace *t = in->trace;
    const struct memory_observer observer = t->memory.observer;
    if (snapshot_read(&s, fd, 0, len, e) != 0)
        return -1;
    s.in_place = true;
    int status = trace_renew(t, e);
    ingest_forget_numbers(in);
    if (status == 0) {
        trace_snapshot(&s, t);
        ingest_snapshot(&s, in);
        status = snapshot_end(&s);
    }
    snapshot_release(&s);
    t->memory.observer = observer; /* carried-over blocks are no new steps */
    return status;
}

static int compact(struct ingest *in, struct renumbering *r, const struct ingest_holder *holder,
                   struct err *e)
{
    struct err cannot = {0};
    uint64_t len;
    int fd = spool_temporary(&in->trace->spool, &cannot);
    /* If there is no room for the state, the part continues with the old tables. */
    if (fd < 0 || write_state(in, r, fd, &len, &cannot) != 0) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    int status = read_state(in, fd, len, e);
    close(fd);
    struct snapshot s = {.renumbering = r};
    holder->each(holder->ctx, change_id, &s);
    return status;
}

int ingest_compact(struct ingest *in, const struct ingest_holder *holder, struct err *e)
{
    struct renumbering r;
    struct err cannot = {0};
    int status = 0;
    /* Figures that count call stacks do not take other numbers for them. */
    if (in->trace->memory.only.is) {
        in->trace->carried = trace_lengths(in->trace);
        return 0;
    }
    if (renumbering_init(&r, in->trace, &cannot) == 0) {
        if (note_all(&r, in, holder, &cannot) == 0 &&
            (is_worth_it(&r, in->compact_least) || trace_is_full_to(in->trace, TRACE_NEARLY_FULL)))
            status = compact(in, &r, holder, e);
        renumbering_release(&r);
    }
    in->torn |= status != 0;
    in->trace->carried = trace_lengths(in->trace);
    return status;
}
