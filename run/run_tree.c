#include "run/run_tree.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/figures/figures_only.h"
#include "base/file_io.h"
#include "base/monotonic.h"
#include "base/print_error.h"
#include "naming/runtimes.h"
#include "run/run_join.h"
#include "run/run_why.h"

/* Events read before other work is done: some tens of milliseconds. */
#define PIECE ((uint64_t)1 << 19)

/* A process that is younger may start a Tracy client soon. */
#define YOUNG_NS UINT64_C(3000000000)

/* Programs map their jitdump when they begin. */
#define DUMP_NS UINT64_C(10000000000)

/* Prints a process's error; the others go on. */
static void complain(struct run_tree *t, const struct err *e)
{
    print_error(e);
    if (!t->failure.code)
        t->failure = *e;
    t->keep = true;
}

/* NULL: it is not offered to servers. */
static struct run_listen *listener_of(const struct run_tree *t, const struct run_process *p)
{
    return p->collected->is_root ? &t->offers->root : p->listen;
}

/* ---- reading */

static struct run_record *new_record(const struct run_tree *t, struct err *e)
{
    struct run_record *record = run_record_new(t->spool, t->options->figures, e);
    if (record)
        record->quiet = t->options->quiet;
    if (record && t->options->figures)
        figures_only_name_by(&record->trace, run_trace_find_names, t->traces);
    return record;
}

/* Whether its recording can be read: the process writes the header first. */
static bool start_reading(struct run_tree *t, struct run_process *p)
{
    struct err e = {0};
    if (p->recording)
        return p->record != NULL;
    if (!p->record && !(p->record = new_record(t, &e))) {
        complain(t, &e);
        return false;
    }
    p->record->unseen = &t->unseen;
    if (!p->collected->ended)
        generated_files_begin(&p->generated, p->collected->pid);
    if (recording_open(&p->recording, p->collected->fd, &p->record->target, &e) != 0) {
        p->silent = p->collected->ended;
        return false;
    }
    if (!p->collected->is_root)
        p->listen = run_offers_add(t->offers);
    if (listener_of(t, p))
        run_listen_begin(listener_of(t, p), p->collected, p->recording, p->record);
    return true;
}

/*
 * Called before more is read: libraries loaded meanwhile may free blocks whose allocation was not
 * recorded.
 */
static void look_for_strangers(struct run_process *p)
{
    struct err e = {0};
    struct rec_header h;
    if (recording_read_header(p->collected->fd, &h, &e) != 0)
        return;
    p->record->trace.memory.misses_frees = h.options.flags & REC_OPTION_ATTACHED;
    p->record->ingest.unknown_frees_expected =
        run_record_expects_strangers(&h, p->collected->hello.origin == REC_ORIGIN_FORK);
}

/* Reads what it has recorded so far, as far as the order is final. */
static uint64_t read_on(struct run_tree *t, struct run_process *p)
{
    struct err e = {0};
    uint64_t taken = 0;
    if (!start_reading(t, p))
        return 0;
    look_for_strangers(p);
    if (recording_advance(p->recording, true, PIECE, &taken, &e) != 0) {
        complain(t, &e);
        p->finished = true;
    }
    run_unseen_take(&t->unseen, p->recording);
    return taken;
}

/* Stores facts from the header of an ended program, which are final. */
static void note_end(struct run_tree *t, const struct run_process *p)
{
    struct rec_header h;
    struct err e;
    if (recording_read_header(p->collected->fd, &h, &e) != 0)
        return;
    run_unseen_ended(&t->unseen, p->number, &h);
}

static void note_runtime(struct run_process *p)
{
    const struct runtime *runtime = runtime_find(p->collected->hello.exe);
    struct err e = {0};
    if (runtime && trace_add_fact(&p->record->trace, &e, "runtime_heap", "%s", runtime->heap) != 0)
        print_error(&e);
}

/*
 * Of code that the program generated. A program that ended need not have written it all: names are
 * missing then, which is no failure of the recording.
 */
static void name_generated(const struct run_tree *t, struct run_process *p)
{
    const struct collected *c = p->collected;
    struct trace *trace = &p->record->trace;
    const struct generated_process process = {c->hello.pid, c->uid, c->began};
    struct rec_header h;
    struct err e = {0};
    /* The interpreter's structures have better names. */
    bool python = recording_read_header(c->fd, &h, &e) == 0 && h.python_state != REC_PYTHON_UNKNOWN;
    e = (struct err){0};
    if (t->options->no_symbols || python)
        return;
    if (generated_files_name(&p->generated, &process, p->record->target.begin, trace, &e) != 0) {
        err_prefix(&e, "no names of generated code");
        print_error(&e);
    }
}

