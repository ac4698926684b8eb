#include "trace/file/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace/file/check.h"
#include "trace/file/codec.h"
#include "trace/file/grammar.h"
#include "trace/file/read_ahead.h"
#include "trace/file/stream.h"

/* Bytes of decoded records in a batch: they should stay in the first-level cache. */
#define BATCH_BYTES 24576u

/* The facts about a record type for one step. */
struct step {
    codec_read_fn *read; /* NULL: the record size varies */
    uint16_t size;       /* bytes per record (for frames see codec_size) */
    uint16_t room;       /* records that fit a batch; 1 unless the type is a leaf */
    bool leaf, check, put;
};

/*
 * A part ends within the newest blocks: only a batch lies between the bytes read and the bytes
 * used.
 */
#define BLOCK_ENDS 4u

struct block_end {
    uint64_t inner; /* in the uncompressed stream */
    uint64_t file;
};

struct walk {
    struct in_stream in;
    struct codec codec;
    struct grammar grammar;
    struct checks checks;
    const struct record_sink *sink;
    const struct trace_read_options *options;
    struct trace_info *info;
    struct err *e;
    void *batch;
    enum trace_part part; /* the current part; TRACE_PART_COUNT before the first */
    uint64_t part_start, part_file_start;
    struct block_end ends[BLOCK_ENDS]; /* of the newest blocks, newest first */
    struct step steps[REC_TYPE_COUNT];
    size_t zone_size; /* bytes of a zone's begin and end */
    bool stopped;     /* at options->until */
    bool sink_failed; /* the sink's errors carry their own location */
};

static const struct trace_read_options default_options;

const char *trace_part_name(enum trace_part part)
{
    static const char *const names[TRACE_PART_COUNT] = {
#define PART(NAME, TEXT) [PART_##NAME] = (TEXT),
        TRACE_PARTS(PART)
#undef PART
    };
    return names[part];
}

/* 1 + the part that a root record begins or continues; 0 for other types. */
#define BEGINS(TYPE, NAME) [REC_##TYPE] = (PART_##NAME + 1)
static const uint8_t part_of[REC_TYPE_COUNT] = {
    BEGINS(HEADER, HEADER),
    BEGINS(PACKAGES, TOPOLOGY),
    BEGINS(CRASH, CRASH),
    BEGINS(FRAME_SETS, FRAMES),
    BEGINS(SECTION_LISTS, SECTIONS),
    BEGINS(SECTION_LIST, SECTIONS),
    BEGINS(SECTION_CATEGORIES, SECTIONS),
    BEGINS(STRINGS, STRINGS),
    BEGINS(STRING_POINTERS, NAMES),
    BEGINS(THREAD_NAMES, NAMES),
    BEGINS(EXTERNAL_NAMES, NAMES),
    BEGINS(LOCAL_THREADS, THREAD_TABLES),
    BEGINS(EXTERNAL_THREADS, THREAD_TABLES),
    BEGINS(SOURCE_LOCATIONS, SOURCE_LOCATIONS),
    BEGINS(SOURCE_LOCATION_EXPANDS, SOURCE_LOCATIONS),
    BEGINS(SOURCE_LOCATION_PAYLOADS, SOURCE_LOCATIONS),
    BEGINS(ZONE_STATS, SOURCE_LOCATIONS),
    BEGINS(GPU_ZONE_STATS, SOURCE_LOCATIONS),
    BEGINS(LOCKS, LOCKS),
    BEGINS(MESSAGES, MESSAGES),
    BEGINS(ZONE_EXTRAS, ZONE_EXTRAS),
    BEGINS(THREADS, THREADS),
    BEGINS(GPU_CONTEXTS, GPU),
    BEGINS(PLOTS, PLOTS),
    BEGINS(POOLS, MEMORY),
    BEGINS(CALLSTACKS, CALLSTACKS),
    BEGINS(CALLSTACK_FRAMES, CALLSTACK_FRAMES),
    BEGINS(APP_INFOS, APP_INFO),
    BEGINS(FRAME_IMAGE_DICT, FRAME_IMAGES),
    BEGINS(FRAME_IMAGES, FRAME_IMAGES),
    BEGINS(CONTEXT_SWITCH_THREADS, CONTEXT_SWITCHES),
    BEGINS(CPU_SWITCH_LISTS, CPU_SWITCHES),
    BEGINS(TID_TO_PIDS, PROCESSES),
    BEGINS(CPU_THREADS, PROCESSES),
    BEGINS(SYMBOLS, SYMBOLS),
    BEGINS(SYMBOL_CODES, SYMBOL_CODE),
    BEGINS(CODE_SYMBOLS, CODE_SYMBOLS),
    BEGINS(HW_SAMPLES, HW_SAMPLES),
    BEGINS(SOURCE_FILES, SOURCE_FILES),
};
#undef BEGINS

