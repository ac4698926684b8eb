#pragma once

/* Resource limits that a process sets on itself. */

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

/* Permanently sets both limits of a resource (RLIMIT_*) to `value`, or to the hard limit if that is
 * lower. */
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

/*
 * Raises this process's limit on open descriptors. Programs that it starts get the old limit back:
 * some iterate over all possible descriptors, or handle no more than 1024. Zero-initialise.
 */
struct file_limit {
    uint64_t before; /* the old soft limit; 0: unchanged */
};

/*
 * Raises the soft limit to `wanted`, or as far as the hard limit allows. Returns the soft limit now
 * in force.
 */
uint64_t file_limit_raise(struct file_limit *l, uint64_t wanted);

/* Restores the old soft limit; called in a new process. */
void file_limit_restore(const struct file_limit *l);
