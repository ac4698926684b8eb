#include "client/sampling.h"

#include <string.h>
#include <sys/mman.h>

#include "client/chunks.h"
#include "client/clock.h"
#include "client/real.h"
#include "client/threads.h"

#define BUCKETS (1u << 17)
#define SMALL_AT_ONCE 256u
#define SLOTS 7u /* addresses per bucket, which is a cache line */

struct bucket {
    _Atomic uint64_t slots[SLOTS];
    _Atomic uint64_t overflowed; /* if set, frees of all blocks of this bucket are recorded */
};

static struct {
    struct bucket *buckets;
    uint64_t seed;
} set;

_Atomic uint8_t *sampling_counters;

static inline uint64_t hash(const void *address)
{
    uint64_t h = ((uint64_t)(uintptr_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Blocks of the early array must not reach the real free, so they always count as recorded. */
static void mark_early(void)
{
    size_t bytes;
    const uint8_t *early = real_early_memory(&bytes);
    for (size_t i = 0; sampling_counters && i < bytes; i += 1u << SAMPLING_GRANULE)
        atomic_store_explicit(sampling_counter(early + i), UINT8_MAX, memory_order_relaxed);
    if (sampling_counters)
        atomic_store_explicit(sampling_counter(early + bytes - 1), UINT8_MAX, memory_order_relaxed);
}

void sampling_begin(uint64_t seed)
{
    set.seed = seed ? seed : clock_ns();
    state.filtered = false;
    if (!state.min_size && !state.sample) {
        /* After an earlier attach, all blocks must be checked from now on. */
        if (sampling_counters)
            memset((void *)sampling_counters, UINT8_MAX, SAMPLING_COUNTERS);
        return;
    }
    if (!set.buckets)
        set.buckets = chunks_memory(BUCKETS * sizeof *set.buckets);
    if (set.buckets && !sampling_counters)
        sampling_counters = chunks_memory(SAMPLING_COUNTERS);
    mark_early();
    state.filtered = true;
}

void sampling_forget(void)
{
    if (set.buckets)
        (void)madvise((void *)set.buckets, BUCKETS * sizeof *set.buckets, MADV_DONTNEED);
    if (sampling_counters)
        (void)madvise((void *)sampling_counters, SAMPLING_COUNTERS, MADV_DONTNEED);
    mark_early();
}

/* ---- the set */

static void count_up(_Atomic uint8_t *counter)
{
    uint8_t n = atomic_load_explicit(counter, memory_order_relaxed);
    while (n < UINT8_MAX && !atomic_compare_exchange_weak(counter, &n, (uint8_t)(n + 1)))
        ;
}

static void count_down(_Atomic uint8_t *counter)
{
    uint8_t n = atomic_load_explicit(counter, memory_order_relaxed);
    while (n > 0 && n < UINT8_MAX && !atomic_compare_exchange_weak(counter, &n, (uint8_t)(n - 1)))
        ;
}

static void add(const void *address)
{
    struct bucket *bucket = &set.buckets[(hash(address) >> 16) % BUCKETS];
    count_up(sampling_counter(address));
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t none = 0;
        if (atomic_load_explicit(&bucket->slots[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&bucket->slots[i], &none, (uintptr_t)address))
            return;
    }
    atomic_store(&bucket->overflowed, 1);
}

void sampling_keeps(const void *address)
{
    if (set.buckets && sampling_counters)
        add(address);
}

bool sampling_drops(const void *address)
{
    if (client_unlikely(!sampling_counters || !set.buckets))
        return true;
    _Atomic uint8_t *counter = sampling_counter(address);
    if (client_likely(atomic_load_explicit(counter, memory_order_relaxed) == 0))
        return false;
    struct bucket *bucket = &set.buckets[(hash(address) >> 16) % BUCKETS];
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t own = (uintptr_t)address;
        if (atomic_load_explicit(&bucket->slots[i], memory_order_relaxed) == own &&
            atomic_compare_exchange_strong(&bucket->slots[i], &own, 0)) {
            count_down(counter);
            return true;
        }
    }
    return atomic_load_explicit(&bucket->overflowed, memory_order_relaxed) != 0;
}

/* ---- the sample */

/* splitmix64, with a state per thread. */
static uint64_t next_random(void)
{
    uint64_t z = tls.random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/*
 * -ln(u) of a random u in (0, 1): exponentially distributed with mean 1. The C library's logarithm
 * is in libm, which not all programs load. So u = m * 2^e with m in [1, 2), and ln m = 2 artanh((m
 * - 1) / (m + 1)), whose series is accurate to 1e-8 after eight terms.
 */
static double exponential(void)
{
    double u = ((double)(next_random() >> 11) + 0.5) * 0x1p-53;
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1023) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    double t = (m - 1) / (m + 1), square = t * t, sum = 0, power = t;
    for (int i = 1; i < 16; i += 2) {
        sum += power / i;
        power *= square;
    }
    return -(2 * sum + e * 0.693147180559945309);
}

static uint64_t draw(void)
{
    double distance = exponential() * (double)state.sample;
    return distance < 0x1p62 ? (uint64_t)distance + 1 : INT64_MAX;
}

static bool is_sampled(size_t size)
{
    uint64_t *until = state.min_size ? &tls.distant : &tls.skip;
    if (client_unlikely(!tls.drawn)) {
        tls.drawn = true;
        threads_expect_end();
        tls.random = set.seed + (uint64_t)(uintptr_t)&tls;
        *until = draw();
    }
    if (client_likely(*until > size)) {
        *until -= size;
        return false;
    }
    *until = draw();
    return true;
}

void sampling_count_small(void)
{
    atomic_fetch_add_explicit(&state.header->too_small, tls.small, memory_order_relaxed);
    tls.small = 0;
}

bool sampling_takes(const void *address, size_t size)
{
    if (size < state.min_size) {
        if (++tls.small == SMALL_AT_ONCE)
            sampling_count_small();
        return false;
    }
    if (state.sample && !is_sampled(size))
        return false;
    sampling_keeps(address);
    return true;
}
