#pragma once

/* Shared by the files of libtidetrace. include/tidetrace.h states the rules for users. */

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/selection.h"
#include "analysis/names/skiplist.h"
#include "analysis/questions/budget.h"
#include "analysis/questions/related_input.h"
#include "base/err.h"
#include "base/vec.h"
#include "include/tidetrace.h"
#include "trace/file/reader.h"
#include "trace/load/load.h"

struct tidetrace {
    struct trace trace;
    struct trace_counts counts;
    struct trace_info info;
    struct related_input beside; /* plots and messages */
    bool zones, plots;           /* they are loaded */
    size_t users;                /* references: the caller, and each result and iterator */
    uint64_t texts;              /* bytes of all strings */
    uint64_t budget;             /* limit for events in memory */
    char version[FILE_VERSION_TEXT_SIZE];
    char (*pool_rooms)[32]; /* names for unnamed pools */
};

/* ---- calls */

/*
 * Every call that may fail runs in the "C" locale, so that numbers in JSON and expressions have a
 * decimal point. The calling thread's locale is restored afterwards.
 */
struct call {
    struct err err;
    locale_t before;
    struct tidetrace_error *out;
};

struct call call_begin(struct tidetrace_error *out);

/* The function's return value: OK if `status` is 0, else the code of call->err. */
int call_end(struct call *c, int status);

void lib_keep(struct tidetrace *t);
void lib_drop(struct tidetrace *t);

/* ---- structs whose size the caller states */

/*
 * Copies the caller's options to `ours` of `known` bytes. Fails with ERR_USAGE if the caller set
 * members that this library does not know.
 */
int lib_take(void *ours, size_t known, const void *theirs, struct err *e);

/*
 * Copies `ours`, which begins with its struct_size, to the caller's struct and keeps its
 * struct_size.
 */
int lib_give(void *theirs, const void *ours, size_t known, struct err *e);

/* As lib_give, for an element of an array, whose size is a parameter. */
void lib_give_element(void *array, size_t index, size_t size, const void *ours, size_t known);
int lib_check_element(size_t size, struct err *e);

static inline struct tidetrace_text lib_text(struct view v)
{
    return (struct tidetrace_text){v.len ? v.p : "", v.len};
}

/* The location of a row, from a struct frame_view. */
#define LIB_FRAME(at)                                                                              \
    .function = lib_text((at).function), .file = lib_text((at).file),                              \
    .image = lib_text((at).image), .line = (at).line

/* ---- analysis requests */

/* A selection with copies of its texts, and the skip rules for sites. */
struct question {
    struct selection_options only;
    struct skiplist skip;
    VEC(char *) texts;
};

/* Regular expressions of a request. */
struct site_rules {
    const char *const *skip;
    size_t skip_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

/* Those of request `o`. */
#define SITE_RULES(o)                                                                              \
    (&(const struct site_rules){(o).skip, (o).skip_count, (o).no_skip, (o).no_skip_count})

/* `rules`: may be NULL. */
int question_init(struct question *q, const struct tidetrace *t,
                  const struct tidetrace_selection *selection, const struct site_rules *rules,
                  struct err *e);
void question_release(struct question *q);

/* Parsed expressions on totals. */
struct expressions {
    VEC(struct budget) list;
};

/* Parses and adds expressions. With `alone` there is no base, so changes are refused. */
int expressions_take(struct expressions *x, const char *const *texts, size_t n, bool alone,
                     struct err *e);
void expressions_release(struct expressions *x);

struct summary_check;
int lib_give_check(struct tidetrace_check *theirs, const struct summary_check *check,
                   struct err *e);

/* ---- results */

struct tidetrace_result;

/*
 * An analysis. Each function gets its own struct, which begins with the result and was zeroed
 * before `build`.
 */
struct result_type {
    size_t size; /* of that struct */
    /* Takes the caller's options (lib_take) and sets `rows`. */
    int (*build)(struct tidetrace_result *r, const void *options, struct err *e);
    /* Writes the rows [first, first + count), which all exist, as JSON. */
    int (*write)(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                 struct err *e);
    /* Fills the caller's struct with a row, which exists. NULL: there are no rows. */
    int (*row)(struct tidetrace_result *r, uint64_t row, void *to, struct err *e);
    /* Releases what `build` made, also after it failed; all but the members of the result. */
    void (*release)(struct tidetrace_result *r);
};

struct tidetrace_result {
    const struct result_type *type;
    struct tidetrace *traces[2]; /* the second one only for a diff */
    struct question question;
    struct selection selection; /* see result_select */
    uint64_t rows;
    struct tidetrace_text *names; /* of rows, made on demand */
    bool whole;                   /* the whole result is being written, not a page */
};

/*
 * What a public function returns that analyses `t`, and `other` if there are two traces: makes a
 * result of this type.
 */
int result_ask(const struct result_type *type, struct tidetrace *t, struct tidetrace *other,
               const void *options, struct tidetrace_result **result,
               struct tidetrace_error *error);

/* What a public function returns that fills the struct `to` with a row of this type. */
int result_give(const struct result_type *type, struct tidetrace_result *r, uint64_t row, void *to,
                struct tidetrace_error *error);

/* The public function that asks a question of this type, and that which gives a row of it. */
#define LIB_ASK(NAME, OPTIONS, TYPE)                                                               \
    int tidetrace_##NAME(struct tidetrace *trace, const struct OPTIONS *options,                   \
                         struct tidetrace_result **result, struct tidetrace_error *error)          \
    {                                                                                              \
        return result_ask(&(TYPE), trace, NULL, options, result, error);                           \
    }