/* The file offset of byte `inner` of the uncompressed stream, interpolated within its block. */
static uint64_t file_at(const struct walk *w, uint64_t inner)
{
    const struct block_end *end = w->ends;
    for (size_t i = 1; i < BLOCK_ENDS; i++) {
        const struct block_end *begin = &w->ends[i];
        if (inner > begin->inner && inner <= end->inner)
            return begin->file +
                   (end->file - begin->file) * (inner - begin->inner) / (end->inner - begin->inner);
        end = begin;
    }
    return end->file;
}

static void enter_part(struct walk *w, enum trace_part part)
{
    uint64_t offset = in_stream_offset(&w->in), file = file_at(w, offset);
    if (w->part != TRACE_PART_COUNT) {
        w->info->part_bytes[w->part] += offset - w->part_start;
        w->info->part_file_bytes[w->part] += file - w->part_file_start;
    }
    w->part = part;
    w->part_start = offset;
    w->part_file_start = file;
}

__attribute__((format(printf, 2, 3))) static void warn(struct trace_info *info, const char *fmt,
                                                       ...)
{
    if (info->warning_count == TRACE_WARNINGS_MAX)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(info->warnings[info->warning_count], sizeof info->warnings[0], fmt, ap);
    va_end(ap);
    info->warning_count++;
}

/* Notes that bytes follow the trace. */
static void note_behind(struct trace_info *info, const char *text)
{
    warn(info, "%s", text);
    snprintf(info->behind, sizeof info->behind, "%s", text);
}

/* Makes `n` bytes contiguous for the record at `place`, or reports that the file is too short. */
static int need(struct walk *w, const struct record_place *place, size_t n)
{
    int got = in_stream_need(&w->in, n, w->e);
    if (got < 0)
        return -1;
    if (got > 0)
        return 0;
    return check_failed(place, 0, w->e, "the trace ends here, after %zu of %zu bytes: truncated",
                        in_stream_left(&w->in), n);
}

static int range_failed(const struct record_place *place, size_t i, struct err *e)
{
    return check_failed(place, i, e, "a time that does not fit 48 bits");
}

/* Finds the record of a batch that set codec.out_of_range, by decoding the batch again. */
static int find_out_of_range(struct walk *w, const struct step *step,
                             const struct record_place *place, struct codec before)
{
    size_t i = 0;
    while (!before.out_of_range) {
        step->read(&before, w->in.pos + i * place->size, w->batch, 1);
        i++;
    }
    return range_failed(place, i - 1, w->e);
}

/* Decodes the next records of a fixed-size type into the batch: at least one, at most `max`. */
static int read_fixed(struct walk *w, const struct step *step, const struct record_place *place,
                      uint64_t max, size_t *n)
{
    if (need(w, place, place->size) != 0)
        return -1;
    *n = 1;
    if (max > 1 && step->room > 1) {
        size_t there = in_stream_left(&w->in) / place->size;
        *n = there < step->room ? there : step->room;
        if (*n > max)
            *n = (size_t)max;
    }
    if (*n == 1) {
        step->read(&w->codec, w->in.pos, w->batch, 1);
        if (w->codec.out_of_range)
            return range_failed(place, 0, w->e);
    } else {
        struct codec before = w->codec;
        step->read(&w->codec, w->in.pos, w->batch, *n);
        if (w->codec.out_of_range)
            return find_out_of_range(w, step, place, before);
    }
    w->in.pos += *n * place->size;
    return 0;
}

