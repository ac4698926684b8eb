#include "client/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/connect.h"
#include "client/kernel_map.h"
#include "client/quiet.h"

#define MAP_TRIES 16u /* retries while the program closes descriptors */

void *chunks_memory(size_t bytes)
{
    int saved = errno;
    void *p = system_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

/* For file systems without fallocate: reserves space by writing zeros. */
static int reserve_by_writing(off_t offset, size_t bytes)
{
    static const char zeros[REC_UNIT];
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(state.file, zeros, sizeof zeros, offset + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

/*
 * Reserves these bytes of the file. All signals are blocked here. Beyond RLIMIT_FSIZE the kernel
 * sends SIGXFSZ, which would kill the program: the pending signal is removed.
 */
static int reserve(off_t offset, size_t bytes)
{
    int error = 0;
    sigset_t waiting;
    bool was_waiting = sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ) == 1;
    while (fallocate(state.file, 0, offset, (off_t)bytes)) {
        error = errno;
        if (error != EINTR)
            break;
        error = 0;
    }
    if (error == EOPNOTSUPP || error == ENOSYS)
        error = reserve_by_writing(offset, bytes);
    if (error == EFBIG && !was_waiting) {
        sigset_t one;
        struct timespec at_once = {0, 0};
        sigemptyset(&one);
        sigaddset(&one, SIGXFSZ);
        (void)sigtimedwait(&one, NULL, &at_once);
    }
    return error;
}

/* Waits until the collector has released units. False: the collector has ended. */
static bool wait_for_release(uint32_t seen)
{
    struct timespec a_while = {0, 200000000};
    (void)syscall(SYS_futex, &state.header->released, FUTEX_WAIT, seen, &a_while, NULL, 0);
    return atomic_load_explicit(&state.header->released, memory_order_acquire) != seen ||
           connect_collector_lives();
}

/*
 * Whether so many more units are within the limit. Units that cannot be released must not use it
 * up.
 */
static bool fits(uint32_t released, uint32_t units)
{
    const struct rec_options *options = &state.header->options;
    uint64_t held = atomic_load_explicit(&state.header->units_taken, memory_order_relaxed);
    uint64_t most = options->file_bytes / REC_UNIT;
    held = (uint32_t)(held - released);
    if (options->when_full != REC_FULL_STOP) {
        uint64_t nodes = atomic_load_explicit(&state.node_units, memory_order_relaxed);
        uint64_t open = atomic_load_explicit(&state.open_units, memory_order_relaxed);
        held -= nodes < held ? nodes : held;
        most = most > 2 * open + units ? most : 2 * open + units;
    }
    return held + units <= most;
}

bool chunks_fit(uint32_t units)
{
    return fits(atomic_load_explicit(&state.header->released, memory_order_acquire), units);
}

/* Enforces the limit of the file's size. */
static int wait_for_room(enum rec_chunk_kind kind, uint32_t units)
{
    const struct rec_options *options = &state.header->options;
    if (!options->file_bytes || options->when_full == REC_FULL_DROP ||
        (kind == REC_CHUNK_NODES && options->when_full != REC_FULL_STOP))
        return 0;
    for (;;) {
        uint32_t released = atomic_load_explicit(&state.header->released, memory_order_acquire);
        if (fits(released, units))
            return 0;
        if (options->when_full != REC_FULL_WAIT || !wait_for_release(released))
            return ENOBUFS;
    }
}

static void *map_file(off_t offset, size_t bytes, int *error)
{
    *error = reserve(offset, bytes);
    if (*error)
        return NULL;
    /* Faults all pages in at once: single page faults would cost several times as much. */
    void *p = system_map(bytes, MAP_SHARED | MAP_POPULATE, state.file, offset);
    if (p != MAP_FAILED)
        return p;
    *error = errno;
    return NULL;
}

static void *map_units(uint32_t first, uint32_t units, int *error)
{
    for (unsigned tries = 0;; tries++) {
        if (!connect_has_file() && connect_again()) {
            *error = EBADF;
            return NULL;
        }
        void *p = map_file((off_t)first * REC_UNIT, (size_t)units * REC_UNIT, error);
        /*
         * The program may have closed the descriptor meanwhile, and another thread may have
         * reopened it.
         */
        if (p || tries == MAP_TRIES || (*error != EBADF && connect_has_file()))
            return p;
    }
}

void chunks_stop(uint64_t stamp, int why)
{
    int expected = PHASE_ON;
    if (!atomic_compare_exchange_strong(&state.phase, &expected, PHASE_OFF))
        return;
    struct rec_header *header = state.header;
    atomic_store_explicit(&live.page.on, LIVE_STOPPED, memory_order_relaxed);
    atomic_store_explicit(&header->end_stamp, stamp, memory_order_relaxed);
    atomic_store_explicit(&header->end_errno, (uint32_t)why, memory_order_relaxed);
    atomic_store_explicit(&header->state, REC_STATE_FULL, memory_order_release);
}

struct rec_chunk *chunks_take(enum rec_chunk_kind kind, uint32_t units)
{
    if (atomic_load_explicit(&state.phase, memory_order_relaxed) != PHASE_ON)
        return NULL;
    struct quiet q;
    quiet_begin(&q);
    struct rec_chunk *chunk = NULL;
    int error = wait_for_room(kind, units);
    if (!error) {
        uint32_t first = atomic_fetch_add(&state.header->units_taken, units);
        chunk = map_units(first, units, &error);
    }
    if (chunk) {
        chunk->kind = (uint16_t)kind;
        chunk->units = (uint16_t)units;
        chunk->base_stamp = clock_stamp();
        chunk->base_ns = clock_ns();
        atomic_fetch_add_explicit(kind == REC_CHUNK_NODES ? &state.node_units : &state.open_units,
                                  units, memory_order_relaxed);
        atomic_store_explicit(&chunk->state, REC_CHUNK_OPEN, memory_order_relaxed);
        atomic_store_explicit(&chunk->pending, REC_IDLE, memory_order_relaxed);
    } else {
        chunks_stop(clock_stamp(), error);
    }
    quiet_end(&q);
    return chunk;
}

void chunks_publish(struct rec_chunk *chunk)
{
    atomic_store_explicit(&chunk->magic, REC_CHUNK_MAGIC, memory_order_release);
}

void chunks_leave(struct rec_chunk *chunk, enum rec_chunk_state chunk_state)
{
    int saved = errno;
    size_t bytes = chunks_bytes(chunk);
    atomic_fetch_sub_explicit(&state.open_units, chunk->units, memory_order_relaxed);
    atomic_store_explicit(&chunk->state, (uint32_t)chunk_state, memory_order_release);
    system_unmap(chunk, bytes);
    errno = saved;
}

int chunks_begin(void)
{
    int error;
    atomic_store(&state.connecting, 0); /* a thread of the parent may have held it */
    atomic_store(&state.open_units, 0);
    atomic_store(&state.node_units, 0);
    state.header = map_units(0, 1, &error);
    return state.header ? 0 : -1;
}
