/*
 * A trace in every form of `tidemark export`. The first byte picks the forms and what is shown, the
 * second a file version, the rest is the inner stream behind the version number.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/questions/stack_profile.h"
#include "analysis/tables/tables.h"
#include "report/export/chrome_export.h"
#include "report/export/sqlite_db.h"
#include "report/export/stack_formats.h"
#include "report/export/table_files.h"
#include "test/fuzz/pieces.h"
#include "trace/file/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The number of the version, then what was given. */
struct input {
    uint8_t magic[INNER_MAGIC_SIZE];
    bool begun;
    struct pieces rest;
};

static ssize_t read_input(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct input *in = ctx;
    if (in->begun)
        return read_piece(&in->rest, out, room, e);
    in->begun = true;
    memcpy(out, in->magic, sizeof in->magic);
    return sizeof in->magic;
}

static int load(void *ctx, struct trace *t, const struct trace_load_options *options, struct err *e)
{
    struct input in = *(const struct input *)ctx;
    return trace_load_inner(t, (struct byte_source){&in, read_input}, options, e);
}

static void export_stacks(struct input *in, unsigned choice, FILE *out)
{
    const struct trace_load_options all = {0};
    const struct summary_options options = {.by = GROUP_CALLSTACK};
    const struct stack_format_options form = {
        .count = choice & 8, .of = choice >> 4 & 3, .wanted = {true, true, true, true}};
    struct err e = {0};
    struct trace t;
    struct summary s;
    struct profile p;
    if (trace_init(&t, NULL, &e) != 0)
        return;
    if (load(in, &t, &all, &e) == 0 && summary_build(&s, &t, &options, &e) == 0) {
        if (profile_build(&p, &s, choice & 64, &e) == 0) {
            (void)folded_write(&p, &form, out, &e);
            (void)pprof_write(&p, out, &e);
            (void)speedscope_write(&p, &form, out, &e);
            profile_release(&p);
        }
        summary_release(&s);
    }
    trace_release(&t);
}

static void export_files(const struct tables_source *source, enum table_file_format format,
                         uint64_t points, FILE *null)
{
    FILE *out[TABLE_COUNT];
    struct err e = {0};
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        out[i] = null;
    struct table_files *f = table_files_open(format, out, "fuzzer version 1", &e);
    if (!f)
        return;
    struct table_sink sink = table_files_sink(f);
    sink.points = points;
    if (tables_export(source, &sink, NULL, &e) == 0)
        (void)table_files_finish(f, &e);
    table_files_free(f);
}

static void export_database(const struct tables_source *source, uint64_t points)
{
    struct err e = {0};
    struct progress quiet = {0};
    int fd = memfd_create("database", MFD_CLOEXEC);
    struct sqlite_db *d = fd < 0 ? NULL : sqlite_db_open(fd, &e);
    if (d) {
        struct table_sink sink = sqlite_db_sink(d);
        sink.points = points;
        /* A key that comes twice would be an error here: no trace may have one. */
        if (tables_export(source, &sink, NULL, &e) == 0 && sqlite_db_finish(d, &quiet, &e) != 0)
            __builtin_trap();
        if (strstr(e.text, "constraint"))
            __builtin_trap();
        sqlite_db_free(d);
    }
    if (fd >= 0)
        close(fd);
}

static void export_events(const struct tables_source *source, uint64_t points, FILE *out)
{
    struct err e = {0};
    struct chrome *c = chrome_open(out, points, &e);
    if (!c)
        return;
    struct table_sink sink = chrome_sink(c);
    if (tables_export(source, &sink, NULL, &e) == 0)
        (void)chrome_finish(c, &e);
    chrome_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    if (size < 2)
        return 0;
    struct input in = {.rest = {data + 2, size - 2, 0}};
    const struct tables_source source = {&in, load};
    uint64_t points = data[0] & 128 ? 0 : data[0] >> 3;
    codec_write_magic(all[data[1] % n].version, in.magic);
    FILE *null = fopen("/dev/null", "w");
    if (!null)
        return 0;
    switch (data[0] & 7) {
    case 0:
        export_files(&source, TABLE_FILE_TSV, points, null);
        break;
    case 1:
        export_files(&source, TABLE_FILE_NDJSON, points, null);
        break;
    case 2:
    case 3:
        export_files(&source, TABLE_FILE_PARQUET, points, null);
        break;
    case 4:
        export_database(&source, points);
        break;
    case 5:
        export_events(&source, points, null);
        break;
    default:
        export_stacks(&in, data[0], null);
    }
    fclose(null);
    return 0;
}
