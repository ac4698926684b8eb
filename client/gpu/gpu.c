/*
 * libtidemark-gpu.so, which `tidemark run --gpu` loads beside libtidemark.so: records device memory
 * of CUDA programs in pools "CUDA device N", and host memory that is pinned for them. It is a
 * separate library because it exports names of CUDA, which a program that looks them up would take
 * for CUDA itself. It is built without CUDA.
 *
 * A program reaches the driver in three ways: it links libcudart or libcuda, which the hooks
 * precede; by dlsym; and by the driver's cuGetProcAddress, which a statically linked libcudart
 * uses. So the latter two return hooks as well. A hook within another one records nothing.
 */

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "client/gpu/gpu_blocks.h"
#include "include/tidemark.h"

#define HOOK __attribute__((visibility("default"), noinline))
#define DEVICES 64u
#define NOT_FOUND 500 /* CUDA_ERROR_NOT_FOUND; the runtime has it as cudaErrorSymbolNotFound */
#define PER_THREAD_STREAM 2 /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

/* The driver's types, as far as their sizes matter. */
typedef unsigned long long device_address;
typedef void *handle;

static __thread unsigned depth __attribute__((tls_model("initial-exec")));

/* ---- the real functions */

struct real_function {
    const char *name; /* name for dlsym */
    void *hook;
    _Atomic(void *) found; /* by a hook of dlsym or cuGetProcAddress, or by `real` */
};

/* Set at the first call, by the code below. */
__attribute__((visibility("hidden"))) void *(*gpu_real_dlsym)(void *, const char *);
__attribute__((visibility("hidden"))) void gpu_find_dlsym(void);
__attribute__((visibility("hidden"))) void *gpu_dlsym(void *library, const char *name);

void gpu_find_dlsym(void)
{
#if defined(__x86_64__)
    static const char version[] = "GLIBC_2.2.5";
#else
    static const char version[] = "GLIBC_2.17";
#endif
    void *found = dlvsym(RTLD_NEXT, "dlsym", version);
    memcpy(&gpu_real_dlsym, &found, sizeof found);
}

/*
 * dlsym examines its caller when it is given RTLD_NEXT, so the hook jumps to the real one with the
 * stack unchanged. Only names that begin with "cu" matter.
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    cmpq $0, gpu_real_dlsym(%rip)\n"
        "    je 3f\n"
        "1:  cmpb $'c', (%rsi)\n"
        "    jne 2f\n"
        "    cmpb $'u', 1(%rsi)\n"
        "    je gpu_dlsym\n"
        "2:  jmp *gpu_real_dlsym(%rip)\n"
        "3:  push %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    push %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    sub $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call gpu_find_dlsym\n"
        "    add $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    pop %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    pop %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp 1b\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#else
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    hint 34\n" /* bti c */
        "1:  adrp x16, gpu_real_dlsym\n"
        "    ldr x16, [x16, :lo12:gpu_real_dlsym]\n"
        "    cbz x16, 3f\n"
        "    ldrb w17, [x1]\n"
        "    cmp w17, 'c'\n"
        "    b.ne 2f\n"
        "    ldrb w17, [x1, 1]\n"
        "    cmp w17, 'u'\n"
        "    b.eq gpu_dlsym\n"
        "2:  br x16\n"
        "3:  stp x0, x1, [sp, -32]!\n"
        "    .cfi_adjust_cfa_offset 32\n"
        "    str x30, [sp, 16]\n"
        "    .cfi_rel_offset x30, 16\n"
        "    bl gpu_find_dlsym\n"
        "    ldr x30, [sp, 16]\n"
        "    .cfi_restore x30\n"
        "    ldp x0, x1, [sp], 32\n"
        "    .cfi_adjust_cfa_offset -32\n"
        "    b 1b\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#endif

static void *look_up(void *library, const char *name)
{
    if (!gpu_real_dlsym)
        gpu_find_dlsym();
    return gpu_real_dlsym ? gpu_real_dlsym(library, name) : NULL;
}

/* Searched after this library in the global scope, or in the scope of the caller. */
static void *real(struct real_function *f, const void *caller)
{
    void *found = atomic_load_explicit(&f->found, memory_order_acquire);
    if (found)
        return found;
    found = look_up(RTLD_NEXT, f->name);
    if (!found) {
        Dl_info unused;
        struct link_map *map = NULL;
        if (dladdr1(caller, &unused, (void **)&map, RTLD_DL_LINKMAP) && map)
            found = look_up(map, f->name);
    }
    if (!found)
        (void)dlerror(); /* hides the error from the program */
    atomic_store_explicit(&f->found, found, memory_order_release);
    return found;
}

