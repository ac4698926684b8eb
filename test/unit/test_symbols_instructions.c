/* Machine code to addresses. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/guard/guard.h"
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

struct printed {
    uint64_t next;
    const char *want; /* texts of the instructions still to come, each with a semicolon */
};

static size_t count_bytes(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < len; i++)
        n += text[i] == '0' && text[i + 1] == 'x';
    return n;
}

/* A newer disassembler may know an instruction that is wanted as bytes; its length must be theirs.
 */
static int print(void *ctx, uint64_t address, size_t size, const char *text, bool known,
                 struct err *e)
{
    struct printed *p = ctx;
    size_t len = strcspn(p->want, ";");
    bool bytes = strncmp(p->want, ".byte", 5) == 0;
    (void)e;
    assert_int_equal(address, p->next);
    if (bytes)
        assert_int_equal(size, count_bytes(p->want, len));
    if (known)
        assert_true(text[0] != '.');
    if (!known || p->want[0] != '.') {
        assert_int_equal(strlen(text), len);
        assert_memory_equal(text, p->want, len);
    }
    p->next += size;
    p->want += len + 1;
    return 0;
}

static void assert_prints(enum instruction_set set, const void *code, size_t len, const char *want)
{
    struct printed p = {.next = 0x1000, .want = want};
    struct err e = {0};
    struct instructions *in = instructions_new(set);
    assert_non_null(in);
    assert_int_equal(instructions_print(in, 0x1000, (struct view){code, len}, print, &p, &e), 0);
    assert_string_equal(p.want, "");
    assert_int_equal(p.next, 0x1000 + len);
    instructions_free(in);
}

#define ASSERT_PRINTS(set, code, want) assert_prints(set, code, sizeof(code) - 1, want)

/* Capstone 4 knows none of those that are shown as bytes; versions that do may print them. */
static void unknown_instructions(void **state)
{
    (void)state;
    /* vpdpbusd, tdpbssd, vfmadd132sh with a displacement, APX: add with three operands, then ret */
    ASSERT_PRINTS(CODE_X64, "\x62\xf2\x75\x48\x50\xc2\xc3",
                  ".byte 0x62,0xf2,0x75,0x48,0x50,0xc2;ret;");
    ASSERT_PRINTS(CODE_X64, "\xc4\xe2\x73\x5e\xd0\xc3", ".byte 0xc4,0xe2,0x73,0x5e,0xd0;ret;");
    ASSERT_PRINTS(CODE_X64, "\x62\xf6\x6d\x08\x99\x8c\x24\xc3\xc3\xc3\xc3\xc3",
                  ".byte 0x62,0xf6,0x6d,0x08,0x99,0x8c,0x24,0xc3,0xc3,0xc3,0xc3;ret;");
    ASSERT_PRINTS(CODE_X64, "\x62\xf4\x7c\x18\x83\xc0\xc3\xc3",
                  ".byte 0x62,0xf4,0x7c,0x18,0x83,0xc0,0xc3;ret;");
    ASSERT_PRINTS(CODE_X86, "\x62\xf2\x75\x48\x50\xc2\xc3",
                  ".byte 0x62,0xf2,0x75,0x48,0x50,0xc2;ret;");
    /* whilelo p0.s, wzr, w2; cas w0, w1, [x2]; ret */
    ASSERT_PRINTS(CODE_ARM64, "\xe0\x0f\xa2\x25\x41\x7c\xa0\x88\xc0\x03\x5f\xd6",
                  ".word 0x25a20fe0;.word 0x88a07c41;ret;");
}

/* "lfence", "rdseed eax", "wbinvd" and "movd mm0, dword ptr [rax]" to Capstone 4. */
static void misread_instructions(void **state)
{
    (void)state;
    ASSERT_PRINTS(CODE_X64, "\xf3\x48\x0f\xae\xe8\xc3", ".byte 0xf3,0x48,0x0f,0xae,0xe8;ret;");
    ASSERT_PRINTS(CODE_X64, "\xf3\x0f\xc7\xf8\xc3", ".byte 0xf3,0x0f,0xc7,0xf8;ret;");
    ASSERT_PRINTS(CODE_X64, "\xf3\x0f\x09\xc3", ".byte 0xf3,0x0f,0x09;ret;");
    ASSERT_PRINTS(CODE_X64, "\xf3\x0f\x6e\x00\xc3", ".byte 0xf3,0x0f,0x6e,0x00;ret;");
    ASSERT_PRINTS(CODE_X64, "\xf3\x0f\x1e\xfa\x0f\xae\xe8", "endbr64;lfence;");
}

static void riscv(void **state)
{
    /* c.addi16sp; blez a0, +64; c.j +8; jalr ra, ra, 152; jal ra, -16; c.bnez a1, -12; c.jr ra;
       then an instruction of 8 bytes, and the beginning of another */
    static const char code[] = "\x79\x71\x63\x50\xa0\x04\x21\xa0\xe7\x80\x80\x09"
                               "\xef\xf0\x1f\xff\xf5\xf9\x82\x80\x3f\0\0\0\0\0\0\0\x03";
    static const uint64_t want[] = {0x1000, 0x1002, 0x1042, 0x1006, 0x100e, 0x1008,
                                    0x100c, 0xffc,  0x1010, 0x1004, 0x1012, 0x1014};
    struct found f = {0};
    struct instructions *in = instructions_new(CODE_RISCV64);
    (void)state;
    if (!in)
        skip(); /* Capstone 4 */
    instructions_free(in);
    walk(CODE_RISCV64, (const uint8_t *)code, sizeof code - 1, &f, 0);
    assert_found(&f, want, sizeof want / sizeof want[0]);
    assert_prints(CODE_RISCV64, code, sizeof code - 2,
                  "c.addi16sp sp, -0x30;blez a0, 0x1042;c.j 0x100e;jalr ra, ra, 0x98;"
                  "jal 0xffc;c.bnez a1, 0x1004;c.jr ra;"
                  ".byte 0x3f,0x00,0x00,0x00,0x00,0x00,0x00,0x00;");
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
        cmocka_unit_test(unknown_instructions),
        cmocka_unit_test(misread_instructions),
        cmocka_unit_test(riscv),
        cmocka_unit_test(behind_guards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
