/* The reader gives what parquet.c wrote, and refuses damaged files and files of other columns. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file_io.h"
#include "report/export/parquet.h"
#include "report/export/parquet_column.h"
#include "report/export/parquet_read.h"

/* Texts that repeat and that do not, numbers of all types, with and without missing ones. */
static const struct table_column columns[] = {
    {"trace", CELL_TEXT, false},   {"row", CELL_COUNT, false},  {"odd", CELL_TEXT, true},
    {"few", CELL_TEXT, true},      {"some", CELL_COUNT, true},  {"sign", CELL_INTEGER, false},
    {"maybe", CELL_INTEGER, true}, {"at", CELL_ADDRESS, false}, {"real", CELL_REAL, false},
    {"part", CELL_REAL, true},     {"is", CELL_BOOL, false},    {"was", CELL_BOOL, true},
    {"none", CELL_TEXT, true},
};
#define WIDTH ((unsigned)(sizeof columns / sizeof *columns))
static const struct table table = {"mixed", columns, WIDTH, 2};

struct texts {
    char trace[40], odd[40], few[40];
};

static void make_row(uint64_t row, struct cell *cells, struct texts *t)
{
    uint64_t chance = row * UINT64_C(6364136223846793005) >> 20;
    snprintf(t->trace, sizeof t->trace, "%032llx", (unsigned long long)(row / 1000));
    snprintf(t->odd, sizeof t->odd, "%llu of %llu", (unsigned long long)chance,
             (unsigned long long)row);
    snprintf(t->few, sizeof t->few, "%.*s", (int)(chance % 7), "abcdefg");
    memset(cells, 0, WIDTH * sizeof *cells);
    cells[0].text = view_of(t->trace);
    cells[1].count = row;
    cells[2] = (struct cell){.null = chance % 3 == 0, .text = view_of(t->odd)};
    cells[3] = (struct cell){.null = chance % 5 == 0, .text = view_of(t->few)};
    cells[4] = (struct cell){.null = chance % 2 == 0, .count = chance % 11};
    cells[5].integer = -(int64_t)chance;
    cells[6] = (struct cell){.null = row % 1000 != 0, .integer = INT64_MIN + (int64_t)row};
    cells[7].count = UINT64_MAX - chance;
    cells[8].real = (double)chance / 3;
    cells[9] = (struct cell){.null = row % 2 == 1, .real = -1.5};
    cells[10].truth = chance & 1;
    cells[11] = (struct cell){.null = chance % 4 == 0, .truth = chance >> 4 & 1};
    cells[12].null = true;
}

static int new_file(void)
{
    int fd = memfd_create("table", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int written(uint64_t rows)
{
    int fd = new_file();
    struct err e = {0};
    struct emit to = {.out = fdopen(dup(fd), "w"), .what = "a table"};
    assert_non_null(to.out);
    struct parquet *p = parquet_open(&to, &table, "test", &e);
    assert_non_null(p);
    for (uint64_t row = 1; row <= rows; row++) {
        struct cell cells[WIDTH];
        struct texts t;
        make_row(row, cells, &t);
        assert_int_equal(parquet_row(p, cells, &e), 0);
    }
    assert_int_equal(parquet_finish(p, &e), 0);
    assert_int_equal(emit_finish(&to, &e), 0);
    parquet_free(p);
    emit_release(&to);
    assert_int_equal(fclose(to.out), 0);
    return fd;
}

static bool is_same(const struct cell *a, const struct cell *b, enum cell_type type)
{
    if (a->null || b->null)
        return a->null == b->null;
    if (type == CELL_TEXT)
        return view_equal(a->text, b->text);
    return type == CELL_BOOL ? a->truth == b->truth : a->count == b->count;
}

/* The rows that can be read, which are as they were written if `check`; -1: then something is
 * wrong. */
static int64_t read_rows(int fd, unsigned width, bool check, struct err *e)
{
    struct parquet_reader *r;
    struct cell got[WIDTH], want[WIDTH];
    struct texts t;
    int64_t rows = 0;
    int status;
    if (parquet_read_open(&r, fd, &table, width, e) != PARQUET_OPEN)
        return -1;
    while ((status = parquet_read_row(r, got, e)) > 0) {
        make_row((uint64_t)++rows, want, &t);
        for (unsigned i = 0; check && i < width; i++)
            assert_true(is_same(&got[i], &want[i], columns[i].type));
    }
    parquet_read_free(r);
    return status < 0 ? -1 : rows;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1,
                                      2,
                                      7,
                                      8,
                                      9,
                                      1000,
                                      PARQUET_PAGE_ROWS,
                                      PARQUET_PAGE_ROWS + 1,
                                      PARQUET_GROUP_ROWS,
                                      PARQUET_GROUP_ROWS + 1,
                                      300000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct err e = {0};
        int fd = written(counts[i]);
        assert_int_equal(read_rows(fd, WIDTH, true, &e), counts[i]);
        assert_int_equal(read_rows(fd, 1, true, &e), counts[i]);
        close(fd);
    }
}

static void test_no_rows(void **state)
{
    (void)state;
    struct err e = {0};
    int fd = written(0);
    assert_int_equal(read_rows(fd, WIDTH, true, &e), 0);
    close(fd);
}

static void test_other_columns(void **state)
{
    (void)state;
    struct err e = {0};
    struct parquet_reader *r;
    struct table_column other[WIDTH];
    int fd = written(10);
    for (unsigned i = 0; i < WIDTH; i++) {
        memcpy(other, columns, sizeof other);
        for (int how = 0; how < 3; how++) {
            const struct table changed = {"mixed", other, how == 2 ? i : WIDTH, 0};
            other[i] = columns[i];
            if (how == 0)
                other[i].name = "x";
            else if (how == 1)
                other[i].nullable = !other[i].nullable;
            assert_int_equal(parquet_read_open(&r, fd, &changed, changed.width, &e),
                             PARQUET_OTHER_COLUMNS);
            assert_null(r);
        }
    }
    close(fd);
}

/* Each bit damaged, and each length: an error with words, or all rows as they were written. */
static void test_damage(void **state)
{
    (void)state;
    static uint8_t bytes[1 << 16];
    int fd = written(40);
    size_t size = (size_t)lseek(fd, 0, SEEK_END);
    assert_true(size < sizeof bytes);
    assert_int_equal(file_read(fd, bytes, size, 0), 0);
    for (size_t i = 0; i < size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct err e = {0};
            uint8_t byte = bytes[i] ^ (uint8_t)(1u << bit);
            assert_int_equal(file_write(fd, &byte, 1, i), 0);
            int64_t rows = read_rows(fd, WIDTH, true, &e);
            /* Without an error it passes for a file of other columns. */
            assert_true(rows == 40 || rows == -1);
            assert_true(!e.code || (e.code == ERR_INPUT && e.text[0]));
        }
        assert_int_equal(file_write(fd, &bytes[i], 1, i), 0);
    }
    for (size_t i = size; i-- > 0;) {
        struct err e = {0};
        assert_int_equal(ftruncate(fd, (off_t)i), 0);
        assert_int_equal(read_rows(fd, WIDTH, false, &e), -1);
        assert_int_equal(e.code, ERR_INPUT);
        assert_true(e.text[0]);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_other_columns),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
