#pragma once

/*
 * Continues in a second trace when the first one has reached a limit of the format. Names, call
 * stacks and frames stay. Live blocks are carried over as allocations at the new trace's beginning.
 * Zones that are open or wait for GPU times begin there anew. All other events are dropped; the
 * first trace has them.
 */

/* The value of the fact `end` in a trace that another one continues. */
#define PART_CONTINUED "continued in the next part"
