#include "base/memory_bound.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/process_limit.h"

#define STACK ((size_t)1 << 20)
#define MAPPED_LEAST (1 << 20)

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

static uint64_t allowed_by(uint64_t bytes)
{
    return bytes < MEMORY_BOUND_LEAST ? MEMORY_BOUND_LEAST : bytes;
}

void memory_bound_set(uint64_t bytes)
{
    struct rlimit now;
    if (bytes == 0 || SANITIZED) /* sanitizers abort when memory is short */
        return;
    if (getrlimit(RLIMIT_DATA, &now) != 0 || allowed_by(bytes) >= now.rlim_cur)
        return;
    shrink_stacks();
    /* One heap, and without holes that large blocks leave. */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_LEAST);
    now.rlim_cur = allowed_by(bytes);
    (void)setrlimit(RLIMIT_DATA, &now);
}

size_t memory_bound_share(uint64_t bytes)
{
    struct rlimit now;
    if (bytes)
        return (size_t)(bytes / 2);
    bool bounded = getrlimit(RLIMIT_DATA, &now) == 0 && now.rlim_cur != RLIM_INFINITY;
    return bounded ? (size_t)(now.rlim_cur / 2) : 0;
}

void memory_bound_explain(uint64_t bytes, struct err *e)
{
    struct rlimit now;
    size_t len = strlen(e->text);
    if (e->code != ERR_MEMORY || bytes == 0 || getrlimit(RLIMIT_DATA, &now) != 0 ||
        now.rlim_cur != allowed_by(bytes))
        return;
    snprintf(e->text + len, sizeof e->text - len, ": --memory allows %" PRIu64 " MiB; allow more",
             (uint64_t)(now.rlim_cur >> 20));
}
