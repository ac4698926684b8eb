#include "server/capture/recovery.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "server/capture/client_memory.h"

#define PROGRESS_RECORDS 4u
#define PARTS_KNOWN (1u << 20)

struct player {
    struct journal_reader *reader;
    const struct recovery_options *options;
    struct recovery *out;
    struct intake r;
    struct err broken; /* why decoding ended */
    VEC(char *) saved; /* paths of saved parts: the n-th, or NULL */
    struct client_memory_player memory;
    bool has_end;
    uint8_t *packets; /* JOURNAL_RECORD_MAX bytes of queries that are not sent */
    uint64_t looked;  /* decompressed bytes at the last memory check */
};

int recovery_look(struct journal_reader *reader, struct recovery *out, struct err *e)
{
    struct journal_record record;
    struct intake_start start;
    *out = (struct recovery){0};
    int status = journal_reader_next(reader, &record, e);
    if (status == 1) {
        if (journal_read_start(&record, &start, e) != 0)
            return -1;
        out->version = start.version;
        out->welcome = start.welcome;
        while ((status = journal_reader_next(reader, &record, e)) == 1 &&
               record.type != JOURNAL_RECEIVED && record.type != JOURNAL_MEMORY &&
               record.type != JOURNAL_PAGES)
            ;
    }
    if (status == 0) {
        out->tail = *journal_reader_tail(reader);
        if (out->tail.damaged)
            return err_set(e, ERR_INPUT, "nothing in the journal can be used: %s", out->tail.why);
    }
    journal_reader_rewind(reader);
    return status;
}

/* ---- first pass: facts needed before decoding */

static int note_saved_part(struct player *p, const struct journal_record *record, struct err *e)
{
    uint32_t number = record->len > 4 ? load_u32(record->bytes) : 0;
    /* The number is not trusted: a client can cause only so many parts. */
    if (number == 0 || number > PARTS_KNOWN)
        return 0;
    while (p->saved.len < number) {
        if (!vec_push(&p->saved, NULL))
            return err_no_memory(e, "the journal");
    }
    free(p->saved.at[number - 1]);
    p->saved.at[number - 1] = strndup((const char *)record->bytes + 4, record->len - 4);
    return p->saved.at[number - 1] ? 0 : err_no_memory(e, "the journal");
}

static int read_ahead(struct player *p, struct intake_start *start, struct err *e)
{
    struct journal_record record;
    int status = journal_reader_next(p->reader, &record, e);
    if (status == 0)
        return err_set(e, ERR_INPUT, "nothing is in the journal");
    if (status < 0 || journal_read_start(&record, start, e) != 0)
        return -1;
    while ((status = journal_reader_next(p->reader, &record, e)) == 1) {
        if (record.type == JOURNAL_PART && note_saved_part(p, &record, e) != 0)
            return -1;
        if (record.type == JOURNAL_END) {
            if (journal_read_end(&record, &p->out->end, &p->out->cause, e) != 0)
                return -1;
            p->has_end = true;
        }
    }
    p->out->tail = *journal_reader_tail(p->reader);
    journal_reader_rewind(p->reader);
    return status;
}

/* ---- second pass */

static int complete(struct player *p, enum session_end end, const struct err *cause, struct err *e)
{
    if (p->options->complete)
        p->options->complete(p->options->complete_ctx);
    return intake_finish(&p->r, end, cause, e);
}

static int part_full(void *ctx, struct err *e)
{
    struct player *p = ctx;
    const struct err none = {0};
    size_t part = p->r.ingest.parts;
    const char *saved = part < p->saved.len ? p->saved.at[part] : NULL;
    if (complete(p, SESSION_PART_FULL, &none, e) != 0)
        return -1;
    return p->options->part ? p->options->part(p->options->part_ctx, saved, e) : 0;
}

/* Begins another part where the capture did, between the same two frames. */
static int play_turn(struct player *p, const struct journal_record *record, struct err *e)
{
    if (p->broken.code || record->len != 8 || load_u64(record->bytes) != intake_frames(&p->r))
        return 0;
    return intake_turn(&p->r, e) < 0 ? -1 : 0;
}

static int look(struct player *p, struct err *e)
{
    uint64_t bytes = frame_reader_stats(p->r.frames)->bytes_out;
    if (!p->options->look || bytes - p->looked < RECOVERY_LOOK_BYTES)
        return 0;
    p->looked = bytes;
    int status = p->options->look(p->options->look_ctx, p->r.trace, e);
    if (status > 0)
        err_set(e, ERR_MEMORY, "the memory limit is reached");
    return status != 0 ? -1 : 0;
}

/* Decoding errors and short memory end the decoding; all other errors end the recovery. */
static int play_received(struct player *p, const struct journal_record *record, struct err *e)
{
    const uint8_t *bytes = record->bytes;
    size_t len = record->len;
    int status = 1;
    p->out->received += len;
    while (!p->broken.code && status == 1) {
        status = intake_take(&p->r, &bytes, &len, e);
        if (status == 1 && look(p, e) != 0)
            status = -1;
    }
    if (status >= 0)
        return 0;
    p->out->short_of_memory = p->options->look && e->code == ERR_MEMORY && !p->r.ingest.torn;
    if (e->code != ERR_INPUT && e->code != ERR_CHECK && !p->out->short_of_memory)
        return -1;
    p->broken = *e;
    *e = (struct err){0};
    return 0;
}

