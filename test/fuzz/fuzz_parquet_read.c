/*
 * Any bytes as a Parquet file of a fleet's table, which the first byte chooses. If it is read to
 * its end, what is written of its rows is read as the same.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/tables/fleet.h"
#include "base/file_io.h"
#include "report/export/parquet.h"
#include "report/export/parquet_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int new_file(void)
{
    int fd = memfd_create("table", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    return fd;
}

/* Copies the rows; -1: they cannot be read. */
static int64_t copy(int from, int to, const struct table *table)
{
    struct err e = {0};
    struct parquet_reader *r;
    struct cell cells[TABLE_WIDTH_MAX];
    int64_t rows = 0;
    int status = 1;
    if (parquet_read_open(&r, from, table, table->width, &e) != PARQUET_OPEN)
        return -1;
    struct emit out = {.out = fdopen(dup(to), "w"), .what = "a table"};
    struct parquet *p = out.out ? parquet_open(&out, table, "fuzz", &e) : NULL;
    if (!p)
        abort();
    while ((status = parquet_read_row(r, cells, &e)) > 0) {
        rows++;
        if (parquet_row(p, cells, &e) != 0)
            abort();
    }
    if (parquet_finish(p, &e) != 0 || emit_finish(&out, &e) != 0 || fclose(out.out) != 0)
        abort();
    parquet_free(p);
    emit_release(&out);
    parquet_read_free(r);
    return status < 0 ? -1 : rows;
}

static bool is_same(int a, int b)
{
    off_t n = lseek(a, 0, SEEK_END);
    void *x = malloc((size_t)n + 1), *y = malloc((size_t)n + 1);
    bool same = x && y && lseek(b, 0, SEEK_END) == n && file_read(a, x, (size_t)n, 0) == 0 &&
                file_read(b, y, (size_t)n, 0) == 0 && memcmp(x, y, (size_t)n) == 0;
    free(x);
    free(y);
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct table *table = fleet_table(data[0] % FLEET_TABLE_COUNT);
    int first = new_file(), second = new_file(), third = new_file();
    if (file_write(first, data + 1, size - 1, 0) != 0)
        abort();
    int64_t rows = copy(first, second, table);
    if (rows >= 0 && (copy(second, third, table) != rows || !is_same(second, third)))
        abort();
    close(first);
    close(second);
    close(third);
    return 0;
}
