/*
 * Hooks of system call filters: prctl, and syscall, through which libseccomp and Firefox call
 * seccomp, for which there is no function. If a filter forbids a call that recording needs, the
 * recording ends before the program would be killed.
 */

#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/clock.h"
#include "client/hooks/hooks.h"
#include "client/seccomp.h"
#include "client/state.h"

/* The time before the call: in strict mode the time stamp counter cannot be read. */
static uint64_t stamp_before(bool is_seccomp)
{
    bool is_on = atomic_load_explicit(&live.page.on, memory_order_relaxed) == LIVE_ON;
    return is_seccomp && is_on ? clock_stamp() : 0;
}

/* Makes no system call: the filter is active already, and so known to be valid. */
static void look_at_sandbox(bool is_filter, const struct sock_fprog *filter, uint64_t stamp)
{
    state.sandboxed = true;
    if (!is_filter || sandbox_hides_names(filter))
        state.nameless = true;
    if (atomic_load_explicit(&live.page.on, memory_order_relaxed) == LIVE_ON &&
        (!is_filter || sandbox_ends_us(filter)))
        chunks_stop(stamp, EPERM);
}

HOOK int prctl(int option, ...)
{
    unsigned long a[4];
    va_list list;
    va_start(list, option);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        a[i] = va_arg(list, unsigned long);
    va_end(list);
    uint64_t stamp = stamp_before(option == PR_SET_SECCOMP);
    int result = (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
    if (client_unlikely(option == PR_SET_SECCOMP) && result == 0)
        look_at_sandbox(a[0] == SECCOMP_MODE_FILTER, (const struct sock_fprog *)a[1], stamp);
    return result;
}

/* ---- syscall */

/* Arguments as syscall has them, in registers and, the last one, on the stack. */
__attribute__((visibility("hidden"))) long sandbox_early(long number, long a, long b, long c,
                                                         long d, long e, long f);
__attribute__((visibility("hidden"))) long sandbox_seccomp(long number, unsigned long operation,
                                                           unsigned long flags, const void *filter);

/*
 * Whether the kernel installed the filter: the result may be a descriptor, or the id of a thread
 * that failed to synchronise.
 */
static bool is_taken(long result, unsigned long flags)
{
    return result == 0 ||
           (result > 0 && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) &&
            (!(flags & SECCOMP_FILTER_FLAG_TSYNC) || (flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH)));
}

long sandbox_seccomp(long number, unsigned long operation, unsigned long flags, const void *filter)
{
    uint64_t stamp = stamp_before(true);
    long result = real_syscall ? real_syscall(number, operation, flags, filter)
                               : sandbox_early(number, (long)operation, (long)flags,
                                               (long)(uintptr_t)filter, 0, 0, 0);
    bool is_filter = operation == SECCOMP_SET_MODE_FILTER;
    if ((is_filter || operation == SECCOMP_SET_MODE_STRICT) && is_taken(result, flags))
        look_at_sandbox(is_filter, filter, stamp);
    return result;
}

/* Used before the real function is known. */
long sandbox_early(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = number;
    register long result __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
#endif
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

/*
 * All other calls jump on with registers and stack unchanged: they cost a comparison and a jump,
 * and even calls that return twice, or on another stack, work as without the hook.
 */
#if defined(__x86_64__)
_Static_assert(SYS_seccomp == 317, "the number below");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    cmpq $317, %rdi\n"
        "    je sandbox_seccomp\n"
        "    cmpq $0, real_syscall(%rip)\n"
        "    je sandbox_early\n"
        "    jmp *real_syscall(%rip)\n"
        "    .cfi_endproc\n"
        ".size syscall, .-syscall\n");
#else
_Static_assert(SYS_seccomp == 277, "the number below");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    hint 34\n" /* bti c */
        "    cmp x0, 277\n"
        "    b.eq sandbox_seccomp\n"
        "    adrp x16, real_syscall\n"
        "    ldr x16, [x16, :lo12:real_syscall]\n"
        "    cbz x16, sandbox_early\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size syscall, .-syscall\n");
#endif
