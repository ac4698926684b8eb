#include "run/recording/chunk_run.h"

#include <stdlib.h>
#include <string.h>

void run_init(struct run *r, const struct chunk *c)
{
    *r = (struct run){.chunk = *c, .stamp = c->base_stamp, .thread = c->tid};
}

void run_release(struct run *r)
{
    free(r->window);
    r->window = NULL;
    r->pos = NULL;
    r->at += r->len;
    r->len = 0;
}

int run_fill(struct run *r, const struct chunks *file, struct err *e)
{
    if (!r->window && r->at == r->chunk.committed)
        return 0;
    if (!r->window) {
        r->window = malloc(RUN_WINDOW + RUN_PADDING);
        if (!r->window)
            return err_no_memory(e, "a recording");
        r->pos = r->window;
        r->len = 0;
    }
    uint32_t used = (uint32_t)(r->pos - r->window);
    memmove(r->window, r->pos, r->len - used);
    r->at += used;
    r->len -= used;
    r->pos = r->window;
    uint32_t want = r->chunk.committed - r->at - r->len;
    if (want > RUN_WINDOW - r->len)
        want = RUN_WINDOW - r->len;
    size_t got = chunks_read(file, &r->chunk, r->at + r->len, r->window + r->len, want);
    r->len += (uint32_t)got;
    if (got < want) {
        /* The file was truncated, or its space was freed. */
        r->chunk.committed = r->at + r->len;
        r->damaged = true;
    }
    memset(r->window + r->len, 0, RUN_PADDING);
    if (r->len == 0)
        run_release(r);
    return 0;
}