/* Concatenates the texts, with room for two more bytes. Returns the length, 0: no room. */
static size_t join(char *to, size_t room, const char *a, const char *b)
{
    size_t first = strlen(a), second = strlen(b);
    if (first >= room || second >= room - first || room - first - second < 3)
        return 0;
    memcpy(to, a, first + 1);
    memcpy(to + first, b, second + 1);
    return first + second;
}

/* ---- recording */

/* NULL: the driver has none, or is not loaded yet. */
static void *driver_function(const char *name, _Atomic(void *) *kept)
{
    void *found = atomic_load_explicit(kept, memory_order_acquire);
    if (!found) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        found = driver ? look_up(driver, name) : NULL;
        atomic_store_explicit(kept, found, memory_order_release);
    }
    return found;
}

static handle current_context(void)
{
    static _Atomic(void *) kept;
    handle context = NULL;
    int (*get)(handle *) = NULL;
    void *found = driver_function("cuCtxGetCurrent", &kept);
    memcpy(&get, &found, sizeof found);
    return get && get(&context) == 0 ? context : NULL;
}

/* NULL: it is not active. */
static handle primary_context(int device)
{
    static _Atomic(void *) kept[3];
    handle context = NULL;
    unsigned flags;
    int active = 0;
    void *found[] = {driver_function("cuDevicePrimaryCtxGetState", &kept[0]),
                     driver_function("cuDevicePrimaryCtxRetain", &kept[1]),
                     driver_function("cuDevicePrimaryCtxRelease_v2", &kept[2])};
    int (*state)(int, unsigned *, int *) = NULL;
    int (*retain)(handle *, int) = NULL;
    int (*release)(int) = NULL;
    memcpy(&state, &found[0], sizeof state);
    memcpy(&retain, &found[1], sizeof retain);
    memcpy(&release, &found[2], sizeof release);
    if (!state || !retain || !release || state(device, &flags, &active) || !active ||
        retain(&context, device))
        return NULL;
    (void)release(device);
    return context;
}

/* The pool of this thread's current device. */
static uint32_t device_pool(void)
{
    static _Atomic uint32_t pools[DEVICES];
    static _Atomic(void *) kept;
    int device = 0;
    int (*get_device)(int *) = NULL;
    void *found = driver_function("cuCtxGetDevice", &kept);
    memcpy(&get_device, &found, sizeof found);
    if (get_device && get_device(&device))
        device = 0;
    if (device < 0 || device >= (int)DEVICES)
        device = DEVICES - 1;
    uint32_t pool = atomic_load_explicit(&pools[device], memory_order_relaxed);
    if (!pool) {
        char name[32], tens[2] = {(char)('0' + device / 10), 0};
        size_t length = join(name, sizeof name, "CUDA device ", device < 10 ? "" : tens);
        name[length] = (char)('0' + device % 10);
        name[length + 1] = 0;
        pool = tidemark_pool(name);
        atomic_store_explicit(&pools[device], pool, memory_order_relaxed);
    }
    return pool;
}

enum where { DEVICE, PINNED, REGISTERED };

/* Registered memory is also in the pool that it was allocated in: run/run_trace.c. */
static uint32_t pool_of(enum where where)
{
    static const char *const names[] = {
        [PINNED] = "CUDA pinned host memory", [REGISTERED] = "CUDA registered host memory"};
    static _Atomic uint32_t pools[REGISTERED + 1];
    if (where == DEVICE)
        return device_pool();
    uint32_t pool = atomic_load_explicit(&pools[where], memory_order_relaxed);
    if (!pool) {
        pool = tidemark_pool(names[where]);
        atomic_store_explicit(&pools[where], pool, memory_order_relaxed);
    }
    return pool;
}

static void allocated(enum where where, device_address address, size_t size, const void *frame)
{
    if (!address || !tidemark_recording())
        return;
    const struct gpu_block block = {address, size, current_context(), pool_of(where)};
    if (block.pool && gpu_blocks_add(&block))
        tidemark_api()->alloc_for(block.pool, (const void *)(uintptr_t)address, size, frame);
}

