#pragma once

/*
 * The page as `make web` builds it from web/, in two parts with the data in between. Both are empty
 * if the program was built without node and npm.
 */

#include <stddef.h>

struct page_template {
    const char *head;
    size_t head_len;
    const char *tail;
    size_t tail_len;
};

/* In the generated file $(BUILD)/gen/page_template.c. */
extern const struct page_template page_template;
