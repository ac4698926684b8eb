/*
 * A malloc that is preloaded after libtidemark.so and writes the call stack of each call, as
 * libgcc's unwinder finds it, to ORACLE_FILE: address, size, number of frames, and each frame's
 * address; its top bit is set if a signal interrupted the frame.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <unwind.h>

#define MOST 240

struct entry {
    uint64_t address, size, count, pc[MOST];
};

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *entry)
{
    struct entry *e = entry;
    int interrupted = 0;
    uint64_t pc = _Unwind_GetIPInfo(context, &interrupted);
    if (pc)
        e->pc[e->count++] = pc | (uint64_t)(interrupted != 0) << 63;
    return e->count < MOST ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void *malloc(size_t size)
{
    static void *(*next)(size_t);
    static int file = -1;
    static __thread int busy __attribute__((tls_model("initial-exec")));
    if (!next) {
        const char *path = getenv("ORACLE_FILE");
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
        file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    }
    if (busy || file < 0)
        return next(size);
    struct entry e;
    busy = 1;
    e.size = size;
    e.count = 0;
    _Unwind_Backtrace(add, &e);
    void *p = next(size);
    e.address = (uintptr_t)p;
    ssize_t length = (ssize_t)(24 + 8 * e.count);
    if (write(file, &e, length) != length)
        abort();
    busy = 0;
    return p;
}
