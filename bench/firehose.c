/*
 * Writes the recording of a program that allocates a lot: millions of memory events with call
 * stacks, several threads, named pools, the usual mix of lifetimes. A file beside it has the exact
 * expected results:
 *
 *   FILE.c2s.bin      the client's bytes, answers to all queries and Terminate included
 *   FILE.s2c.bin      the server's request, from which `tidemark replay` reads the protocol
 *   FILE.truth.json   totals and peaks by pool
 */

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "protocol/encoder.h"
#include "protocol/handshake.h"

#define SUFFIX ".c2s.bin"
#define PATH_SIZE 4096
#define FLUSH_BYTES (1u << 20)
#define WHEEL 4096u        /* short-lived blocks are freed within so many events; a power of two */
#define FRAME_EVERY 16384u /* events per frame mark */
#define BURST 32u          /* consecutive events of a thread, on average */
#define FIRST_CLASS 4      /* blocks are placed by size class: 2^4 … 2^26 bytes */
#define LAST_CLASS 26
#define TICKS_LEAST 4u /* from event to event; the random part is below TICKS_BELOW */
#define TICKS_BELOW 200u
#define HOURS_MAX 100000u
#define POOLS_MAX 64u
#define THREADS_MAX 4096u
#define DEPTH_MAX 8191u

/* Base addresses in the client. */
#define CODE 0x555500000000u
#define HEAP 0x7f0000000000u
#define POOL_NAMES 0x555600000000u
#define THREAD_IDS 1000u

/* Above the highest process id of Linux: no reader finds that process on its own host. */
#define NO_PROCESS (1u << 23)

struct options {
    uint64_t events, seed;
    unsigned hours; /* 0: about 50 ns between events */
    unsigned depth, protocol, live, stacks, threads, pools;
    const char *output;
};

struct block {
    uint64_t address, size;
    uint32_t stack;
    uint8_t pool, size_class;
};

struct blocks {
    struct block *at;
    size_t len, cap;
};

struct pool_truth {
    uint64_t allocs, frees, live_bytes, peak_bytes, total_bytes;
};

struct firehose {
    struct options o;
    struct encoder *enc;
    FILE *out;
    struct err err;
    uint64_t rng;
    double timer_mul; /* ns per tick of the client's clock */
    uint64_t ticks;   /* client's time at the last event */
    const struct wire_item *items;
    int payload_id, serial_id, name_id;
    int alloc_ids[2], free_ids[2]; /* [1]: the Named variant */

    uint8_t *payloads; /* one laid-out CallstackPayload per stack */
    size_t payload_size;
    bool *stack_used;
    VEC(uint32_t) unanswered; /* stacks whose frames were not sent yet */
    bool *frame_told;         /* by frame number */
    uint32_t *frame_numbers;  /* depth numbers per stack */

    struct blocks wheel[WHEEL]; /* short-lived blocks, by the event that frees them */
    struct blocks due;          /* of these: due to be freed */
    struct blocks lasting;
    struct block *temporary; /* per thread: freed by its next event if its size is not 0 */

    uint64_t next_offset[LAST_CLASS + 1];
    VEC(uint64_t) reusable[LAST_CLASS + 1];
    struct pool_truth truth[POOLS_MAX];
};

