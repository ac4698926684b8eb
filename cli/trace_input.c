#include "cli/trace_input.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tempfile.h"

/* Input that must be read several times but is a pipe is copied to a temporary file. */
static int make_rereadable(struct trace_input *in, struct err *e)
{
    struct stat st;
    in->begin = lseek(in->fd, 0, SEEK_CUR);
    bool can_seek = in->begin >= 0 && fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode);
    if (can_seek || in->passes == 1)
        return 0;
    int copy = tempfile_copy(in->fd, tempfile_dir(NULL), e);
    if (copy < 0)
        return err_prefix(e, "%s", in->path);
    if (in->fd != STDIN_FILENO)
        close(in->fd);
    in->fd = copy;
    in->begin = 0;
    return 0;
}

int trace_input_open(struct trace_input *in, const char *path, unsigned passes, bool quiet,
                     struct err *e)
{
    struct stat st;
    bool standard_input = strcmp(path, "-") == 0;
    *in = (struct trace_input){.path = standard_input ? "standard input" : path, .passes = passes};
    in->fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    if (make_rereadable(in, e) != 0) {
        trace_input_close(in);
        return -1;
    }
    /* Reading a pipe could block forever: then signals keep their default action. */
    if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode)) {
        in->size = (uint64_t)st.st_size;
        interrupt_hold(&in->interrupt);
    }
    in->progress = progress_begin(in->size * passes, quiet);
    return 0;
}

void trace_input_clear(struct trace_input *in)
{
    progress_clear(&in->progress);
}

void trace_input_close(struct trace_input *in)
{
    trace_input_clear(in);
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    in->fd = -1;
    interrupt_release(&in->interrupt);
}

static int progress(void *ctx, uint64_t file_bytes, struct err *e)
{
    struct trace_input *in = ctx;
    if (interrupt_came(&in->interrupt))
        return err_set(e, ERR_OUTPUT, "interrupted");
    progress_show(&in->progress, in->size * in->pass + file_bytes);
    return 0;
}

static int read_pass(void *ctx, unsigned pass, const struct record_sink *sink, const bool *wanted,
                     struct trace_info *info, struct err *e)
{
    struct trace_input *in = ctx;
    const struct trace_read_options options = {
        .wanted = wanted, .progress = progress, .progress_ctx = in};
    in->pass = pass;
    if (pass > 0 && lseek(in->fd, in->begin, SEEK_SET) < 0)
        return err_errno(e, ERR_INPUT, "cannot read %s again", in->path);
    return trace_read(in->fd, in->path, sink, &options, info, e);
}

struct rewrite_source trace_input_source(struct trace_input *in)
{
    return (struct rewrite_source){.ctx = in, .read = read_pass};
}
