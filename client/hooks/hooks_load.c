/*
 * Hooks dlopen, as a zone with the library's name as its text.
 *
 * The C library searches libraries whose name has no slash by the RPATH and RUNPATH of the module
 * that contains dlopen's return address, and expands $ORIGIN to its folder. Where that can matter,
 * the hook jumps to the real function, which then sees the program's call; its return is not seen,
 * and the zone ends with the thread's next event after it. Otherwise the hook calls it, and the
 * zone ends when it returns.
 */

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "client/api.h"
#include "client/events.h"
#include "client/got.h"
#include "client/hooks/hooks.h"
#include "client/python/python.h"
#include "client/real.h"
#include "client/threads.h"

struct search {
    uint64_t caller;
    uint32_t modules;
    bool known; /* the caller is in a module */
    bool main;  /* the program itself has an RPATH or RUNPATH */
    bool matters;
};

/* Whether a module has a search path; `others`: one that applies to other modules, too. */
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

/* A caller outside all modules counts as the program. */
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
 * Begins the zone in which the real function is called; none: the hook must jump to it. The hook
 * passes all by value, else it could not jump.
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
    /* A nested dlopen whose return is not seen belongs to the outer zone. */
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
 * A library loaded with RTLD_DEEPBIND is bound past the hooks, and so are its dependencies. Its
 * constructors have run by now.
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
    if (library) {
        got_hook_allocators();
        python_settle(false);
    }
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
