/* Recordings of the preload library into a trace. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "recording_maker.h"
#include "run/recording/recording.h"

struct fixture {
    struct maker maker;
    struct trace trace;
    struct ingest ingest;
    struct recording_target target;
    struct recording *recording;
    int fd;
    char messages[1024];
    size_t said;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct err e;
    *state = f;
    maker_init(&f->maker, 64);
    f->fd = memfd_create("recording", MFD_CLOEXEC);
    assert_int_equal(trace_init(&f->trace, NULL, &e), 0);
    assert_int_equal(ingest_init(&f->ingest, &f->trace, &e), 0);
    recording_target_init(&f->target, &f->ingest);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    recording_free(f->recording);
    recording_target_release(&f->target);
    ingest_release(&f->ingest);
    trace_release(&f->trace);
    maker_release(&f->maker);
    close(f->fd);
    free(f);
    return 0;
}

/* Reads the recording as it stands, of a process that is no more. */
static void read_all(struct fixture *f)
{
    struct err e = {0};
    uint64_t taken;
    maker_write(&f->maker, f->fd);
    if (!f->recording)
        assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), 0);
    do {
        assert_int_equal(recording_advance(f->recording, false, 7, &taken, &e), 0);
    } while (taken);
    assert_int_equal(recording_finish(f->recording, false, &e), 0);
}

static const struct pool *heap(const struct fixture *f)
{
    return f->trace.memory.pools.at[0];
}

/* The n-th allocation of the heap. */
static struct memory_alloc allocation(struct fixture *f, uint64_t n)
{
    struct column_reader r;
    struct err e = {0};
    struct memory_alloc out = {0};
    size_t run;
    const struct memory_alloc *at;
    column_reader_init(&r, &f->trace.memory.pools.at[0]->allocs);
    for (uint64_t seen = 0; (at = column_reader_next(&r, &run, &e)); seen += run) {
        if (n - seen < run)
            out = at[n - seen];
    }
    column_reader_release(&r);
    return out;
}

static uint64_t thread_of(struct fixture *f, uint64_t n)
{
    return f->trace.threads.list.at[allocation(f, n).size_thread >> 48].id;
}

static void merges_threads_by_stamp(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 10);
    struct made_chunk b = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 12, 15);
    struct made_chunk later = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 2, 11, 40);
    /* A block goes from thread to thread: each free before the next allocation. */
    made_alloc(&a, 10, 0x1000, 100, 0);
    made_alloc(&b, 16, 0x2000, 50, 0);
    made_free(&b, 20, 0x1000);
    made_alloc(&a, 21, 0x1000, 200, 0);
    made_free(&a, 30, 0x2000);
    made_alloc(&b, 35, 0x2000, 60, 0);
    made_free(&later, 40, 0x1000);
    made_free(&later, 41, 0x2000);
    read_all(f);
    assert_int_equal(heap(f)->totals.allocations, 4);
    assert_int_equal(heap(f)->totals.frees, 4);
    assert_int_equal(heap(f)->totals.live, 0);
    assert_int_equal(f->trace.memory.unknown_frees, 0);
    assert_int_equal(f->trace.memory.double_allocations, 0);
    const uint64_t threads[] = {11, 12, 11, 12}, times[] = {10, 16, 21, 35};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(thread_of(f, i), threads[i]);
        assert_int_equal(allocation(f, i).time, times[i]);
    }
}

static void failed_realloc_keeps_its_block(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    struct made_chunk b = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 12, 0);
    made_alloc(&a, 1, 0x1000, 100, 0);
    made_alloc(&a, 2, 0x2000, 300, 0);
    made_realloc(&a, 3, 0x1000);
    made_put_back(&a, 6, 0x1000);
    made_alloc(&b, 5, 0x4000, 1, 0);
    /* This one succeeds, and another thread gets the address before its thread says so. */
    made_realloc(&a, 7, 0x2000);
    made_alloc(&b, 8, 0x2000, 10, 0);
    made_alloc(&a, 9, 0x3000, 600, 0);
    read_all(f);
    assert_int_equal(recording_counts(f->recording)->put_back, 1);
    assert_int_equal(heap(f)->totals.live, 4);
    assert_int_equal(heap(f)->totals.live_bytes, 100 + 1 + 10 + 600);
    assert_int_equal(f->trace.memory.unknown_frees, 0);
    assert_int_equal(f->trace.memory.double_allocations, 0);
}