static void say_gpu(const struct gpu_driver *gpu, const struct run_memory *m, pid_t pid)
{
    if (m->gpu_unknown && !m->gpu_known)
        fprintf(stderr,
                "tidemark: the driver's count of GPU memory is not known for process %d: %s\n",
                (int)pid, m->gpu_unknown);
    else if (m->gpu_unknown && gpu->failed)
        fprintf(stderr,
                "tidemark: the plots of GPU memory of process %d end before the process did: %s\n",
                (int)pid, m->gpu_unknown);
    else if (m->gpu_known && gpu->pause)
        fprintf(
            stderr,
            "tidemark: the plots of GPU memory of process %d may have gaps: the driver answered "
            "late\n",
            (int)pid);
}

static void finish(struct run_tree *t, struct run_process *p)
{
    struct err e = {0};
    p->finished = true;
    if (p->collected->is_root)
        note_end(t, p);
    if (!start_reading(t, p))
        return;
    look_for_strangers(p);
    if (run_record_end(p->record, p->recording, false, &e) != 0 ||
        run_record_close(p->record, &e) != 0)
        complain(t, &e);
    note_runtime(p);
    if (listener_of(t, p))
        run_listen_end(listener_of(t, p), p->record);
    /* Servers asked for frames while the program ran, so they get neither these names nor facts. */
    name_generated(t, p);
    t->forks += p->record->forks;
    recording_free(p->recording);
    p->recording = NULL;
    if (p->memory && run_memory_finish(p->memory, p->record, &e) != 0)
        complain(t, &e);
    if (p->memory)
        say_gpu(&t->gpu, p->memory, p->collected->pid);
    if (p->memory && p->collected->is_root && process_memory_kills(&p->memory->process, &t->kills))
        t->limit = (uint64_t)p->memory->watch.limit.limit;
    run_memory_free(p->memory);
    p->memory = NULL;
}

/* ---- children that ended */

static void forget(struct run_tree *t, struct run_process *p)
{
    bool keep = t->keep || t->options->keep;
    recording_free(p->recording);
    run_memory_free(p->memory);
    generated_files_release(&p->generated);
    run_record_free(p->joined);
    run_client_release(&p->client);
    if (p->listen) {
        run_offers_leave(t->offers, p->listen, p->record, p->collected, keep);
    } else {
        run_record_free(p->record);
        (t->ends ? collected_leave : collected_free)(p->collected, keep);
    }
    *p = (struct run_process){.finished = true};
}

/* The number of records that make a trace worth saving. */
static uint64_t held(const struct run_record *r)
{
    return r ? r->events + r->notes : 0;
}

/* A process that executed another program is not listed: the new program is. */
static void note_idle(struct run_idle *idle, const struct run_process *p)
{
    struct rec_header h;
    struct err e;
    if (recording_read_header(p->collected->fd, &h, &e) == 0 && h.state == REC_STATE_EXEC)
        return;
    idle->count++;
    if (idle->told)
        return;
    struct buf why = {0};
    idle->told = run_why_nothing(p, &why);
    if (idle->count == 1 || idle->told) {
        buf_clear(&idle->why);
        buf_put(&idle->why, why.data, why.len);
    }
    buf_release(&why);
}

static void fold(struct run_tree *t, struct run_process *p)
{
    struct err e = {0};
    if (!t->folded)
        t->folded = new_record(t, &e);
    if (t->folded)
        t->folded->unseen = &t->unseen;
    uint64_t had = t->folded ? t->folded->forks : 0;
    uint64_t held_before = held(t->folded);
    /* A process that ended before it recorded anything is no loss. */
    if (!t->folded ||
        (run_record_add(t->folded, p->collected->fd, true, &e) != 0 && e.code != ERR_INPUT))
        complain(t, &e);
    if (!e.code && held(t->folded) == held_before)
        note_idle(&t->folded_idle, p);
    t->forks += t->folded ? t->folded->forks - had : 0;
}

/* Counts saved traces of this process's programs, and of earlier processes with its pid. */
static unsigned count_saved(const struct run_tree *t, pid_t pid)
{
    unsigned n = 0;
    for (size_t i = 0; i < t->saved.len; i++)
        n += t->saved.at[i] == pid;
    return n;
}

