#include "run/run_record.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analysis/questions/figure_parts.h"
#include "report/write/progress.h"

/* Events read before other work is done. */
#define PIECE ((uint64_t)1 << 20)

struct run_record *run_record_new_empty(const char *spool, struct err *e)
{
    const struct trace_options options = {.spool_dir = spool};
    struct run_record *t = calloc(1, sizeof *t);
    if (!t) {
        err_no_memory(e, "a trace");
        return NULL;
    }
    if (trace_init(&t->trace, &options, e) == 0)
        return t;
    free(t);
    return NULL;
}

struct run_record *run_record_new(const char *spool, bool figures, struct err *e)
{
    struct run_record *t = run_record_new_empty(spool, e);
    if (!t)
        return NULL;
    if ((figures && figure_parts_begin(&t->trace, e) != 0) ||
        ingest_init(&t->ingest, &t->trace, e) != 0) {
        trace_release(&t->trace);
        free(t);
        return NULL;
    }
    recording_target_init(&t->target, &t->ingest);
    return t;
}

void run_record_free(struct run_record *t)
{
    if (!t)
        return;
    recording_target_release(&t->target);
    ingest_release(&t->ingest);
    trace_release(&t->trace);
    free(t);
}

bool run_record_expects_strangers(const struct rec_header *h, bool forked)
{
    return forked || (h->options.flags & REC_OPTION_ATTACHED) || h->options.min_size ||
           h->options.sample_bytes || h->early_allocations || h->deep_libraries || h->deep_unseen;
}

/* What is left is shown by its time: the program may be far ahead of its reader. */
static int read_rest(struct run_record *t, struct recording *r, struct err *e)
{
    struct rec_header h;
    uint64_t taken;
    if (recording_header(r, &h, e) != 0)
        return -1;
    const int64_t begin = t->target.last, end = (int64_t)(h.last.ns - t->target.begin);
    struct progress progress =
        progress_begin(end > begin ? (uint64_t)end - (uint64_t)begin : 0, t->quiet);
    progress.before = "reading the recording: ";
    int status = 0;
    do {
        status = recording_advance(r, false, PIECE, &taken, e);
        progress_show(&progress,
                      t->target.last > begin ? (uint64_t)t->target.last - (uint64_t)begin : 0);
    } while (status == 0 && taken >= PIECE);
    progress_clear(&progress);
    return status;
}

int run_record_end(struct run_record *t, struct recording *r, bool part, struct err *e)
{
    if (read_rest(t, r, e) != 0)
        return -1;
    t->processes++;
    if (t->unseen)
        run_unseen_take(t->unseen, r);
    const struct recording_counts *counts = recording_counts(r);
    t->events += counts->allocations + counts->frees;
    t->notes += counts->notes;
    t->forks += counts->forks;
    return recording_finish(r, part, e);
}

int run_record_add(struct run_record *t, int fd, bool part, struct err *e)
{
    struct recording *r;
    struct rec_header h;
    if (recording_open(&r, fd, &t->target, e) != 0)
        return -1;
    int status = recording_header(r, &h, e);
    if (status == 0) {
        t->trace.memory.misses_frees = h.options.flags & REC_OPTION_ATTACHED;
        t->ingest.unknown_frees_expected = part || run_record_expects_strangers(&h, false);
        status = run_record_end(t, r, part, e);
    }
    recording_free(r);
    return status;
}

int run_record_close(struct run_record *t, struct err *e)
{
    if (t->processes > 1 &&
        trace_add_fact(&t->trace, e, "processes", "%" PRIu64, t->processes) != 0)
        return -1;
    if (t->target.left_blocks &&
        (trace_add_fact(&t->trace, e, "left_blocks", "%" PRIu64, t->target.left_blocks) != 0 ||
         trace_add_fact(&t->trace, e, "left_bytes", "%" PRIu64, t->target.left_bytes) != 0))
        return -1;
    return ingest_finish(&t->ingest, e);
}
