#pragma once

/*
 * The most elements of each kind that a trace can hold, for the store, the writer and the reader.
 * Code that fills the store counts the excess. The writer makes the reader's checks
 * (trace/file/check.h), so that it writes nothing that the reader would refuse.
 */

#include <stddef.h>
#include <stdint.h>

/* The file has 24 bits for a string number (server/TracyStringIdx.hpp @ v0.14.0). */
#define STRINGS_MAX ((1u << 24) - 1)

/* The file has 24 bits for a call stack number (server/TracyEvent.hpp Int24 @ v0.14.0). */
#define CALLSTACKS_MAX ((1u << 24) - 1)

/* Thread numbers have 16 bits in the file (server/TracyThreadCompress.hpp @ v0.14.0). */
#define THREADS_MAX 65536u

/* Source location numbers are 16-bit and signed; 32,767 means none. */
#define LOCATIONS_MAX 32766u

/* Bytes of a string that a client sends or extends. */
#define CLIENT_TEXT_MAX ((size_t)16 << 20)

/* Threads of a lock index a 64-bit mask in the official viewer. */
#define LOCK_THREADS_MAX 64u

/*
 * Deeper zones are kept as siblings at this depth. Official programs walk zones by recursion: they
 * survive a depth of 20,000 and crash at 200,000.
 */
#define ZONE_DEPTH_MAX 16384u

/* Deeper zones in a file are an error. */
#define GRAMMAR_DEPTH_MAX 250000u

/* Official lists have 32-bit lengths (`Vector` in server/TracyVector.hpp @ v0.14.0). */
#define GRAMMAR_LIST_MAX UINT32_MAX

/*
 * The most packages, dies, cores and processors of a file: more than any machine has, and few
 * enough to keep in memory. PROCESSORS_MAX processors have at most TOPOLOGY_MAX nodes, however they
 * are distributed.
 */
#define TOPOLOGY_MAX ((uint64_t)1 << 20)
#define PROCESSORS_MAX ((uint64_t)1 << 18)

_Static_assert(ZONE_DEPTH_MAX < GRAMMAR_DEPTH_MAX, "open zones can be saved");
_Static_assert(3 * PROCESSORS_MAX <= TOPOLOGY_MAX, "processors can be saved");
