/*
 * Hooks operator new and delete of C++, all forms, by their names in the Itanium C++ ABI.
 *
 * They note which operator is running (struct label). The hooks of malloc and free, which it calls,
 * record its call under its name and with its caller's stack. So an operator with its own pool
 * is recorded by what it takes from the heap, and nothing is recorded twice. The real operator is
 * the one that the program would have called: that of another library, or the C++ runtime's.
 *
 * The operators of the library that has the real malloc, such as jemalloc or tcmalloc, are recorded
 * here directly: they take blocks from inside the allocator, past the hooks. If one still calls
 * malloc or free, its block is recorded once (label.made, label.gone).
 */

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/real.h"
#include "client/sampling.h"

#define FOREVER UINT32_MAX

/* A real operator, found at its first call. */
struct operator
{
    const char *name;
    _Atomic(void *) found;
    _Atomic uint32_t epoch; /* epoch of the modules in which it was found, or FOREVER */
    _Atomic bool own;       /* it is in the same library as the real malloc */
};

static struct link_map *module_of(const void *address)
{
    Dl_info unused;
    struct link_map *map = NULL;
    return dladdr1(address, &unused, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/*
 * dlsym crashes on a module that is no handle of dlopen: those that were preloaded or loaded as
 * dependencies have no list of libraries to search.
 */
static void *in_scope_of(const void *address, const char *name)
{
    int saved = errno;
    struct link_map *map = address ? module_of(address) : NULL;
    void *library = map && *map->l_name ? real_dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *found = library ? dlsym(library, name) : NULL;
    if (!found)
        (void)dlerror(); /* hides the error from the program */
    if (library && real.dlclose)
        (void)real.dlclose(library);
    errno = saved;
    return found;
}

/*
 * Searches after this library in the global scope. If the C++ runtime came with a library loaded
 * later, it is found only in the scope of the caller. One operator of the runtime jumps to another:
 * then the caller is this library, and the scope is that in which the other operator was found.
 */
static __attribute__((noinline)) void *find(struct operator* op, const void *caller)
{
    static _Atomic(void *) last;
    uint32_t epoch = FOREVER;
    void *found = real_next(op->name);
    if (!found) {
        (void)dlerror();
        epoch = atomic_load_explicit(&state.epoch, memory_order_acquire);
        bool own = real_is_own(caller);
        found =
            in_scope_of(own ? atomic_load_explicit(&last, memory_order_relaxed) : caller, op->name);
        if (found && real_is_own(found))
            found = NULL;
        if (found)
            atomic_store_explicit(&last, found, memory_order_relaxed);
    }
    const void *allocator = NULL;
    memcpy(&allocator, &real.malloc, sizeof allocator);
    atomic_store_explicit(&op->own, found && allocator && module_of(found) == module_of(allocator),
                          memory_order_relaxed);
    atomic_store_explicit(&op->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&op->found, found, memory_order_release);
    return found;
}

static inline void *operator_of(struct operator* op, const void *caller)
{
    void *found = atomic_load_explicit(&op->found, memory_order_acquire);
    uint32_t epoch = atomic_load_explicit(&op->epoch, memory_order_relaxed);
    if (client_likely(found && (epoch == FOREVER ||
                                epoch == atomic_load_explicit(&state.epoch, memory_order_relaxed))))
        return found;
    return find(op, caller);
}

/* False: another operator called this one; the call counts as that one's. */
static inline bool begin(unsigned how, const struct origin *origin, const uint64_t *frame)
{
    if (event_label_holds(origin->sp))
        return false;
    tls.label.origin = *origin;
    tls.label.how = how;
    tls.label.own = false;
    tls.label.made = tls.label.gone = NULL;
    client_barrier();
    tls.label.frame = frame;
    return true;
}

static inline void end(bool begun)
{
    client_barrier();
    if (begun)
        tls.label.frame = NULL;
}

/* What the operator allocates, rounding included, is below the next sample; no label is needed. */
static inline bool skips(size_t size, size_t alignment)
{
    return client_likely(sampling_would_skip(size + alignment + 64));
}

/* There is no C++ runtime, so failures cannot be thrown either. */
static void *without_runtime(size_t size, size_t alignment, bool may_fail)
{
    void *p = alignment > 16 ? aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1))
                             : malloc(size ? size : 1);
    if (!p && !may_fail)
        abort();
    return p;
}

/*
 * Whether the hook of an allocator's own operator is to record the block: not if the operator that
 * called it does so, or malloc's hook did.
 */
static inline bool is_ours(const struct operator* op, const struct origin *origin)
{
    return client_unlikely(atomic_load_explicit(&op->own, memory_order_relaxed)) &&
           !(event_label_holds(origin->sp) && tls.label.own);
}

static void expect(bool begun, size_t size)
{
    if (begun) {
        tls.label.own = true;
        tls.label.size = size;
    }
    tls.label.made = NULL;
}

static void allocated(const void *p, size_t size, unsigned how, const struct origin *origin)
{
    if (p && tls.label.made != p)
        event_alloc(p, size, how, origin);
}

