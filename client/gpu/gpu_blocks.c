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

struct entry {
    uint64_t address; /* 0: free */
    uint32_t pool;
};

/* Open addressing; pages are allocated on first use. */
static struct {
    _Atomic uint32_t lock;
    uint32_t count;
    struct entry *entries;
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

bool gpu_blocks_add(uint64_t address, uint32_t pool)
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
        struct entry *entry = &table.entries[find(address)];
        table.count += entry->address == 0;
        *entry = (struct entry){address, pool};
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
    table.entries[hole] = (struct entry){0};
}

uint32_t gpu_blocks_remove(uint64_t address)
{
    struct quiet q;
    uint32_t pool = 0;
    if (!address)
        return 0;
    lock(&q);
    if (table.entries) {
        uint32_t at = find(address);
        if (table.entries[at].address) {
            pool = table.entries[at].pool;
            close_hole(at);
            table.count--;
        }
    }
    unlock(&q);
    return pool;
}
