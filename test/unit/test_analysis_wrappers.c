/* Which functions a trace shows to be allocation wrappers, against a search stack by stack. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/names/program_frames.h"
#include "analysis/names/wrapper_functions.h"

#define FUNCTIONS 40u /* numbers of functions; below, frames of other kinds */
#define MALLOC 40u
#define LIBRARY 41u
#define LISTED 42u
#define NAMELESS 43u
#define FRAMES 44u
#define DEPTH 8u
#define STACKS 400u

struct plan {
    uint32_t n;
    uint32_t len[STACKS];
    uint32_t frames[STACKS][DEPTH]; /* innermost first */
    uint64_t size[STACKS];
};

struct fixture {
    struct trace trace;
    struct err e;
    uint32_t stacks[STACKS];
};

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static void name_frame(uint32_t frame, char out[32])
{
    static const char *const others[] = {"malloc", "std::sort", "zmalloc", "p.so+0x10"};
    if (frame >= FUNCTIONS)
        (void)snprintf(out, 32, "%s", others[frame - FUNCTIONS]);
    else
        (void)snprintf(out, 32, "function_%u", frame);
}

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_int_equal(trace_init(&f->trace, NULL, &f->e), 0);
    for (uint32_t i = 0; i < FRAMES; i++) {
        char name[32];
        name_frame(i, name);
        struct rec_inline_frame in = {.function =
                                          strings_intern(&f->trace.strings, view_of(name), &f->e)};
        uint32_t image = strings_intern(&f->trace.strings, view_of("p.so"), &f->e);
        assert_int_equal(callstacks_resolve(&f->trace.callstacks, 0x1000 + i, image, &in, 1, &f->e),
                         0);
    }
}

static void add_stack(struct fixture *f, const struct plan *p, uint32_t i)
{
    uint64_t frames[DEPTH];
    bool fresh;
    for (uint32_t k = 0; k < p->len[i]; k++)
        frames[k] = 0x1000 + p->frames[i][k];
    assert_int_equal(
        callstacks_intern(&f->trace.callstacks, frames, p->len[i], &f->stacks[i], &fresh, &f->e),
        0);
}

/* ---- the search by its definition */

struct brute {
    const struct plan *plan;
    bool wraps[FUNCTIONS];
    bool within[FUNCTIONS][FUNCTIONS]; /* [outer][inner] */
    bool allocators[FUNCTIONS], machinery[FUNCTIONS];
    uint64_t sizes[FUNCTIONS][STACKS];
    uint32_t size_count[FUNCTIONS];
};

static bool is_program(const struct brute *b, uint32_t frame)
{
    return frame < FUNCTIONS && !b->wraps[frame];
}

/* The next frame with a name from `from` on, in steps; FRAMES: none. Counts those without. */
static uint32_t neighbour(const struct plan *p, uint32_t i, int from, int step, uint32_t *nameless)
{
    *nameless = 0;
    for (; from >= 0 && from < (int)p->len[i]; from += step) {
        if (p->frames[i][from] != NAMELESS)
            return p->frames[i][from];
        ++*nameless;
    }
    return FRAMES;
}

static void look_within(struct brute *b, uint32_t i, uint32_t k)
{
    uint32_t f = b->plan->frames[i][k];
    uint32_t nameless;
    uint32_t inner = neighbour(b->plan, i, (int)k - 1, -1, &nameless);
    if (inner == LIBRARY || inner == LISTED)
        b->machinery[f] = true;
    else if (is_program(b, inner))
        b->within[f][inner] |= inner != f;
    else if (nameless > 1)
        b->machinery[f] = true;
    else
        b->allocators[f] = true;
}

static void add_sizes(struct brute *b, uint32_t i)
{
    uint32_t found = 0, last = FRAMES;
    for (uint32_t k = 0; k < b->plan->len[i] && found < WRAPPER_LAYERS; k++) {
        uint32_t f = b->plan->frames[i][k], n = 0;
        if (!is_program(b, f) || f == last)
            continue;
        while (n < b->size_count[f] && b->sizes[f][n] != b->plan->size[i])
            n++;
        if (n == b->size_count[f])
            b->sizes[f][b->size_count[f]++] = b->plan->size[i];
        last = f;
        found++;
    }
}

static uint32_t count_within(const struct brute *b, uint32_t f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        n += b->within[f][i];
    return n;
}

static void collect_callers(const struct brute *b, uint32_t f, unsigned layers,
                            bool callers[FUNCTIONS])
{
    for (uint32_t outer = 0; outer < FUNCTIONS; outer++) {
        if (!is_program(b, outer) || !b->within[outer][f])
            continue;
        bool is_layer = count_within(b, outer) == 1 && !b->machinery[outer] &&
                        b->size_count[outer] >= WRAPPER_SIZES;
        if (layers > 1 && is_layer)
            collect_callers(b, outer, layers - 1, callers);
        else
            callers[outer] = true;
    }
}

