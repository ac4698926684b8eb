#include "client/got.h"

#include <dlfcn.h>
#include <malloc.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/elf_image.h"
#include "client/kernel_map.h"
#include "client/hooks/hooks.h"
#include "client/hooks/hooks_allocators.h"
#include "client/real.h"

#define SLOTS_MOST 65536u

#if defined(__x86_64__)
#define TYPE_ADDRESS R_X86_64_64
#define TYPE_DATA R_X86_64_GLOB_DAT
#define TYPE_CALL R_X86_64_JUMP_SLOT
#else
#define TYPE_ADDRESS R_AARCH64_ABS64
#define TYPE_DATA R_AARCH64_GLOB_DAT
#define TYPE_CALL R_AARCH64_JUMP_SLOT
#endif

/* The operators' hooks (hooks_new.c), whatever their types are. */
#define OPERATORS(X)                                                                               \
    X(_Znwm)                                                                                       \
    X(_Znam)                                                                                       \
    X(_ZnwmRKSt9nothrow_t)                                                                         \
    X(_ZnamRKSt9nothrow_t)                                                                         \
    X(_ZnwmSt11align_val_t)                                                                        \
    X(_ZnamSt11align_val_t)                                                                        \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t)                                                          \
    X(_ZnamSt11align_val_tRKSt9nothrow_t)                                                          \
    X(_ZdlPv)                                                                                      \
    X(_ZdaPv)                                                                                      \
    X(_ZdlPvm)                                                                                     \
    X(_ZdaPvm)                                                                                     \
    X(_ZdlPvRKSt9nothrow_t)                                                                        \
    X(_ZdaPvRKSt9nothrow_t)                                                                        \
    X(_ZdlPvSt11align_val_t)                                                                       \
    X(_ZdaPvSt11align_val_t)                                                                       \
    X(_ZdlPvmSt11align_val_t)                                                                      \
    X(_ZdaPvmSt11align_val_t)                                                                      \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                         \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t)
#define DECLARE(name) void name(void);
OPERATORS(DECLARE)

enum stage {
    FREES, /* first, so that blocks allocated through a hook are also freed through one */
    OTHERS,
    MAPPINGS,
};

typedef void function(void);

struct hooked {
    const char *name;
    function *hook;
    enum stage stage;
};

#define HOOKED(function_, stage_)                                                                  \
    {                                                                                              \
        .name = #function_, .hook = (function *)(function_), stage_                                \
    }
#define OPERATOR(name_) {.name = #name_, .hook = name_, .stage = OTHERS},

static const struct hooked hooked[] = {
    HOOKED(free, FREES),
    HOOKED(realloc, FREES),
    HOOKED(reallocarray, FREES),
    HOOKED(malloc, OTHERS),
    HOOKED(calloc, OTHERS),
    HOOKED(aligned_alloc, OTHERS),
    HOOKED(posix_memalign, OTHERS),
    HOOKED(memalign, OTHERS),
    HOOKED(valloc, OTHERS),
    HOOKED(pvalloc, OTHERS),
    HOOKED(malloc_trim, OTHERS),
    HOOKED(dlopen, OTHERS),
    HOOKED(dlclose, OTHERS),
    HOOKED(bind, OTHERS),
    HOOKED(listen, OTHERS),
    HOOKED(fork, OTHERS), /* and related ones: children are counted */
    HOOKED(daemon, OTHERS),
    HOOKED(posix_spawn, OTHERS),
    HOOKED(posix_spawnp, OTHERS),
    HOOKED(system, OTHERS),
    HOOKED(popen, OTHERS),
    HOOKED(execve, OTHERS), /* for children of vfork, and for the process itself */
    HOOKED(execvpe, OTHERS),
    HOOKED(execv, OTHERS),
    HOOKED(execvp, OTHERS),
    HOOKED(execl, OTHERS),
    HOOKED(execlp, OTHERS),
    HOOKED(execle, OTHERS),
    HOOKED(fexecve, OTHERS),
    HOOKED(execveat, OTHERS),
    /* clang-format off */
    OPERATORS(OPERATOR)
    /* clang-format on */
    HOOKED(mmap, MAPPINGS),
    HOOKED(mmap64, MAPPINGS),
    HOOKED(munmap, MAPPINGS),
    HOOKED(mremap, MAPPINGS),
    HOOKED(brk, MAPPINGS),
    HOOKED(sbrk, MAPPINGS),
};

#define HOOKED_COUNT (sizeof hooked / sizeof *hooked)

/* Changed slots, to be restored. */
static struct {
    struct slot {
        _Atomic(uint64_t) *at;
        uint64_t was, hook;
        bool relro;
    } * slots;
    uint32_t count;
} changed;

/*
 * A pass over all modules, under the dynamic linker's lock: for functions of `hooked` in one stage
 * whose real address is known, or else for functions of allocators.
 */
