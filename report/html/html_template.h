#ifndef TIDEMARK_REPORT_HTML_HTML_TEMPLATE_H
#define TIDEMARK_REPORT_HTML_HTML_TEMPLATE_H

/*
 * The page as `make web` builds it from web/, in two parts between which the data stands. Both are
 * empty in a program that was built without node and npm.
 */

#include <stddef.h>

struct page_template {
    const char *head;
    size_t head_len;
    const char *tail;
    size_t tail_len;
};

/* In $(BUILD)/gen/page_template.c, which is generated. */
extern const struct page_template page_template;

#endif
