#include "client/gpu/gpu_blocks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "client/kernel_map.h"
#include "client/quiet.h"

#define PLACES (1u << 20)
#define MOST (PLACES / 4 * 3)

/* Open addressing; pages are allocated on first use. */
static struct {
    _Atomic uint32_t lock;
    uint32_t count;
    struct gpu_block *entries; /* address 0: free */
} table;

static void lock(struct quiet *q)
{
    quiet_begin(q);
    while (atomic_exchange_explicit(&table.lock, 1, memory_order_acquire))
        (void)sched_yield();
}

static void unlock(const struct quiet *q)
{
    atomic_store_explicit(&table.lock, 0, memory_order_release);
    quiet_end(q);
}

static uint32_t home_of(uint64_t address)
{
    return (uint32_t)((address >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 44);
}

static uint32_t find(uint64_t address)
{
    uint32_t at = home_of(address);
    while (table.entries[at].address && table.entries[at].address != address)
        at = (at + 1) % PLACES;
    return at;
}

bool gpu_blocks_add(const struct gpu_block *block)
{
    struct quiet q;
    lock(&q);
    if (!table.entries) {
        void *p = system_map(PLACES * sizeof *table.entries,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        table.entries = p == MAP_FAILED ? NULL : p;
    }
    bool room = table.entries && table.count < MOST;
    if (room) {
        struct gpu_block *entry = &table.entries[find(block->address)];
        table.count += entry->address == 0;
        *entry = *block;
    }
    unlock(&q);
    return room;
}

/* Moves entries that were displaced by the removed one back over the hole. */
static void close_hole(uint32_t hole)
{
    for (uint32_t at = (hole + 1) % PLACES; table.entries[at].address; at = (at + 1) % PLACES) {
        uint32_t home = home_of(table.entries[at].address);
        if ((at - home) % PLACES < (at - hole) % PLACES)
            continue;
        table.entries[hole] = table.entries[at];
        hole = at;
    }
    table.entries[hole] = (struct gpu_block){0};
}

static bool take(uint32_t at, struct gpu_block *block)
{
    *block = table.entries[at];
    if (!block->address)
        return false;
    close_hole(at);
    table.count--;
    return true;
}

bool gpu_blocks_remove(uint64_t address, struct gpu_block *block)
{
    struct quiet q;
    if (!address)
        return false;
    lock(&q);
    bool found = table.entries && take(find(address), block);
    unlock(&q);
    return found;
}

/* The hole may get an entry from behind, so the place is examined once more. */
bool gpu_blocks_remove_one(const void *context, uint32_t *at, struct gpu_block *block)
{
    struct quiet q;
    bool found = false;
    lock(&q);
    for (; table.entries && *at < PLACES && !found; *at += !found) {
        const struct gpu_block *entry = &table.entries[*at];
        found = entry->address && entry->context == context && take(*at, block);
    }
    unlock(&q);
    return found;
}