/* Decodes the next record of a type whose size varies. */
static int read_varying(struct walk *w, const struct record_place *place)
{
    uint64_t max = w->options->record_max ? w->options->record_max : TRACE_RECORD_MAX;
    size_t got;
    uint64_t want = 0;
    while ((got = codec_read_varying(&w->codec, place->type, w->in.pos, in_stream_left(&w->in),
                                     w->batch, &want)) == 0) {
        if (want > max)
            return check_failed(place, 0, w->e, "%llu bytes long; at most %llu are taken",
                                (unsigned long long)want, (unsigned long long)max);
        if (need(w, place, (size_t)want) != 0)
            return -1;
    }
    w->in.pos += got;
    return 0;
}

/* Makes the followers of a record the next records. */
static int enter(struct walk *w, const struct record_place *place)
{
    if (grammar_enter(&w->grammar, place->type, w->batch, w->e) == 0)
        return 0;
    char cause[sizeof w->e->text];
    memcpy(cause, w->e->text, sizeof cause);
    return w->e->code == ERR_INPUT ? check_failed(place, 0, w->e, "%s", cause) : -1;
}

static int put(struct walk *w, enum record_type type, size_t n)
{
    if (record_put(w->sink, type, w->batch, n, w->e) == 0)
        return 0;
    w->sink_failed = true;
    return -1;
}

/* Checks a record that the fast path cannot judge, or reports its error. */
static __attribute__((noinline)) int check_zone(struct walk *w, enum record_type type,
                                                uint64_t number, uint64_t total)
{
    struct record_place place = {type, number, total, in_stream_offset(&w->in),
                                 w->steps[type].size};
    if (w->codec.out_of_range)
        return range_failed(&place, 0, w->e);
    return check_records(&w->checks, &place, w->batch, 1, w->e);
}

static inline int take_zone_begin(struct walk *w, struct grammar_slot *slot)
{
    const struct rec_zone_begin *zone = w->batch;
    const struct checks *k = &w->checks;
    w->steps[REC_ZONE_BEGIN].read(&w->codec, w->in.pos, w->batch, 1);
    bool known = zone->srcloc < 0 ? (uint64_t) - (int64_t)zone->srcloc <= k->payloads
                                  : (uint64_t)zone->srcloc < k->expands;
    bool sound = !w->codec.out_of_range && (zone->extra == 0 || zone->extra < k->extras) && known;
    if (!sound && check_zone(w, REC_ZONE_BEGIN, slot->total - slot->left + 1, slot->total) != 0)
        return -1;
    slot->left--;
    w->in.pos += w->steps[REC_ZONE_BEGIN].size;
    return 0;
}

static inline int take_zone_end(struct walk *w)
{
    w->steps[REC_ZONE_END].read(&w->codec, w->in.pos, w->batch, 1);
    if (w->codec.out_of_range)
        return check_zone(w, REC_ZONE_END, 1, 1);
    w->in.pos += w->steps[REC_ZONE_END].size;
    return w->steps[REC_ZONE_END].put ? put(w, REC_ZONE_END, 1) : 0;
}

/* Reads a zone's begin. Most zones have no children: then the end follows at once. */
static inline int walk_zone(struct walk *w, struct grammar_slot *slot)
{
    const struct rec_zone_begin *zone = w->batch;
    struct record_place place = {REC_ZONE_BEGIN, slot->total - slot->left + 1, slot->total,
                                 in_stream_offset(&w->in), w->steps[REC_ZONE_BEGIN].size};
    if (take_zone_begin(w, slot) != 0 || (zone->n > 0 && enter(w, &place) != 0) ||
        (w->steps[REC_ZONE_BEGIN].put && put(w, REC_ZONE_BEGIN, 1) != 0))
        return -1;
    return zone->n > 0 ? 0 : take_zone_end(w);
}

