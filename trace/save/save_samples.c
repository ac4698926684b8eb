/* Samples, and the code and source text that they refer to. */

#include "trace/save/save_internal.h"

#define BATCH 256u

static int next_samples(struct saver *s)
{
    *s->e = (struct err){0};
    s->sample = column_reader_next(&s->samples, &s->samples_left, s->e);
    if (s->sample)
        return 0;
    return s->e->code ? -1 : err_set(s->e, ERR_INPUT, "samples are missing");
}

static int put_samples(struct saver *s, enum record_type list, enum record_type one, uint64_t n)
{
    struct rec_sample batch[BATCH];
    if (put_count(s, list, n) != 0)
        return -1;
    while (n) {
        if (s->samples_left == 0 && next_samples(s) != 0)
            return -1;
        size_t run = n < BATCH ? (size_t)n : BATCH;
        if (run > s->samples_left)
            run = s->samples_left;
        for (size_t i = 0; i < run; i++)
            batch[i] = (struct rec_sample){s->sample[i].time, s->sample[i].callstack};
        if (record_put(s->sink, one, batch, run, s->e) != 0)
            return -1;
        s->sample += run;
        s->samples_left -= run;
        n -= run;
    }
    return 0;
}

int save_thread_samples(struct saver *s, uint16_t thread)
{
    struct sample_thread t = samples_of(&s->t->samples, thread);
    if (t.switch_samples + t.samples && s->samples.next - s->samples_left != t.first) {
        s->samples.next = t.first;
        s->samples_left = 0;
    }
    if (put_samples(s, REC_SWITCH_SAMPLES, REC_SWITCH_SAMPLE, t.switch_samples) != 0)
        return -1;
    return put_samples(s, REC_SAMPLES, REC_SAMPLE, t.samples);
}

int save_symbol_codes(struct saver *s)
{
    struct keyed_blobs_reader reader;
    struct rec_symbol_code r;
    int more;
    if (put_count(s, REC_SYMBOL_CODES, s->t->symbol_codes.list.len) != 0)
        return -1;
    keyed_blobs_reader_init(&reader, &s->t->symbol_codes);
    while ((more = keyed_blobs_next(&reader, &r.address, &r.bytes, s->e)) == 1) {
        if (put(s, REC_SYMBOL_CODE, &r) != 0) {
            more = -1;
            break;
        }
    }
    keyed_blobs_reader_release(&reader);
    return more;
}

static int put_hw_address(void *ctx, const struct hw_address *hw, struct err *e)
{
    struct rec_id id = {hw->ip};
    (void)e;
    return put(ctx, REC_HW_SAMPLE, &id);
}

static int put_hw_list(void *ctx, uint64_t count, struct err *e)
{
    (void)e;
    return put_count(ctx, REC_HW_SAMPLE_LIST, count);
}

static int put_hw_time(void *ctx, int64_t time, struct err *e)
{
    struct rec_time r = {time};
    (void)e;
    return put(ctx, REC_HW_SAMPLE_TIME, &r);
}

int save_hw_samples(struct saver *s)
{
    struct hw_sink to = {s, put_hw_address, put_hw_list, put_hw_time};
    if (put_count(s, REC_HW_SAMPLES, s->t->samples.hw.len) != 0)
        return -1;
    return samples_walk_hw(&s->t->samples, s->t->spool.dir, &to, s->e);
}

int save_source_files(struct saver *s)
{
    const struct trace *t = s->t;
    struct keyed_blobs_reader reader;
    struct rec_source_file r;
    uint64_t key, n = 0;
    int more;
    for (size_t i = 0; i < t->source_paths.len; i++)
        n += t->source_paths.at[i] != 0;
    if (put_count(s, REC_SOURCE_FILES, n) != 0)
        return -1;
    keyed_blobs_reader_init(&reader, &s->t->sources);
    for (size_t i = 0; (more = keyed_blobs_next(&reader, &key, &r.bytes, s->e)) == 1; i++) {
        uint32_t path = i < t->source_paths.len ? t->source_paths.at[i] : 0;
        r.path = strings_get(&t->strings, path);
        if (path && put(s, REC_SOURCE_FILE, &r) != 0) {
            more = -1;
            break;
        }
    }
    keyed_blobs_reader_release(&reader);
    return more;
}
