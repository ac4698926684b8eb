#pragma once

/* tidemark export: the formats that store a trace as tables. */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/tables/tables.h"
#include "base/err.h"
#include "cli/export_input.h"
#include "report/export/table_files.h"

struct export_tables {
    struct export_input *input;
    const char *output; /* "-": standard output, for a single table */
    bool force;
    enum table_file_format format;
    uint64_t points; /* see usage.h */
    bool wanted[TABLE_COUNT];
    bool single; /* one table: `output` is a file; else a folder with a file for each */
};

int export_table_files(const struct export_tables *x, struct err *e);

/* All tables; format, wanted and single are ignored. */
int export_sqlite(const struct export_tables *x, struct err *e);

int export_chrome(struct export_input *input, uint64_t points, FILE *out, struct err *e);