static void save_child(struct run_tree *t, struct run_process *p)
{
    struct err e = {0};
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)p->collected->pid);
    /* A process may have executed several programs, and pids are reused. */
    unsigned before = count_saved(t, p->collected->pid);
    if (before)
        snprintf(pid, sizeof pid, "%d.%u", (int)p->collected->pid, before + 1);
    char *name = run_trace_name(t->output, pid);
    for (unsigned i = before + 2; name && !t->options->replace && file_is_there(name); i++) {
        free(name);
        snprintf(pid, sizeof pid, "%d.%u", (int)p->collected->pid, i);
        name = run_trace_name(t->output, pid);
    }
    if (!name || !vec_push(&t->saved, p->collected->pid))
        err_no_memory(&e, "the output's name");
    else
        run_join(t, p, name);
    struct run_record *record = p->joined ? p->joined : p->record;
    if (e.code ||
        run_trace_save_children(t->traces, &record->trace, record->version, 1, name, &e) != 0)
        complain(t, &e);
    t->children++;
    free(name);
}

/* Whether its trace is to have what its Tracy client sent, or a line that this is missing. */
static bool has_client(const struct run_tree *t, const struct run_process *p)
{
    struct rec_header h;
    struct err e;
    return t->joins && recording_read_header(p->collected->fd, &h, &e) == 0 && h.client_port;
}

static void child_ended(struct run_tree *t, struct run_process *p)
{
    double lived = (double)(p->collected->end - p->collected->began) / 1e9;
    bool client = has_client(t, p);
    note_end(t, p);
    if (!p->record && !client && lived < t->options->min_lifetime) {
        fold(t, p);
    } else {
        finish(t, p);
        if (p->record && !p->silent && !client && held(p->record) == 0)
            note_idle(&t->idle, p);
        else if (p->record && !p->silent)
            save_child(t, p);
    }
    forget(t, p);
}

/* ---- all processes */

static void take_new(struct run_tree *t)
{
    struct collected *c;
    while ((c = collector_take(t->collector))) {
        t->came += c->hello.origin == REC_ORIGIN_FORK;
        /* The state may have changed since it connected. */
        const struct run_process new = {.collected = c,
                                        .number = run_unseen_came(&t->unseen, c->hello.pid),
                                        .told = t->changes - (t->changes > 0)};
        if (c->is_root)
            t->memory.next = 0; /* a program of less than a round has its first reading now */
        if (vec_push(&t->list, new))
            continue;
        struct err e = {0};
        err_no_memory(&e, "processes");
        complain(t, &e);
        collected_free(c, true);
    }
}

/* A child's own trace costs something, so it gets one only when it is old enough. */
static bool is_worth_reading(const struct run_tree *t, const struct run_process *p)
{
    double age = (double)(monotonic_ns() - p->collected->began) / 1e9;
    return p->collected->is_root || age >= t->options->min_lifetime;
}

static void tell(const struct run_process *p, uint32_t control)
{
    (void)!pwrite(p->collected->fd, &control, sizeof control, offsetof(struct rec_header, control));
}

/* Waits for its header: the process stores its initial state there. */
static void pause_recording(struct run_tree *t, struct run_process *p)
{
    uint32_t control = t->paused ? REC_CONTROL_PAUSE : REC_CONTROL_GO;
    struct rec_header h;
    struct err e = {0};
    if (p->stopped || (is_worth_reading(t, p) && !start_reading(t, p)) ||
        recording_read_header(p->collected->fd, &h, &e) != 0)
        return;
    p->told = t->changes;
    if (h.control == control)
        return;
    tell(p, control);
    /* An attached process is on hold until then, which does not count as a pause. */
    if (h.control != REC_CONTROL_HOLD && p->recording &&
        recording_note_pause(p->recording, t->paused, &e) != 0)
        complain(t, &e);
}

void run_tree_pause(struct run_tree *t, bool paused)
{
    t->paused = paused;
    t->changes++;
    collector_set_paused(t->collector, paused);
}

static int read_memory(struct run_tree *t, struct run_process *p, bool pss, struct err *e)
{
    struct gpu_driver *gpu = t->options->gpu ? &t->gpu : NULL;
    return run_memory_read(&p->memory, pss, gpu, p->collected, p->record, e);
}

