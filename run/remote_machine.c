#include <elf.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include "run/remote.h"

/* The index of a member of user_regs_struct, which holds words of 64 bits. */
#define WORD(MEMBER) (offsetof(struct user_regs_struct, MEMBER) / sizeof(uint64_t))
#define WORDS (sizeof(struct user_regs_struct) / sizeof(uint64_t))
_Static_assert(WORDS <= REMOTE_WORDS_MOST, "REMOTE_WORDS_MOST");

#if defined __x86_64__

const struct remote_machine remote_machine = {
    /* mov $SYS_rt_sigreturn,%rax; syscall */
    .restorer = {{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, .size = 9, .instruction = 7},
    .restorer_in = {"libc.so.6", "libc-2."},
    /* mov %rax,%rdi; mov $SYS_gettid,%eax; syscall; 1: jmp 1b */
    .landing = {{0x48, 0x89, 0xc7, 0xb8, 0xba, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xfe},
                .size = 12,
                .instruction = 8},
    .instruction_size = 2,
    .words = WORDS,
    .pc = WORD(rip),
    .sp = WORD(rsp),
    .frame = WORD(rbp),
    .flags = WORD(eflags),
    .flags_off = 0x500, /* direction and trap */
    .number = WORD(rax),
    .result = WORD(rax),
    .arguments = {WORD(rdi), WORD(rsi), WORD(rdx), WORD(r10), WORD(r8), WORD(r9)},
    .waiting = WORD(orig_rax),
    .mode = WORD(cs),
    .mode_known = 0x33, /* code of 64 bits */
    .address_bits = UINT64_MAX,
    .state_sets = {NT_X86_XSTATE},
};

#else

const struct remote_machine remote_machine = {
    /* mov x8,#SYS_rt_sigreturn; svc #0 */
    .restorer = {{0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}, .size = 8, .instruction = 4},
    .restorer_in = {"[vdso]"},
    /* mov x8,#SYS_gettid; svc #0; b . */
    .landing = {{0x48, 0x16, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0, 0, 0, 0x14},
                .size = 12,
                .instruction = 4},
    .instruction_size = 4,
    .words = WORDS,
    .pc = WORD(pc),
    .sp = WORD(sp),
    .frame = WORD(regs[29]),
    .link = WORD(regs[30]),
    .flags = WORD(pstate),
    .flags_off = 0xc00, /* BTYPE: the call is no indirect branch */
    .number = WORD(regs[8]),
    .result = WORD(regs[0]),
    .arguments = {WORD(regs[0]), WORD(regs[1]), WORD(regs[2]), WORD(regs[3]), WORD(regs[4]),
                  WORD(regs[5])},
    .number_set = NT_ARM_SYSTEM_CALL,
    .address_bits = (UINT64_C(1) << 48) - 1, /* without tag and signature */
    .state_sets = {NT_ARM_SVE, NT_PRFPREG},
};

#endif