static bool wraps(const struct brute *b, uint32_t f)
{
    bool callers[FUNCTIONS] = {false};
    uint32_t n = 0;
    collect_callers(b, f, WRAPPER_LAYERS, callers);
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        n += callers[i];
    return !b->wraps[f] && count_within(b, f) == 0 && !b->machinery[f] && b->allocators[f] &&
           b->size_count[f] >= WRAPPER_SIZES && n >= WRAPPER_CALLERS;
}

static bool brute_round(struct brute *b)
{
    bool found[FUNCTIONS], any = false;
    memset(b->within, 0, sizeof b->within);
    memset(b->allocators, 0, sizeof b->allocators);
    memset(b->machinery, 0, sizeof b->machinery);
    memset(b->size_count, 0, sizeof b->size_count);
    for (uint32_t i = 0; i < b->plan->n; i++) {
        for (uint32_t k = 0; k < b->plan->len[i]; k++) {
            if (is_program(b, b->plan->frames[i][k]))
                look_within(b, i, k);
        }
        add_sizes(b, i);
    }
    for (uint32_t f = 0; f < FUNCTIONS; f++)
        any |= found[f] = wraps(b, f);
    for (uint32_t f = 0; f < FUNCTIONS; f++)
        b->wraps[f] |= found[f];
    return any;
}

/* ---- random programs */

/*
 * Functions call those of higher numbers: the last ones are wrappers or factories, in layers, with
 * or without malloc's frame, and some that call a library or an allocation function of a project.
 */
static void make_stack(struct plan *p, uint32_t i)
{
    uint32_t chain[DEPTH], n = 0, at = below(30);
    while (n < 5) {
        chain[n++] = at;
        if (at >= 37)
            break;
        uint32_t next = at < 28 ? 28 + below(12) : at + 1 + below(39 - at);
        if (at < 20 && below(3) == 0)
            next = at + 1 + below(8);
        at = next;
    }
    p->len[i] = 0;
    if (below(2))
        p->frames[i][p->len[i]++] = MALLOC;
    if (at % 4 == 1 && below(40) == 0)
        p->frames[i][p->len[i]++] = below(2) ? LIBRARY : LISTED;
    if (below(20) == 0)
        p->frames[i][p->len[i]++] = NAMELESS;
    if (below(200) == 0)
        p->frames[i][p->len[i]++] = NAMELESS;
    while (n && p->len[i] < DEPTH)
        p->frames[i][p->len[i]++] = chain[--n];
    p->size[i] = at % 5 == 0 ? 64 : 8 * (1 + below(12));
}

static uint32_t check_plan(const struct plan *p)
{
    struct fixture f;
    fixture_init(&f);
    static struct brute b;
    memset(&b, 0, sizeof b);
    b.plan = p;
    while (brute_round(&b))
        ;
    for (uint32_t i = 0; i < p->n; i++) {
        add_stack(&f, p, i);
        assert_int_equal(memory_sum_stack(&f.trace.memory, f.stacks[i], 3, 3 * p->size[i], &f.e),
                         0);
    }
    struct wrapper_functions w = {0};
    assert_int_equal(wrapper_functions_find(&w, &f.trace, NULL, &f.e), 0);
    uint32_t expected = 0;
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[32];
        name_frame(i, name);
        assert_int_equal(wrapper_functions_have(&w, view_of(name)), b.wraps[i]);
        expected += b.wraps[i];
    }
    assert_int_equal(w.list.len, expected);
    wrapper_functions_release(&w);
    trace_release(&f.trace);
    return expected;
}

/* A call stack occurs once: the size of a second one is that of the first. */
static void make_plan(struct plan *p, uint32_t n)
{
    p->n = 0;
    while (p->n < n) {
        bool is_new = true;
        make_stack(p, p->n);
        for (uint32_t i = 0; i < p->n && is_new; i++)
            is_new = p->len[i] != p->len[p->n] ||
                     memcmp(p->frames[i], p->frames[p->n], p->len[i] * sizeof p->frames[i][0]) != 0;
        p->n += is_new;
        n -= !is_new;
    }
}

static void test_random_programs(void **state)
{
    (void)state;
    static struct plan p;
    uint32_t found = 0, none = 0;
    for (uint32_t seed = 0; seed < 400; seed++) {
        random_state = seed;
        make_plan(&p, 20 + below(STACKS - 20));
        uint32_t n = check_plan(&p);
        found += n;
        none += n == 0;
    }
    assert_true(found > 400 && none > 5); /* the programs are such that it matters */
}

/* ---- single cases */