#define FRAME() ((const uint64_t *)__builtin_frame_address(0) + 1)
#define CALLER() __builtin_return_address(0)

#define NEW(symbol, how, alignment, may_fail, parameters, arguments, types)                        \
    void *symbol parameters;                                                                       \
    HOOK void *symbol parameters                                                                   \
    {                                                                                              \
        static struct operator op = {.name = #symbol};                                             \
        struct origin origin = ORIGIN_HERE();                                                      \
        void *(*call)types = (void *(*)types)operator_of(&op, CALLER());                           \
        bool ours = is_ours(&op, &origin);                                                         \
        bool begun = (ours || !skips(size, alignment)) && begin(how, &origin, FRAME());            \
        if (ours)                                                                                  \
            expect(begun, size);                                                                   \
        void *p = call ? call arguments : without_runtime(size, alignment, may_fail);              \
        if (ours)                                                                                  \
            allocated(p, size, how, &origin);                                                      \
        end(begun);                                                                                \
        return p;                                                                                  \
    }

#define DELETE(symbol, how, parameters, arguments, types)                                          \
    void symbol parameters;                                                                        \
    HOOK void symbol parameters                                                                    \
    {                                                                                              \
        static struct operator op = {.name = #symbol};                                             \
        struct origin origin = ORIGIN_HERE();                                                      \
        void(*call) types = (void(*) types)operator_of(&op, CALLER());                             \
        bool ours = p && is_ours(&op, &origin);                                                    \
        if (ours)                                                                                  \
            (void)event_free(p, how, &origin);                                                     \
        bool begun = !sampling_never_had(p) && begin(how, &origin, FRAME());                       \
        if (ours)                                                                                  \
            tls.label.gone = p;                                                                    \
        if (call)                                                                                  \
            call arguments;                                                                        \
        else                                                                                       \
            free(p);                                                                               \
        end(begun);                                                                                \
    }

/* clang-format off */
NEW(_Znwm, REC_HOW_NEW, 0, false, (size_t size), (size), (size_t))
NEW(_Znam, REC_HOW_NEW_ARRAY, 0, false, (size_t size), (size), (size_t))
NEW(_ZnwmRKSt9nothrow_t, REC_HOW_NEW, 0, true,
    (size_t size, const void *nothrow), (size, nothrow), (size_t, const void *))
NEW(_ZnamRKSt9nothrow_t, REC_HOW_NEW_ARRAY, 0, true,
    (size_t size, const void *nothrow), (size, nothrow), (size_t, const void *))
NEW(_ZnwmSt11align_val_t, REC_HOW_NEW, align, false,
    (size_t size, size_t align), (size, align), (size_t, size_t))
NEW(_ZnamSt11align_val_t, REC_HOW_NEW_ARRAY, align, false,
    (size_t size, size_t align), (size, align), (size_t, size_t))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, REC_HOW_NEW, align, true,
    (size_t size, size_t align, const void *nothrow), (size, align, nothrow),
    (size_t, size_t, const void *))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, REC_HOW_NEW_ARRAY, align, true,
    (size_t size, size_t align, const void *nothrow), (size, align, nothrow),
    (size_t, size_t, const void *))

DELETE(_ZdlPv, REC_HOW_DELETE, (void *p), (p), (void *))
DELETE(_ZdaPv, REC_HOW_DELETE_ARRAY, (void *p), (p), (void *))
DELETE(_ZdlPvm, REC_HOW_DELETE, (void *p, size_t size), (p, size), (void *, size_t))
DELETE(_ZdaPvm, REC_HOW_DELETE_ARRAY, (void *p, size_t size), (p, size), (void *, size_t))
DELETE(_ZdlPvRKSt9nothrow_t, REC_HOW_DELETE,
       (void *p, const void *nothrow), (p, nothrow), (void *, const void *))
DELETE(_ZdaPvRKSt9nothrow_t, REC_HOW_DELETE_ARRAY,
       (void *p, const void *nothrow), (p, nothrow), (void *, const void *))
DELETE(_ZdlPvSt11align_val_t, REC_HOW_DELETE,
       (void *p, size_t align), (p, align), (void *, size_t))
DELETE(_ZdaPvSt11align_val_t, REC_HOW_DELETE_ARRAY,
       (void *p, size_t align), (p, align), (void *, size_t))
DELETE(_ZdlPvmSt11align_val_t, REC_HOW_DELETE,
       (void *p, size_t size, size_t align), (p, size, align), (void *, size_t, size_t))
DELETE(_ZdaPvmSt11align_val_t, REC_HOW_DELETE_ARRAY,
       (void *p, size_t size, size_t align), (p, size, align), (void *, size_t, size_t))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, REC_HOW_DELETE,
       (void *p, size_t align, const void *nothrow), (p, align, nothrow),
       (void *, size_t, const void *))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, REC_HOW_DELETE_ARRAY,
       (void *p, size_t align, const void *nothrow), (p, align, nothrow),
       (void *, size_t, const void *))
/* clang-format on */
