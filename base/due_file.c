#include "base/due_file.h"

#include <unistd.h>

#include "base/tempfile.h"

void due_file_release(struct due_file *f)
{
    if (f->is_open)
        close(f->fd);
    vec_release(&f->extents);
    *f = (struct due_file){.dir = f->dir};
}

static uint64_t place_of(uint32_t extent)
{
    return (uint64_t)(extent - 1) * DUE_EXTENT * sizeof(struct due_item);
}

static int open_file(struct due_file *f, struct err *e)
{
    f->fd = tempfile_open(tempfile_dir(f->dir), e);
    f->is_open = f->fd >= 0;
    return f->is_open ? 0 : -1;
}

int due_file_put(struct due_file *f, struct due_list *list, const struct due_item *items, size_t n,
                 struct err *e)
{
    uint32_t extent = f->vacant;
    if (!f->is_open && open_file(f, e) != 0)
        return -1;
    if (extent) {
        f->vacant = f->extents.at[extent - 1].next;
    } else {
        if (f->extents.len == UINT32_MAX || !vec_push(&f->extents, (struct due_extent){0}))
            return err_no_memory(e, "a queue's temporary file");
        extent = (uint32_t)f->extents.len;
    }
    f->extents.at[extent - 1] = (struct due_extent){.n = (uint32_t)n};
    *(list->first ? &f->extents.at[list->last - 1].next : &list->first) = extent;
    list->last = extent;
    return tempfile_write(f->fd, tempfile_dir(f->dir), items, n * sizeof *items, place_of(extent),
                          e);
}

int due_file_take(struct due_file *f, struct due_list *list, struct due_item *items, size_t *n,
                  struct err *e)
{
    uint32_t extent = list->first;
    struct due_extent *x = &f->extents.at[extent - 1];
    *n = x->n;
    list->first = x->next;
    x->next = f->vacant;
    f->vacant = extent;
    return tempfile_read(f->fd, tempfile_dir(f->dir), items, *n * sizeof *items, place_of(extent),
                         e);
}
