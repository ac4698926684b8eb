/*
 * operator new and delete of C++, all forms, by the names of the Itanium C++ ABI.
 *
 * They record nothing. They say which operator is going on (struct label), and the hooks of malloc
 * and free, which it calls, record its call under its name and with its caller's stack. So an
 * operator that keeps memory of its own is recorded by what it takes from the heap, and nothing is
 * recorded twice. The real operator is the one that the program would have called: that of another
 * library, or the C++ runtime's.
 */

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "client/events.h"
#include "client/hooks.h"
#include "client/real.h"
#include "client/sampling.h"

#define FOREVER UINT32_MAX

/* A real operator, found when it is called first. */
struct operator
{
    const char *name;
    _Atomic(void *) found;
    _Atomic uint32_t epoch; /* of the modules, in which it was found, or FOREVER */
};

/*
 * Looks behind this library in the global scope. If the C++ runtime came with a library that was
 * loaded later, it is not there, but in the scope of the caller.
 */
static __attribute__((noinline)) void *find(struct operator* op, const void *caller)
{
    uint32_t epoch = FOREVER;
    void *found = dlsym(RTLD_NEXT, op->name);
    if (!found) {
        Dl_info unused;
        struct link_map *map = NULL;
        epoch = atomic_load_explicit(&state.epoch, memory_order_acquire);
        if (dladdr1(caller, &unused, (void **)&map, RTLD_DL_LINKMAP) && map)
            found = dlsym(map, op->name);
        if (!found)
            (void)dlerror(); /* not the program's to see */
    }
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

/* False: another operator called this one, and it is that one's call. */
static inline bool begin(unsigned how, struct origin origin, const uint64_t *frame)
{
    if (event_label_holds(origin.sp))
        return false;
    tls.label.origin = origin;
    tls.label.how = how;
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

/* What the operator allocates, rounding included, will be passed over; no need of a label. */
static inline bool skips(size_t size, size_t alignment)
{
    return client_likely(sampling_would_skip(size + alignment + 64));
}

/* There is no C++ runtime to be found. It could not be told of a failure either. */
static void *without_runtime(size_t size, size_t alignment, bool may_fail)
{
    void *p = alignment > 16 ? aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1))
                             : malloc(size ? size : 1);
    if (!p && !may_fail)
        abort();
    return p;
}

#define FRAME() ((const uint64_t *)__builtin_frame_address(0) + 1)
#define CALLER() __builtin_return_address(0)

#define NEW(symbol, how, alignment, may_fail, parameters, arguments, types)                        \
    void *symbol parameters;                                                                       \
    HOOK void *symbol parameters                                                                   \
    {                                                                                              \
        static struct operator op = {.name = #symbol};                                             \
        bool begun = !skips(size, alignment) && begin(how, ORIGIN_HERE(), FRAME());                \
        void *(*call)types = (void *(*)types)operator_of(&op, CALLER());                           \
        void *p = call ? call arguments : without_runtime(size, alignment, may_fail);              \
        end(begun);                                                                                \
        return p;                                                                                  \
    }

#define DELETE(symbol, how, parameters, arguments, types)                                          \
    void symbol parameters;                                                                        \
    HOOK void symbol parameters                                                                    \
    {                                                                                              \
        static struct operator op = {.name = #symbol};                                             \
        bool begun = !sampling_never_had(p) && begin(how, ORIGIN_HERE(), FRAME());                 \
        void(*call) types = (void(*) types)operator_of(&op, CALLER());                             \
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
