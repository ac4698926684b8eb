/* What `tidemark run --pid` calls in a process that it has loaded this library into. */

#include "client/got.h"
#include "client/hooks.h"
#include "client/real.h"
#include "client/start.h"
#include "client/state.h"

int tidemark_attach_1(const char *socket);
int tidemark_detach_1(void);
const struct rec_stored *tidemark_stored_1(void);

HOOK int tidemark_attach_1(const char *socket)
{
    int status = start_attached(socket);
    if (status != REC_ATTACH_DONE)
        return status;
    /*
     * Until all are in place a block might be allocated through a hook and freed past it. The
     * collector ends this when it has changed what the program stored itself.
     */
    atomic_store(&state.header->control, REC_CONTROL_HOLD);
    if (real_is_late())
        got_hook((state.pools & REC_POOLS_MMAP) != 0);
    got_hook_allocators();
    return REC_ATTACH_DONE;
}

HOOK const struct rec_stored *tidemark_stored_1(void)
{
    static struct rec_stored stored;
    if (real_is_late())
        got_stored(&stored, (state.pools & REC_POOLS_MMAP) != 0);
    return &stored;
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