static uint64_t random_u64(struct firehose *f)
{
    uint64_t z = f->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned below(struct firehose *f, unsigned n)
{
    return (unsigned)((random_u64(f) >> 32) * n >> 32);
}

/* ---- the stream */

static int flush(struct firehose *f, size_t least)
{
    struct buf *b = encoder_output(f->enc);
    if (b->len <= least)
        return 0;
    if (fwrite(b->data, 1, b->len, f->out) != b->len)
        return err_errno(&f->err, ERR_OUTPUT, "%s", f->o.output);
    buf_clear(b);
    return 0;
}

static int item(struct firehose *f, const char *name, const struct encoder_field *fields, size_t n,
                const char *text)
{
    struct view tail = text ? view_of(text) : (struct view){0};
    return encoder_item(f->enc, name, fields, n, tail, &f->err);
}

static int string(struct firehose *f, bool second, const char *text)
{
    return encoder_string(f->enc, second, view_of(text), &f->err);
}

/* ---- call stacks */

/* Number of functions at one level of a stack. */
static uint32_t level_width(const struct firehose *f)
{
    return f->o.depth ? f->o.stacks / f->o.depth + 1 : 1;
}

/*
 * Stacks form a tree: stacks whose numbers agree in their upper bits share their outer frames. The
 * innermost frame number is unique to the stack; the others are chosen from their level's functions
 * by their position in the tree, so no stack has a frame twice.
 */
static uint32_t frame_number(const struct firehose *f, uint32_t stack, unsigned level)
{
    if (level == 0)
        return stack;
    unsigned shift = level * 20 / f->o.depth + 1; /* outermost: the same for all stacks */
    uint64_t place = ((uint64_t)stack >> shift) * 0x9e3779b97f4a7c15u + level;
    place = (place ^ place >> 29) * 0xbf58476d1ce4e5b9u;
    uint32_t width = level_width(f);
    return f->o.stacks + (level - 1) * width + (uint32_t)((place >> 32) % width);
}

static uint64_t frame_address(uint32_t number)
{
    return CODE + (uint64_t)number * 64 + 17;
}

static int lay_out_stacks(struct firehose *f)
{
    size_t n = f->o.stacks;
    unsigned depth = f->o.depth;
    if (depth == 0)
        return 0;
    f->payload_size = 1 + 8 + 2 + 8 * (size_t)depth;
    f->payloads = calloc(n, f->payload_size);
    f->stack_used = calloc(n, sizeof *f->stack_used);
    f->frame_told = calloc(n + (size_t)depth * level_width(f), sizeof *f->frame_told);
    f->frame_numbers = calloc(n * depth, sizeof *f->frame_numbers);
    if (!f->payloads || !f->stack_used || !f->frame_told || !f->frame_numbers)
        return err_no_memory(&f->err, "call stacks");
    for (uint32_t s = 0; s < n; s++) {
        uint8_t *p = f->payloads + s * f->payload_size;
        p[0] = (uint8_t)f->payload_id;
        store_u64(p + 1, HEAP + s * 0x100);
        store_u16(p + 9, (uint16_t)(8 * depth));
        for (unsigned level = 0; level < depth; level++) {
            uint32_t number = frame_number(f, s, level);
            f->frame_numbers[s * (size_t)depth + level] = number;
            store_u64(p + 11 + 8 * level, frame_address(number));
        }
    }
    return 0;
}

/* The client's answers to the queries for one frame and its symbol. */
static int tell_frame(struct firehose *f, uint32_t number)
{
    char function[64];
    char file[64];
    uint64_t symbol = CODE + (uint64_t)number * 64;
    snprintf(function, sizeof function, "module%u::function_%u(unsigned long)", number % 31,
             number);
    snprintf(file, sizeof file, "/src/firehose/module%u/part%u.cpp", number % 31, number % 1009);
    if (string(f, false, "/usr/bin/firehose") < 0 ||
        item(f, "CallstackFrameSize",
             (struct encoder_field[]){ENC_INT("ptr", frame_address(number)), ENC_INT("size", 1)}, 2,
             NULL) < 0 ||
        string(f, false, function) < 0 || string(f, true, file) < 0 ||
        item(f, "CallstackFrame",
             (struct encoder_field[]){ENC_INT("line", number % 900 + 1), ENC_INT("symAddr", symbol),
                                      ENC_INT("symLen", 64)},
             3, NULL) < 0 ||
        string(f, false, file) < 0)
        return -1;
    return item(f, "SymbolInformation",
                (struct encoder_field[]){ENC_INT("line", number % 900), ENC_INT("symAddr", symbol)},
                2, NULL);
}

/*
 * Sends answers for what the last event named for the first time. At once, because servers before
 * v0.12.3 query a frame again, and wait, if it appears before its answer.
 */
static int tell_frames(struct firehose *f)
{
    for (size_t i = 0; i < f->unanswered.len; i++) {
        const uint32_t *numbers = f->frame_numbers + f->unanswered.at[i] * (size_t)f->o.depth;
        for (unsigned level = 0; level < f->o.depth; level++) {
            if (f->frame_told[numbers[level]])
                continue;
            f->frame_told[numbers[level]] = true;
            if (tell_frame(f, numbers[level]) < 0)
                return -1;
        }
    }
    f->unanswered.len = 0;
    return 0;
}

static const char *pool_name(unsigned pool, char out[32])
{
    static const char *const known[] = {"", "gpu.vram", "arena"};
    if (pool < sizeof known / sizeof *known)
        return known[pool];
    snprintf(out, 32, "pool %u", pool);
    return out;
}

/* Answers that do not depend on events: names of pools and threads. */
static int tell_names(struct firehose *f)
{
    char text[32];
    for (unsigned pool = 1; pool < f->o.pools; pool++)
        if (f->truth[pool].allocs &&
            item(f, "StringData", (struct encoder_field[]){ENC_INT("ptr", POOL_NAMES + pool * 32)},
                 1, pool_name(pool, text)) < 0)
            return -1;
    for (unsigned t = 0; t < f->o.threads; t++) {
        if (t > 0)
            snprintf(text, sizeof text, "worker %u", t);
        if (item(f, "ThreadName", (struct encoder_field[]){ENC_INT("ptr", THREAD_IDS + t)}, 1,
                 t ? text : "Main thread") < 0)
            return -1;
    }
    return 0;
}

/* ---- memory */

/* The item before one with a call stack; nothing at depth 0. */
static int call_stack(struct firehose *f, uint32_t stack)
{
    if (f->o.depth == 0)
        return 0;
    if (!f->stack_used[stack]) {
        f->stack_used[stack] = true;
        if (!vec_push(&f->unanswered, stack))
            return err_no_memory(&f->err, "stacks");
    }
    uint8_t serial = (uint8_t)f->serial_id;
    if (encoder_append(f->enc, f->payloads + stack * f->payload_size, f->payload_size, &f->err) < 0)
        return -1;
    return encoder_append(f->enc, &serial, 1, &f->err);
}

static int memory_event(struct firehose *f, const struct block *b, bool alloc, unsigned thread,
                        uint32_t stack)
{
    bool named = b->pool != 0;
    if (call_stack(f, stack) < 0)
        return -1;
    uint8_t bytes[32] = {(uint8_t)f->name_id};
    if (named) {
        store_u64(bytes + 1, POOL_NAMES + b->pool * 32u);
        if (encoder_append(f->enc, bytes, 9, &f->err) < 0)
            return -1;
    }
    int id = alloc ? f->alloc_ids[named] : f->free_ids[named];
    const struct wire_item *it = &f->items[id];
    bytes[0] = (uint8_t)id;
    uint64_t ticks = TICKS_LEAST + below(f, TICKS_BELOW); /* at least 2 ns: all times differ */
    f->ticks += ticks;
    store_u64(bytes + it->at[AT_TIME], ticks);
    store_u32(bytes + it->at[AT_THREAD], THREAD_IDS + thread);
    store_u64(bytes + it->at[AT_MEM_PTR], b->address);
    if (alloc)
        store_u48(bytes + it->at[AT_MEM_SIZE], b->size);
    return encoder_append(f->enc, bytes, it->size, &f->err);
}

/* Mostly small, sometimes large: each coin toss doubles the upper bound. */
static uint64_t random_size(struct firehose *f)
{
    unsigned bits = 4;
    while (bits < LAST_CLASS - 1 && below(f, 100) < 62)
        bits++;
    return 1 + below(f, 1u << bits);
}

static int place(struct firehose *f, struct block *b)
{
    unsigned c = FIRST_CLASS;
    while ((uint64_t)1 << c < b->size)
        c++;
    b->size_class = (uint8_t)c;
    if (f->reusable[c].len) {
        b->address = f->reusable[c].at[--f->reusable[c].len];
        return 0;
    }
    b->address = HEAP + ((uint64_t)(c - FIRST_CLASS) << 40) + f->next_offset[c];
    f->next_offset[c] += (uint64_t)1 << c;
    return 0;
}

static int release(struct firehose *f, const struct block *b, unsigned thread)
{
    struct pool_truth *t = &f->truth[b->pool];
    t->frees++;
    t->live_bytes -= b->size;
    if (!vec_push(&f->reusable[b->size_class], b->address))
        return err_no_memory(&f->err, "addresses");
    uint32_t stack = (b->stack + 1) % f->o.stacks;
    return memory_event(f, b, false, thread, stack);
}

/* Chooses the block's lifetime and its list. */
static int keep(struct firehose *f, const struct block *b, unsigned thread, uint64_t now)
{
    unsigned fate = below(f, 1000);
    struct blocks *to = &f->lasting;
    if (fate < 150) {
        f->temporary[thread] = *b;
        return 0;
    }
    if (fate < 600)
        to = &f->wheel[(now + 8 + below(f, WHEEL / 2)) % WHEEL];
    else if (fate == 999) /* leaked: no list has it */
        return 0;
    return vec_push(to, *b) ? 0 : err_no_memory(&f->err, "blocks");
}

static int allocate(struct firehose *f, unsigned thread, uint64_t now)
{
    struct block b = {.size = random_size(f)};
    b.stack = below(f, f->o.stacks);
    b.pool = (uint8_t)(b.stack % 4 == 0 ? b.stack / 4 % f->o.pools : 0);
    if (place(f, &b) < 0 || memory_event(f, &b, true, thread, b.stack) < 0)
        return -1;
    struct pool_truth *t = &f->truth[b.pool];
    t->allocs++;
    t->total_bytes += b.size;
    t->live_bytes += b.size;
    if (t->peak_bytes < t->live_bytes)
        t->peak_bytes = t->live_bytes;
    return keep(f, &b, thread, now);
}

/*
 * One memory event of a thread: a pending free first, else one that keeps the number of blocks
 * level.
 */
static int step(struct firehose *f, unsigned thread, uint64_t now)
{
    struct blocks *ripe = &f->wheel[now % WHEEL];
    for (size_t i = 0; i < ripe->len; i++)
        if (!vec_push(&f->due, ripe->at[i]))
            return err_no_memory(&f->err, "blocks");
    ripe->len = 0;
    struct block b = f->temporary[thread];
    if (b.size) {
        f->temporary[thread].size = 0;
        return release(f, &b, thread);
    }
    if (f->due.len)
        return release(f, &f->due.at[--f->due.len], thread);
    if (f->lasting.len >= f->o.live && below(f, 2) == 0) {
        size_t victim = below(f, (unsigned)f->lasting.len);
        b = f->lasting.at[victim];
        f->lasting.at[victim] = f->lasting.at[--f->lasting.len];
        return release(f, &b, thread);
    }
    return allocate(f, thread, now);
}

/* ---- the recording */

static int write_welcome(struct firehose *f, const struct wire_version *v)
{
    struct welcome w = {.timer_mul = f->timer_mul,
                        .resolution = 20,
                        .epoch = 1700000000,
                        .pid = NO_PROCESS,
                        .cpu_arch = ARCH_X64,
                        .cpu_manufacturer = "GenuineIntel",
                        .program_name = "firehose",
                        .host_info = "firehose generator"};
    uint8_t bytes[1 + WELCOME_SIZE_MAX] = {HANDSHAKE_WELCOME};
    welcome_encode(v, &w, bytes + 1);
    size_t n = 1 + wire_version_welcome_size(v);
    if (fwrite(bytes, 1, n, f->out) != n)
        return err_errno(&f->err, ERR_OUTPUT, "%s", f->o.output);
    return 0;
}

static int run(struct firehose *f)
{
    unsigned thread = 0;
    for (uint64_t now = 0; now < f->o.events; now++) {
        if (below(f, BURST) == 0)
            thread = below(f, f->o.threads);
        if (step(f, thread, now) < 0)
            return -1;
        if (tell_frames(f) < 0)
            return -1;
        if (now % FRAME_EVERY == 0 &&
            item(f, "FrameMarkMsg", (struct encoder_field[]){ENC_INT("time", now * 102)}, 1, NULL) <
                0)
            return -1;
        if (flush(f, FLUSH_BYTES) < 0)
            return -1;
    }
    if (tell_names(f) < 0 || encoder_commit(f->enc, &f->err) < 0 ||
        item(f, "Terminate", NULL, 0, NULL) < 0 || encoder_commit(f->enc, &f->err) < 0)
        return -1;
    return flush(f, 0);
}

/* FILE.c2s.bin → FILE + suffix. */
static FILE *open_beside(struct firehose *f, const char *suffix, char path[PATH_SIZE])
{
    size_t stem = strlen(f->o.output) - strlen(SUFFIX);
    snprintf(path, PATH_SIZE, "%.*s%s", (int)stem, f->o.output, suffix);
    FILE *file = fopen(path, "wb");
    if (!file)
        err_errno(&f->err, ERR_OUTPUT, "%s", path);
    return file;
}

static int close_file(struct firehose *f, FILE *file, const char *path)
{
    bool bad = ferror(file);
    bad |= fclose(file) != 0;
    return bad ? err_errno(&f->err, ERR_OUTPUT, "%s", path) : 0;
}

static int write_request(struct firehose *f)
{
    char path[PATH_SIZE];
    uint8_t request[HANDSHAKE_REQUEST_SIZE];
    FILE *file = open_beside(f, ".s2c.bin", path);
    if (!file)
        return -1;
    handshake_request_encode(f->o.protocol, request);
    fwrite(request, 1, sizeof request, file);
    return close_file(f, file, path);
}

static int write_truth(struct firehose *f)
{
    char path[PATH_SIZE];
    char name[32];
    FILE *file = open_beside(f, ".truth.json", path);
    if (!file)
        return -1;
    fprintf(file,
            "{\n \"program\": \"firehose\", \"protocol\": %u, \"seed\": %" PRIu64
            ", \"depth\": %u, \"stacks\": %u, \"threads\": %u,\n \"memory_events\": %" PRIu64
            ", \"last_time_ns\": %" PRId64 ",\n \"pools\": [\n",
            f->o.protocol, f->o.seed, f->o.depth, f->o.stacks, f->o.threads, f->o.events,
            (int64_t)((double)f->ticks * f->timer_mul));
    for (unsigned pool = 0; pool < f->o.pools; pool++) {
        const struct pool_truth *t = &f->truth[pool];
        fprintf(file,
                "  { \"name\": \"%s\", \"allocs\": %" PRIu64 ", \"frees\": %" PRIu64
                ", \"live\": %" PRIu64 ", \"live_bytes\": %" PRIu64 ", \"total_bytes\": %" PRIu64
                ", \"peak_bytes\": %" PRIu64 " }%s\n",
                pool_name(pool, name), t->allocs, t->frees, t->allocs - t->frees, t->live_bytes,
                t->total_bytes, t->peak_bytes, pool + 1 < f->o.pools ? "," : "");
    }
    fprintf(file, " ]\n}\n");
    return close_file(f, file, path);
}

static int prepare(struct firehose *f, const struct wire_version *v)
{
    f->rng = f->o.seed;
    f->timer_mul = 0.5;
    if (f->o.hours && f->o.events)
        f->timer_mul =
            f->o.hours * 3600e9 / ((TICKS_LEAST + TICKS_BELOW / 2.) * (double)f->o.events);
    f->items = v->items;
    f->payload_id = wire_version_item(v, "CallstackPayload");
    f->serial_id = wire_version_item(v, "CallstackSerial");
    f->name_id = wire_version_item(v, "MemNamePayload");
    bool plain = f->o.depth == 0;
    f->alloc_ids[0] = wire_version_item(v, plain ? "MemAlloc" : "MemAllocCallstack");
    f->alloc_ids[1] = wire_version_item(v, plain ? "MemAllocNamed" : "MemAllocCallstackNamed");
    f->free_ids[0] = wire_version_item(v, plain ? "MemFree" : "MemFreeCallstack");
    f->free_ids[1] = wire_version_item(v, plain ? "MemFreeNamed" : "MemFreeCallstackNamed");
    f->enc = encoder_new(v);
    f->temporary = calloc(f->o.threads, sizeof *f->temporary);
    if (!f->enc || !f->temporary)
        return err_no_memory(&f->err, "the encoder");
    if (lay_out_stacks(f) < 0)
        return -1;
    f->out = fopen(f->o.output, "wb");
    return f->out ? 0 : err_errno(&f->err, ERR_OUTPUT, "%s", f->o.output);
}

static void release_all(struct firehose *f)
{
    encoder_free(f->enc);
    free(f->payloads);
    free(f->stack_used);
    free(f->frame_told);
    free(f->frame_numbers);
    free(f->temporary);
    vec_release(&f->unanswered);
    vec_release(&f->due);
    vec_release(&f->lasting);
    for (unsigned i = 0; i < WHEEL; i++)
        vec_release(&f->wheel[i]);
    for (unsigned c = 0; c <= LAST_CLASS; c++)
        vec_release(&f->reusable[c]);
    free(f);
}

static const struct wire_version *check_options(const struct options *o)
{
    const struct wire_version *v = wire_version_find(o->protocol);
    size_t n = o->output ? strlen(o->output) : 0;
    bool ok = v && o->depth <= DEPTH_MAX && o->stacks && o->stacks <= 1u << 24 && o->threads &&
              o->threads <= THREADS_MAX && o->pools && o->pools <= POOLS_MAX &&
              o->hours <= HOURS_MAX && n > strlen(SUFFIX) && n < PATH_SIZE - 16 &&
              strcmp(o->output + n - strlen(SUFFIX), SUFFIX) == 0;
    return ok ? v : NULL;
}

static const char usage[] =
    "usage: firehose -o FILE.c2s.bin [--events N] [--depth D] [--protocol P] [--live L]\n"
    "                [--stacks S] [--threads T] [--pools K] [--seed X] [--hours H]\n"
    "Writes the recording of a client with N memory events (1000000), call stacks D deep (16; 0: "
    "none),\n"
    "protocol P (82), about L lasting blocks (100000), S distinct stacks (5000), T threads (4),\n"
    "K pools (2), which takes H hours of the client's clock (0: 50 ns an event); FILE.s2c.bin and\n"
    "FILE.truth.json stand beside it.\n";

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option table[] = {
        {"events", 1, NULL, 'e'}, {"depth", 1, NULL, 'd'},  {"protocol", 1, NULL, 'P'},
        {"live", 1, NULL, 'l'},   {"stacks", 1, NULL, 's'}, {"threads", 1, NULL, 't'},
        {"pools", 1, NULL, 'k'},  {"seed", 1, NULL, 'x'},   {"hours", 1, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "o:", table, NULL)) != -1) {
        char *end = NULL;
        uint64_t n = c == 'o' || c == '?' ? 0 : strtoull(optarg, &end, 10);
        if (c == '?' || (end && (*end || end == optarg)))
            return false;
        switch (c) {
        case 'o':
            o->output = optarg;
            break;
        case 'e':
            o->events = n;
            break;
        case 'x':
            o->seed = n;
            break;
        default: {
            unsigned *to = c == 'd'   ? &o->depth
                           : c == 'P' ? &o->protocol
                           : c == 'l' ? &o->live
                           : c == 's' ? &o->stacks
                           : c == 't' ? &o->threads
                           : c == 'h' ? &o->hours
                                      : &o->pools;
            *to = n > UINT32_MAX ? UINT32_MAX : (unsigned)n;
        }
        }
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    struct options o = {.events = 1000000,
                        .seed = 1,
                        .depth = 16,
                        .protocol = 82,
                        .live = 100000,
                        .stacks = 5000,
                        .threads = 4,
                        .pools = 2};
    const struct wire_version *v = parse_options(&o, argc, argv) ? check_options(&o) : NULL;
    struct firehose *f = v ? calloc(1, sizeof *f) : NULL;
    if (!f) {
        fputs(v ? "firehose: out of memory\n" : usage, stderr);
        return 2;
    }
    f->o = o;
    int rc = prepare(f, v) < 0 || write_welcome(f, v) < 0 || run(f) < 0;
    if (f->out && close_file(f, f->out, o.output) < 0)
        rc = 1;
    if (!rc)
        rc = write_request(f) < 0 || write_truth(f) < 0;
    if (rc)
        fprintf(stderr, "firehose: %s\n", f->err.text);
    release_all(f);
    return rc;
}
