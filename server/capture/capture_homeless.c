#include "server/capture/capture_homeless.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file_io.h"
#include "base/tempfile.h"
#include "server/capture/part_name.h"

#define NAMES_MAX 100000u

bool capture_is_homeless(const struct capture *c)
{
    if (!c->watched)
        return c->folder && output_folder_is_removed(c->folder);
    char *here = getcwd(NULL, 0);
    bool removed = !here && errno == ENOENT;
    free(here);
    return removed;
}

/* A name there that is free. NULL when memory is short. */
static char *name_in(const char *folder, const char *name)
{
    struct buf output = {0};
    char *path = NULL;
    buf_printf(&output, "%s/%s", folder, name);
    for (unsigned n = 1; !output.failed && n < NAMES_MAX; n++) {
        free(path);
        path = part_name(buf_str(&output), n);
        if (!path || !file_is_there(path))
            break;
    }
    buf_release(&output);
    return path;
}

int capture_go_elsewhere(struct capture *c, struct trace *t, struct err *e)
{
    const char *folder = tempfile_dir(NULL);
    const char *slash = strrchr(capture_output(c), '/');
    char *path = name_in(folder, slash ? slash + 1 : capture_output(c));
    if (!path)
        return err_no_memory(e, "the output's name");
    free(c->part_output);
    c->part_output = path;
    c->homeless = true;
    (void)umask(077);
    return spool_set_dir(&t->spool, folder, e);
}
