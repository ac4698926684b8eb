#include "trace/save_file.h"

#include "base/outfile.h"
#include "trace/convert.h"
#include "trace/save.h"

static int save_to_fd(struct trace *t, int fd, const struct save_options *options,
                      struct trace_write_stats *stats, struct buf *losses, struct err *e)
{
    struct trace_writer_options to = {.layout = options->layout, .container = options->container};
    struct convert_options conversion = {.target = options->layout, .spill_dir = t->spool.dir};
    struct trace_writer *writer = NULL;
    struct convert *convert = NULL;
    int status = trace_writer_open(&writer, fd, &to, e);
    if (status == 0) {
        struct record_sink sink = trace_writer_sink(writer);
        status = convert_open(&convert, &sink, &conversion, e);
    }
    if (status == 0) {
        struct record_sink sink = convert_sink(convert);
        status = trace_save(t, &sink, e);
    }
    if (status == 0)
        status = trace_writer_finish(writer, stats, e);
    if (status == 0)
        convert_losses(convert, losses);
    convert_free(convert);
    trace_writer_free(writer);
    return status;
}

int trace_save_file(struct trace *t, const char *path, const struct save_options *options,
                    struct trace_write_stats *stats, struct buf *losses, struct err *e)
{
    struct outfile out;
    if (outfile_open(&out, path, options->replace, e) != 0)
        return -1;
    if (save_to_fd(t, out.fd, options, stats, losses, e) != 0) {
        outfile_abort(&out);
        return err_prefix(e, "cannot write %s", path);
    }
    return outfile_commit(&out, e);
}
