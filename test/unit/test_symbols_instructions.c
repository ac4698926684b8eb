/* Machine code to addresses. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "server/guard.h"
#include "symbols/instructions.h"

struct found {
    uint64_t at[32];
    size_t n;
    size_t refuse; /* fail at the so many-th; 0: never */
};

static int take(void *ctx, uint64_t address, struct err *e)
{
    struct found *f = ctx;
    assert_true(f->n < 32);
    f->at[f->n++] = address;
    return f->n == f->refuse ? err_set(e, ERR_CHECK, "enough") : 0;
}

static void walk(enum instruction_set set, const uint8_t *code, size_t len, struct found *f,
                 int want)
{
    struct err e = {0};
    struct instructions *in = instructions_new(set);
    assert_non_null(in);
    assert_int_equal(
        instructions_walk(in, 0x1000, (struct view){(const char *)code, len}, take, f, &e), want);
    instructions_free(in);
}

static void assert_found(const struct found *f, const uint64_t *want, size_t n)
{
    assert_int_equal(f->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(f->at[i], want[i]);
}

static void x64_instructions_and_targets(void **state)
{
    /* push rbp; call +0x10; je -3; jmp rax; ret; then a byte that is no instruction */
    static const uint8_t code[] = {0x55, 0xe8, 0x10, 0, 0, 0, 0x74, 0xfb, 0xff, 0xe0, 0xc3, 0x06};
    static const uint64_t want[] = {0x1000, 0x1001, 0x1016, 0x1006, 0x1003, 0x1008, 0x100a};
    struct found f = {0};
    (void)state;
    walk(CODE_X64, code, sizeof code, &f, 0);
    assert_found(&f, want, sizeof want / sizeof want[0]);
}

static void arm64_instructions_and_targets(void **state)
{
    static const uint8_t code[] = {0xfd, 0x7b, 0xbf, 0xa9,  /* stp x29, x30, [sp, #-16]! */
                                   0x02, 0x00, 0x00, 0x94,  /* bl +8 */
                                   0xc0, 0x03, 0x5f, 0xd6}; /* ret */
    static const uint64_t want[] = {0x1000, 0x1004, 0x100c, 0x1008};
    struct found f = {0};
    (void)state;
    walk(CODE_ARM64, code, sizeof code, &f, 0);
    assert_found(&f, want, sizeof want / sizeof want[0]);
}

static void cut_code_and_refusals(void **state)
{
    static const uint8_t code[] = {0x55, 0xe8, 0x10, 0};
    struct found none = {0}, cut = {0}, refused = {.refuse = 1};
    (void)state;
    walk(CODE_X64, code, 0, &none, 0);
    assert_int_equal(none.n, 0);
    walk(CODE_X64, code, sizeof code, &cut, 0);
    assert_int_equal(cut.n, 1);
    walk(CODE_X64, code, sizeof code, &refused, -1);
    assert_int_equal(refused.n, 1);
}

static void other_processors(void **state)
{
    static const uint8_t x86[] = {0x06, 0xe9, 0xf0, 0xff, 0xff, 0xff}; /* push es; jmp */
    static const uint8_t arm[] = {0x00, 0x00, 0xa0, 0xe1, 0x00, 0x00, 0x00, 0xeb}; /* nop; bl */
    static const uint64_t want_x86[] = {0x1000, 0x1001, 0xff6};
    static const uint64_t want_arm[] = {0x1000, 0x1004, 0x100c};
    struct found f = {0}, g = {0};
    (void)state;
    walk(CODE_X86, x86, sizeof x86, &f, 0);
    assert_found(&f, want_x86, 3);
    walk(CODE_ARM32, arm, sizeof arm, &g, 0);
    assert_found(&g, want_arm, 3);
}

/* Whoever may load no code any more has loaded it before. */
static void behind_guards(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        instructions_load();
        (void)guard_calls();
        struct instructions *in = instructions_new(CODE_X64);
        bool made = in != NULL;
        instructions_free(in);
        _exit(made ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(x64_instructions_and_targets),
        cmocka_unit_test(arm64_instructions_and_targets),
        cmocka_unit_test(cut_code_and_refusals),
        cmocka_unit_test(other_processors),
        cmocka_unit_test(behind_guards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
