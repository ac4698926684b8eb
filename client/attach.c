/* What `tidemark run --pid` calls in a process that it has loaded this library into. */

#include "client/got.h"
#include "client/hooks.h"
#include "client/start.h"
#include "client/state.h"

int tidemark_attach_1(const char *socket);
int tidemark_detach_1(void);

HOOK int tidemark_attach_1(const char *socket)
{
    if (start_attached(socket) != 0)
        return -1;
    got_hook((state.pools & REC_POOLS_MMAP) != 0);
    return 0;
}

/* Threads may be in hooks: they find their way out, and the library stays. */
HOOK int tidemark_detach_1(void)
{
    got_restore();
    start_detached();
    return 0;
}
