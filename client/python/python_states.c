/*
 * Which thread states of CPython their threads may read without the GIL.
 *
 * A thread that released the GIL changes its frames only after it has taken the GIL again, so it
 * may read them as long as its thread state exists. It may no longer: at the interpreter's end, and
 * after fork, CPython frees the states of all other threads. CPython 3.8 to 3.14 leave the frames
 * themselves in memory then. So it is enough to notice the free of a state and to make it wait for
 * a reading in progress, which takes about a microsecond.
 *
 * Counting a reading and forgetting a state are full barriers: either the reader finds the state
 * forgotten, or the thread that frees it finds the reading.
 */

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "client/python/python.h"

#define PATIENCE 1000000u /* yields: a reading that a signal handler left never ends */

static uint64_t address_in(const struct python *p, unsigned cell)
{
    return atomic_load_explicit(&p->states.address[cell], memory_order_acquire);
}

/* A child of fork that does not record has no other threads. */
static void forget(struct python *p, unsigned cell)
{
    bool own = atomic_load(&p->states.owner[cell]) == &tls;
    int saved = errno;
    (void)atomic_exchange(&p->states.address[cell], 0);
    if (!own && getpid() == state.pid) {
        for (unsigned i = 0; i < PATIENCE && atomic_load(&p->states.reading[cell]); i++)
            (void)sched_yield();
    }
    errno = saved;
}

void python_state_freed(struct python *p, uint64_t address)
{
    unsigned first = python_states_group(address) * PYTHON_WAYS;
    for (unsigned i = first; i < first + PYTHON_WAYS; i++) {
        if (address && address_in(p, i) == address)
            forget(p, i);
    }
}

/* Threads that hold the GIL come here one after the other. */
static __attribute__((noinline)) void note(struct python *p, uint64_t address)
{
    unsigned group = python_states_group(address), first = group * PYTHON_WAYS;
    python_state_freed(p, address);
    for (unsigned i = first; i < first + PYTHON_WAYS; i++) {
        if (address_in(p, i) || atomic_load(&p->states.reading[i]))
            continue;
        atomic_store(&p->states.owner[i], &tls);
        atomic_store(&p->states.address[i], address);
        atomic_fetch_or(&p->states.used, UINT64_C(1) << group);
        tls.python_cell = i;
        return;
    }
}

void python_state_held(struct python *p, uint64_t address)
{
    if (client_unlikely(!python_state_is_own(p, tls.python_cell, address)) &&
        atomic_load_explicit(&p->states_are_blocks, memory_order_relaxed))
        note(p, address);
}

int python_state_enter(struct python *p, uint64_t address)
{
    unsigned cell = tls.python_cell;
    if (!python_state_is_own(p, cell, address))
        return -1;
    atomic_fetch_add(&p->states.reading[cell], 1);
    if (python_state_is_own(p, cell, address))
        return (int)cell;
    python_state_leave(p, (int)cell);
    return -1;
}

void python_state_leave(struct python *p, int cell)
{
    atomic_fetch_sub(&p->states.reading[cell], 1);
}