/* The program was killed within a realloc: the block was there to the end. */
static void unfinished_realloc_frees_nothing(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x1000, 100, 0);
    made_realloc(&a, 2, 0x1000);
    read_all(f);
    assert_int_equal(heap(f)->totals.live, 1);
}

static void reads_while_it_is_written(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    uint64_t taken;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    struct made_chunk b = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 12, 0);
    made_header(&a)->state = made_header(&b)->state = REC_CHUNK_OPEN;
    made_alloc(&a, 10, 0x1000, 100, 0);
    made_free(&a, 30, 0x1000);
    made_header(&b)->pending = 20; /* b is about to write a record of stamp 20 or later */
    f->maker.header->counter = 50;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), 0);
    assert_int_equal(recording_advance(f->recording, true, 1000, &taken, &e), 0);
    assert_true(taken <= 1); /* 0 where the kernel has no membarrier */
    made_header(&b)->pending = REC_IDLE;
    made_alloc(&b, 20, 0x2000, 7, 0);
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_advance(f->recording, true, 1000, &taken, &e), 0);
    /* A new chunk, and one more record in an old one. */
    struct made_chunk c = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 13, 60);
    made_free(&c, 60, 0x2000);
    made_alloc(&a, 70, 0x1000, 8, 0);
    read_all(f);
    assert_int_equal(heap(f)->totals.allocations, 3);
    assert_int_equal(heap(f)->totals.frees, 2);
    assert_int_equal(f->trace.memory.unknown_frees, 0);
    assert_int_equal(f->trace.memory.double_allocations, 0);
}

/* A program that then sleeps draws no further number, and what it did last is read nevertheless. */
static void the_last_number_is_read(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    uint64_t taken;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
        skip();
    made_header(&a)->state = REC_CHUNK_OPEN;
    made_alloc(&a, 10, 0x1000, 100, 0);
    f->maker.header->counter = 10;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), 0);
    assert_int_equal(recording_advance(f->recording, true, 1000, &taken, &e), 0);
    assert_int_equal(taken, 1);
}

static void nothing_is_taken_once_it_is_stopped(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_header(&a)->state = REC_CHUNK_OPEN;
    made_alloc(&a, 10, 0x1000, 100, 0);
    f->maker.header->counter = 20;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), 0);
    assert_int_equal(recording_stop(f->recording, &e), 0);
    made_free(&a, 30, 0x1000);
    read_all(f);
    /* 0 of them where the kernel has no membarrier. */
    assert_true(heap(f)->totals.allocations <= 1);
    assert_int_equal(heap(f)->totals.frees, 0);
    assert_int_equal(f->trace.memory.unknown_frees, 0);
}

static void finds_chunks_behind_gaps(void **state)
{
    struct fixture *f = *state;
    struct made_chunk gap = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 3, 11, 0);
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 12, 0);
    struct err e = {0};
    uint64_t taken;
    made_alloc(&gap, 1, 0x1000, 1, 0);
    made_alloc(&a, 2, 0x2000, 2, 0);
    made_header(&gap)->magic = 0;
    f->maker.header->counter = 1;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), 0);
    assert_int_equal(recording_advance(f->recording, true, 1000, &taken, &e), 0);
    assert_int_equal(taken, 0);
    made_header(&gap)->magic = REC_CHUNK_MAGIC;
    read_all(f);
    assert_int_equal(heap(f)->totals.allocations, 2);
}

static void resting_chunk_goes_to_another_thread(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x5000, 100, 0);
    made_thread_name(&a, 2, "first");
    made_owner(&a, 3, 12);
    made_thread_name(&a, 4, "before");
    made_thread_name(&a, 5, "second");
    made_alloc(&a, 6, 0x1000, 100, 0);
    read_all(f);
    assert_int_equal(thread_of(f, 0), 11);
    assert_int_equal(thread_of(f, 1), 12);
    assert_int_equal(allocation(f, 1).ptr, 0x1000);
    const struct trace_thread *t = &f->trace.threads.list.at[allocation(f, 1).size_thread >> 48];
    assert_string_equal(strings_get(&f->trace.strings, t->name).p, "second");
}

