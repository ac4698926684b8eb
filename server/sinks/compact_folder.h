#pragma once

/*
 * Compacts the folder of push_files_open: the files of a table and day become one, or more when
 * they are large, and traces whose time is over are dropped.
 *
 * The new folder of a table and day is made whole in FOLDER/.compact and then exchanged with the
 * one in use (renameat2), so a reader that lists a folder sees each row once, before and after.
 * What is in .compact is never needed: a killed process leaves nothing but that, and the next one
 * removes it. Pushes hold a shared lock on FOLDER and wait while a day is compacted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

/* How long traces are kept. */
struct compact_rule {
    const char *label; /* "NAME=VALUE" in the option's value, up to the ":"; NULL: all others */
    size_t label_length;
    uint64_t days;
    bool matched; /* set by compact_files: a trace has the label */
};

struct compact_plan {
    VEC(struct compact_rule) rules; /* none: all traces are kept */
    int64_t today;                  /* days since 1970 */
};

/* Parses "DAYS" or "NAME=VALUE:DAYS", of --keep. False if it is neither. */
bool compact_rule_parse(struct compact_rule *rule, const char *value);

#define COMPACT_RULE "DAYS or NAME=VALUE:DAYS"

struct compact_told {
    uint64_t files_before, files_after; /* of all tables */
    uint64_t dropped;                   /* traces */
    uint64_t other;                     /* files of other columns, which stay as they are */
};

/* The counts are those of the work done, also on failure. */
int compact_files(const char *folder, struct compact_plan *plan, struct compact_told *told,
                  struct err *e);
