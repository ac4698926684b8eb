#pragma once

/*
 * File versions and the contents of their layouts. The layout is chosen once, when a file is opened
 * or created; codecs check its flags, never the number. Source: the `fileVer` tests in
 * server/TracyWorker.cpp @ v0.14.0 and `Worker::Write` @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

#define FILE_VERSION(MAJOR, MINOR, PATCH)                                                          \
    ((uint32_t)(MAJOR) << 16 | (uint32_t)(MINOR) << 8 | (uint32_t)(PATCH))

#define FILE_VERSION_MIN FILE_VERSION(0, 9, 0)
#define FILE_VERSION_MAX FILE_VERSION(0, 14, 0)

enum section_layout { SECTIONS_NONE, SECTIONS_FLAT, SECTIONS_BY_CATEGORY };

struct file_layout {
    uint32_t version;
    bool delay;           /* header: queue delay */
    bool on_demand;       /* header: on-demand flag */
    bool dies;            /* topology has dies */
    bool group_hint;      /* threads: group hint */
    bool wakeup_cpu;      /* context switches: cpu of the wakeup */
    bool gpu_notes;       /* GPU: note lists and query ids */
    bool message_meta;    /* messages: source and severity */
    bool sorted_plots;    /* the stamp promises time-sorted plots */
    bool sorted_switches; /* the stamp promises time-sorted context-switch samples */
    bool multi_stream;    /* default container is the multi-stream one */
    bool no_location;     /* source location 32767 means "none" */
    enum section_layout sections;
    /*
     * Limits of the releases that first read this version; larger values index past their tables of
     * names (public/common/TracyQueue.hpp, server/TracyEvent.hpp @ v0.9.1 … v0.14.0).
     */
    uint8_t gpu_type_max;
    uint8_t plot_type_max;
    uint8_t plot_format_max;
    uint32_t locations_max; /* static and allocated source locations, each */
};

/* Source location "none" if `no_location`. Source: `GetSourceLocation` @ v0.12.2. */
#define SOURCE_LOCATION_NONE 32767

/* The layout of a version; NULL when it is unknown or no file of that version ever existed. */
const struct file_layout *file_layout_find(uint32_t version);

/* All known layouts, oldest first; *n is set to their number. */
const struct file_layout *file_layout_all(unsigned *n);

/* Parses "0.12.2". Returns 0, or -1 with the list of known versions in `e`. */
int file_version_parse(const char *text, uint32_t *version, struct err *e);

#define FILE_VERSION_TEXT_SIZE 16
/* Writes "0.12.2" to `out` and returns it. */
const char *file_version_text(uint32_t version, char out[FILE_VERSION_TEXT_SIZE]);
