#pragma once

/*
 * Rows of a question, described once: the columns that a row has, and which of them each form of a
 * document shows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/format.h"
#include "report/write/document.h"

/* Without a value: "-" in text, null in JSON, nothing in CSV and Markdown. */
enum value_kind {
    VALUE_NONE,
    VALUE_COUNT,   /* uint64_t */
    VALUE_COUNT32, /* uint32_t */
    VALUE_BYTES,   /* uint64_t */
    VALUE_TIME,    /* int64_t, ns */
    VALUE_ADDRESS, /* uint64_t */
    VALUE_FLAG,    /* of `get`: true, or 1 in CSV */
    VALUE_REAL,    /* double */
    VALUE_SHARE,   /* of `get`: n of whole. A percentage; from 0 to 1 in JSON */
    VALUE_CHANGE,  /* of `get`: from n to whole, bytes, signed */
    VALUE_RISE,    /* double, bytes, signed */
    VALUE_WORD,    /* of `get`: text of this program; NULL: none */
    VALUE_NAME,    /* struct view: text of the trace; may be empty */
    VALUE_POOL,    /* uint32_t, index in the selection's pools */
    VALUE_SITE,    /* struct frame_view; several members of JSON, several columns of CSV */
    VALUE_STACK,   /* uint32_t, number of a call stack: its frames in JSON */
};

struct row_value {
    enum value_kind kind;
    union {
        uint64_t n;
        int64_t ns;
        double x;
        struct view name;
    };
    uint64_t whole;
    const char *word;
    char room[2 * FORMAT_SIZE]; /* for a word */
};

/* How printf writes a real number: the letter of its conversion, and the precision. */
struct number_style {
    char letter; /* 'e', 'f' or 'g' */
    int precision;
};

struct row_column {
    const char *key; /* of JSON and CSV; "a.b" in JSON: member b of the object a */
    enum value_kind kind;
    size_t offset; /* of the value in the row */
    /* Instead of the offset: fills the value. */
    void (*get)(struct row_value *v, const void *row);
    bool (*known)(const void *row); /* false: there is no value. NULL: there always is */
    size_t no_callstack;            /* VALUE_SITE: offset of a bool */
    struct number_style text, csv;  /* VALUE_REAL; by default "%.6g" in CSV */
};

/* The columns of a row that belongs to an allocation site; ROW has these members. */
#define SITE_COLUMNS(ROW)                                                                          \
    {"pool", VALUE_POOL, .offset = offsetof(ROW, pool)},                                           \
        {"site", VALUE_SITE, .offset = offsetof(ROW, frame),                                       \
         .no_callstack = offsetof(ROW, no_callstack)},                                             \
    {                                                                                              \
        "callstack", VALUE_STACK, .offset = offsetof(ROW, callstack)                               \
    }

/*
 * What each form shows, from left to right, separated by "|": KEY, or KEY=TITLE.
 * - text: KEY=TITLE:WIDTH. Numbers are right-aligned. A width of 0 has two blanks before the value
 *   and none behind it. "pool" without a title: only if there are several pools.
 * - json, csv: the title replaces the key. An empty KEY is an empty column of CSV.
 * - markdown: ">" before the title aligns the column to the right.
 */
struct row_table {
    const struct row_column *columns; /* ends with one without a key */
    const char *text, *json, *csv, *markdown;
};

#define ROW_COLUMNS_MAX 32u

struct shown_column {
    const struct row_column *column; /* NULL: an empty one */
    struct view title;
    size_t width;
};

struct row_writer {
    struct document *doc;
    const struct selection *s;
    enum report_format format;
    struct shown_column shown[ROW_COLUMNS_MAX];
    size_t len;
    const struct row_column *site, *stack; /* with call stacks; else NULL */
    unsigned site_width;                   /* of sites on a terminal; 0: as wide as they are */
    unsigned left_out;                     /* columns that have no room on the terminal */
};

/*
 * On a terminal, columns of text are shown from left to right as long as they leave room for a
 * site, and sites are shortened. `stack_traces`: text has the call stack of each row under it,
 * Markdown has them in the end.
 */
struct row_writer row_writer(struct document *d, const struct row_table *table,
                             const struct selection *s, enum report_format format,
                             bool stack_traces);

/* Writes the titles, in all forms but JSON. */
void row_titles(struct row_writer *w);

/* Writes one row; in JSON, an element of the open list. */
void row_write(struct row_writer *w, const void *row);

/* The same but for the end of the line, in text. */
void row_cells(struct row_writer *w, const void *row);

/* The object that row_write writes in JSON. NULL: out of memory. */
json_t *row_json(struct row_writer *w, const void *row);

/* Writes `n` rows of `size` bytes. */
void rows_write(struct row_writer *w, const void *rows, size_t n, size_t size);

/*
 * After `shown` out of `all` rows: in text and Markdown the number of missing ones, if any, each
 * called `what`; in JSON the end of the list and of the document.
 */
void rows_end(struct row_writer *w, size_t shown, size_t all, const char *what);

/* In Markdown with `stack_traces`: the call stacks of these rows, collapsible. */
void rows_stacks(struct row_writer *w, const void *rows, size_t n, size_t size);
