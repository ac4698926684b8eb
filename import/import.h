#ifndef TIDEMARK_IMPORT_IMPORT_H
#define TIDEMARK_IMPORT_IMPORT_H

/*
 * Files of other tools as sources of events: read once from front to end, and fed to the ingest as
 * a client's events are. What a trace has no place for, and what is damaged but can be passed over,
 * is counted.
 */

#include "import/source.h"
#include "trace/ingest/ingest.h"

enum import_format {
    IMPORT_UNKNOWN,
    IMPORT_CHROME,    /* Chrome trace JSON */
    IMPORT_HEAPTRACK, /* a recording of heaptrack, interpreted or raw */
};

/* Things left out or mended; import_note_text has the words for each. */
enum import_note {
    NOTE_NOT_EVENTS,
    NOTE_NO_PHASE,
    NOTE_OTHER_PHASES,
    NOTE_NO_TIME,
    NOTE_NO_DURATION,
    NOTE_ASYNC_ENDS,
    NOTE_PLOT_VALUES,
    NOTE_TOO_MANY_PLOTS,
    NOTE_TOO_MANY_PROCESSES,
    NOTE_UNFINISHED_LIST,
    NOTE_TRAILING_BYTES,
    NOTE_LINES,
    NOTE_TIMES_BACK,
    NOTE_UNKNOWN_TRACES,
    NOTE_COUNT
};

struct import_counts {
    uint64_t notes[NOTE_COUNT];
    uint64_t zones;
    uint64_t messages;
    uint64_t frames;
    uint64_t plot_values;
    uint64_t allocations;
    uint64_t frees;
};

/* What notes[note] counts, for "3 events without a time": the plural. */
const char *import_note_text(enum import_note note);

/* By the first bytes of the text. */
enum import_format import_detect(struct view bytes);

/*
 * Reads all of `s` into the trace that `in` feeds, ingest_finish included. `dir` is where temporary
 * files go (NULL: $TMPDIR, else /var/tmp). ERR_INPUT with the place when the file cannot be read to
 * its end.
 */
int import_chrome(struct import_source *s, struct ingest *in, const char *dir,
                  struct import_counts *counts, struct err *e);
int import_heaptrack(struct import_source *s, struct ingest *in, struct import_counts *counts,
                     struct err *e);

#endif
