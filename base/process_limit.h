#ifndef TIDEMARK_BASE_PROCESS_LIMIT_H
#define TIDEMARK_BASE_PROCESS_LIMIT_H

/* Resource limits that a process sets permanently on itself. */

#include <stdint.h>
#include <sys/resource.h>

/*
 * Whether a sanitizer is built in. Sanitizers reserve terabytes of address space, read /proc, and
 * attach like a debugger to find leaks.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Sets both limits of a resource (RLIMIT_*) to `value`, or to the hard limit if that is lower. */
static inline void process_limit(__rlimit_resource_t what, uint64_t value)
{
    struct rlimit now;
    if (getrlimit(what, &now) != 0)
        return;
    if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max)
        value = now.rlim_max;
    const struct rlimit wanted = {value, value};
    (void)setrlimit(what, &wanted);
}

#endif
