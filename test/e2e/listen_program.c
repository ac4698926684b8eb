/*
 * A program that is not built with Tracy and says all that tidemark.h lets it say, for tests of
 * `tidemark run --listen`. With an argument it waits until that file is there.
 */

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tidemark.h"

static char arena[64 * 64];

static void use_pools(void)
{
    uint32_t pool = tidemark_pool("arena");
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 50; i++)
            tidemark_alloc(pool, arena + 64 * i, 64);
        for (size_t i = 0; i < 10; i++)
            tidemark_free(pool, arena + 64 * i);
        tidemark_discard(pool);
    }
    /* What servers of Tracy's own take for a fault. */
    tidemark_free(pool, arena);
    tidemark_alloc(pool, arena, 32);
    tidemark_alloc(pool, arena, 48);
}

static void *work(void *unused)
{
    for (int i = 0; i < 100; i++) {
        TIDEMARK_ZONE("work");
        void *volatile block = malloc(1000 + (size_t)i);
        free(block);
        tidemark_zone_end();
    }
    TIDEMARK_ZONE("never ends");
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    use_pools();
    for (int i = 0; i < 20; i++) {
        tidemark_frame(NULL);
        tidemark_frame_begin("part");
        tidemark_plot("level", i * 1.5);
        tidemark_frame_end("part");
    }
    tidemark_frame_end("never began");
    tidemark_zone_end();
    tidemark_message("plain", 0);
    tidemark_message("red", 0xFF2010);
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 9;
    pthread_join(thread, NULL);
    while (argc > 1 && access(argv[1], F_OK) != 0)
        usleep(10000);
    return 0;
}