/* The frame ids of an allocation's call stack, innermost first. */
static size_t frames_of(struct fixture *f, uint64_t n, uint64_t ids[8])
{
    const struct callstacks *c = &f->trace.callstacks;
    const struct callstack *stack = callstacks_get(c, allocation(f, n).callstack);
    size_t len = 0;
    for (uint32_t node = stack ? stack->node : 0; node && len < 8; node = c->nodes.at[node].parent)
        ids[len++] = c->frames.at[c->nodes.at[node].frame].id;
    return len;
}

static void call_stacks_are_chains_of_nodes(void **state)
{
    struct fixture *f = *state;
    uint64_t ids[8];
    struct made_chunk nodes = maker_chunk(&f->maker, REC_CHUNK_NODES, 1, 0, 0);
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_header(&nodes)->first_node = 1;
    made_node(&nodes, 0, 0x400100, 0);
    made_node(&nodes, 1, 0x400200, 1);
    made_node(&nodes, 2, 0x400300, 2 | REC_NODE_EXACT);
    made_alloc(&a, 1, 0x1000, 1, 3);
    made_alloc(&a, 2, 0x2000, 1, 3);
    made_alloc(&a, 3, 0x3000, 1, 99); /* there is no such node */
    read_all(f);
    assert_int_equal(frames_of(f, 0, ids), 3);
    assert_int_equal(ids[0], 0x400301); /* exact: as if a call returned behind it */
    assert_int_equal(ids[1], 0x400200);
    assert_int_equal(ids[2], 0x400100);
    assert_int_equal(allocation(f, 0).callstack, allocation(f, 1).callstack);
    assert_int_equal(frames_of(f, 2, ids), 0);
    assert_int_equal(recording_counts(f->recording)->stackless, 1);
}

static void frames_of_interpreters_are_described(void **state)
{
    struct fixture *f = *state;
    uint64_t ids[8];
    struct made_chunk nodes = maker_chunk(&f->maker, REC_CHUNK_NODES, 1, 0, 0);
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_header(&nodes)->first_node = 1;
    made_node(&nodes, 0, 0x400100, 0);
    made_node(&nodes, 1, 7, 1 | REC_NODE_SOURCE);
    made_node(&nodes, 2, 9, 2 | REC_NODE_SOURCE);
    made_node(&nodes, 3, 8, 1 | REC_NODE_SOURCE); /* without a record */
    made_source(&a, 1, 7, 12, "Class.method", "/srv/app.py");
    made_source(&a, 1, 9, 12, "Class.method", "/srv/app.py"); /* equal to the other */
    made_source(&a, 1, 7, 13, "later", "/srv/app.py");        /* a number is described once */
    made_alloc(&a, 2, 0x1000, 1, 3);
    made_alloc(&a, 3, 0x2000, 1, 4);
    read_all(f);
    assert_int_equal(frames_of(f, 0, ids), 3);
    assert_int_equal(ids[0], ids[1]);
    assert_int_equal(ids[2], 0x400100);
    const struct frame *frame = callstacks_find_frame(&f->trace.callstacks, ids[0]);
    assert_int_equal(frame->n, 1);
    const struct rec_inline_frame *in = &f->trace.callstacks.inlines.at[frame->first];
    assert_true(view_equal(strings_get(&f->trace.strings, in->function), view_of("Class.method")));
    assert_true(view_equal(strings_get(&f->trace.strings, in->file), view_of("/srv/app.py")));
    assert_int_equal(in->line, 12);
    assert_int_equal(frames_of(f, 1, ids), 2);
    assert_int_equal(recording_counts(f->recording)->stackless, 1);
}

