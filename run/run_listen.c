#include "run/run_listen.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#include "base/monotonic.h"
#include "base/print_error.h"
#include "protocol/answers.h"
#include "run/run_names.h"
#include "trace/store/live_set.h"

/* How long events are collected for one frame. */
#define COMMIT_NS UINT64_C(50000000)

/* A thread with the program's name has so long to get another name. */
#define NAMING_NS UINT64_C(1000000000)

/* Compressed bytes buffered before they are written to the file. */
#define WAITING_MOST ((size_t)1 << 20)

/* Limit of unanswered name queries; a server that sends more is faulty. */
#define ASKED_MOST ((size_t)1 << 20)

/* Stops the offer; the program's recording goes on. */
static void give_up(struct run_listen *l, const struct err *e)
{
    fprintf(stderr, "tidemark: servers get no more of the program:\n");
    print_error(e);
    offer_free(l->offer);
    l->offer = NULL;
}

static int put_out(struct run_listen *l, struct err *e)
{
    struct buf *out = client_stream_output(l->stream);
    int status = out->len ? offer_append(l->offer, out->data, out->len, e) : 0;
    buf_clear(out);
    return status;
}

/* ---- sending events */

/* Sends the facts known so far: above all the module table. */
static int tell_facts(struct run_listen *l, struct err *e)
{
    struct trace *t = &l->record->trace;
    for (; l->told < t->app_info.len; l->told++) {
        struct event ev = {.kind = EVENT_APP_INFO,
                           .time = l->record->target.last > 0 ? l->record->target.last : 0};
        ev.text = strings_get(&t->strings, t->app_info.at[l->told]);
        if (client_stream_event(l->stream, &ev, e) != 0)
            return -1;
    }
    return 0;
}

static const struct live_set *live_blocks(const struct run_listen *l, uint64_t pool)
{
    const struct memory *m = &l->record->trace.memory;
    const uint64_t *number = map_find(&m->pool_numbers, pool);
    return number ? &m->pools.at[*number]->live : NULL;
}

/*
 * Servers stop at a free of an unknown block and at an allocation at a live address: the former is
 * dropped, the latter is preceded by a free, as in the saved trace.
 */
static int put_memory(struct run_listen *l, const struct event *ev, struct err *e)
{
    const struct live_set *live = live_blocks(l, ev->mem.pool);
    bool lives = live && live_set_find(live, ev->mem.ptr, live_set_hash(live, ev->mem.ptr));
    if (ev->kind == EVENT_MEM_FREE && !lives)
        return 0;
    if (ev->kind == EVENT_MEM_ALLOC && lives) {
        struct event end = *ev;
        end.kind = EVENT_MEM_FREE;
        end.callstack = 0;
        if (client_stream_event(l->stream, &end, e) != 0)
            return -1;
    }
    return client_stream_event(l->stream, ev, e);
}

/* For protocols without discards: frees block by block. */
static int put_discard(struct run_listen *l, const struct event *ev, struct err *e)
{
    const struct live_set *live = live_blocks(l, ev->mem.pool);
    struct live_block block;
    size_t iter = 0;
    if (client_stream_has_discard(l->stream))
        return client_stream_event(l->stream, ev, e);
    while (live && live_set_next(live, &iter, &block)) {
        struct event end = *ev;
        end.kind = EVENT_MEM_FREE;
        end.mem.ptr = block.ptr;
        if (client_stream_event(l->stream, &end, e) != 0)
            return -1;
    }
    return 0;
}

static int keep_name(struct run_listen *l, struct map *names, const struct event *ev, struct err *e)
{
    uint32_t number = strings_intern(&l->record->trace.strings, ev->name.text, e);
    uint64_t *at = number ? map_add(names, ev->name.key, NULL) : NULL;
    if (number && !at)
        err_no_memory(e, "names");
    if (at)
        *at = number;
    return at ? 0 : -1;
}

static int put_event(struct run_listen *l, const struct event *ev, struct err *e)
{
    switch (ev->kind) {
    case EVENT_STRING:
    case EVENT_PLOT_NAME:
    case EVENT_FRAME_NAME:
        return keep_name(l, &l->names, ev, e);
    case EVENT_THREAD_NAME:
        return keep_name(l, &l->threads, ev, e);
    case EVENT_MEM_ALLOC:
    case EVENT_MEM_FREE:
        return put_memory(l, ev, e);
    case EVENT_MEM_DISCARD:
        return put_discard(l, ev, e);
    default:
        return client_stream_event(l->stream, ev, e);
    }
}

