/*
 * dlopen, as a zone with the library's name as its text.
 *
 * The C library looks at the address that dlopen returns to: it is by the RPATH and RUNPATH of that
 * module that a library is looked for whose name has no slash, and $ORIGIN is where it lies. Where
 * that can matter, the real function is jumped to, so that it sees the program's call and nothing
 * of us; its return is not seen then, and the zone ends with the next thing that is recorded of its
 * thread behind it. Everywhere else it is called, and the zone ends when it returns.
 */

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "client/api.h"
#include "client/events.h"
#include "client/got.h"
#include "client/hooks.h"
#include "client/real.h"
#include "client/threads.h"

struct search {
    uint64_t caller;
    uint32_t modules;
    bool known; /* the caller is in a module */
    bool main;  /* the program itself has a path of its own */
    bool matters;
};

/* Whether a module says where libraries are; `others`: for others, too. */
static bool has_paths(const ElfW(Dyn) * d, bool *others)
{
    bool own = false;
    *others = false;
    for (; d && d->d_tag != DT_NULL; d++) {
        *others |= d->d_tag == DT_RPATH;
        own |= d->d_tag == DT_RUNPATH || (d->d_tag == DT_FLAGS_1 && d->d_un.d_val & DF_1_NODEFLIB);
    }
    return own || *others;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *search)
{
    struct search *s = search;
    const ElfW(Dyn) *dynamic = NULL;
    bool covers = false, others;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t low = info->dlpi_addr + p->p_vaddr;
        covers |= p->p_type == PT_LOAD && s->caller - low < p->p_memsz;
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(uintptr_t)low;
    }
    bool own = has_paths(dynamic, &others);
    s->main |= own && s->modules++ == 0;
    s->known |= covers;
    s->matters |= others || (covers && own);
    return s->matters;
}

/* A caller in no module is taken for the program. */
static bool caller_matters(const char *name, uint64_t caller)
{
    struct search s = {.caller = caller};
    if (!name || !*name)
        return false;
    if (strchr(name, '$'))
        return true;
    if (strchr(name, '/'))
        return false;
    (void)dl_iterate_phdr(look_at, &s);
    return s.matters || (s.main && !s.known);
}

/*
 * The zone that is open while the real function is called; none: it is to be jumped to. All that
 * the hook has is passed by value, or there could be no jump.
 */
static __attribute__((noinline)) struct own_zone begin(const char *name, struct origin origin)
{
    const struct own_zone none = {0, 0};
    hooks_prepare();
    if (!real.dlopen) {
        void *found = real_next("dlopen");
        memcpy(&real.dlopen, &found, sizeof found);
    }
    if (!event_is_on())
        return none;
    if (tls.loading.thread && origin.sp >= tls.loading.origin.sp)
        threads_loaded();
    bool unseen = caller_matters(name, origin.pc);
    /* One within one that is not seen to return is a part of it. */
    if (unseen && tls.loading.thread)
        return none;
    struct own_zone zone = api_zone_open("dlopen", name ? name : "", event_stack(&origin));
    if (!unseen)
        return zone;
    if (!threads_load(&origin, &zone))
        api_zone_close(&zone);
    return none;
}

/*
 * A library that is to find what it needs in itself first (RTLD_DEEPBIND) is bound past our hooks,
 * and what it came with, too. Its constructors have run by now.
 */
static void hook_deep(void *library, uint64_t loads)
{
    if (got_loads() == loads)
        return;
    bool done = got_hook_deep(library, loads, (state.pools & REC_POOLS_MMAP) != 0);
    atomic_fetch_add_explicit(done ? &state.header->deep_libraries : &state.header->deep_unseen, 1,
                              memory_order_relaxed);
}

static __attribute__((noinline)) void *call_dlopen(const char *name, int mode, struct own_zone zone)
{
    bool deep = mode & RTLD_DEEPBIND, late = real_is_late();
    uint64_t loads = deep || late ? got_loads() : 0;
    void *library = real.dlopen(name, mode);
    int saved = errno;
    if (library && deep)
        hook_deep(library, loads);
    else if (library && late && event_is_on())
        got_hook_since(loads, (state.pools & REC_POOLS_MMAP) != 0);
    if (library)
        got_hook_allocators();
    api_zone_close(&zone);
    errno = saved;
    return library;
}

HOOK void *dlopen(const char *name, int mode)
{
    struct own_zone zone = begin(name, ORIGIN_HERE());
    if (zone.depth)
        return call_dlopen(name, mode, zone);
    if (client_unlikely(mode & RTLD_DEEPBIND) && event_is_on())
        atomic_fetch_add_explicit(&state.header->deep_unseen, 1, memory_order_relaxed);
    return real.dlopen(name, mode);
}