/* The block that a realloc gives up is freed by its call stack; a free's is not recorded. */
static void reallocs_free_where_they_allocate(void **state)
{
    struct fixture *f = *state;
    struct made_chunk nodes = maker_chunk(&f->maker, REC_CHUNK_NODES, 1, 0, 0);
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    struct column_reader r;
    struct err e = {0};
    size_t n;
    made_header(&nodes)->first_node = 1;
    made_node(&nodes, 0, 0x400100, 0);
    made_node(&nodes, 1, 0x400200, 0);
    made_alloc(&a, 1, 0x1000, 100, 1);
    made_realloc(&a, 2, 0x1000);
    made_realloc_done(&a, 3, 0x2000, 200, 2);
    made_realloc(&a, 4, 0x2000);
    made_alloc(&a, 5, 0x3000, 10, 1); /* what came behind is no second half of it */
    made_free(&a, 6, 0x3000);
    read_all(f);
    column_reader_init(&r, &f->trace.memory.pools.at[0]->frees);
    const struct memory_free *frees = column_reader_next(&r, &n, &e);
    assert_non_null(frees);
    assert_int_equal(n, 3);
    assert_int_not_equal(allocation(f, 1).callstack, 0);
    assert_int_equal(frees[0].callstack, allocation(f, 1).callstack);
    assert_int_equal(frees[1].callstack, 0);
    assert_int_equal(frees[2].callstack, 0);
    column_reader_release(&r);
}

/* An image is unloaded, and another one is loaded at the same address. */
static void images_at_one_address_are_told_apart(void **state)
{
    struct fixture *f = *state;
    uint64_t first[8], second[8], again[8];
    struct made_chunk nodes = maker_chunk(&f->maker, REC_CHUNK_NODES, 1, 0, 0);
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_header(&nodes)->first_node = 1;
    made_node(&nodes, 0, 0x7f0000000100, 0);
    made_node(&nodes, 1, (UINT64_C(1) << 48) | 0x7f0000000100, 0);
    made_node(&nodes, 2, (UINT64_C(2) << 48) | 0x7f5500000100, 0);
    made_module(&a, 1, 1, 0, 0x7f0000000000, 0x2000, "/lib/one.so");
    made_alloc(&a, 2, 0x1000, 1, 1);
    made_module_gone(&a, 3, 1, 1);
    made_module(&a, 4, 2, 1, 0x7f0000000000, 0x3000, "/lib/two.so");
    made_alloc(&a, 5, 0x2000, 1, 2);
    made_module_gone(&a, 6, 2, 2);
    /* The first one again, elsewhere: its frames are those that it had. */
    made_module(&a, 7, 3, 2, 0x7f5500000000, 0x2000, "/lib/one.so");
    made_alloc(&a, 8, 0x3000, 1, 3);
    read_all(f);
    assert_int_equal(frames_of(f, 0, first), 1);
    assert_int_equal(frames_of(f, 1, second), 1);
    assert_int_equal(frames_of(f, 2, again), 1);
    assert_int_equal(first[0], 0x7f0000000100);
    assert_int_equal(second[0], (UINT64_C(1) << 48) | 0x7f0000000100);
    assert_int_equal(again[0], first[0]);
    assert_string_equal(trace_fact(&f->trace, "module", 0).p,
                        "7f0000000000-7f0000002000 0 12ab /lib/one.so");
    assert_string_equal(trace_fact(&f->trace, "module", 1).p,
                        "17f0000000000-17f0000003000 0 12ab /lib/two.so");
    assert_null(trace_fact(&f->trace, "module", 2).p);
}

static void losses_are_told(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x1000, 1, 0);
    f->maker.header->lost[REC_LOSS_SPACE].allocations = 12;
    f->maker.header->lost[REC_LOSS_NESTED].allocations = 3;
    f->maker.header->lost[REC_LOSS_SPACE].bytes = 1200;
    f->maker.header->lost[REC_LOSS_STACK].allocations = 5;
    f->maker.header->options.sample_bytes = 4096;
    f->maker.header->state = REC_STATE_FULL;
    read_all(f);
    assert_string_equal(trace_fact(&f->trace, "lost_allocations", 0).p, "15");
    assert_string_equal(trace_fact(&f->trace, "lost_bytes", 0).p, "1200");
    assert_string_equal(trace_fact(&f->trace, "lost_callstacks", 0).p, "5");
    assert_string_equal(trace_fact(&f->trace, "sampling", 0).p, "4096");
    assert_non_null(trace_fact(&f->trace, "incomplete", 0).p);
}

