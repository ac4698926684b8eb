#pragma once

/* The interface between report.c, which walks a summary, and the formats. For report/ only. */

#include "report/report.h"
#include "report/write/counter_columns.h"

enum text_column_kind { COLUMN_COUNTER, COLUMN_SHARE, COLUMN_BAR, COLUMN_RESIDENT, COLUMN_COST };

/* A column of rows of text, between the name and the type. */
struct text_column {
    enum text_column_kind kind;
    const struct counter_column *counter; /* COLUMN_COUNTER */
    unsigned width;
};

#define TEXT_COLUMNS_MAX (COUNTER_COLUMNS + 4)

struct report {
    const struct summary *s;
    const struct report_options *options;
    struct document doc;
    size_t width;      /* text: width of the first column */
    size_t type_width; /* text: width of the type column; 0: hidden */
    size_t pool_width; /* text: width of the pool column on a terminal; 0: hidden */
    bool resident;     /* the rows have resident bytes */
    struct text_column columns[TEXT_COLUMNS_MAX]; /* text */
    unsigned column_count, columns_left_out;
    unsigned pool_columns; /* text: bits of the columns of the table of pools */
};

/* A format. Unused functions may be NULL. */
struct report_sink {
    void (*begin)(struct report *r);
    void (*pools_begin)(struct report *r);
    void (*pool)(struct report *r, const struct summary_pool *p);
    void (*pools_end)(struct report *r);
    void (*rows_begin)(struct report *r, const struct row_list *rows, bool groups);
    void (*row)(struct report *r, const struct summary_row *row);
    void (*rows_end)(struct report *r, const struct row_list *rows, bool groups);
    void (*faults_begin)(struct report *r);
    void (*fault)(struct report *r, const struct summary_fault *f);
    void (*faults_end)(struct report *r);
    void (*checks_begin)(struct report *r);
    void (*check)(struct report *r, const struct summary_check *c);
    void (*checks_end)(struct report *r);
    void (*end)(struct report *r);
    bool sites_and_groups; /* with groups, show the sites, too */
};

/* The rows of text; a call stack in it. */
void text_rows_begin(struct report *r, const struct row_list *rows, bool groups);
void text_row(struct report *r, const struct summary_row *row);
void text_rows_end(struct report *r, const struct row_list *rows, bool groups);
void text_callstack(struct report *r, uint32_t callstack);

extern const struct report_sink report_text;
extern const struct report_sink report_json;
extern const struct report_sink report_csv;
