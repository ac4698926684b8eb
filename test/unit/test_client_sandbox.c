/*
 * Filters of system calls, evaluated as the kernel does. What is expected was seen of Linux 6.18:
 * filters that give what they calculate as an error's number.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "client/seccomp.c" /* its folder is no library */

#define ANSWERED 0xbeefu

static uint32_t verdict(struct sock_filter *code, size_t n)
{
    const struct sock_fprog filter = {(unsigned short)n, code};
    const struct seccomp_data call = {.nr = 999,
                                      .arch = ANSWERED,
                                      .instruction_pointer = 0x1122334455667788,
                                      .args = {1, 2, 3, 4, 5, 0x99aabbccddeeff00}};
    return sandbox_verdict(&filter, &call);
}

#define VERDICT(...)                                                                               \
    verdict((struct sock_filter[]){__VA_ARGS__},                                                   \
            sizeof((struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))
#define LOAD(n) BPF_STMT(BPF_LD | BPF_IMM, n)
#define LOAD_X(n) BPF_STMT(BPF_LDX | BPF_IMM, n)
#define RETURN_A BPF_STMT(BPF_RET | BPF_A, 0)
#define CALCULATE(operation, a, x)                                                                 \
    VERDICT(LOAD(a), LOAD_X(x), BPF_STMT(BPF_ALU | (operation) | BPF_X, 0), RETURN_A)

static void test_shifts_look_at_five_bits(void **state)
{
    (void)state;
    assert_int_equal(CALCULATE(BPF_LSH, 5, 33), 10);
    assert_int_equal(CALCULATE(BPF_RSH, 20, 34), 5);
    assert_int_equal(CALCULATE(BPF_LSH, 5, 32), 5);
    assert_int_equal(CALCULATE(BPF_RSH, 0x80000000, 31), 1);
}

/* The filter ends with 0, whatever follows: which ends the thread. */
static void test_division(void **state)
{
    (void)state;
    assert_int_equal(CALCULATE(BPF_DIV, 20, 7), 2);
    assert_int_equal(VERDICT(LOAD(20), LOAD_X(0), BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)),
                     SECCOMP_RET_KILL_THREAD);
}

static void test_loads(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4), RETURN_A), ANSWERED);
    assert_int_equal(VERDICT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 60), RETURN_A), 0x99aabbcc);
    assert_int_equal(VERDICT(BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 20), RETURN_A), 64);
    assert_int_equal(
        VERDICT(BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 20), BPF_STMT(BPF_MISC | BPF_TXA, 0), RETURN_A),
        64);
    assert_int_equal(
        VERDICT(LOAD_X(7), BPF_STMT(BPF_STX, 15), BPF_STMT(BPF_LD | BPF_MEM, 15), RETURN_A), 7);
}

static void test_jumps(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(BPF_STMT(BPF_JMP | BPF_JA, 1), BPF_STMT(BPF_RET | BPF_K, 1),
                             BPF_STMT(BPF_RET | BPF_K, 2)),
                     2);
    assert_int_equal(VERDICT(LOAD(6), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 1, 0),
                             BPF_STMT(BPF_RET | BPF_K, 1), BPF_STMT(BPF_RET | BPF_K, 2)),
                     2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shifts_look_at_five_bits),
        cmocka_unit_test(test_division),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
