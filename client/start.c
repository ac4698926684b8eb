#include "client/start.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/api.h"
#include "client/chunks.h"
#include "client/clock.h"
#include "client/connect.h"
#include "client/environment.h"
#include "client/events.h"
#include "client/got.h"
#include "client/kernel_map.h"
#include "client/maps.h"
#include "client/modules.h"
#include "client/python/python.h"
#include "client/quiet.h"
#include "client/real.h"
#include "client/record_write.h"
#include "client/sampling.h"
#include "client/skipped.h"
#include "client/stacks.h"
#include "client/threads.h"
#include "client/unwind.h"
#include "client/wanted.h"

struct state state = {.file = -1, .socket = -1};
_Alignas(CLIENT_PAGE) union live_union live;

#if defined(__x86_64__)
#define ARCH REC_ARCH_X86_64
#else
#define ARCH REC_ARCH_AARCH64
#endif

static void fill_header(const struct rec_options *options)
{
    struct rec_header *h = state.header;
    h->version = REC_VERSION;
    h->unit = REC_UNIT;
    h->arch = ARCH;
    h->clock = state.clock;
    h->pid = state.pid;
    h->ppid = getppid();
    h->options = *options;
    h->options.depth = state.depth;
    connect_exe(h->exe, sizeof h->exe);
    memcpy(h->only_threads, state.threads, sizeof h->only_threads);
    h->first = (struct rec_pair){clock_stamp(), clock_ns()};
    h->realtime_ns = clock_realtime_ns();
    atomic_store(&h->units_taken, 1);
    atomic_store(&h->expedited, state.expedited);
    if (options->flags & REC_OPTION_PAUSED)
        atomic_store(&h->control, REC_CONTROL_PAUSE);
    /* A concurrent reader must see either no header or all of it. */
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, REC_MAGIC, sizeof h->magic);
    atomic_store_explicit(&h->state, REC_STATE_RECORDING, memory_order_release);
}

static void take_options(const struct rec_options *options)
{
    state.depth = options->depth ? options->depth : REC_DEPTH;
    if (state.depth > REC_DEPTH_MAX)
        state.depth = REC_DEPTH_MAX;
    state.pools = options->pools ? options->pools : (uint32_t)REC_POOLS_HEAP;
    state.min_size = options->min_size;
    state.sample = options->sample_bytes;
    state.follow = options->flags & REC_OPTION_FOLLOW_FORK;
    state.follow_exec = options->flags & (REC_OPTION_FOLLOW_FORK | REC_OPTION_FOLLOW_EXEC);
    state.free_stacks = options->flags & REC_OPTION_FREE_STACKS;
    state.no_python = options->flags & REC_OPTION_NO_PYTHON;
    state.drops = options->file_bytes && options->when_full == REC_FULL_DROP;
}

/*
 * Registers for expedited barriers, so that live readers need not wait for slow ones. A child of
 * fork inherits the registration and must not repeat it: it may be in a sandbox by now.
 */
static void join_barriers(void)
{
    int saved = errno;
    state.expedited = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    errno = saved;
}

/* The start of both a new process and a followed child. The phase is PHASE_STARTING. */
static void begin(uint32_t origin, uint64_t fork_stamp)
{
    struct rec_options options;
    state.pid = getpid();
    if (connect_begin(origin, fork_stamp, &options)) {
        atomic_store(&state.phase, PHASE_OFF);
        return;
    }
    take_options(&options);
    if (chunks_begin()) {
        connect_leave();
        atomic_store(&state.phase, PHASE_OFF);
        return;
    }
    if (origin != REC_ORIGIN_FORK)
        join_barriers();
    state.clock = options.flags & REC_OPTION_COUNTER ? (uint32_t)REC_CLOCK_COUNTER : clock_choose();
    fill_header(&options);
    (void)stacks_begin();
    sampling_begin(options.sample_seed);
    wanted_begin(state.threads);
    if (!state.rules)
        unwind_begin();
    python_begin();
    /* Not supported by kernels before 4.14: there only fork() itself is noticed. */
    (void)madvise(&live, sizeof live, MADV_WIPEONFORK);
    atomic_store(&state.phase, PHASE_ON);
    atomic_store(&live.page.on, LIVE_ON);

    tls.depth++;
    client_barrier();
    struct thread *t = threads_attach();
    if (t) {
        modules_refresh(t, true);
        python_settle(origin != REC_ORIGIN_ATTACH);
        if (state.pools & REC_POOLS_MMAP)
            record_pool(t, MAPS_POOL, "mmap");
        api_begin(t);
    }
    client_barrier();
    tls.depth--;
}

void start_process(void)
{
    int expected = PHASE_NEW;
    struct quiet q;
    if (!atomic_compare_exchange_strong(&state.phase, &expected, PHASE_STARTING))
        return;
    quiet_begin(&q);
    real_find(false);
    environment_read();
    threads_begin();
    begin(REC_ORIGIN_EXEC, 0);
    quiet_end(&q);
}

/*
 * Unmaps the parent's chunks; those of its other threads are not known and stay. If a handler
 * interrupted a hook and called fork, the hook goes on in the child as well: its memory must stay
 * valid without being the parent's.
 */
static void leave_parent(bool interrupted)
{
    void (*leave)(void *, size_t) = interrupted ? system_blank : system_unmap;
    struct thread *t = threads_own();
    for (unsigned i = 0; t && i < CLIENT_LEVELS; i++) {
        struct rec_chunk *chunk = t->writers[i].chunk;
        if (chunk)
            leave(chunk, chunks_bytes(chunk));
    }
    for (unsigned i = 0; i < state.resting_count; i++)
        leave(state.resting[i].chunk, chunks_bytes(state.resting[i].chunk));
    leave(state.header, REC_UNIT);
    connect_leave();
    if (interrupted) {
        stacks_blank();
        state.unknown_threads = true;
        return;
    }
    state.header = NULL;
    stacks_forget();
    modules_forget();
    maps_forget();
    sampling_forget();
    skipped_forget();
    threads_forget();
}