/* Runs before the event goes into the store, which still has the live blocks of before. */
static void offer_event(struct run_listen *l, const struct event *ev)
{
    struct err e = {0};
    if (!l->offer)
        return;
    int status = l->told < l->record->trace.app_info.len ? tell_facts(l, &e) : 0;
    if (status == 0)
        status = put_event(l, ev, &e);
    if (status == 0 && client_stream_output(l->stream)->len > WAITING_MOST)
        status = put_out(l, &e);
    if (status != 0)
        give_up(l, &e);
}

static int take_event(void *ctx, const struct event *ev, struct err *e)
{
    struct run_listen *l = ctx;
    offer_event(l, ev);
    return l->next.event(l->next.ctx, ev, e);
}

static int take_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e)
{
    struct run_listen *l = ctx;
    for (size_t i = 0; i < n; i++) {
        struct event ev = event_of_memory(&events[i]);
        offer_event(l, &ev);
        if (l->next.memory(l->next.ctx, &events[i], 1, e) != 0)
            return -1;
    }
    return 0;
}

static int take_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                          struct err *e)
{
    struct run_listen *l = ctx;
    struct err own = {0};
    if (l->next.callstack(l->next.ctx, frames, n, id, fresh, e) != 0)
        return -1;
    if (!l->offer)
        return 0;
    uint64_t *addresses = malloc(n * sizeof *addresses);
    for (uint32_t i = 0; addresses && i < n; i++)
        addresses[i] = run_names_address(frames[i]);
    if (!addresses)
        err_no_memory(&own, "a call stack");
    if (!addresses || client_stream_callstack(l->stream, *id, addresses, n, &own) != 0)
        give_up(l, &own);
    free(addresses);
    return 0;
}

static int take_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                             uint64_t *frame, struct err *e)
{
    struct run_listen *l = ctx;
    return l->next.custom_frame(l->next.ctx, function, file, line, frame, e);
}

/* ---- the welcome */

static void describe_host(struct welcome *w)
{
    struct utsname u;
    if (uname(&u) == 0)
        snprintf(w->host_info, sizeof w->host_info,
                 "OS: %s %s\nArch: %s\nHost: %s\nCPU cores: %ld\n" WELCOME_RECORDED, u.sysname,
                 u.release, u.machine, u.nodename, sysconf(_SC_NPROCESSORS_ONLN));
#if defined __x86_64__
    unsigned a, b, c, d;
    w->cpu_arch = ARCH_X64;
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(w->cpu_manufacturer, &b, 4);
        memcpy(w->cpu_manufacturer + 4, &d, 4);
        memcpy(w->cpu_manufacturer + 8, &c, 4);
    }
    /* Stepping, model and family without their extensions, packed as clients do. */
    if (__get_cpuid(1, &a, &b, &c, &d))
        w->cpu_id = (a & 0xFFF) | (a & 0xFFF0000) >> 4;
#elif defined __aarch64__
    w->cpu_arch = ARCH_ARM64;
#endif
}

static const char *program_name(const struct run_listen *l)
{
    const char *exe = l->collected->hello.exe, *slash = strrchr(exe, '/');
    return slash ? slash + 1 : exe;
}

static void forget_questions(struct run_listen *l)
{
    l->threads_asked.len = l->frames_asked.len = 0;
    l->symbols_asked.len = l->code_asked.len = 0;
}

static bool welcome(void *ctx, struct welcome *w)
{
    struct run_listen *l = ctx;
    struct timespec now;
    struct stat st;
    clock_gettime(CLOCK_REALTIME, &now);
    w->epoch = (uint64_t)now.tv_sec - (monotonic_ns() - l->collected->began) / 1000000000u;
    if (stat(l->collected->hello.exe, &st) == 0)
        w->exec_time = (uint64_t)st.st_mtime;
    w->pid = (uint64_t)l->collected->pid;
    snprintf(w->program_name, sizeof w->program_name, "%.64s", program_name(l));
    describe_host(w);
    forget_questions(l);
    if (run_names_has_code(l->traces))
        w->flags = WELCOME_CODE_TRANSFER;
    return true;
}

/* ---- queries */

static int answer_name(struct run_listen *l, enum query_kind kind, uint64_t key, struct err *e)
{
    const uint64_t *number = map_find(&l->names, key);
    struct view text =
        number ? strings_get(&l->record->trace.strings, (uint32_t)*number) : view_of("???");
    return answer_text(offer_replies(l->offer), kind, key, text, e);
}

