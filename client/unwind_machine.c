#include "client/unwind_machine.h"

#if defined(__x86_64__)

void unwind_machine_begin(void)
{
    state.address_mask = ADDRESS_MASK;
}

/* The C library's return from signal handlers has an entry. */
bool unwind_machine_is_signal(struct thread *t, uint64_t pc)
{
    (void)t, (void)pc;
    return false;
}

#else

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "client/stack_bounds.h"

/* mov x8, #__NR_rt_sigreturn; svc #0 */
static const uint32_t trampoline[] = {0xd2801168, 0xd4000001};

/*
 * Handlers return to code of the kernel's (vdso), which has no entry: its authors left it out since
 * unwinders fail at what it could say.
 */
static uint64_t find_sigreturn(void)
{
    uint64_t image = getauxval(AT_SYSINFO_EHDR);
    if (!image)
        return 0;
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(uintptr_t)image;
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(uintptr_t)(image + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum; i++, p++) {
        /* It is one segment, which begins with the file's head. */
        for (uint64_t at = 0; p->p_type == PT_LOAD && at + sizeof trampoline <= p->p_memsz;
             at += 4) {
            if (memcmp((const char *)(uintptr_t)image + at, trampoline, sizeof trampoline) == 0)
                return image + at;
        }
    }
    return 0;
}

/*
 * Signatures are in the bits above those of addresses, whose number is the kernel's choice. The
 * instruction, which does nothing on processors without signatures, removes one.
 */
static uint64_t find_mask(void)
{
    uint64_t mask;
    __asm__("mov x30, %1\n\thint 7 // xpaclri\n\tmov %0, x30"
            : "=r"(mask)
            : "r"(UINT64_MAX >> 9)
            : "x30");
    return mask & ADDRESS_MASK;
}

void unwind_machine_begin(void)
{
    state.address_mask = find_mask();
    state.sigreturn = find_sigreturn();
}

/* Emulators of older versions have no vdso; they have a page with the code elsewhere. */
bool unwind_machine_is_signal(struct thread *t, uint64_t pc)
{
    uint64_t low, high;
    if (state.sigreturn)
        return pc == state.sigreturn;
    return pc % 4 == 0 && stack_bounds_mapping(t, pc, &low, &high) &&
           high - pc >= sizeof trampoline &&
           memcmp((const void *)(uintptr_t)pc, trampoline, sizeof trampoline) == 0;
}

#endif
