/*
 * A program for memory profilers to record: N allocations (5000000), each of which replaces one of
 * 50,000 live blocks, from 1024 call stacks 10 calls deep, in 8 sizes. Half of the remaining blocks
 * are freed at the end.
 *
 *     churn [N]
 */

#include <stdint.h>
#include <stdlib.h>

#define BLOCKS 50000u
#define DEPTH 10u

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Calls itself at two places, so that the return addresses encode the bits of `path`. */
static __attribute__((noinline)) void *call(unsigned depth, uint64_t path, size_t size)
{
    void *p;
    if (depth == 0)
        return malloc(size);
    if (path & 1) {
        p = call(depth - 1, path >> 1, size);
        __asm__ volatile("" ::: "memory");
    } else {
        p = call(depth - 1, path >> 1, size);
        __asm__ volatile("nop" ::: "memory"); /* keeps the compiler from merging both calls */
    }
    return p;
}

int main(int argc, char **argv)
{
    static void *blocks[BLOCKS];
    uint64_t seed = 88172645463325252u;
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000000;
    for (unsigned long i = 0; i < n; i++) {
        void **place = &blocks[next(&seed) % BLOCKS];
        uint64_t r = next(&seed);
        free(*place);
        *place = call(DEPTH, r & ((1u << DEPTH) - 1), (size_t)24 << (r >> 61));
    }
    for (unsigned i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    return 0;
}
