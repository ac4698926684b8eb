#ifndef TIDEMARK_TEST_ANALYSIS_FIXTURE_H
#define TIDEMARK_TEST_ANALYSIS_FIXTURE_H

/* Traces made by hand for tests of analysis/ and report/. Include after cmocka.h. */

#include <stdint.h>
#include <string.h>

#include "memory_steps.h"
#include "trace/store/store.h"

struct fixture {
    struct trace trace;
    struct err e;
    int64_t now;
};

static inline uint32_t fixture_text(struct fixture *f, const char *s)
{
    uint32_t number = strings_intern(&f->trace.strings, view_of(s), &f->e);
    assert_int_not_equal(number, 0);
    return number;
}

/* A call stack of one frame at `address` that is `function` at file:line of image "prog". */
static inline uint32_t fixture_stack(struct fixture *f, uint64_t address, const char *function,
                                     const char *file, uint32_t line)
{
    struct rec_inline_frame in = {
        .function = fixture_text(f, function), .file = fixture_text(f, file), .line = line};
    bool fresh;
    uint32_t id;
    assert_int_equal(
        callstacks_resolve(&f->trace.callstacks, address, fixture_text(f, "prog"), &in, 1, &f->e),
        0);
    assert_int_equal(callstacks_intern(&f->trace.callstacks, &address, 1, &id, &fresh, &f->e), 0);
    return id;
}

static inline uint32_t fixture_pool(struct fixture *f, uint64_t key, const char *name)
{
    uint32_t pool;
    assert_int_equal(memory_pool(&f->trace.memory, key, &pool, &f->e), 0);
    if (name)
        assert_int_equal(strings_bind(&f->trace.strings, key, fixture_text(f, name), &f->e), 0);
    return pool;
}

static inline void fixture_alloc(struct fixture *f, uint32_t pool, uint64_t ptr, uint64_t size,
                                 uint32_t stack)
{
    bool fault;
    struct memory_place at = {++f->now, 0, stack};
    assert_int_equal(alloc_in(&f->trace.memory, pool, ptr, size, at, &fault, &f->e), 0);
    f->trace.facts.last_time = f->now;
}

static inline void fixture_free(struct fixture *f, uint32_t pool, uint64_t ptr, uint32_t stack)
{
    bool found;
    struct memory_place at = {++f->now, 0, stack};
    assert_int_equal(free_in(&f->trace.memory, pool, ptr, at, true, &found, &f->e), 0);
    f->trace.facts.last_time = f->now;
}

static inline void fixture_init(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_int_equal(trace_init(&f->trace, NULL, &f->e), 0);
    assert_int_equal(fixture_pool(f, 0, NULL), 0);
}

static inline void fixture_release(struct fixture *f)
{
    trace_release(&f->trace);
}

#endif