struct pass {
    const uint64_t *addresses; /* for each of `hooked`; 0: skip it. NULL: allocators */
    enum stage stage;
    uint32_t first, module; /* the first module to change, and the next one */
};

static bool protect(const void *at, int protection)
{
    uint64_t page = system_page();
    return syscall(SYS_mprotect, (uintptr_t)at & ~(page - 1), page, protection) == 0;
}

/* An aligned 8-byte store is atomic for all threads. */
static bool put(const struct slot *s, uint64_t value)
{
    if (s->relro && !protect((const void *)s->at, PROT_READ | PROT_WRITE))
        return false;
    atomic_store_explicit(s->at, value, memory_order_release);
    if (s->relro)
        (void)protect((const void *)s->at, PROT_READ);
    return true;
}

static bool has_room(void)
{
    if (!changed.slots)
        changed.slots = chunks_memory(SLOTS_MOST * sizeof *changed.slots);
    return changed.slots && changed.count < SLOTS_MOST;
}

static void change(const struct elf_image *m, const ElfW(Rela) * rela, uint64_t address,
                   function *hook)
{
    uint64_t at = m->base + rela->r_offset;
    if (at % sizeof(uint64_t) != 0 || !elf_image_covers(m, at, PF_W) || !has_room())
        return;
    struct slot s = {.at = (_Atomic(uint64_t) *)(uintptr_t)at,
                     .hook = (uintptr_t)hook,
                     .relro = at >= m->relro_low && at < m->relro_high};
    s.was = atomic_load_explicit(s.at, memory_order_acquire);
    bool stub = ELF64_R_TYPE(rela->r_info) == TYPE_CALL && elf_image_covers(m, s.was, PF_X) &&
                s.was != s.hook;
    if ((s.was == address || stub) && put(&s, s.hook))
        changed.slots[changed.count++] = s;
}

/* ---- functions of allocators */

/* Finds the real functions again: modules may have been unloaded and loaded elsewhere. */
static int find_allocator(struct dl_phdr_info *info, size_t size, void *found)
{
    struct elf_image m;
    (void)size;
    if (!elf_image_read(&m, info))
        return 0;
    bool any = false;
    for (size_t i = 0; allocator_signs[i]; i++)
        any |= elf_image_function(&m, allocator_signs[i]) != 0;
    for (size_t i = 0; any && i < allocator_function_count; i++) {
        struct allocator_function *f = &allocator_functions[i];
        uint64_t at = elf_image_function(&m, f->name);
        if (at && (!f->found || f->module == m.base)) {
            atomic_store_explicit(&f->real, at, memory_order_release);
            f->module = m.base;
            f->found = true;
        }
    }
    *(bool *)found |= any;
    return 0;
}

static void change_allocator(const struct elf_image *m, const ElfW(Rela) * rela, const char *name)
{
    for (size_t i = 0; i < allocator_function_count; i++) {
        struct allocator_function *f = &allocator_functions[i];
        if (name[0] != f->name[0] || strcmp(name, f->name) != 0)
            continue;
        /* Calls within the allocator are not the program's. */
        if (!f->found || f->module == m->base)
            return;
        if (f->hook)
            change(m, rela, atomic_load_explicit(&f->real, memory_order_relaxed), f->hook);
        else
            allocator_unseen(f->name);
        return;
    }
}

/* ---- modules */

static void change_function(const struct elf_image *m, const ElfW(Rela) * rela, const char *name,
                            const struct pass *pass)
{
    for (size_t i = 0; i < HOOKED_COUNT; i++) {
        const struct hooked *h = &hooked[i];
        if (h->stage == pass->stage && pass->addresses[i] && strcmp(name, h->name) == 0) {
            change(m, rela, pass->addresses[i], h->hook);
            return;
        }
    }
}

static int on_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct elf_image m;
    struct pass *pass = ctx;
    (void)size;
    if (pass->module++ < pass->first || !elf_image_read(&m, info) ||
        elf_image_covers(&m, (uintptr_t)got_hook, PF_X))
        return 0;
    for (size_t table = 0; table < 2; table++) {
        for (size_t i = 0; m.tables[table] && i < m.sizes[table]; i++) {
            const ElfW(Rela) *rela = &m.tables[table][i];
            uint64_t type = ELF64_R_TYPE(rela->r_info);
            if (type != TYPE_CALL && type != TYPE_DATA &&
                (type != TYPE_ADDRESS || rela->r_addend != 0))
                continue;
            const char *name = m.names + m.symbols[ELF64_R_SYM(rela->r_info)].st_name;
            if (pass->addresses)
                change_function(&m, rela, name, pass);
            else
                change_allocator(&m, rela, name);
        }
    }
    return 0;
}

static void hook_functions(const uint64_t *addresses, uint32_t first, bool mappings)
{
    for (enum stage stage = FREES; stage <= MAPPINGS; stage++) {
        struct pass pass = {.addresses = addresses, .stage = stage, .first = first};
        if (stage != MAPPINGS || mappings)
            (void)dl_iterate_phdr(on_module, &pass);
    }
}