/*
 * A process whose pages may not be read has no look, and its trace no line of what is resident.
 * Reads on first: where the kernel's clock is the only one, a recording has few times, events
 * between them get theirs in proportion, and the look must follow what came before it. A reading
 * goes with it, so that a process of less than a round has plots, too, and each plot has its end:
 * at the end also without a look.
 */
static bool look(struct run_tree *t, struct run_process *p, enum look_reason reason)
{
    struct err e = {0};
    bool wanted = !t->options->no_resident, ends = reason == LOOK_AT_EXIT || reason == LOOK_AT_END;
    if ((!wanted && !ends) || p->finished || p->stopped || p->collected->ended ||
        !is_worth_reading(t, p) || !start_reading(t, p))
        return false;
    (void)read_on(t, p);
    bool done = wanted && run_memory_look(&p->memory, reason, p->collected, &e) == 0;
    if (e.code && e.code != ERR_INPUT)
        complain(t, &e);
    if (t->memory.period && read_memory(t, p, false, &e) != 0)
        complain(t, &e);
    return done;
}

/* Ends the recording: later events of the process are not wanted, and the process is notified. */
static void stop_recording(struct run_tree *t, struct run_process *p)
{
    struct err e = {0};
    if (p->stopped || !start_reading(t, p))
        return;
    (void)look(t, p, LOOK_AT_END);
    p->stopped = true;
    tell(p, REC_CONTROL_PAUSE);
    if (recording_stop(p->recording, &e) != 0 ||
        trace_add_fact(&p->record->trace, &e, "stopped_after", "%g s", t->options->seconds) != 0)
        complain(t, &e);
}

static void look_for_client(const struct run_tree *t, struct run_process *p)
{
    if (t->joins && !p->client.served && !p->collected->ended)
        run_client_look(&p->client, p->collected->fd, collector_folder(t->collector), p->number);
}

/* A client starts to listen when its program is young. */
bool run_tree_awaits_client(const struct run_tree *t)
{
    uint64_t now = monotonic_ns();
    for (size_t i = 0; i < t->list.len && t->joins; i++) {
        const struct run_process *p = &t->list.at[i];
        if (!p->finished && !p->collected->ended && !p->client.served &&
            (p->client.port || now - p->collected->began < YOUNG_NS))
            return true;
    }
    return false;
}

static void drop_forgotten(struct run_tree *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->list.len; i++) {
        if (t->list.at[i].collected)
            t->list.at[kept++] = t->list.at[i];
    }
    t->list.len = kept;
}

/* Exiting processes wait for that. */
static void look_for_exiting(struct run_tree *t)
{
    const uint32_t yes = 1;
    for (size_t i = 0; i < t->list.len; i++) {
        struct run_process *p = &t->list.at[i];
        if (!p->collected->asks)
            continue;
        p->collected->asks = false;
        (void)look(t, p, LOOK_AT_EXIT);
        (void)!pwrite(p->collected->fd, &yes, sizeof yes, offsetof(struct rec_header, looked));
    }
}

size_t run_tree_look(struct run_tree *t, enum look_reason reason)
{
    size_t done = 0;
    take_new(t); /* what connected since the last step, too */
    for (size_t i = 0; i < t->list.len; i++)
        done += look(t, &t->list.at[i], reason);
    return done;
}

uint64_t run_tree_step(struct run_tree *t, bool spare)
{
    uint64_t taken = 0;
    take_new(t);
    look_for_exiting(t);
    for (size_t i = 0; i < t->list.len; i++) {
        struct run_process *p = &t->list.at[i];
        if (p->finished)
            continue;
        if (t->stop && !p->collected->ended)
            stop_recording(t, p);
        else if (p->told != t->changes && !p->collected->ended)
            pause_recording(t, p);
        look_for_client(t, p);
        if (p->collected->ended && !p->collected->is_root && !run_client_is_over(&p->client))
            continue;
        if (p->collected->ended && !p->collected->is_root)
            child_ended(t, p);
        else if (p->collected->ended || (p->collected->is_root && t->root_ended))
            finish(t, p);
        else if (spare && is_worth_reading(t, p))
            taken += read_on(t, p);
    }
    drop_forgotten(t);
    run_unseen_look(&t->unseen);
    return taken;
}