void start_child(void)
{
    int expected = PHASE_ON;
    struct quiet q;
    quiet_begin(&q);
    if (!atomic_compare_exchange_strong(&state.phase, &expected, PHASE_STARTING)) {
        /*
         * The parent's recording has ended; its collector waits until the last copy of the socket
         * is closed.
         */
        if (state.socket >= 0 && getpid() != state.pid)
            connect_leave();
        quiet_end(&q);
        return;
    }
    atomic_store(&live.page.on, LIVE_OFF); /* as if the page had been wiped */
    uint64_t stamp = state.clock == REC_CLOCK_TSC ? clock_tsc() : 0;
    bool interrupted = tls.entered != 0 || tls.depth != 0;
    /* No hook of the parent saw a child of _Fork, clone, forkpty or the system call. */
    if (!state.follow && !tls.forking)
        atomic_fetch_add_explicit(&state.header->children, 1, memory_order_relaxed);
    leave_parent(interrupted);
    state.pid = getpid();
    if (state.follow && !interrupted)
        begin(REC_ORIGIN_FORK, stamp);
    else
        atomic_store(&state.phase, PHASE_OFF);
    quiet_end(&q);
}

/*
 * The recording has ended and the process goes on: unmaps it, so that the file's space is freed
 * once the collector has removed it. Counters in the header are read outside of hooks, so the
 * header stays as private memory. False: threads are still in hooks, and all of it stays mapped.
 */
static bool leave_recording(void)
{
    if (state.is_left || !state.header)
        return true;
    atomic_store(&live.page.on, LIVE_OFF);
    connect_leave();
    if (!threads_wait())
        return false;
    threads_leave();
    stacks_forget();
    system_blank(state.header, REC_UNIT);
    state.is_left = true;
    return true;
}

/*
 * Resets the state that an earlier recording left. Frees of blocks that it skipped are still
 * ignored.
 */
static void forget_recording(void)
{
    modules_forget();
    unwind_renew();
    maps_clear();
    sampling_forget();
    state.is_left = false;
}

/* Finds the process's functions again, since libraries may have been loaded since. */
static int attach(void)
{
    /* If the program was started with the library, its hooks are in place already. */
    real_find(!real_is_own(real_default("malloc")));
    if (!real_is_known())
        return REC_ATTACH_UNKNOWN;
    /* In a child of fork the list of threads is the parent's. */
    if ((state.header && getpid() != state.pid) || !leave_recording())
        return REC_ATTACH_BUSY;
    forget_recording();
    begin(REC_ORIGIN_ATTACH, 0);
    return atomic_load(&state.phase) == PHASE_ON ? REC_ATTACH_DONE : REC_ATTACH_REFUSED;
}

int start_attached(const char *socket)
{
    int expected = PHASE_OFF;
    struct quiet q;
    size_t length = strnlen(socket, sizeof state.socket_path);
    if (length == sizeof state.socket_path ||
        !atomic_compare_exchange_strong(&state.phase, &expected, PHASE_STARTING))
        return expected == PHASE_OFF ? REC_ATTACH_REFUSED : REC_ATTACH_RECORDED;
    quiet_begin(&q);
    memcpy(state.socket_path, socket, length + 1);
    int status = attach();
    if (status != REC_ATTACH_DONE)
        atomic_store(&state.phase, PHASE_OFF);
    quiet_end(&q);
    return status;
}

void start_detached(void)
{
    int expected = PHASE_ON;
    struct quiet q;
    quiet_begin(&q);
    atomic_store(&live.page.on, LIVE_OFF);
    if (atomic_compare_exchange_strong(&state.phase, &expected, PHASE_OFF)) {
        struct rec_header *h = state.header;
        h->last = (struct rec_pair){clock_stamp(), clock_ns()};
        atomic_store_explicit(&h->state, REC_STATE_EXITING, memory_order_release);
    }
    (void)leave_recording();
    quiet_end(&q);
}

static __attribute__((constructor)) void at_load(int count, char **arguments, char **environment)
{
    (void)count;
    (void)arguments;
    start_process();
    if (state.left_alone)
        return; /* programs that it executes may be the named one */
    if (atomic_load(&state.phase) == PHASE_ON)
        got_hook_allocators();
    bool follows = atomic_load(&state.phase) == PHASE_ON && state.follow;
    if (follows && !state.spawned)
        return; /* so that children find it */
    environment_clean(environment);
    if (environ != environment)
        environment_clean(environ);
    char **with = follows ? environment_with(environ) : NULL;
    if (with)
        environ = with;
}

/* Exit handlers and destructors that were registered earlier run later, and are recorded, too. */
static __attribute__((destructor)) void at_exit(void)
{
    if (atomic_load(&live.page.on) != LIVE_ON)
        return;
    int saved = errno;
    tls.depth++;
    client_barrier();
    struct thread *t = threads_attach();
    if (t && tls.depth == 1 && !tls.entered) {
        modules_refresh(t, false);
        threads_note_name(t);
        record_loss(t);
        event_count_left_out();
        sampling_count_small();
    }
    client_barrier();
    tls.depth--;
    connect_ask_look();
    struct rec_header *h = state.header;
    h->last = (struct rec_pair){clock_stamp(), clock_ns()};
    atomic_store_explicit(&h->state, REC_STATE_EXITING, memory_order_release);
    connect_drop_brief();
    errno = saved;
}