static void find_functions(uint64_t addresses[HOOKED_COUNT])
{
    for (size_t i = 0; i < HOOKED_COUNT; i++) {
        void *found = real_default(hooked[i].name);
        addresses[i] = real_is_late() && real_is_own(found) ? 0 : (uintptr_t)found;
    }
}

void got_hook(bool mappings)
{
    uint64_t addresses[HOOKED_COUNT];
    find_functions(addresses);
    hook_functions(addresses, 0, mappings);
}

static int forget_allocator(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)info;
    (void)size;
    (void)unused;
    for (size_t i = 0; i < allocator_function_count; i++)
        allocator_functions[i].found = false;
    return 1;
}

void got_hook_allocators(void)
{
    bool found = false;
    struct pass pass = {.addresses = NULL};
    (void)dl_iterate_phdr(forget_allocator, NULL);
    (void)dl_iterate_phdr(find_allocator, &found);
    if (found)
        (void)dl_iterate_phdr(on_module, &pass);
}

/* Whether the module is this library; stores its range. */
static int find_own(struct dl_phdr_info *info, size_t size, void *stored)
{
    const struct elf_image m = {.base = info->dlpi_addr, .info = info};
    struct rec_stored *s = stored;
    (void)size;
    if (!elf_image_covers(&m, (uintptr_t)got_hook, PF_X))
        return 0;
    s->own[0].low = m.base;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t end = m.base + p->p_vaddr + p->p_memsz;
        if (p->p_type == PT_LOAD && end > s->own[0].high)
            s->own[0].high = end;
    }
    return 1;
}

void got_stored(struct rec_stored *s, bool mappings)
{
    _Static_assert(HOOKED_COUNT <= REC_STORED_MOST, "room for all");
    uint64_t addresses[HOOKED_COUNT];
    *s = (struct rec_stored){.own_count = 2};
    find_functions(addresses);
    for (size_t i = 0; i < HOOKED_COUNT; i++) {
        s->at[s->count].real = addresses[i];
        s->at[s->count].hook = (uintptr_t)hooked[i].hook;
        s->count += addresses[i] && (hooked[i].stage != MAPPINGS || mappings);
    }
    (void)dl_iterate_phdr(find_own, s);
    s->own[1].low = (uintptr_t)changed.slots;
    s->own[1].high = s->own[1].low + (changed.slots ? SLOTS_MOST * sizeof(struct slot) : 0);
}

struct modules {
    uint64_t loads; /* total so far */
    uint32_t count; /* at present */
};

static int count_module(struct dl_phdr_info *info, size_t size, void *modules)
{
    struct modules *m = modules;
    (void)size;
    m->loads = info->dlpi_adds;
    m->count++;
    return 0;
}

uint64_t got_loads(void)
{
    struct modules m = {0};
    (void)dl_iterate_phdr(count_module, &m);
    return m.loads;
}

/*
 * New modules are last in the list; if others were unloaded meanwhile, old ones may be among them.
 */
static uint32_t first_since(uint64_t loads)
{
    struct modules m = {0};
    (void)dl_iterate_phdr(count_module, &m);
    uint64_t came = m.loads - loads;
    return came < m.count ? m.count - (uint32_t)came : 0;
}

void got_hook_since(uint64_t loads, bool mappings)
{
    uint64_t addresses[HOOKED_COUNT];
    find_functions(addresses);
    hook_functions(addresses, first_since(loads), mappings);
}

bool got_hook_deep(void *library, uint64_t loads, bool mappings)
{
    uint64_t addresses[HOOKED_COUNT];
    bool own = false;
    for (size_t i = 0; i < HOOKED_COUNT; i++) {
        const void *its = dlsym(library, hooked[i].name);
        if (!its)
            (void)dlerror(); /* hides the error from the program */
        bool same = its && its == real_next(hooked[i].name);
        own |= its && !same && strcmp(hooked[i].name, "malloc") == 0;
        addresses[i] = same ? (uintptr_t)its : 0;
    }
    if (!own)
        hook_functions(addresses, first_since(loads), mappings);
    return !own;
}

struct range {
    uint64_t at;
    bool found;
};

static int find_range(struct dl_phdr_info *info, size_t size, void *range)
{
    struct range *r = range;
    const struct elf_image m = {.base = info->dlpi_addr, .info = info};
    (void)size;
    r->found |= elf_image_covers(&m, r->at, PF_W);
    return r->found;
}

void got_restore(void)
{
    for (uint32_t i = 0; i < changed.count; i++) {
        const struct slot *s = &changed.slots[i];
        struct range where = {.at = (uintptr_t)s->at};
        /* Its module may be unloaded. */
        (void)dl_iterate_phdr(find_range, &where);
        if (where.found && atomic_load_explicit(s->at, memory_order_acquire) == s->hook)
            (void)put(s, s->was);
    }
    changed.count = 0;
}
