#pragma once

/*
 * Splits Chrome trace JSON into its events, holding one at a time. A text is a list of events or an
 * object with such a list as "traceEvents". Source: the "Trace Event Format" of Chrome's tracing,
 * import/src/import-chrome.cpp @ v0.14.0.
 */

#include "import/import.h"
#include "import/json_text.h"

enum chrome_field {
    FIELD_PHASE,
    FIELD_NAME,
    FIELD_TIME,
    FIELD_DURATION,
    FIELD_PROCESS,
    FIELD_THREAD,
    FIELD_LOCATION,
    FIELD_ID,
    FIELD_CATEGORY,
    FIELD_SCOPE,
    FIELD_LOCAL_ID, /* of "id2" */
    FIELD_GLOBAL_ID,
    FIELD_COUNT
};

struct chrome_value {
    enum json_kind kind; /* JSON_NOTHING: absent */
    size_t start, len;   /* in chrome_event.texts */
};

struct chrome_event {
    struct buf texts;
    struct chrome_value fields[FIELD_COUNT];
    struct json_text args;
};

/* The text of a field; empty when it is absent or not a string or number. */
struct view chrome_field_text(const struct chrome_event *ev, enum chrome_field field);

/* The value of a string or number. False when the text is not a finite number. */
bool chrome_text_number(struct view text, double *value);

typedef int chrome_event_put(void *ctx, const struct chrome_event *ev, struct err *e);

/* Reads the text to its end and passes each event to `put`. */
int chrome_read(struct import_source *s, struct import_counts *counts, chrome_event_put *put,
                void *ctx, struct err *e);
