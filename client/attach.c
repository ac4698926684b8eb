/* What `tidemark run --pid` calls in a process that it has loaded this library into. */

#include "client/got.h"
#include "client/hooks.h"
#include "client/real.h"
#include "client/start.h"
#include "client/state.h"

int tidemark_attach_1(const char *socket);
int tidemark_detach_1(void);

HOOK int tidemark_attach_1(const char *socket)
{
    int status = start_attached(socket);
    if (status != REC_ATTACH_DONE)
        return status;
    /* Until all are in place a block might be allocated through a hook and freed past it. */
    _Atomic uint32_t *control = &state.header->control;
    uint32_t hold = REC_CONTROL_HOLD, wish = atomic_exchange(control, hold);
    if (real_is_late())
        got_hook((state.pools & REC_POOLS_MMAP) != 0);
    got_hook_allocators();
    (void)atomic_compare_exchange_strong(control, &hold, wish);
    return REC_ATTACH_DONE;
}

/*
 * The recording ends first: what is freed past a hook then is not in it any more. Threads may be in
 * hooks: they find their way out, and the library stays.
 */
HOOK int tidemark_detach_1(void)
{
    start_detached();
    got_restore();
    return REC_ATTACH_DONE;
}