/* Keeps times and texts of messages, one behind the other. */
static int keep_message(void *ctx, const struct message *m, uint64_t number, struct err *e)
{
    struct fixture *f = ctx;
    struct view text = strings_get(&f->trace.strings, (uint32_t)m->text);
    (void)number;
    (void)e;
    f->said += (size_t)snprintf(f->messages + f->said, sizeof f->messages - f->said, "%d %.*s\n",
                                (int)m->time, (int)text.len, text.p);
    assert_true(f->said < sizeof f->messages);
    return 0;
}

static void what_was_dropped_is_told(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x1000, 1, 0);
    made_loss(&a, 5, REC_LOSS_FULL, 3, 4096);
    made_loss(&a, 6, REC_LOSS_SPACE, 9, 9);
    made_alloc(&a, 9, 0x2000, 1, 0);
    f->maker.header->dropped[0].allocations = 3;
    f->maker.header->dropped[0].bytes = 4096;
    f->maker.header->dropped[2].allocations = 4;
    f->maker.header->dropped[2].bytes = 10;
    f->maker.header->dropped_notes = 2;
    read_all(f);
    assert_string_equal(trace_fact(&f->trace, "dropped_allocations", 0).p, "7");
    assert_string_equal(trace_fact(&f->trace, "dropped_bytes", 0).p, "4106");
    assert_string_equal(trace_fact(&f->trace, "dropped_notes", 0).p, "2");
    assert_string_equal(trace_fact(&f->trace, "dropped", 0).p, "0x0|3|4096");
    assert_string_equal(trace_fact(&f->trace, "dropped", 1).p, "0x100000020|4|10");
    assert_null(trace_fact(&f->trace, "lost_allocations", 0).p);
    assert_int_equal(messages_walk(&f->trace.messages, keep_message, f, &e), 0);
    assert_string_equal(f->messages, "5 tidemark: 3 allocations dropped before this, 4.00 KiB: the "
                                     "buffer was full\n");
}

static void pauses_are_told(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x1000, 1, 0);
    made_pause(&a, 5, 1);
    made_pause(&a, 20, 0);
    made_alloc(&a, 30, 0x2000, 1, 0);
    made_free(&a, 60, 0x2000);
    f->maker.header->paused_allocations = 8;
    f->maker.header->paused_bytes = 800;
    /* From outside, at the times of its counter. */
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), 0);
    f->maker.header->counter = 40;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_note_pause(f->recording, true, &e), 0);
    f->maker.header->counter = 70;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_note_pause(f->recording, false, &e), 0);
    read_all(f);
    assert_string_equal(trace_fact(&f->trace, "paused", 0).p, "2");
    assert_string_equal(trace_fact(&f->trace, "paused_allocations", 0).p, "8");
    assert_string_equal(trace_fact(&f->trace, "paused_bytes", 0).p, "800");
    assert_int_equal(messages_walk(&f->trace.messages, keep_message, f, &e), 0);
    assert_string_equal(f->messages, "5 tidemark: from here on allocations are not recorded\n"
                                     "20 tidemark: from here on allocations are recorded again\n"
                                     "40 tidemark: from here on allocations are not recorded\n"
                                     "70 tidemark: from here on allocations are recorded again\n");
}

/* A size has 48 bits: larger ones are counted. */
static void sizes_beyond_the_store_are_counted(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    const uint64_t largest = ((uint64_t)1 << 48) - 1;
    made_alloc(&a, 1, 0x1000, largest, 0);
    made_alloc(&a, 2, 0x2000, largest + 1, 0);
    made_alloc(&a, 3, 0x3000, UINT64_MAX, 0);
    read_all(f);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(allocation(f, i).size_thread & largest, largest);
    assert_int_equal(recording_counts(f->recording)->capped_sizes, 2);
    assert_int_equal(trace_fact_number(&f->trace, "capped_sizes"), 2);
}

/* A sampled block stands for those that were passed over. */
static void sampled_sizes_are_estimates(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    f->maker.header->options.sample_bytes = 1000;
    made_alloc(&a, 1, 0x1000, 1, 0);
    made_alloc(&a, 2, 0x2000, 1000000, 0);
    read_all(f);
    /* 1 / (1 - exp(-1/1000)) = 1000.5; a large block is always sampled. */
    assert_in_range(allocation(f, 0).size_thread & 0xffffffffffff, 1000, 1001);
    assert_int_equal(allocation(f, 1).size_thread & 0xffffffffffff, 1000000);
}