/* All that is known until now is on disk: the recording, the readings and the look. */
static void say_near(const struct run_process *p)
{
    char words[PAGE_WATCH_WORDS];
    page_watch_words(&p->memory->watch, words, sizeof words);
    fprintf(stderr, "tidemark: process %d is near the end of its memory: %s\n",
            (int)p->collected->pid, words);
}

void run_tree_read_memory(struct run_tree *t)
{
    bool empty = true;
    if (!memory_rounds_begin(&t->memory))
        return;
    for (size_t i = 0; i < t->list.len; i++) {
        struct run_process *p = &t->list.at[i];
        struct err e = {0};
        if (p->finished || p->stopped || p->collected->ended || !is_worth_reading(t, p) ||
            !start_reading(t, p))
            continue;
        empty = false;
        if (monotonic_ns() - p->collected->began < DUMP_NS)
            generated_files_look(&p->generated, p->collected->pid);
        generated_files_keep_map(&p->generated, p->collected->hello.pid);
        if (read_memory(t, p, t->memory.pss, &e) != 0)
            complain(t, &e);
    }
    memory_rounds_end(&t->memory, empty);
    for (size_t i = 0; i < t->list.len; i++) {
        struct run_process *p = &t->list.at[i];
        enum look_reason reason;
        if (!p->memory || !page_watch_due(&p->memory->watch, &reason))
            continue;
        (void)look(t, p, reason);
        if (reason == LOOK_AT_LIMIT)
            say_near(p);
    }
}

void run_tree_save_alive(struct run_tree *t)
{
    struct err e = {0};
    take_new(t);
    for (size_t i = 0; i < t->list.len; i++) {
        struct run_process *p = &t->list.at[i];
        if (p->finished || p->collected->is_root)
            continue;
        /* As far as its order is final. */
        if (!p->collected->ended && start_reading(t, p) && recording_stop(p->recording, &e) != 0)
            complain(t, &e);
        if (!p->collected->end)
            p->collected->end = monotonic_ns();
        child_ended(t, p);
    }
    drop_forgotten(t);
}

bool run_tree_root_is_gone(const struct run_tree *t)
{
    for (size_t i = 0; i < t->list.len; i++) {
        if (t->list.at[i].collected->is_root && t->list.at[i].collected->ended)
            return true;
    }
    return false;
}

size_t run_tree_alive(const struct run_tree *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->list.len; i++)
        n += !t->list.at[i].collected->is_root && !t->list.at[i].collected->ended;
    return n;
}

struct run_process *run_tree_root(struct run_tree *t)
{
    struct run_process *last = NULL;
    for (size_t i = 0; i < t->list.len; i++) {
        struct run_process *p = &t->list.at[i];
        if (!p->collected->is_root)
            continue;
        if (!p->finished)
            finish(t, p);
        bool empty = p->silent || !p->record || p->record->events == 0;
        if (!last || !empty || last->silent)
            last = p;
    }
    return last;
}

const struct run_process *run_tree_last(const struct run_tree *t)
{
    for (size_t i = t->list.len; i-- > 0;) {
        if (t->list.at[i].collected->is_root)
            return &t->list.at[i];
    }
    return NULL;
}

void run_tree_save_folded(struct run_tree *t)
{
    struct err e = {0};
    if (held(t->folded) == 0) {
        if (t->idle.count == 0 || (t->folded_idle.told && !t->idle.told)) {
            buf_clear(&t->idle.why);
            buf_put(&t->idle.why, t->folded_idle.why.data, t->folded_idle.why.len);
        }
        t->idle.count += t->folded_idle.count;
        return;
    }
    t->children += t->folded->processes;
    char *name = run_trace_name(t->output, "children");
    if (!name)
        err_no_memory(&e, "the output's name");
    if (!name || run_record_close(t->folded, &e) != 0 ||
        run_trace_save_children(t->traces, &t->folded->trace, 0, t->folded->processes, name, &e) !=
            0)
        complain(t, &e);
    free(name);
}

void run_tree_release(struct run_tree *t)
{
    t->ends = true;
    run_listen_release(&t->offers->root);
    for (size_t i = 0; i < t->list.len; i++) {
        if (t->list.at[i].collected)
            forget(t, &t->list.at[i]);
    }
    gpu_driver_close(&t->gpu);
    run_record_free(t->folded);
    run_unseen_release(&t->unseen);
    buf_release(&t->idle.why);
    buf_release(&t->folded_idle.why);
    vec_release(&t->list);
    vec_release(&t->saved);
}
