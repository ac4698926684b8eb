#include "server/sinks/table_output.h"

int table_output_open(struct table_output *o, const char *path, const struct table *table,
                      struct err *e)
{
    if (outfile_open(&o->file, path, true, e) != 0) {
        o->file = (struct outfile){.fd = -1};
        return -1;
    }
    o->emit = (struct emit){.out = outfile_stream(&o->file, e), .what = "a table"};
    if (!o->emit.out)
        return -1;
    o->rows = parquet_open(&o->emit, table, "tidemark version " TIDEMARK_VERSION, e);
    return o->rows ? 0 : -1;
}

int table_output_finish(struct table_output *o, struct err *e)
{
    int status = parquet_finish(o->rows, e);
    if (status == 0)
        status = emit_finish(&o->emit, e);
    FILE *out = o->emit.out;
    o->emit.out = NULL;
    if (fclose(out) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write a table");
    return status;
}

void table_output_drop(struct table_output *o)
{
    parquet_free(o->rows);
    emit_release(&o->emit);
    if (o->emit.out)
        (void)fclose(o->emit.out);
    if (o->file.path)
        outfile_abort(&o->file);
    *o = (struct table_output)TABLE_OUTPUT_NONE;
}
