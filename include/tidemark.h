#ifndef TIDEMARK_H
#define TIDEMARK_H

/*
 * Lets a program report to `tidemark run`, in C or C++: blocks of custom allocators, zones,
 * frames, plots and messages.
 *
 *     #include <tidemark.h>
 *
 *     uint32_t pool = tidemark_pool("arena");
 *     tidemark_alloc(pool, block, bytes);
 *     tidemark_free(pool, block);
 *
 * There is nothing to link. The functions find the library that `tidemark run` loads; without it
 * they do nothing. All of them may be called from any thread, none fails, all preserve errno. Texts
 * are copied and cut at TIDEMARK_TEXT_MAX bytes. Sizes are in bytes.
 *
 * Before glibc 2.34 the program must be linked with -ldl, for dlsym.
 */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDEMARK_TEXT_MAX 2000

/*
 * Functions of the library. The struct only grows at its end; `size` is the size that the library
 * knows.
 */
struct tidemark_api {
    size_t size;
    uint32_t (*pool)(const char *name);
    void (*alloc)(uint32_t pool, const void *address, size_t size);
    void (*free)(uint32_t pool, const void *address);
    void (*discard)(uint32_t pool);
    void (*zone_begin)(const char *name, const char *function, const char *file, uint32_t line,
                       uint32_t color);
    void (*zone_end)(void);
    void (*frame)(const char *name, uint32_t kind);
    void (*plot)(const char *name, double value);
    void (*message)(const char *text, uint32_t color);
    int (*recording)(void);
    void (*pause)(int paused);
    /*
     * As alloc, with the call stack of the caller of a function; `frame` is that function's frame
     * address, which needs a frame pointer.
     */
    void (*alloc_for)(uint32_t pool, const void *address, size_t size, const void *frame);
};

/* The library's functions; NULL if this program is not recorded. */
static inline const struct tidemark_api *tidemark_api(void)
{
    static const struct tidemark_api *api;
    static int looked;
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&api, (const struct tidemark_api *)dlsym(RTLD_DEFAULT, "tidemark_api_1"),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&api, __ATOMIC_RELAXED);
}

/*
 * The number of the pool with this name, which is created if new. 0 is the heap, which needs no
 * calls. The limit is 1,000 pools; further names get the last pool. Returns 0 if the program is not
 * recorded.
 */
static inline uint32_t tidemark_pool(const char *name)
{
    const struct tidemark_api *api = tidemark_api();
    return api ? api->pool(name) : 0;
}

/*
 * Records a block allocated from a pool: its address and size. Call it after the allocation. A
 * macro, so that the call stack begins at the calling function.
 */
#define tidemark_alloc(pool, address, size)                                                        \
    do {                                                                                           \
        const struct tidemark_api *tidemark_api_ = tidemark_api();                                 \
        uint32_t tidemark_pool_ = (pool);                                                          \
        if (tidemark_api_ && tidemark_pool_)                                                       \
            tidemark_api_->alloc(tidemark_pool_, (address), (size));                               \
    } while (0)

/*
 * Records a freed block. Call it before the pool takes the block back, so that no other thread has
 * it yet.
 */
static inline void tidemark_free(uint32_t pool, const void *address)
{
    const struct tidemark_api *api = tidemark_api();
    if (api && pool)
        api->free(pool, address);
}

/* Records that all blocks of a pool are freed. */
static inline void tidemark_discard(uint32_t pool)
{
    const struct tidemark_api *api = tidemark_api();
    if (api && pool)
        api->discard(pool);
}

/* Begins a zone, a time range of the calling thread. Zones nest. `color`: 0xRRGGBB, 0: any. */
static inline void tidemark_zone_begin(const char *name, const char *function, const char *file,
                                       uint32_t line, uint32_t color)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->zone_begin(name, function, file, line, color);
}

#define TIDEMARK_ZONE(name) tidemark_zone_begin(name, __func__, __FILE__, (uint32_t)__LINE__, 0)

/* Ends the innermost zone of the calling thread. */
static inline void tidemark_zone_end(void)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->zone_end();
}

/* Marks the end of a frame: of the program (name NULL), or of the set with this name. */
static inline void tidemark_frame(const char *name)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->frame(name, 0);
}

/* Mark begin and end of a frame, for sets whose frames have pauses between them. */
static inline void tidemark_frame_begin(const char *name)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->frame(name, 1);
}

static inline void tidemark_frame_end(const char *name)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->frame(name, 2);
}

static inline void tidemark_plot(const char *name, double value)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->plot(name, value);
}

static inline void tidemark_message(const char *text, uint32_t color)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->message(text, color);
}

/* 1 while this process is recorded, else 0. */
static inline int tidemark_recording(void)
{
    const struct tidemark_api *api = tidemark_api();
    return api ? api->recording() : 0;
}

/* Stops (1) or resumes (0) recording the allocations of all threads. Frees are always recorded. */
static inline void tidemark_pause(int paused)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->pause(paused);
}

#ifdef __cplusplus
}
#endif

#endif
