/* Call stacks without a runtime's frames, against a filter stack by stack. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/names/runtime_frames.h"
#include "trace/store/frame_name.h"

#define DEPTH 12u
#define STACKS 500u

static const struct kind {
    const char *function, *image;
    uint32_t line;
    bool is_script, is_runtime;
} kinds[] = {
    {"main", "app", 3, false, false},
    {"v8::Call", "node", 0, false, true},
    {"Builtin", "node", 0, false, true},
    {"addon", "a.node", 9, false, false},
    {"load", FRAME_IMAGE_GENERATED, 7, true, false},
    {"save", FRAME_IMAGE_GENERATED, 8, true, false},
    {"J.load", FRAME_IMAGE_GENERATED, 0, true, false},
    {"Builtin:Call", FRAME_IMAGE_GENERATED, 0, false, true},
    {"", "", 0, false, true},
    {"kernel", "<kernel>", 0, false, false},
};

#define KINDS (uint32_t)(sizeof kinds / sizeof *kinds)

struct fixture {
    struct trace trace;
    struct err e;
    uint64_t state;
};

static uint32_t below(struct fixture *f, uint32_t n)
{
    f->state = f->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((f->state >> 33) % n);
}

static uint32_t text(struct fixture *f, const char *of)
{
    return strings_intern(&f->trace.strings, view_of(of), &f->e);
}

static uint32_t intern(struct fixture *f, const uint64_t *frames, uint32_t n)
{
    uint32_t stack;
    bool fresh;
    assert_int_equal(callstacks_intern(&f->trace.callstacks, frames, n, &stack, &fresh, &f->e), 0);
    return stack;
}

/* The frame of kinds[k] has the address 1 + k. */
static void fixture_init(struct fixture *f, bool generated)
{
    *f = (struct fixture){.state = 11};
    assert_int_equal(trace_init(&f->trace, NULL, &f->e), 0);
    for (uint32_t k = 0; k < KINDS; k++) {
        bool jit = strcmp(kinds[k].image, FRAME_IMAGE_GENERATED) == 0;
        struct rec_inline_frame in = {
            .function = text(f, kinds[k].function), .file = text(f, "s.js"), .line = kinds[k].line};
        uint32_t image = text(f, jit && !generated ? "b" : kinds[k].image);
        assert_int_equal(callstacks_resolve(&f->trace.callstacks, 1 + k, image, &in,
                                            *kinds[k].function != 0, &f->e),
                         0);
    }
    intern(f, (uint64_t[]){5, 2}, 2); /* node is a runtime */
}

/* What a reader is to see: all of it if no script's function is in it. */
static uint32_t expected(const uint64_t *frames, uint32_t n, uint64_t *out)
{
    uint32_t end = n, outer = n, len = 0; /* of the script's, and of what called the runtime */
    while (end > 0 && !kinds[frames[end - 1] - 1].is_script)
        end--;
    while (outer > end && !kinds[frames[outer - 1] - 1].is_runtime)
        outer--;
    for (uint32_t i = 0; i < n; i++) {
        if (end == 0 || i >= outer || (i < end && !kinds[frames[i] - 1].is_runtime))
            out[len++] = frames[i];
    }
    return len;
}

static uint32_t held(const struct callstacks *c, uint32_t stack, uint64_t *out)
{
    uint32_t n = 0;
    for (uint32_t node = c->list.at[stack - 1].node; node; node = c->nodes.at[node].parent)
        out[n++] = c->frames.at[c->nodes.at[node].frame].id;
    return n;
}

/* Of the images with files, only node calls generated code. */
static void draw(struct fixture *f, uint32_t kind_count, uint32_t n, uint64_t *frames)
{
    bool generated = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = below(f, kind_count);
        if (generated && !kinds[k].is_runtime && *kinds[k].image != '[' && *kinds[k].image != '<')
            k = 1;
        frames[i] = 1 + k;
        generated = strcmp(kinds[k].image, FRAME_IMAGE_GENERATED) == 0;
    }
}

static void check_random_stacks(bool generated)
{
    struct fixture f;
    static uint64_t frames[STACKS][DEPTH];
    uint32_t n[STACKS], numbers[STACKS], changed = 0;
    fixture_init(&f, generated);
    for (uint32_t i = 0; i < STACKS; i++) {
        n[i] = 1 + below(&f, DEPTH);
        draw(&f, i % 3 ? KINDS : 4, n[i], frames[i]);
        numbers[i] = intern(&f, frames[i], n[i]);
    }
    assert_int_equal(runtime_frames_hide(&f.trace, &f.e), 0);
    for (uint32_t i = 0; i < STACKS; i++) {
        uint64_t want[DEPTH], got[DEPTH];
        uint32_t len = generated ? expected(frames[i], n[i], want) : n[i];
        assert_int_equal(held(&f.trace.callstacks, numbers[i], got), len);
        assert_int_equal(f.trace.callstacks.list.at[numbers[i] - 1].len, len);
        assert_memory_equal(got, generated ? want : frames[i], len * sizeof *got);
        changed += len < n[i];
    }
    assert_true(generated ? changed > STACKS / 4 : changed == 0);
    trace_release(&f.trace);
}

static void test_random_stacks(void **state)
{
    (void)state;
    check_random_stacks(true);
}

static void test_no_generated_code(void **state)
{
    (void)state;
    check_random_stacks(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_stacks),
        cmocka_unit_test(test_no_generated_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
