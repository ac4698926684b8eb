#ifndef TIDEMARK_IMPORT_CHROME_EVENT_H
#define TIDEMARK_IMPORT_CHROME_EVENT_H

/*
 * Chrome trace JSON cut into its events, without keeping more than one. A text is a list of events
 * or an object with such a list as "traceEvents". Source: the "Trace Event Format" of Chrome's
 * tracing, import/src/import-chrome.cpp @ v0.14.0.
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
    enum json_kind kind; /* JSON_NOTHING: not there */
    size_t start, len;   /* in chrome_event.texts */
};

struct chrome_event {
    struct buf texts;
    struct chrome_value fields[FIELD_COUNT];
    struct json_text args;
};

/* The text of a field; empty when it is not there or no string or number. */
struct view chrome_field_text(const struct chrome_event *ev, enum chrome_field field);

/* A string's or number's value. False when it is neither, or not a finite number. */
bool chrome_text_number(struct view text, double *value);

typedef int chrome_event_put(void *ctx, const struct chrome_event *ev, struct err *e);

/* Reads the text to its end and hands over each event. */
int chrome_read(struct import_source *s, struct import_counts *counts, chrome_event_put *put,
                void *ctx, struct err *e);

#endif
