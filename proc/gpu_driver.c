#include "proc/gpu_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/monotonic.h"

#define PROCESSES_MOST 1024u

/* nvmlProcessInfo_v1_t, with which nvmlProcessInfo_v2_t begins. */
struct gpu_process {
    unsigned pid;
    unsigned long long used;
};

#define STRIDE_V2 (sizeof(struct gpu_process) + 8)

/* ---- loading */

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool find_all(struct gpu_driver *d, void *library)
{
    d->stride = STRIDE_V2;
    if (!find(library, "nvmlDeviceGetComputeRunningProcesses_v2", &d->processes)) {
        d->stride = sizeof(struct gpu_process);
        if (!find(library, "nvmlDeviceGetComputeRunningProcesses", &d->processes))
            return false;
    }
    return find(library, "nvmlDeviceGetHandleByIndex_v2", &d->device) &&
           find(library, "nvmlDeviceGetMemoryInfo", &d->memory);
}

static const char *load(struct gpu_driver *d)
{
    int (*begin)(void);
    int (*count)(unsigned *);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "libnvidia-ml.so.1 cannot be loaded";
    if (!find(library, "nvmlInit_v2", &begin) || !find(library, "nvmlDeviceGetCount_v2", &count) ||
        !find_all(d, library))
        return "libnvidia-ml.so.1 lacks a function";
    if (begin() != 0 || count(&d->devices) != 0 || d->devices == 0)
        return "libnvidia-ml.so.1 finds no driver or no GPU";
    return NULL;
}

/* ---- reading */

struct sums {
    unsigned long long own, used, total;
    bool listed;
};

static const char *add_process(const struct gpu_process *p, pid_t pid, const struct gpu_bytes *of,
                               struct sums *s, bool *here)
{
    if (p->pid != (unsigned)pid)
        return kill((pid_t)p->pid, 0) != 0 && errno == ESRCH
                   ? "the driver lists processes that are not in this PID namespace"
                   : NULL;
    if (p->used > of->total) /* NVML_VALUE_NOT_AVAILABLE is the highest number */
        return "the driver does not report it by process";
    *here = true;
    s->own += p->used;
    return NULL;
}

static const char *add_device(const struct gpu_driver *d, unsigned index, pid_t pid, struct sums *s)
{
    _Alignas(8) char list[PROCESSES_MOST * STRIDE_V2];
    unsigned n = PROCESSES_MOST;
    struct gpu_bytes bytes = {0};
    void *device = NULL;
    bool here = false;
    if (d->device(index, &device) != 0 || d->memory(device, &bytes) != 0 ||
        d->processes(device, &n, list) != 0 || n > PROCESSES_MOST)
        return "the driver does not report it by process";
    for (unsigned i = 0; i < n; i++) {
        struct gpu_process p;
        memcpy(&p, list + i * d->stride, sizeof p);
        const char *unknown = add_process(&p, pid, &bytes, s, &here);
        if (unknown)
            return unknown;
    }
    s->listed |= here;
    s->used += here ? bytes.used : 0;
    s->total += here ? bytes.total : 0;
    return NULL;
}

static void put(struct memory_reading *out, enum memory_value which, unsigned long long bytes)
{
    out->known |= UINT32_C(1) << which;
    out->value[which] = (double)bytes;
}

const char *gpu_driver_read(struct gpu_driver *d, pid_t pid, struct memory_reading *out)
{
    struct sums s = {0};
    const char *unknown = NULL;
    if (!d->devices && !d->failure)
        d->failure = load(d);
    *out = (struct memory_reading){.time = monotonic_ns()};
    if (d->failure)
        return d->failure;
    for (unsigned i = 0; i < d->devices && !unknown; i++)
        unknown = add_device(d, i, pid, &s);
    if (unknown || !s.listed)
        return unknown ? unknown : "the driver does not list the process";
    put(out, MEMORY_GPU_PROCESS, s.own);
    put(out, MEMORY_GPU_USED, s.used);
    put(out, MEMORY_GPU_SIZE, s.total);
    return NULL;
}