static void record_free(const struct gpu_block *block)
{
    tidemark_free(block->pool, (const void *)(uintptr_t)block->address);
}

static void freed(device_address address)
{
    struct gpu_block block;
    if (gpu_blocks_remove(address, &block))
        record_free(&block);
}

/* The least granularity of physical memory, and so of where a mapping begins. */
#define MAPPED_LEAST ((device_address)64 << 10)

/* All mappings in the range end. */
static void unmapped(device_address address, size_t size)
{
    struct gpu_block block;
    for (device_address at = address; at - address < size;) {
        bool found = gpu_blocks_remove(at, &block);
        if (found)
            record_free(&block);
        at += found && block.size ? block.size : MAPPED_LEAST;
    }
}

/* The driver frees what was allocated in it. */
static void ended(handle context)
{
    struct gpu_block block;
    uint32_t at = 0;
    while (context && gpu_blocks_remove_one(context, &at, &block))
        record_free(&block);
}

/* ---- hooks */

/* A hook that allocates: on success, `size` bytes at `address` are live in the pool `where`. */
#define ALLOCATES_AT(symbol, where, address, size, parameters, arguments, types)                   \
    int symbol parameters;                                                                         \
    static struct real_function real_##symbol = {.name = #symbol, .hook = (void *)symbol};         \
    HOOK int symbol parameters                                                                     \
    {                                                                                              \
        int(*call) types = (int(*) types)real(&real_##symbol, __builtin_return_address(0));        \
        if (!call)                                                                                 \
            return NOT_FOUND;                                                                      \
        depth++;                                                                                   \
        int result = call arguments;                                                               \
        if (--depth == 0 && result == 0)                                                           \
            allocated(where, address, size, __builtin_frame_address(0));                           \
        return result;                                                                             \
    }

/* … and `pointer` receives the address, of the current device's memory. */
#define ALLOCATES(symbol, size, parameters, arguments, types)                                      \
    ALLOCATES_AT(symbol, DEVICE, pointer ? *pointer : 0, size, parameters, arguments, types)

/* `freeing` records what the call is about to end. */
#define FREES(symbol, freeing, parameters, arguments, types)                                       \
    int symbol parameters;                                                                         \
    static struct real_function real_##symbol = {.name = #symbol, .hook = (void *)symbol};         \
    HOOK int symbol parameters                                                                     \
    {                                                                                              \
        int(*call) types = (int(*) types)real(&real_##symbol, __builtin_return_address(0));        \
        if (!call)                                                                                 \
            return NOT_FOUND;                                                                      \
        if (depth++ == 0)                                                                          \
            freeing;                                                                               \
        int result = call arguments;                                                               \
        depth--;                                                                                   \
        return result;                                                                             \
    }

/* clang-format off */
#define PLAIN (device_address *pointer, size_t bytes), (pointer, bytes), \
              (device_address *, size_t)
#define MANAGED (device_address *pointer, size_t bytes, unsigned flags), (pointer, bytes, flags), \
                (device_address *, size_t, unsigned)
#define ASYNC (device_address *pointer, size_t bytes, handle stream), (pointer, bytes, stream), \
              (device_address *, size_t, handle)
#define FROM_POOL (device_address *pointer, size_t bytes, handle pool, handle stream), \
                  (pointer, bytes, pool, stream), (device_address *, size_t, handle, handle)
#define REGISTER (device_address address, size_t bytes, unsigned flags), (address, bytes, flags), \
                 (device_address, size_t, unsigned)
#define FREE (device_address address), (address), (device_address)
#define FREE_ASYNC (device_address address, handle stream), (address, stream), \
                   (device_address, handle)
#define EXPAND(macro, ...) macro(__VA_ARGS__)

EXPAND(ALLOCATES, cuMemAlloc_v2, bytes, PLAIN)
EXPAND(ALLOCATES, cuMemAllocManaged, bytes, MANAGED)
EXPAND(ALLOCATES, cuMemAllocAsync, bytes, ASYNC)
EXPAND(ALLOCATES, cuMemAllocAsync_ptsz, bytes, ASYNC)
EXPAND(ALLOCATES, cuMemAllocFromPoolAsync, bytes, FROM_POOL)
EXPAND(ALLOCATES, cuMemAllocFromPoolAsync_ptsz, bytes, FROM_POOL)
ALLOCATES(cuMemAllocPitch_v2, *pitch * height,
          (device_address *pointer, size_t *pitch, size_t width, size_t height, unsigned element),
          (pointer, pitch, width, height, element),
          (device_address *, size_t *, size_t, size_t, unsigned))
EXPAND(FREES, cuMemFree_v2, freed(address), FREE)
EXPAND(FREES, cuMemFreeAsync, freed(address), FREE_ASYNC)
EXPAND(FREES, cuMemFreeAsync_ptsz, freed(address), FREE_ASYNC)

EXPAND(ALLOCATES_AT, cuMemAllocHost_v2, PINNED, pointer ? *pointer : 0, bytes, PLAIN)
EXPAND(ALLOCATES_AT, cuMemHostAlloc, PINNED, pointer ? *pointer : 0, bytes, MANAGED)
EXPAND(ALLOCATES_AT, cuMemHostRegister_v2, REGISTERED, address, bytes, REGISTER)
ALLOCATES_AT(cuMemMap, DEVICE, address, bytes,
             (device_address address, size_t bytes, size_t offset, device_address memory,
              unsigned long long flags),
             (address, bytes, offset, memory, flags),
             (device_address, size_t, size_t, device_address, unsigned long long))
EXPAND(FREES, cuMemFreeHost, freed(address), FREE)
EXPAND(FREES, cuMemHostUnregister, freed(address), FREE)
FREES(cuMemUnmap, unmapped(address, bytes), (device_address address, size_t bytes),
      (address, bytes), (device_address, size_t))
FREES(cuCtxDestroy_v2, ended(context), (handle context), (context), (handle))
FREES(cuDevicePrimaryCtxReset_v2, ended(primary_context(device)), (int device), (device), (int))

EXPAND(ALLOCATES, cudaMalloc, bytes, PLAIN)
EXPAND(ALLOCATES, cudaMallocManaged, bytes, MANAGED)
EXPAND(ALLOCATES, cudaMallocAsync, bytes, ASYNC)
EXPAND(ALLOCATES, cudaMallocAsync_ptsz, bytes, ASYNC)
EXPAND(ALLOCATES, cudaMallocFromPoolAsync, bytes, FROM_POOL)
EXPAND(ALLOCATES, cudaMallocFromPoolAsync_ptsz, bytes, FROM_POOL)
ALLOCATES(cudaMallocPitch, *pitch * height,
          (device_address *pointer, size_t *pitch, size_t width, size_t height),
          (pointer, pitch, width, height), (device_address *, size_t *, size_t, size_t))
EXPAND(FREES, cudaFree, freed(address), FREE)
EXPAND(FREES, cudaFreeAsync, freed(address), FREE_ASYNC)
EXPAND(FREES, cudaFreeAsync_ptsz, freed(address), FREE_ASYNC)

EXPAND(ALLOCATES_AT, cudaMallocHost, PINNED, pointer ? *pointer : 0, bytes, PLAIN)
EXPAND(ALLOCATES_AT, cudaHostAlloc, PINNED, pointer ? *pointer : 0, bytes, MANAGED)
EXPAND(ALLOCATES_AT, cudaHostRegister, REGISTERED, address, bytes, REGISTER)
EXPAND(FREES, cudaFreeHost, freed(address), FREE)
EXPAND(FREES, cudaHostUnregister, freed(address), FREE)
FREES(cudaDeviceReset, ended(current_context()), (void), (), (void))
/* clang-format on */

static struct real_function *const functions[] = {
    &real_cuMemAlloc_v2,
    &real_cuMemAllocManaged,
    &real_cuMemAllocAsync,
    &real_cuMemAllocAsync_ptsz,
    &real_cuMemAllocFromPoolAsync,
    &real_cuMemAllocFromPoolAsync_ptsz,
    &real_cuMemAllocPitch_v2,
    &real_cuMemFree_v2,
    &real_cuMemFreeAsync,
    &real_cuMemFreeAsync_ptsz,
    &real_cudaMalloc,
    &real_cudaMallocManaged,
    &real_cudaMallocAsync,
    &real_cudaMallocAsync_ptsz,
    &real_cudaMallocFromPoolAsync,
    &real_cudaMallocFromPoolAsync_ptsz,
    &real_cudaMallocPitch,
    &real_cudaFree,
    &real_cudaFreeAsync,
    &real_cudaFreeAsync_ptsz,
    &real_cuMemAllocHost_v2,
    &real_cuMemHostAlloc,
    &real_cuMemHostRegister_v2,
    &real_cuMemMap,
    &real_cuMemFreeHost,
    &real_cuMemHostUnregister,
    &real_cuMemUnmap,
    &real_cuCtxDestroy_v2,
    &real_cuDevicePrimaryCtxReset_v2,
    &real_cudaMallocHost,
    &real_cudaHostAlloc,
    &real_cudaHostRegister,
    &real_cudaFreeHost,
    &real_cudaHostUnregister,
    &real_cudaDeviceReset,
};

#define FUNCTIONS (sizeof functions / sizeof *functions)

/* The driver may look up its own functions by name, and so find the hooks. */
static bool is_hook(const void *found)
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        if (functions[i]->hook == found)
            return true;
    }
    return false;
}