static int asked(void *ctx, enum query_kind kind, uint64_t key, uint32_t extra, struct err *e)
{
    struct run_listen *l = ctx;
    bool kept = true;
    (void)extra;
    if (l->frames_asked.len + l->symbols_asked.len + l->code_asked.len + l->threads_asked.len >
        ASKED_MOST)
        return answer_nothing(offer_replies(l->offer), kind, key, e);
    switch (kind) {
    case QUERY_THREAD:
        kept = vec_push(&l->threads_asked, (struct thread_asked){key, monotonic_ns()});
        break;
    case QUERY_CALLSTACK_FRAME:
        kept = vec_push(&l->frames_asked, key);
        break;
    case QUERY_SYMBOL:
        kept = vec_push(&l->symbols_asked, key);
        break;
    case QUERY_SYMBOL_CODE:
        kept = vec_push(&l->code_asked, key);
        break;
    case QUERY_STRING:
    case QUERY_PLOT_NAME:
    case QUERY_FRAME_NAME:
    case QUERY_FIBER_NAME:
    case QUERY_EXTERNAL_NAME:
        return answer_name(l, kind, key, e);
    default:
        return answer_nothing(offer_replies(l->offer), kind, key, e);
    }
    return kept ? 0 : err_no_memory(e, "questions of a server");
}

/* Reads a thread's present name; false when the thread is gone. */
static bool read_name(const struct run_listen *l, uint64_t thread, char name[32])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%" PRIu32 "/comm", (int)l->collected->pid,
             (uint32_t)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, name, 31);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = 0;
    name[strcspn(name, "\n")] = 0;
    return n > 0;
}

/* True when the name is known; else false, and *text is the fallback. */
static bool thread_name(const struct run_listen *l, const struct thread_asked *a, char room[32],
                        struct view *text)
{
    char main_name[32];
    *text = (struct view){0};
    const uint64_t *number = map_find(&l->threads, a->id);
    if (a->id == (uint64_t)l->collected->pid) {
        *text = view_of("Main thread");
        return true;
    }
    if (number) {
        *text = strings_get(&l->record->trace.strings, (uint32_t)*number);
        return true;
    }
    if (!read_name(l, a->id, room)) {
        *text = l->recording ? recording_thread_name(l->recording, a->id) : *text;
        if (text->len)
            return true;
        snprintf(room, 32, "thread %" PRIu64, a->id);
        *text = view_of(room);
        return l->ended;
    }
    *text = view_of(room);
    return !read_name(l, (uint64_t)l->collected->pid, main_name) || strcmp(room, main_name) != 0 ||
           monotonic_ns() - a->since > NAMING_NS;
}

static int answer_threads(struct run_listen *l, struct err *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->threads_asked.len; i++) {
        struct thread_asked a = l->threads_asked.at[i];
        struct view text = {0};
        char room[32];
        if (!thread_name(l, &a, room, &text))
            l->threads_asked.at[kept++] = a;
        else if (answer_text(offer_replies(l->offer), QUERY_THREAD, a.id, text, e) != 0)
            return -1;
    }
    l->threads_asked.len = kept;
    return 0;
}

/* Batched, since each look-up opens the images anew. */
static int answer_places(struct run_listen *l, struct err *e)
{
    struct trace *t = &l->record->trace;
    uint64_t began = monotonic_ns();
    if (l->frames_asked.len + l->symbols_asked.len + l->code_asked.len == 0 || began < l->resolved)
        return 0;
    if ((l->frames_asked.len &&
         run_names_frames(l->traces, t, l->frames_asked.at, l->frames_asked.len,
                          offer_replies(l->offer), e) != 0) ||
        (l->symbols_asked.len &&
         run_names_symbols(l->traces, t, l->symbols_asked.at, l->symbols_asked.len,
                           offer_replies(l->offer), e) != 0) ||
        (l->code_asked.len && run_names_code(l->traces, t, l->code_asked.at, l->code_asked.len,
                                             offer_replies(l->offer), e) != 0))
        return -1;
    l->frames_asked.len = l->symbols_asked.len = l->code_asked.len = 0;
    uint64_t now = monotonic_ns();
    l->resolved = l->ended ? 0 : now + 3 * (now - began);
    return 0;
}

/* ---- life cycle */

/* Prints where servers find the recording, now that a program has bound the port. */
static void moved(void *ctx, uint16_t port, pid_t pid, const struct err *e)
{
    struct run_listen *l = ctx;
    if (!l->child)
        fprintf(stderr, "tidemark: process %d binds port %u: %s%s\n", (int)pid, port,
                e ? "no longer listening" : "now listening on ", e ? "" : offer_address(l->offer));
    l->moved = true;
}

