#include "trace/load/load_beside.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool trace_read_appendix(const char *path, struct appendix *a)
{
    struct err ignored = {0};
    if (strcmp(path, "-") == 0) /* standard input can be read only once */
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    int found = appendix_read(fd, a, &ignored);
    close(fd);
    return found == 1;
}

bool trace_has_only_figures(const char *path)
{
    struct appendix a;
    struct view bytes;
    if (!trace_read_appendix(path, &a))
        return false;
    bool found = appendix_find(&a, APPENDIX_ONLY, &bytes);
    free(a.content);
    return found;
}

static int take_looks(struct trace *t, const struct appendix *a, struct err *e)
{
    struct view pages;
    page_looks_release(&t->looks);
    return appendix_find(a, APPENDIX_PAGES, &pages) ? page_looks_decode(&t->looks, pages, e) : 0;
}

int trace_take_resident(struct trace *t, const struct appendix *a, struct err *e)
{
    struct view bytes;
    resident_stacks_release(&t->resident);
    return appendix_find(a, APPENDIX_RESIDENT, &bytes)
               ? resident_stacks_decode(&t->resident, bytes, e)
               : 0;
}

int trace_load_looks(struct trace *t, const char *path, struct err *e)
{
    struct appendix a;
    if (!trace_read_appendix(path, &a))
        return 0;
    int status = take_looks(t, &a, e);
    free(a.content);
    return status;
}

int trace_load_resident(struct trace *t, const char *path, struct err *e)
{
    struct appendix a;
    if (!trace_read_appendix(path, &a))
        return 0;
    int status = trace_take_resident(t, &a, e);
    free(a.content);
    return status;
}

int trace_load_beside(struct trace *t, int fd, struct err *e)
{
    struct appendix a;
    struct err ignored = {0};
    if (appendix_read(fd, &a, &ignored) != 1)
        return 0;
    int status = take_looks(t, &a, e) == 0 ? trace_take_resident(t, &a, e) : -1;
    free(a.content);
    return status;
}
