#include "client/seccomp.h"

#include <linux/audit.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
};

static uint32_t calculate(uint16_t operation, uint32_t a, uint32_t b)
{
    switch (operation) {
    case BPF_ADD:
        return a + b;
    case BPF_SUB:
        return a - b;
    case BPF_MUL:
        return a * b;
    case BPF_DIV:
        return b ? a / b : 0; /* the kernel never divides by 0 */
    case BPF_AND:
        return a & b;
    case BPF_OR:
        return a | b;
    case BPF_XOR:
        return a ^ b;
    case BPF_LSH:
        return a << (b & 31);
    case BPF_RSH:
        return a >> (b & 31);
    default:
        return 0 - a; /* BPF_NEG */
    }
}

static bool holds(uint16_t operation, uint32_t a, uint32_t b)
{
    switch (operation) {
    case BPF_JEQ:
        return a == b;
    case BPF_JGT:
        return a > b;
    case BPF_JGE:
        return a >= b;
    default:
        return (a & b) != 0; /* BPF_JSET */
    }
}

/* The value of a load instruction. The kernel has checked its bounds. */
static uint32_t load(const struct machine *m, const struct sock_filter *i,
                     const struct seccomp_data *call)
{
    uint32_t word = 0;
    switch (BPF_MODE(i->code)) {
    case BPF_ABS:
        if (i->k <= sizeof *call - sizeof word)
            memcpy(&word, (const char *)call + i->k, sizeof word);
        return word;
    case BPF_MEM:
        return i->k < BPF_MEMWORDS ? m->memory[i->k] : 0;
    case BPF_LEN:
        return sizeof *call;
    default:
        return i->k; /* BPF_IMM */
    }
}

uint32_t sandbox_verdict(const struct sock_fprog *filter, const struct seccomp_data *call)
{
    struct machine m = {0};
    for (size_t at = 0; at < filter->len; at++) {
        const struct sock_filter *i = &filter->filter[at];
        uint32_t other = BPF_SRC(i->code) == BPF_X ? m.x : i->k;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
            m.a = load(&m, i, call);
            break;
        case BPF_LDX:
            m.x = load(&m, i, call);
            break;
        case BPF_ST:
        case BPF_STX:
            if (i->k < BPF_MEMWORDS)
                m.memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m.a : m.x;
            break;
        case BPF_ALU:
            if (BPF_OP(i->code) == BPF_DIV && other == 0)
                return 0; /* as the kernel does */
            m.a = calculate(BPF_OP(i->code), m.a, other);
            break;
        case BPF_JMP:
            if (BPF_OP(i->code) == BPF_JA)
                at += i->k;
            else
                at += holds(BPF_OP(i->code), m.a, other) ? i->jt : i->jf;
            break;
        case BPF_RET:
            return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
        default: /* BPF_MISC */
            if (BPF_MISCOP(i->code) == BPF_TAX)
                m.x = m.a;
            else
                m.a = m.x;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static uint32_t action_for(const struct sock_fprog *filter, const struct seccomp_data *call)
{
    return sandbox_verdict(filter, call) & SECCOMP_RET_ACTION_FULL;
}

bool sandbox_ends_us(const struct sock_fprog *filter)
{
    /* Space in the recording. */
    const struct seccomp_data needed[] = {
        {.nr = SYS_fallocate, .arch = ARCH, .args = {900, 0, 0, 4096}},
        {.nr = SYS_mmap,
         .arch = ARCH,
         .args = {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, 900}},
        {.nr = SYS_rt_sigprocmask, .arch = ARCH, .args = {0, 0, 0, 8}},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        uint32_t action = action_for(filter, &needed[i]);
        if (action == SECCOMP_RET_KILL_PROCESS || action == SECCOMP_RET_KILL_THREAD)
            return true;
    }
    return false;
}

bool sandbox_hides_names(const struct sock_fprog *filter)
{
    const struct seccomp_data ask = {.nr = SYS_prctl, .arch = ARCH, .args = {PR_GET_NAME}};
    uint32_t action = action_for(filter, &ask);
    return action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG;
}
