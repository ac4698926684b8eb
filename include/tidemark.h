#ifndef TIDEMARK_H
#define TIDEMARK_H

/*
 * What a program can tell `tidemark run` about itself, in C or C++: blocks of its own allocators,
 * zones, frames, plots and messages.
 *
 *     #include <tidemark.h>
 *
 *     uint32_t pool = tidemark_pool("arena");
 *     tidemark_alloc(pool, block, bytes);
 *     tidemark_free(pool, block);
 *
 * There is nothing to link. The functions look for the library that `tidemark run` loads and do
 * nothing where it is not. All of them may be called from any thread, none fails, all keep errno.
 * Texts are copied; bytes beyond TIDEMARK_TEXT_MAX are cut off. Sizes are in bytes.
 *
 * A program built with it needs the C library's dlsym: -ldl before glibc 2.34.
 */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDEMARK_TEXT_MAX 2000

/* The library's side. It only ever grows at its end; `size` is what the library knows. */
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
    /* As alloc, for the caller of the function whose frame address (which needs a frame pointer) it
     * is. */
    void (*alloc_for)(uint32_t pool, const void *address, size_t size, const void *frame);
};

/* The library's functions; NULL: this program is not being recorded. */
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
 * The number of the pool with this name, made when it is new. 0 is the heap, which needs no calls.
 * There may be 1,000 pools; what is beyond goes to the last one. 0 when nothing is recorded.
 */
static inline uint32_t tidemark_pool(const char *name)
{
    const struct tidemark_api *api = tidemark_api();
    return api ? api->pool(name) : 0;
}

/*
 * A block that a pool handed out: to be called behind that, with its number, address and size. It
 * has the caller's call stack, and is a macro so that the caller is the function that it stands in.
 */
#define tidemark_alloc(pool, address, size)                                                        \
    do {                                                                                           \
        const struct tidemark_api *tidemark_api_ = tidemark_api();                                 \
        uint32_t tidemark_pool_ = (pool);                                                          \
        if (tidemark_api_ && tidemark_pool_)                                                       \
            tidemark_api_->alloc(tidemark_pool_, (address), (size));                               \
    } while (0)

/* A block that a pool takes back: to be called before that, so that no other thread has it yet. */
static inline void tidemark_free(uint32_t pool, const void *address)
{
    const struct tidemark_api *api = tidemark_api();
    if (api && pool)
        api->free(pool, address);
}

/* All blocks of a pool are gone. */
static inline void tidemark_discard(uint32_t pool)
{
    const struct tidemark_api *api = tidemark_api();
    if (api && pool)
        api->discard(pool);
}

/* A stretch of time of the calling thread. Zones lie within one another. `color`: 0xRRGGBB, 0: any.
 */
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

/* A frame of the program ends here (name NULL), or one of the set with this name. */
static inline void tidemark_frame(const char *name)
{
    const struct tidemark_api *api = tidemark_api();
    if (api)
        api->frame(name, 0);
}

/* Frames of a set that have pauses between them. */
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

/* Stops (1) recording allocations of all threads, or goes on (0). Frees are recorded all the time.
 */
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
