#ifndef TIDEMARK_REPORT_SINK_H
#define TIDEMARK_REPORT_SINK_H

/* The interface between report.c, which walks a summary, and the formats. For report/ only. */

#include "report/report.h"

struct report {
    const struct summary *s;
    const struct report_options *options;
    FILE *out;
    struct buf buf;    /* not written yet */
    bool failed;       /* memory was short */
    size_t width;      /* text: width of the first column */
    size_t type_width; /* text: width of the type column; 0: hidden */
    bool resident;     /* the rows have resident bytes */
    bool first;        /* JSON: the open list is empty */
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

extern const struct report_sink report_text;
extern const struct report_sink report_json;
extern const struct report_sink report_csv;

#endif
