#include "client/stacks.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "client/chunks.h"
#include "client/kernel_map.h"
#include "client/quiet.h"

#define HEADS_MOST (1u << 18) /* 1 MiB, of which only touched pages are resident */
#define HEADS_LEAST (1u << 12)
#define HEADS_SHARE 64 /* the most a table may take of the program's memory limit */
#define PATIENCE 1000  /* checks of a chunk that another thread is making */

typedef _Atomic uint32_t head;

/* Each table has four times as many chains as the one before. */
static inline uint32_t mask_of(unsigned table)
{
    return ((state.head_mask + 1) << 2 * table) - 1;
}

static inline size_t bytes_of(unsigned table)
{
    return (mask_of(table) + (size_t)1) * sizeof(head);
}

int stacks_begin(void)
{
    struct rlimit limit;
    /* Under a memory limit the program needs the memory more. */
    state.heads_most =
        getrlimit(RLIMIT_DATA, &limit) == 0 ? limit.rlim_cur / HEADS_SHARE : RLIM_INFINITY;
    for (uint32_t n = HEADS_MOST; n >= HEADS_LEAST; n /= 16) {
        state.head_mask = n - 1;
        if (n > HEADS_LEAST && bytes_of(0) > state.heads_most)
            continue;
        head *heads = chunks_memory(bytes_of(0));
        atomic_store(&state.heads[0], heads);
        if (heads)
            return 0;
    }
    return -1;
}

/* Once the last table's chains have a node each, new nodes go into a larger table. */
static void widen(uint32_t nodes)
{
    for (unsigned i = 1; i < CLIENT_HEAD_TABLES && nodes > mask_of(i - 1); i++) {
        if (atomic_load_explicit(&state.heads[i], memory_order_relaxed))
            continue;
        head *heads = bytes_of(i) <= state.heads_most ? chunks_memory(bytes_of(i)) : NULL;
        if (!heads)
            return;
        atomic_store_explicit(&state.heads[i], heads, memory_order_release);
    }
}

void stacks_forget(void)
{
    int saved = errno;
    for (size_t i = 0; i < CLIENT_NODE_CHUNKS; i++) {
        struct rec_node *nodes = atomic_load_explicit(&state.nodes[i], memory_order_relaxed);
        if (!nodes)
            break;
        system_unmap((struct rec_chunk *)nodes - 1, (size_t)CLIENT_NODE_UNITS * REC_UNIT);
        atomic_store_explicit(&state.nodes[i], NULL, memory_order_relaxed);
    }
    for (unsigned i = 0; i < CLIENT_HEAD_TABLES; i++) {
        head *heads = atomic_exchange(&state.heads[i], NULL);
        if (heads)
            system_unmap(heads, bytes_of(i));
    }
    atomic_store(&state.node_count, 0);
    atomic_store(&state.growing, 0);
    errno = saved;
}

void stacks_blank(void)
{
    for (size_t i = 0; i < CLIENT_NODE_CHUNKS; i++) {
        struct rec_node *nodes = atomic_load_explicit(&state.nodes[i], memory_order_relaxed);
        if (!nodes)
            break;
        system_blank((struct rec_chunk *)nodes - 1, (size_t)CLIENT_NODE_UNITS * REC_UNIT);
    }
}

/*
 * Nodes keep the epoch in their address, so old ones are never found again; clearing the tables
 * only keeps chains from filling with dead nodes.
 */
void stacks_renew(void)
{
    for (unsigned table = 0; table < CLIENT_HEAD_TABLES; table++) {
        head *heads = atomic_load_explicit(&state.heads[table], memory_order_acquire);
        for (uint32_t i = 0; heads && i <= mask_of(table); i++) {
            if (atomic_load_explicit(&heads[i], memory_order_relaxed))
                atomic_store_explicit(&heads[i], 0, memory_order_relaxed);
        }
    }
}