int run_listen_open(struct run_listen *l, const struct run_options *options,
                    struct run_traces *traces, const char *spool, bool child, struct err *e)
{
    *l = (struct run_listen){.options = options, .traces = traces, .child = child};
    if (!options->listen)
        return 0;
    const struct offer_options offered = {.version = wire_version_find((uint32_t)options->protocol),
                                          .address = options->listen_address,
                                          .port = child ? 0 : (uint16_t)options->port,
                                          .any_port = options->any_port,
                                          .may_move = options->adopt != 0,
                                          .announce = BROADCAST_PORT,
                                          .spool = spool,
                                          .ctx = l,
                                          .welcome = welcome,
                                          .asked = asked,
                                          .moved = moved};
    l->offer = offer_new(&offered, e);
    return l->offer ? 0 : -1;
}

int run_listen_start(struct run_listen *l, struct err *e)
{
    if (!l->offer)
        return 0;
    if (offer_listen(l->offer, e) != 0)
        return -1;
    if (!l->child)
        fprintf(stderr, "tidemark: listening on %s, protocol %" PRIu64 "\n",
                offer_address(l->offer), l->options->protocol);
    return 0;
}

const char *run_listen_address(const struct run_listen *l)
{
    return l->offer ? offer_address(l->offer) : NULL;
}

void run_listen_close(struct run_listen *l)
{
    if (l->offer)
        offer_stop_listening(l->offer);
}

static void forget_program(struct run_listen *l)
{
    if (l->record)
        l->record->ingest.sink = l->next;
    client_stream_free(l->stream);
    map_release(&l->names);
    map_release(&l->threads);
    l->stream = NULL;
    l->record = NULL;
    l->recording = NULL;
    l->collected = NULL;
    l->told = 0;
    l->ended = false;
    forget_questions(l);
}

void run_listen_release(struct run_listen *l)
{
    if (l->offer)
        offer_say_goodbye(l->offer);
    offer_free(l->offer);
    l->offer = NULL;
    forget_program(l);
    vec_release(&l->threads_asked);
    vec_release(&l->frames_asked);
    vec_release(&l->symbols_asked);
    vec_release(&l->code_asked);
}

void run_listen_begin(struct run_listen *l, const struct collected *c,
                      const struct recording *recording, struct run_record *r)
{
    struct err e = {0};
    if (!l->offer)
        return;
    /* It executed another program, which is offered as a new client. */
    if (l->record)
        offer_begin_anew(l->offer);
    forget_program(l);
    l->stream = client_stream_new(wire_version_find((uint32_t)l->options->protocol));
    if (!l->stream) {
        err_no_memory(&e, "a stream of events");
        give_up(l, &e);
        return;
    }
    l->collected = c;
    l->record = r;
    l->recording = recording;
    l->next = r->ingest.sink;
    r->ingest.sink.ctx = l;
    r->ingest.sink.event = take_event;
    r->ingest.sink.memory = take_memory;
    r->ingest.sink.callstack = take_callstack;
    r->ingest.sink.custom_frame = take_custom_frame;
    offer_set_program(l->offer, program_name(l), (uint64_t)c->pid);
}

void run_listen_end(struct run_listen *l, const struct run_record *r)
{
    struct err e = {0};
    if (!l->offer || l->record != r || l->ended)
        return;
    l->ended = true;
    l->recording = NULL;
    l->resolved = 0;
    int64_t last = r->target.last > 0 ? r->target.last : 0;
    if (tell_facts(l, &e) != 0 || client_stream_end(l->stream, last, &e) != 0 ||
        put_out(l, &e) != 0)
        give_up(l, &e);
    else
        offer_end(l->offer);
}

size_t run_listen_poll(const struct run_listen *l, struct pollfd *fds)
{
    return l->offer && l->record ? offer_poll(l->offer, fds) : 0;
}

static int step(struct run_listen *l, struct err *e)
{
    uint64_t now = monotonic_ns();
    if (!l->ended && now - l->committed > COMMIT_NS) {
        l->committed = now;
        if (client_stream_commit(l->stream, e) != 0 || put_out(l, e) != 0)
            return -1;
    }
    if (offer_step(l->offer, e) != 0)
        return -1;
    /* Queries of a disconnected server are dropped when the next one completes its handshake. */
    if (!offer_is_serving(l->offer))
        return 0;
    if (answer_threads(l, e) != 0 || answer_places(l, e) != 0)
        return -1;
    return offer_step(l->offer, e);
}

void run_listen_step(struct run_listen *l)
{
    struct err e = {0};
    if (l->offer && l->record && step(l, &e) != 0)
        give_up(l, &e);
}

bool run_listen_is_busy(const struct run_listen *l)
{
    if (!l->offer || !l->record || !l->ended || offer_is_done(l->offer))
        return false;
    return offer_is_connected(l->offer) || l->options->no_exit;
}
