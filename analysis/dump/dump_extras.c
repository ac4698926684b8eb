#include "analysis/dump/dump_extras.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/tempfile.h"

#define RECENT_MAX 65536u

void dump_extras_init(struct dump_extras *x, const char *dir)
{
    *x = (struct dump_extras){.dir = tempfile_dir(dir), .fd = -1};
}

void dump_extras_release(struct dump_extras *x)
{
    if (x->mapped)
        munmap((void *)x->mapped, x->written * sizeof *x->mapped);
    x->mapped = NULL;
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
    vec_release(&x->recent);
}

static int write_recent(struct dump_extras *x, struct err *e)
{
    size_t size = sizeof *x->recent.at;
    if (x->fd < 0 && (x->fd = tempfile_open(x->dir, e)) < 0)
        return -1;
    if (tempfile_write(x->fd, x->dir, x->recent.at, x->recent.len * size, x->written * size, e) !=
        0)
        return -1;
    x->written += x->recent.len;
    x->recent.len = 0;
    return 0;
}

int dump_extras_add(struct dump_extras *x, const struct rec_zone_extra *r, struct err *e)
{
    if (x->recent.len == RECENT_MAX && write_recent(x, e) != 0)
        return -1;
    return vec_push(&x->recent, *r) ? 0 : err_no_memory(e, "zone extras");
}

int dump_extras_finish(struct dump_extras *x, struct err *e)
{
    if (x->written == 0)
        return 0;
    void *map = mmap(NULL, x->written * sizeof *x->mapped, PROT_READ, MAP_SHARED, x->fd, 0);
    if (map == MAP_FAILED)
        return err_errno(e, ERR_MEMORY, "cannot map a temporary file in %s", x->dir);
    x->mapped = map;
    return 0;
}