/*
 * Zones are the longest list of many traces. While the bytes of a begin and an end are available,
 * they skip the general steps.
 */
static int walk_zones(struct walk *w)
{
    struct grammar_slot *slot;
    while ((slot = grammar_next(&w->grammar)) && in_stream_left(&w->in) >= w->zone_size) {
        if (slot->type == REC_ZONE_BEGIN) {
            if (walk_zone(w, slot) != 0)
                return -1;
        } else if (slot->type == REC_ZONE_END) {
            slot->left--;
            if (take_zone_end(w) != 0)
                return -1;
        } else {
            return 0;
        }
    }
    return 0;
}

/* Reads, checks and puts a batch of records of the next type. */
static int walk_step(struct walk *w, struct grammar_slot *slot)
{
    const struct step *step = &w->steps[slot->type];
    struct record_place place = {slot->type, slot->total - slot->left + 1, slot->total,
                                 in_stream_offset(&w->in), step->size};
    size_t n = 1;
    int status;
    if (slot->type == REC_FRAME)
        place.size = codec_size(&w->codec, REC_FRAME);
    if (step->read)
        status = read_fixed(w, step, &place, slot->left, &n);
    else
        status = read_varying(w, &place);
    if (status != 0 || (step->check && check_records(&w->checks, &place, w->batch, n, w->e) != 0))
        return -1;
    slot->left -= n;
    /* Counts are checked before the sink sees them, so that errors name their location. */
    if (!step->leaf && enter(w, &place) != 0)
        return -1;
    return step->put ? put(w, place.type, n) : 0;
}

static void prepare_steps(struct walk *w)
{
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++) {
        bool leaf = grammar_is_leaf(i);
        w->steps[i] = (struct step){
            .read = codec_reader(i),
            .size = (uint16_t)codec_size(&w->codec, i),
            .room = (uint16_t)(leaf ? BATCH_BYTES / record_size(i) : 1),
            .leaf = leaf,
            .check = check_wanted(i),
            .put = !w->options->wanted || w->options->wanted[i],
        };
    }
    w->zone_size = (size_t)w->steps[REC_ZONE_BEGIN].size + w->steps[REC_ZONE_END].size;
}

/* The next patch or minor version. */
static bool is_one_step_newer(uint32_t version)
{
    return version == FILE_VERSION_MAX + 1 || version == ((FILE_VERSION_MAX >> 8) + 1) << 8;
}

/*
 * Judges a version one step newer than known, after the whole file was read. The file is accepted
 * if the newest known layout fits to the last byte.
 */
static int judge_version(struct walk *w, int status)
{
    char text[TRACE_WARNING_SIZE], version[FILE_VERSION_TEXT_SIZE], newest[FILE_VERSION_TEXT_SIZE];
    struct trace_info *info = w->info;
    if (!is_one_step_newer(info->version) || (status != 0 && w->sink_failed))
        return status;
    file_version_text(info->version, version);
    file_version_text(FILE_VERSION_MAX, newest);
    if (status == 0 && info->behind[0])
        status = err_set(w->e, ERR_INPUT, "%s", info->behind);
    if (status != 0) {
        if (w->e->code == ERR_INPUT)
            err_prefix(w->e,
                       "file version %s is newer than this program knows, and its layout is "
                       "not that of %s",
                       version, newest);
        return status;
    }
    snprintf(text, sizeof text,
             "file version %s is newer than this program knows: it has the layout of %s%s, but "
             "values may mean something else",
             version, newest, w->stopped ? " as far as it was read" : " to the last byte");
    note_behind(info, text);
    return 0;
}

