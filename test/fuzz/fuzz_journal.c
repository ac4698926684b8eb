/*
 * Journals: what is read of one ends somewhere, with a reason, and what is recovered is a trace
 * that can be completed. Read twice, it is the same.
 */

#include <stdint.h>
#include <stdio.h>

#include "journal_records.h"
#include "server/capture/recovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_all(struct journal_reader *r)
{
    struct journal_record record;
    struct err e = {0};
    uint64_t hash = 1;
    int status;
    while ((status = journal_reader_next(r, &record, &e)) == 1) {
        hash = hash * 31 + XXH3_64bits(record.bytes, record.len) + (uint64_t)record.type;
    }
    const struct journal_tail *tail = journal_reader_tail(r);
    if (status != 0 || tail->lost > tail->bytes || (tail->lost > 0 && !tail->why[0]))
        abort();
    journal_reader_rewind(r);
    return hash + tail->lost;
}

static int drop_part(void *ctx, const char *saved, struct err *e)
{
    (void)ctx;
    (void)saved;
    (void)e;
    return 0;
}

static void recover(struct journal_reader *r)
{
    const struct recovery_options options = {.part = drop_part};
    const struct trace_options store = {.resident_budget = 1 << 20};
    struct recovery out;
    struct trace t;
    struct err e = {0};
    if (recovery_look(r, &out, &e) <= 0)
        return;
    if (trace_init(&t, &store, &e) != 0)
        abort();
    if (recovery_run(r, &t, &options, &out, &e) != 0 && e.code != ERR_INPUT &&
        e.code != ERR_MEMORY) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    trace_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct journal_reader *r = journal_reader_segment(open_segment(data, size), &e);
    if (!r)
        abort();
    if (read_all(r) != read_all(r))
        abort();
    recover(r);
    journal_reader_close(r);
    return 0;
}