/* CALLERS functions from `first` on call the chain, innermost first, with a size each. */
static void add_chain(struct plan *p, uint32_t callers, uint32_t first, uint64_t size,
                      const uint32_t *chain, uint32_t n)
{
    for (uint32_t i = 0; i < callers; i++, p->n++) {
        memcpy(p->frames[p->n], chain, n * sizeof *chain);
        p->frames[p->n][n] = first + i;
        p->len[p->n] = n + 1;
        p->size[p->n] = size ? size : 100 + i;
    }
}

#define CHAIN(P, CALLERS, FIRST, SIZE, ...)                                                        \
    add_chain(P, CALLERS, FIRST, SIZE, (const uint32_t[]){__VA_ARGS__},                            \
              sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void test_thresholds(void **state)
{
    (void)state;
    static struct plan p;
    p.n = 0;
    CHAIN(&p, 8, 0, 0, MALLOC, 30);
    assert_int_equal(check_plan(&p), 1);
    p.n = 0;
    CHAIN(&p, 7, 0, 0, MALLOC, 30);
    assert_int_equal(check_plan(&p), 0);
    p.n = 0;
    CHAIN(&p, 20, 0, 64, MALLOC, 30); /* a factory */
    assert_int_equal(check_plan(&p), 0);
    p.n = 0;
    CHAIN(&p, 20, 0, 0, LISTED, 30); /* on top of a project's allocation function */
    assert_int_equal(check_plan(&p), 0);
    p.n = 0;
    CHAIN(&p, 20, 0, 0, LIBRARY, 30);
    assert_int_equal(check_plan(&p), 0);
    p.n = 0;
    CHAIN(&p, 20, 0, 0, MALLOC, NAMELESS, 30); /* a nameless function between two allocators */
    assert_int_equal(check_plan(&p), 1);
    CHAIN(&p, 1, 21, 0, NAMELESS, NAMELESS, 30); /* some function of the image */
    assert_int_equal(check_plan(&p), 0);
    p.n = 0;
    CHAIN(&p, 9, 0, 0, MALLOC, 30, 31, 32); /* three layers */
    assert_int_equal(check_plan(&p), 3);
    p.n = 0;
    CHAIN(&p, 9, 0, 0, MALLOC, 30, 31, 32, 33); /* four are not seen through */
    assert_int_equal(check_plan(&p), 0);
    CHAIN(&p, 1, 20, 0, MALLOC, 31); /* a layer that allocates by itself, too */
    assert_int_equal(check_plan(&p), 0);
}

/* Sums that were kept and the events themselves give the same. */
static void test_events(void **state)
{
    (void)state;
    static struct plan p;
    struct fixture f;
    p.n = 0;
    CHAIN(&p, 12, 0, 0, MALLOC, 30, 31);
    fixture_init(&f);
    uint32_t pool;
    assert_int_equal(memory_pool(&f.trace.memory, 0, &pool, &f.e), 0);
    for (uint32_t i = 0; i < p.n; i++) {
        add_stack(&f, &p, i);
        struct rec_memory_event ev = {.ptr = 0x1000 * (i + 1),
                                      .size = p.size[i],
                                      .time_alloc = i,
                                      .time_free = i % 2 ? (int64_t)i + 20 : -1,
                                      .callstack_alloc = f.stacks[i]};
        assert_int_equal(memory_append(&f.trace.memory, pool, &ev, &f.e), 0);
    }
    /* A file may hold an id that it has no call stack for. */
    struct rec_memory_event odd = {.ptr = 1, .time_alloc = 50, .callstack_alloc = 1u << 23};
    assert_int_equal(memory_append(&f.trace.memory, pool, &odd, &f.e), 0);
    struct program_frames program;
    assert_int_equal(program_frames_init(&program, &f.trace, NULL, &f.e), 0);
    assert_int_equal(program.wrappers.list.len, 2);
    struct stack_place at = program_frames_begin(&program, f.stacks[3]);
    assert_int_equal(f.trace.callstacks.nodes.at[at.node].frame, 3);
    program_frames_release(&program);
    struct skiplist skip = {.names_alone = true};
    assert_int_equal(program_frames_init(&program, &f.trace, &skip, &f.e), 0);
    assert_int_equal(program.wrappers.list.len, 0);
    /* Those of a trace that is compared. */
    struct wrapper_functions other = {0};
    skip.names_alone = false;
    assert_int_equal(skiplist_keep(&skip, "^function_31$", &f.e), 0);
    assert_int_equal(wrapper_functions_find(&other, &f.trace, &skip, &f.e), 0);
    assert_int_equal(other.list.len, 1);
    assert_int_equal(program_frames_pass_over(&program, &other, &f.e), 0);
    at = program_frames_begin(&program, f.stacks[3]);
    assert_int_equal(f.trace.callstacks.nodes.at[at.node].frame, 31);
    program_frames_release(&program);
    wrapper_functions_release(&other);
    skiplist_release(&skip);
    trace_release(&f.trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
