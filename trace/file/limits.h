#ifndef TIDEMARK_TRACE_FILE_LIMITS_H
#define TIDEMARK_TRACE_FILE_LIMITS_H

/*
 * How many of a kind a trace can hold: for those who fill the store, for the writer and for the
 * reader. Whoever fills the store counts what is beyond; the writer makes the reader's checks
 * (trace/file/check.h), so that nothing is written that would be refused.
 */

#include <stddef.h>
#include <stdint.h>

/* The file has 24 bits for the number of a string (server/TracyStringIdx.hpp @ v0.14.0). */
#define STRINGS_MAX ((1u << 24) - 1)

/* And for that of a call stack (server/TracyEvent.hpp Int24 @ v0.14.0). */
#define CALLSTACKS_MAX ((1u << 24) - 1)

/* Thread numbers are 16 bits in the file (server/TracyThreadCompress.hpp @ v0.14.0). */
#define THREADS_MAX 65536u

/* Source location numbers are 16-bit and signed; 32,767 means none. */
#define LOCATIONS_MAX 32766u

/* Bytes of a string that a client sends, or that grows from what it sends. */
#define CLIENT_TEXT_MAX ((size_t)16 << 20)

/* Threads of a lock index a 64-bit mask in the official viewer. */
#define LOCK_THREADS_MAX 64u

/*
 * Deeper zones are kept as siblings at this depth. Official programs walk zones by recursion: they
 * survive a depth of 20,000 and crash at 200,000.
 */
#define ZONE_DEPTH_MAX 16384u

/* Zones of a file deeper than this are refused. */
#define GRAMMAR_DEPTH_MAX 250000u

/* Official lists have 32-bit lengths (`Vector` in server/TracyVector.hpp @ v0.14.0). */
#define GRAMMAR_LIST_MAX UINT32_MAX

/*
 * Dies, cores and processors of a file, and packages: more than any machine has, and few enough to
 * keep in memory. So many processors have no more, however they are spread.
 */
#define TOPOLOGY_MAX ((uint64_t)1 << 20)
#define PROCESSORS_MAX ((uint64_t)1 << 18)

_Static_assert(ZONE_DEPTH_MAX < GRAMMAR_DEPTH_MAX, "open zones can be saved");
_Static_assert(3 * PROCESSORS_MAX <= TOPOLOGY_MAX, "processors can be saved");

#endif