static int walk_magic(struct walk *w)
{
    uint32_t version;
    char text[FILE_VERSION_TEXT_SIZE], newest[FILE_VERSION_TEXT_SIZE];
    int got = in_stream_need(&w->in, INNER_MAGIC_SIZE, w->e);
    if (got < 0)
        return -1;
    if (got == 0 || codec_read_magic(w->in.pos, &version) != 0)
        return err_set(w->e, ERR_INPUT, "no Tracy trace inside the container");
    w->info->version = version;
    w->info->layout = file_layout_find(is_one_step_newer(version) ? FILE_VERSION_MAX : version);
    if (!w->info->layout)
        return err_set(w->e, ERR_INPUT, "file version %s is %s (0.9.0 to %s can be read)",
                       file_version_text(version, text),
                       version > FILE_VERSION_MAX   ? "newer than this program knows"
                       : version < FILE_VERSION_MIN ? "too old"
                                                    : "no version that Tracy ever had",
                       file_version_text(FILE_VERSION_MAX, newest));
    enter_part(w, PART_HEADER);
    w->in.pos += INNER_MAGIC_SIZE;
    return 0;
}

static int walk_all(struct walk *w)
{
    if (walk_magic(w) != 0 || codec_init(&w->codec, w->info->layout, w->e) != 0 ||
        grammar_start(&w->grammar, w->info->layout, w->e) != 0)
        return -1;
    w->checks.layout = w->info->layout;
    prepare_steps(w);
    for (struct grammar_slot *slot; (slot = grammar_next(&w->grammar));) {
        unsigned part = part_of[slot->type];
        if (part != 0 && part - 1 != w->part)
            enter_part(w, part - 1);
        if (w->options->until != 0 && slot->type == w->options->until) {
            w->stopped = true;
            return 0;
        }
        bool zones = slot->type == REC_ZONE_BEGIN && in_stream_left(&w->in) >= w->zone_size;
        if ((zones ? walk_zones(w) : walk_step(w, slot)) != 0)
            return -1;
    }
    enter_part(w, TRACE_PART_COUNT);
    w->info->inner_bytes = in_stream_offset(&w->in);
    if (w->checks.message_sum != w->checks.thread_message_sum)
        warn(w->info, "the messages of the threads are not those of the trace; "
                      "official tools may crash on it");
    return 0;
}

static int walk_run(struct walk *w, struct byte_source source)
{
    int status = in_stream_init(&w->in, source, w->e);
    if (status == 0) {
        w->batch = malloc(BATCH_BYTES);
        status = w->batch ? walk_all(w) : err_no_memory(w->e, "a batch of records");
    }
    if (status == 0 && !w->stopped && in_stream_left(&w->in) > 0) {
        char text[TRACE_WARNING_SIZE];
        snprintf(text, sizeof text, "%zu bytes after the end of the trace in its last block",
                 in_stream_left(&w->in));
        note_behind(w->info, text);
    }
    free(w->batch);
    codec_release(&w->codec);
    grammar_release(&w->grammar);
    in_stream_release(&w->in);
    return status;
}

int trace_read_inner(struct byte_source source, const struct record_sink *sink,
                     const struct trace_read_options *options, struct trace_info *info,
                     struct err *e)
{
    struct walk w = {.sink = sink,
                     .options = options ? options : &default_options,
                     .info = info,
                     .e = e,
                     .part = TRACE_PART_COUNT};
    *info = (struct trace_info){0};
    return judge_version(&w, walk_run(&w, source));
}

/* The container's source, with progress reports. */
struct progress {
    struct byte_source source;
    struct container_reader *container;
    struct read_ahead *ahead; /* NULL: the container is read on demand */
    struct trace_info *info;
    struct walk *walk;
    const struct trace_read_options *options;
};

static const struct container_info *progress_info(const struct progress *p)
{
    return p->ahead ? read_ahead_info(p->ahead) : container_reader_info(p->container);
}

static ssize_t progress_read(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct progress *p = ctx;
    ssize_t got = p->source.read(p->source.ctx, out, room, e);
    p->info->container = *progress_info(p);
    if (got > 0) {
        struct block_end *ends = p->walk->ends;
        memmove(ends + 1, ends, (BLOCK_ENDS - 1) * sizeof *ends);
        ends[0] = (struct block_end){p->info->container.inner_bytes,
                                     p->ahead ? read_ahead_mark(p->ahead).offset
                                              : container_reader_mark(p->container).offset};
    }
    if (got > 0 && p->options->progress &&
        p->options->progress(p->options->progress_ctx, p->info->container.file_bytes, e) != 0)
        return -1;
    return got;
}