static inline uint32_t hash(uint32_t parent, uint64_t pc)
{
    uint64_t h = (pc ^ (uint64_t)parent << 29) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    return (uint32_t)(h * 0xd6e8feb86659fd93u >> 40);
}

static inline struct rec_node *node_at(uint32_t number)
{
    struct rec_node *nodes =
        atomic_load_explicit(&state.nodes[(number - 1) / CLIENT_NODES], memory_order_acquire);
    return nodes + (number - 1) % CLIENT_NODES;
}

/* The first thread that needs it makes the next chunk, long before the last one is full. */
static void grow(uint32_t index)
{
    uint32_t nobody = 0;
    struct quiet q;
    if (index >= CLIENT_NODE_CHUNKS ||
        atomic_load_explicit(&state.nodes[index], memory_order_acquire))
        return;
    quiet_begin(&q);
    if (!atomic_compare_exchange_strong(&state.growing, &nobody, 1)) {
        quiet_end(&q);
        return;
    }
    if (!atomic_load_explicit(&state.nodes[index], memory_order_acquire)) {
        struct rec_chunk *chunk = chunks_take(REC_CHUNK_NODES, CLIENT_NODE_UNITS);
        if (chunk) {
            chunk->first_node = index * CLIENT_NODES + 1;
            chunks_publish(chunk);
            atomic_store_explicit(&state.nodes[index], (struct rec_node *)(chunk + 1),
                                  memory_order_release);
        }
        widen(index * CLIENT_NODES);
    }
    atomic_store_explicit(&state.growing, 0, memory_order_release);
    quiet_end(&q);
}

/* The place of a new node; NULL: no room. */
static struct rec_node *fresh(uint32_t *number)
{
    uint32_t n = atomic_load_explicit(&state.node_count, memory_order_relaxed);
    do {
        uint32_t index = n / CLIENT_NODES;
        if (index >= CLIENT_NODE_CHUNKS)
            return NULL;
        for (int i = 0; !atomic_load_explicit(&state.nodes[index], memory_order_acquire); i++) {
            grow(index);
            if (i == PATIENCE ||
                atomic_load_explicit(&state.phase, memory_order_relaxed) != PHASE_ON)
                return NULL;
            if (i > 10)
                (void)sched_yield();
        }
    } while (!atomic_compare_exchange_weak(&state.node_count, &n, n + 1));
    if (n % CLIENT_NODES == CLIENT_NODES / 2)
        grow(n / CLIENT_NODES + 1);
    *number = n + 1;
    return node_at(n + 1);
}

/* Finds a node in the chain that begins with `first`; 0: none. */
static uint32_t find(uint32_t first, uint32_t parent, uint64_t pc)
{
    for (uint32_t n = first; n;) {
        const struct rec_node *node = node_at(n);
        if (node->parent == parent && atomic_load_explicit(&node->pc, memory_order_relaxed) == pc)
            return n;
        n = node->next;
    }
    return 0;
}

uint32_t stacks_node(uint32_t parent, uint64_t pc)
{
    uint32_t hashed = hash(parent, pc), first = 0, found;
    head *last = NULL;
    for (unsigned i = 0; i < CLIENT_HEAD_TABLES; i++) {
        head *heads = atomic_load_explicit(&state.heads[i], memory_order_acquire);
        if (!heads)
            break;
        last = &heads[hashed & mask_of(i)];
        first = atomic_load_explicit(last, memory_order_acquire);
        found = find(first, parent, pc);
        if (client_likely(found))
            return found;
    }
    struct rec_node *node = last ? fresh(&found) : NULL;
    if (!node)
        return 0;
    node->parent = parent;
    node->next = first;
    atomic_store_explicit(&node->pc, pc, memory_order_release);
    /* Another thread may add the same node meanwhile. Two nodes for one stack are harmless. */
    while (!atomic_compare_exchange_weak_explicit(last, &node->next, found, memory_order_release,
                                                  memory_order_acquire))
        ;
    return found;
}
