#include "client/maps.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "client/chunks.h"
#include "client/events.h"
#include "client/kernel_map.h"
#include "client/quiet.h"

/* The kernel's default limit of mappings is 65,530. */
#define MAPS_MOST 65536u

struct map {
    uint64_t low, high;
    uint32_t stack;
    bool skipped; /* not in the recording: made during a pause, or there was no room */
};

/*
 * Sorted by address. While the lock is held all signals are blocked, so a handler never waits for
 * its own thread; real calls are made outside.
 */
static struct {
    _Atomic uint32_t lock;
    uint32_t count;
    struct map *maps;
} table;

static void lock(struct quiet *q)
{
    quiet_begin(q);
    while (atomic_exchange_explicit(&table.lock, 1, memory_order_acquire))
        (void)sched_yield();
    if (!table.maps)
        table.maps = chunks_memory(MAPS_MOST * sizeof *table.maps);
}

static void unlock(const struct quiet *q)
{
    atomic_store_explicit(&table.lock, 0, memory_order_release);
    quiet_end(q);
}

bool maps_wanted(void)
{
    return (state.pools & REC_POOLS_MMAP) && event_is_on();
}

void maps_forget(void)
{
    atomic_store(&table.lock, 0);
    table.count = 0;
}

void maps_clear(void)
{
    struct quiet q;
    lock(&q);
    table.count = 0;
    unlock(&q);
}

/* The first one that ends after `address`. */
static uint32_t find(uint64_t address)
{
    uint32_t low = 0, high = table.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table.maps[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(uint32_t at, struct map map)
{
    if (!table.maps || table.count == MAPS_MOST)
        return;
    memmove(&table.maps[at + 1], &table.maps[at], (table.count - at) * sizeof map);
    table.maps[at] = map;
    table.count++;
}

static void add_block(struct map map, unsigned how)
{
    if (!table.maps || table.count == MAPS_MOST)
        return; /* not in the table, so it gets no records */
    if (!map.skipped && !event_map(map.low, map.high - map.low, how, map.stack)) {
        map.skipped = true;
        map.stack = 0;
    }
    insert(find(map.low), map);
}

/* Removes [low, high) from the blocks. Parts outside it remain as blocks. */
static uint32_t release(uint64_t low, uint64_t high, unsigned how)
{
    uint32_t at = find(low), stack = 0;
    while (table.maps && at < table.count && table.maps[at].low < high) {
        struct map old = table.maps[at];
        if (!stack)
            stack = old.stack;
        table.count--;
        memmove(&table.maps[at], &table.maps[at + 1], (table.count - at) * sizeof old);
        if (!old.skipped)
            event_unmap(old.low, how);
        if (old.low < low)
            add_block((struct map){old.low, low, old.stack, old.skipped}, how);
        if (old.high > high)
            add_block((struct map){high, old.high, old.stack, old.skipped}, how);
        at = find(low);
    }
    return stack;
}

static uint64_t round_up(uint64_t size)
{
    return (size + system_page() - 1) & ~(system_page() - 1);
}

void maps_add(uint64_t address, uint64_t size, unsigned how, const struct origin *origin)
{
    struct quiet q;
    uint32_t stack = event_stack(origin);
    lock(&q);
    (void)release(address, address + round_up(size), how); /* the range was mapped past the hooks */
    add_block((struct map){address, address + round_up(size), stack, false}, how);
    unlock(&q);
}

uint32_t maps_release(uint64_t address, uint64_t size, unsigned how)
{
    struct quiet q;
    if (address % system_page() || !size || size > UINT64_MAX - system_page() - address)
        return 0; /* the kernel will refuse it, too */
    lock(&q);
    uint32_t stack = release(address, address + round_up(size), how);
    unlock(&q);
    return stack;
}

void maps_restore(uint64_t address, uint64_t size, unsigned how, uint32_t stack)
{
    struct quiet q;
    if (!stack)
        return; /* there was no block */
    lock(&q);
    (void)release(address, address + round_up(size), how);
    add_block((struct map){address, address + round_up(size), stack, false}, how);
    unlock(&q);
}