/* Returns the hook for a function that was found by name. */
static void *substitute(const char *name, void *found)
{
    if (is_hook(found))
        return found;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        struct real_function *f = functions[i];
        if (strcmp(f->name, name) != 0)
            continue;
        void *none = NULL;
        (void)atomic_compare_exchange_strong(&f->found, &none, found);
        return f->hook;
    }
    return found;
}

/* ---- functions by name */

/* The driver's names end with versions and variants, which callers leave out. */
static void *substitute_driver(const char *symbol, void *found, unsigned long long flags)
{
    static const char *const ends[] = {"_v2", ""};
    char name[64];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = flags & PER_THREAD_STREAM ? "_ptsz" : ends[i];
        if (!join(name, sizeof name, symbol, end))
            return found;
        void *hook = substitute(name, found);
        if (hook != found)
            return hook;
        if (flags & PER_THREAD_STREAM)
            flags &= ~(unsigned long long)PER_THREAD_STREAM; /* it may have no such variant */
    }
    return substitute(symbol, found);
}

int cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags,
                        void *status);

static struct real_function real_address = {.name = "cuGetProcAddress",
                                            .hook = (void *)cuGetProcAddress};
static struct real_function real_address_2 = {.name = "cuGetProcAddress_v2",
                                              .hook = (void *)cuGetProcAddress_v2};