static void damage_ends_one_chunk_only(void **state)
{
    struct fixture *f = *state;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    struct made_chunk b = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 12, 0);
    made_alloc(&a, 1, 0x1000, 1, 0);
    made_byte(&a, REC_NOTHING);
    made_alloc(&a, 3, 0x2000, 1, 0);
    made_alloc(&b, 2, 0x3000, 1, 0);
    made_alloc(&b, 4, 0x4000, 1, 0);
    made_head(&b, REC_ALLOC, 5); /* cut off */
    made_commit(&b);
    read_all(f);
    assert_int_equal(heap(f)->totals.allocations, 3);
    assert_int_equal(recording_counts(f->recording)->damaged, 2);
}

static void short_processes_share_a_trace(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    uint64_t taken;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x1000, 100, 0);
    maker_write(&f->maker, f->fd);
    for (int i = 0; i < 3; i++) {
        struct recording *r;
        assert_int_equal(recording_open(&r, f->fd, &f->target, &e), 0);
        assert_int_equal(recording_advance(r, false, 1000, &taken, &e), 0);
        assert_int_equal(recording_finish(r, true, &e), 0);
        recording_free(r);
    }
    assert_int_equal(heap(f)->totals.allocations, 3);
    assert_int_equal(heap(f)->totals.live, 0);
    assert_int_equal(f->trace.memory.double_allocations, 0);
    assert_true(allocation(f, 0).time < allocation(f, 1).time);
}

/* A counter's stamps: after 10 s without events the next ones are not 10 s apart. */
static void idle_time(struct fixture *f, struct rec_pair last)
{
    const int64_t ms = 1000000;
    struct made_chunk a = maker_chunk(&f->maker, REC_CHUNK_EVENTS, 1, 11, 0);
    f->maker.header->last = last;
    made_clock(&a, 1, 1000 + 1 * ms);
    made_alloc(&a, 2, 0x1000, 100, 0);
    made_alloc(&a, 3, 0x2000, 100, 0);
    made_clock(&a, 4, 1000 + 10000 * ms);
    made_alloc(&a, 5, 0x3000, 100, 0);
    made_alloc(&a, 6, 0x4000, 100, 0);
    made_clock(&a, 7, 1000 + 10008 * ms);
    made_alloc(&a, 8, 0x5000, 100, 0);
    read_all(f);
    const int64_t at[] = {1, 1, 10000, 10000, 10008};
    for (size_t i = 0; i < 5; i++)
        assert_in_range(allocation(f, i).time, at[i] * ms, (at[i] + 5) * ms);
}

static void idle_time_of_a_killed_process(void **state)
{
    idle_time(*state, (struct rec_pair){0});
}

static void idle_time_before_the_end(void **state)
{
    idle_time(*state, (struct rec_pair){.stamp = 9, .ns = UINT64_C(20000001000)});
}

static void other_files_are_refused(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    f->maker.header->version = REC_VERSION + 1;
    maker_write(&f->maker, f->fd);
    assert_int_equal(recording_open(&f->recording, f->fd, &f->target, &e), -1);
    assert_non_null(strstr(e.text, "version"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(merges_threads_by_stamp),
        TEST(failed_realloc_keeps_its_block),
        TEST(unfinished_realloc_frees_nothing),
        TEST(reallocs_free_where_they_allocate),
        TEST(reads_while_it_is_written),
        TEST(the_last_number_is_read),
        TEST(nothing_is_taken_once_it_is_stopped),
        TEST(finds_chunks_behind_gaps),
        TEST(resting_chunk_goes_to_another_thread),
        TEST(call_stacks_are_chains_of_nodes),
        TEST(frames_of_interpreters_are_described),
        TEST(images_at_one_address_are_told_apart),
        TEST(losses_are_told),
        TEST(what_was_dropped_is_told),
        TEST(pauses_are_told),
        TEST(sampled_sizes_are_estimates),
        TEST(sizes_beyond_the_store_are_counted),
        TEST(damage_ends_one_chunk_only),
        TEST(short_processes_share_a_trace),
        TEST(idle_time_of_a_killed_process),
        TEST(idle_time_before_the_end),
        TEST(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
