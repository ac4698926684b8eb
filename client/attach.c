/* Functions that `tidemark run --pid` calls in a process into which it has loaded this library. */

#include "client/got.h"
#include "client/hooks/hooks.h"
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
     * Until all hooks are in place a block might be allocated through a hook and freed past it. The
     * collector ends the hold when it has changed the pointers that the program stored.
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
 * The recording ends first, since frees past a hook are not recorded from now on. Threads may be in
 * hooks and return through them, so the library stays loaded.
 */
HOOK int tidemark_detach_1(void)
{
    start_detached();
    got_restore();
    return REC_ATTACH_DONE;
}