static int play_fact(struct player *p, const struct journal_record *record, struct err *e)
{
    static const char key[] = "tidemark.module=";
    const size_t skip = sizeof key - 1;
    if (record->len <= skip || memcmp(record->bytes, key, skip) != 0)
        return 0;
    return trace_add_fact(p->r.trace, e, "module", "%.*s", (int)(record->len - skip),
                          (const char *)record->bytes + skip);
}

static int play_record(struct player *p, const struct journal_record *record, struct err *e)
{
    const struct view payload = {(const char *)record->bytes, record->len};
    switch (record->type) {
    case JOURNAL_RECEIVED:
        return play_received(p, record, e);
    case JOURNAL_FACT:
        return play_fact(p, record, e);
    case JOURNAL_TURN:
        return play_turn(p, record, e);
    case JOURNAL_MEMORY:
        return client_memory_play(&p->memory, payload, &p->r.ingest, e);
    case JOURNAL_PAGES:
        return client_memory_play_pages(&p->memory, payload, &p->r.ingest, e);
    case JOURNAL_CGROUP:
        return client_memory_play_cgroup(&p->memory, payload, e);
    case JOURNAL_SENT:
        /* Queries sent then count as sent now. */
        p->out->sent += record->len / QUERY_PACKET_SIZE;
        (void)query_flush(p->r.query, p->packets, record->len);
        return 0;
    default:
        return 0;
    }
}

static int play(struct player *p, struct err *e)
{
    const struct journal_record rest = {
        .type = JOURNAL_RECEIVED, .bytes = p->options->rest, .len = (uint32_t)p->options->rest_len};
    struct journal_record record;
    int status;
    for (unsigned n = 0; (status = journal_reader_next(p->reader, &record, e)) == 1; n++) {
        if (play_record(p, &record, e) != 0)
            return -1;
        if (p->options->progress && n % PROGRESS_RECORDS == 0)
            p->options->progress(p->options->progress_ctx, journal_reader_at(p->reader),
                                 p->out->tail.bytes);
    }
    return status == 0 && rest.len ? play_record(p, &rest, e) : status;
}

/*
 * Determines the end if the journal lacks it: the client may have ended before the capture was
 * killed.
 */
static void judge_end(struct player *p)
{
    struct recovery *out = p->out;
    out->beyond = frame_reader_partial(p->r.frames);
    if (p->options->has_end) {
        out->end = p->options->end;
        out->cause = p->options->cause;
        return;
    }
    if (p->has_end && !out->short_of_memory)
        return;
    out->end = p->options->goes_on && !out->tail.damaged ? SESSION_GOES_ON : SESSION_CUT_OFF;
    if (p->broken.code) {
        out->end = intake_end_of(&p->broken);
        out->cause = p->broken;
    } else if (out->tail.damaged) {
        err_set(&out->cause, ERR_INPUT, "the journal is damaged: %s", out->tail.why);
    } else if (decoder_terminated(p->r.decoder) && decoder_settled(p->r.decoder) && !out->beyond) {
        out->end = SESSION_COMPLETE;
    }
}

static int run(struct player *p, struct trace *t, struct err *e)
{
    struct intake_start start;
    if (read_ahead(p, &start, e) != 0)
        return -1;
    p->out->version = start.version;
    p->out->welcome = start.welcome;
    if (intake_open(&p->r, t, &start, e) != 0)
        return -1;
    p->out->cut = journal_reader_has_checkpoint(p->reader);
    if (p->out->cut && journal_reader_restore(p->reader, &p->r, e) != 0)
        return -1;
    p->out->received = frame_reader_stats(p->r.frames)->bytes_in;
    p->r.ingest.part_full = part_full;
    p->r.ingest.part_full_ctx = p;
    if (play(p, e) != 0)
        return -1;
    judge_end(p);
    if (p->out->end == SESSION_CUT_OFF &&
        client_memory_kills_since(buf_view(&p->memory.cgroup), p->r.trace, e) != 0)
        return -1;
    p->out->frames = intake_frames(&p->r);
    p->out->unanswered = intake_unanswered(&p->r);
    if (p->options->more && p->options->more(p->options->more_ctx, &p->r.ingest, &start, e) != 0)
        return -1;
    return complete(p, p->out->end, &p->out->cause, e);
}

int recovery_run(struct journal_reader *reader, struct trace *t,
                 const struct recovery_options *options, struct recovery *out, struct err *e)
{
    struct player p = {.reader = reader, .options = options, .out = out};
    *out = (struct recovery){0};
    p.packets = malloc(JOURNAL_RECORD_MAX);
    int status = p.packets ? run(&p, t, e) : err_no_memory(e, "the recovery");
    intake_release(&p.r);
    client_memory_player_release(&p.memory);
    for (size_t i = 0; i < p.saved.len; i++)
        free(p.saved.at[i]);
    vec_release(&p.saved);
    free(p.packets);
    return status;
}