#define LIB_ROW(NAME, TYPE)                                                                        \
    int tidetrace_##NAME(struct tidetrace_result *result, uint64_t row,                            \
                         struct tidetrace_##NAME *out, struct tidetrace_error *error)              \
    {                                                                                              \
        return result_give(&(TYPE), result, row, out, error);                                      \
    }

/*
 * The type, the request and the rows of a question whose functions in its file are build,
 * write_json, give_row and release.
 */
#define LIB_QUESTION(NAME, OPTIONS, ROW)                                                           \
    static const struct result_type NAME##_type = {.size = sizeof(struct NAME##_result),           \
                                                   .build = build,                                 \
                                                   .write = write_json,                            \
                                                   .row = give_row,                                \
                                                   .release = release};                            \
    LIB_ASK(NAME, OPTIONS, NAME##_type)                                                            \
    LIB_ROW(ROW, NAME##_type)

/* The result of a question, a struct TYPE, and its release. */
#define LIB_RESULT(NAME, TYPE, FIELD)                                                              \
    struct NAME##_result {                                                                         \
        struct tidetrace_result base;                                                              \
        struct TYPE FIELD;                                                                         \
    };                                                                                             \
    static void release(struct tidetrace_result *r)                                                \
    {                                                                                              \
        TYPE##_release(&((struct NAME##_result *)r)->FIELD);                                       \
    }

/* The same of a struct NAME with `rows`, and what writes them. */
#define LIB_RESULT_OF_ROWS(NAME)                                                                   \
    LIB_RESULT(NAME, NAME, NAME)                                                                   \
    static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,   \
                          struct err *e)                                                           \
    {                                                                                              \
        static const struct leak_report_options options = {.format = REPORT_JSON};                 \
        struct NAME part = ((struct NAME##_result *)r)->NAME;                                      \
        vec_part(&part.rows, first, count);                                                        \
        return NAME##_write(&part, &r->selection, &options, out, e);                               \
    }

/* ERR_USAGE unless the result is of this type and has such a row. */
int result_row(const struct tidetrace_result *r, const struct result_type *type, uint64_t row,
               struct err *e);

/* Returns the name of a row; makes it with `put` on first use and keeps it. */
int result_name(struct tidetrace_result *r, uint64_t row,
                void (*put)(struct buf *out, const void *of), const void *of,
                struct tidetrace_text *name, struct err *e);

/* Copies the request and makes the selection of it. `rules`: may be NULL. */
int result_select(struct tidetrace_result *r, const struct tidetrace_selection *selection,
                  const struct site_rules *rules, struct err *e);

struct counter;
struct tidetrace_figures lib_figures(const struct counter *c);