/* Since version 12.0 the lookup function itself is found in its second form. */
static void *substitute_address(const char *symbol, void *found, int version,
                                unsigned long long flags)
{
    if (strcmp(symbol, "cuGetProcAddress") != 0)
        return substitute_driver(symbol, found, flags);
    struct real_function *f = version >= 12000 ? &real_address_2 : &real_address;
    void *none = NULL;
    if (found == real_address.hook || found == real_address_2.hook)
        return found;
    (void)atomic_compare_exchange_strong(&f->found, &none, found);
    return f->hook;
}

HOOK int cuGetProcAddress(const char *symbol, void **function, int version,
                          unsigned long long flags)
{
    int (*call)(const char *, void **, int, unsigned long long) =
        (int (*)(const char *, void **, int, unsigned long long))real(&real_address,
                                                                      __builtin_return_address(0));
    int result = call ? call(symbol, function, version, flags) : NOT_FOUND;
    if (result == 0 && symbol && function && *function)
        *function = substitute_address(symbol, *function, version, flags);
    return result;
}

HOOK int cuGetProcAddress_v2(const char *symbol, void **function, int version,
                             unsigned long long flags, void *status)
{
    int (*call)(const char *, void **, int, unsigned long long, void *) =
        (int (*)(const char *, void **, int, unsigned long long, void *))real(
            &real_address_2, __builtin_return_address(0));
    int result = call ? call(symbol, function, version, flags, status) : NOT_FOUND;
    if (result == 0 && symbol && function && *function)
        *function = substitute_address(symbol, *function, version, flags);
    return result;
}

void *gpu_dlsym(void *library, const char *name)
{
    void *found = gpu_real_dlsym(library, name), *none = NULL;
    if (!found)
        return NULL;
    struct real_function *f = strcmp(name, real_address.name) == 0     ? &real_address
                              : strcmp(name, real_address_2.name) == 0 ? &real_address_2
                                                                       : NULL;
    if (!f)
        return substitute(name, found);
    if (found != f->hook)
        (void)atomic_compare_exchange_strong(&f->found, &none, found);
    return f->hook;
}
