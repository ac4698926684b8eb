#pragma once

/*
 * Files of other tools as sources of events. An importer reads a file once from front to end and
 * feeds the ingest with events like a client's. It counts data that a trace cannot hold, and damage
 * that it can skip.
 */

#include "import/source.h"
#include "trace/ingest/ingest.h"

enum import_format {
    IMPORT_UNKNOWN,
    IMPORT_CHROME,    /* Chrome trace JSON */
    IMPORT_HEAPTRACK, /* a recording of heaptrack, interpreted or raw */
    IMPORT_TORCH,     /* a snapshot of PyTorch's CUDA allocator, pickle or JSON */
};

/* Data left out or repaired; import_note_text describes each. */
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
    NOTE_LARGE_SIZES,
    NOTE_ENTRIES,
    NOTE_ACTIONS,
    NOTE_ENTRY_TIMES,
    NOTE_MISSED_FREES,
    NOTE_UNKNOWN_FREES,
    NOTE_GONE,
    NOTE_MAPPINGS,
    NOTE_UNKNOWN_POOLS,
    NOTE_DEEP_STACKS,
    NOTE_HOST_ENTRIES,
    NOTE_MARKS,
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
    uint64_t early; /* allocations that are older than the file's history */
    uint64_t early_bytes;
};

/* The plural noun for notes[note], as in "3 events without a time". */
const char *import_note_text(enum import_note note);

/* Detects the format by the first bytes of the text. */
enum import_format import_detect(struct view bytes);

/* Whether the first bytes are the beginning of an object or array of JSON. */
bool import_starts_json(struct view bytes);

/*
 * Reads all of `s` into the trace that `in` feeds, ingest_finish included. `dir` is the folder of
 * temporary files (NULL: $TMPDIR, else /var/tmp). ERR_INPUT with the location when the file cannot
 * be read to its end.
 */
int import_chrome(struct import_source *s, struct ingest *in, const char *dir,
                  struct import_counts *counts, struct err *e);
int import_heaptrack(struct import_source *s, struct ingest *in, struct import_counts *counts,
                     struct err *e);
int import_torch(struct import_source *s, struct ingest *in, struct import_counts *counts,
                 struct err *e);