/* Not for pipes: one may block the thread after the caller has stopped. */
static bool reads_ahead(int fd, const struct trace_read_options *o)
{
    struct stat st;
    return o->ahead && o->until == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static void tell_tail(struct trace_info *info, const struct container_tail *tail)
{
    char text[TRACE_WARNING_SIZE];
    int n = snprintf(text, sizeof text, "%llu bytes of the file, from offset %llu on, are ",
                     (unsigned long long)tail->bytes, (unsigned long long)tail->offset);
    char *what = text + n;
    size_t room = sizeof text - (size_t)n;
    switch (tail->kind) {
    case TAIL_NONE:
    case TAIL_APPENDIX:
        return;
    case TAIL_CHANGED:
        snprintf(what, room, "figures stored by Tidemark for other bytes than this trace's");
        break;
    case TAIL_TRACE:
        snprintf(what, room, "no part of this trace: another trace begins at offset %llu",
                 (unsigned long long)tail->other);
        break;
    case TAIL_OTHER:
        snprintf(what, room, "no part of the trace");
        break;
    }
    note_behind(info, text);
}

/* Ends the thread, which may have read past the trace. */
static struct container_mark stop_ahead(struct progress *p, struct container_info *last)
{
    struct container_mark end = read_ahead_mark(p->ahead);
    *last = *read_ahead_info(p->ahead);
    read_ahead_free(p->ahead);
    p->ahead = NULL;
    return end;
}

static int read_rest(struct progress *p, struct walk *w)
{
    struct container_reader *c = p->container;
    struct container_info last = {0};
    struct container_tail tail;
    bool was_ahead = p->ahead != NULL;
    struct container_mark end = {0};
    if (was_ahead)
        end = stop_ahead(p, &last);
    if (w->stopped && container_reader_skip(c, w->e) != 0)
        return -1;
    if (!was_ahead)
        end = container_reader_mark(c);
    if (container_reader_tail(c, &end, &tail, w->e) != 0)
        return -1;
    w->info->container = *container_reader_info(c);
    if (was_ahead) {
        last.file_bytes = w->info->container.file_bytes;
        w->info->container = last;
    }
    tell_tail(w->info, &tail);
    return 0;
}

static int read_container(struct container_reader *c, int fd, struct walk *w)
{
    struct progress p = {.source = container_reader_source(c),
                         .container = c,
                         .info = w->info,
                         .walk = w,
                         .options = w->options};
    for (size_t i = 0; i < BLOCK_ENDS; i++)
        w->ends[i].file = container_reader_mark(c).offset;
    if (reads_ahead(fd, w->options)) {
        if (read_ahead_open(&p.ahead, c, w->e) != 0)
            return -1;
        p.source = read_ahead_source(p.ahead);
    }
    int status = walk_run(w, (struct byte_source){&p, progress_read});
    if (status == 0)
        status = read_rest(&p, w);
    read_ahead_free(p.ahead);
    return status;
}

int trace_read(int fd, const char *name, const struct record_sink *sink,
               const struct trace_read_options *options, struct trace_info *info, struct err *e)
{
    struct walk w = {.sink = sink,
                     .options = options ? options : &default_options,
                     .info = info,
                     .e = e,
                     .part = TRACE_PART_COUNT};
    struct container_reader *c = NULL;
    *info = (struct trace_info){0};
    int status = container_reader_open(&c, fd, &w.options->limits, e);
    if (status == 0) {
        info->container = *container_reader_info(c);
        status = judge_version(&w, read_container(c, fd, &w));
    }
    container_reader_free(c);
    if (status != 0 && !w.sink_failed)
        err_prefix(e, "%s", name);
    return status;
}
