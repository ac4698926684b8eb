#include "base/memory_bound.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/process_limit.h"

#define STACK ((size_t)1 << 20)
#define MAPPED_LEAST (1 << 20)

static uint64_t bound, allowed;

/* Threads need little stack, but what is reserved counts. */
static void shrink_stacks(void)
{
    pthread_attr_t a;
    if (pthread_attr_init(&a) != 0)
        return;
    if (pthread_attr_setstacksize(&a, STACK) == 0)
        (void)pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
}

void memory_bound_set(uint64_t bytes)
{
    struct rlimit now;
    if (bound || bytes == 0)
        return;
    bound = bytes;
    if (SANITIZED || getrlimit(RLIMIT_DATA, &now) != 0) /* sanitizers abort when memory is short */
        return;
    if (bytes < MEMORY_BOUND_LEAST)
        bytes = MEMORY_BOUND_LEAST;
    if (bytes >= now.rlim_cur)
        return;
    shrink_stacks();
    /* One heap, and without holes that large blocks leave. */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_LEAST);
    now.rlim_cur = bytes;
    if (setrlimit(RLIMIT_DATA, &now) == 0)
        allowed = bytes;
}

uint64_t memory_bound(void)
{
    return bound;
}

uint64_t memory_bound_allows(void)
{
    return allowed;
}
