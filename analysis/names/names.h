#pragma once

/*
 * Strings, threads and source locations of a trace that is read as a stream of records. Lookups are
 * those of the official tools: the first value of a key is used, and unknown values are "???".
 *
 * Source: `Worker::GetString`, `GetSourceLocation` in server/TracyWorker.cpp @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/file/record.h"
#include "trace/store/strings.h"

struct names {
    struct pageable pageable; /* of the tables below */
    struct strings strings;
    struct map string_keys;  /* a string's key in the file → its number */
    struct map thread_names; /* thread id → string number */
    struct map thread_numbers;
    VEC(uint64_t) threads; /* number → id */
    struct map location_numbers;
    VEC(struct rec_source_location) locations;
    VEC(uint64_t) expands;
    VEC(struct rec_source_location) payloads;
};

/* `n` must not be moved. */
void names_init(struct names *n);
void names_release(struct names *n);

/* Takes the records with names; others are ignored. */
int names_put(struct names *n, enum record_type type, const void *recs, size_t count,
              struct err *e);

/* Marks those record types. */
void names_wanted(bool wanted[REC_TYPE_COUNT]);

/* By string number (0: none), by client pointer, and by reference. */
struct view names_string(const struct names *n, uint32_t number);
struct view names_pointer(const struct names *n, uint64_t pointer);
struct view names_ref(const struct names *n, const struct rec_string_ref *r);

/* Whether a client pointer has a text. */
bool names_knows(const struct names *n, uint64_t pointer);

/* A source location; NULL for "none" and for one that the trace does not describe. */
const struct rec_source_location *names_location(const struct names *n, int16_t srcloc);

/* The name of its zones: its own name, else the function's. */
struct view names_location_name(const struct names *n, const struct rec_source_location *l);

/*
 * The number of a thread id. An id that is not in the list is added, as in official tools while
 * they read the threads: the first of several fibers is often missing.
 */
int names_add_thread(struct names *n, uint64_t id, uint32_t *number, struct err *e);

/* A thread's name by its number; empty if it has none. */
struct view names_thread(const struct names *n, uint32_t number);
