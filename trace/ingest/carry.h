#ifndef TIDEMARK_TRACE_INGEST_CARRY_H
#define TIDEMARK_TRACE_INGEST_CARRY_H

/*
 * Going on in a second trace when the first one has come to an end of the format: names, call
 * stacks and frames stay, live blocks are carried over as allocations at the new trace's beginning,
 * zones that are open or wait for GPU times begin there anew, all other events are dropped (they
 * stand in the first trace).
 */

/* The value of the fact `end` in a trace that another one goes on from. */
#define PART_CONTINUED "continued in the next part"

#endif
