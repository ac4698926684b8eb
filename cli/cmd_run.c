/* tidemark run: a program that was not built for it runs, and its memory becomes a trace. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/format.h"
#include "base/monotonic.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/options/parse_run.h"
#include "run/collector.h"
#include "run/launch.h"
#include "run/program.h"
#include "run/run_adopt.h"
#include "run/run_attach.h"
#include "run/run_client.h"
#include "run/run_environment.h"
#include "run/run_offers.h"
#include "run/run_options.h"
#include "run/run_recover.h"
#include "run/run_trace.h"
#include "run/run_tree.h"
#include "run/run_why.h"
#include "server/capture/run_signpost.h"

/* Between two looks at the recordings when nothing comes, in milliseconds. */
#define PAUSE_LEAST 5
#define PAUSE_MOST 100
#define PAUSE_SOON 10
#define SOON_NS UINT64_C(3000000000)

/* So many events at a look, and the next one is taken at once. */
#define EVENTS_TO_GO_ON ((uint64_t)1 << 17)

/* For a child that was forked to connect. */
#define PATIENCE_NS UINT64_C(2000000000)

/* Seconds that an adopted process lives before servers can connect. */
#define LISTEN_AFTER 1.0

/* When nothing was run. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NO_OUTPUT 4
#define EXIT_NOT_FOUND 127

struct run {
    struct run_options options;
    struct program program;
    struct launch launch;
    struct collector *collector;
    struct run_traces traces;
    struct run_tree tree;
    struct run_offers offers;
    struct run_environment environment;
    struct run_attach attach;
    struct run_client client;
    bool keeps_client; /* its journal */
    struct run_record
        *joined;   /* the program's trace with that of its client; NULL: there is none */
    char *library; /* for it */
    char *output;  /* the trace */
    char *spool;
    pid_t pid;
    uint64_t began, ended; /* ns */
    bool told;             /* an adopted process knows the socket */
    bool settled;          /* there will be a trace */
    bool listens;          /* servers may connect */
    /* How much of the machine the program takes, to leave it that. */
    int processors;
    uint64_t measured, used; /* when, and its processor time until then, in ns */
    bool busy;
};

/* ---- before */

static int check_output(const struct run *r, struct err *e)
{
    const struct run_options *o = &r->options;
    struct outfile probe;
    struct stat st;
    if (!o->output)
        return access(r->spool, W_OK | X_OK) == 0
                   ? 0
                   : err_errno(e, ERR_OUTPUT, "cannot write a trace into %s", r->spool);
    if (stat(o->output, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(e, ERR_OUTPUT, "%s is no regular file", o->output);
    if (outfile_open(&probe, o->output, o->replace, e) != 0)
        return -1;
    outfile_abort(&probe);
    return 0;
}

/* "PROGRAM.PID.tracy", or the first free one of that name with a number. */
static char *default_output(const struct run *r)
{
    const char *slash = strrchr(r->program.path, '/');
    const char *name = slash ? slash + 1 : r->program.path;
    size_t room = strlen(name) + 48;
    char *out = malloc(room);
    for (unsigned i = 1; out; i++) {
        if (i == 1)
            snprintf(out, room, "%s.%d.tracy", name, (int)r->pid);
        else
            snprintf(out, room, "%s.%d.%u.tracy", name, (int)r->pid, i);
        if (r->options.replace || !file_is_there(out))
            break;
    }
    return out;
}

/*
 * A program whose allocations cannot be seen is not run: unless its children might be, and it can
 * bear our library.
 */
static int check_program(const struct run *r, struct err *e)
{
    struct buf why = {0};
    bool bears = program_bears(&r->program);
    if (r->program.obstacle == PROGRAM_FINE || r->program.obstacle == PROGRAM_UNKNOWN ||
        (r->options.follow_fork && bears))
        return 0;
    program_explain(&r->program, &why);
    err_set(e, ERR_OUTPUT, "%s %s. It was not run%s", r->program.image, buf_str(&why),
            bears ? "; --follow-fork would run it and record its children" : "");
    buf_release(&why);
    return -1;
}

static struct rec_options recording_options(const struct run_options *o)
{
    _Static_assert(RUN_DEPTH == REC_DEPTH && RUN_DEPTH_MAX == REC_DEPTH_MAX, "one depth");
    static const uint32_t when_full[] = {[RUN_FULL_WAIT] = REC_FULL_WAIT,
                                         [RUN_FULL_DROP] = REC_FULL_DROP,
                                         [RUN_FULL_STOP] = REC_FULL_STOP};
    return (struct rec_options){
        .size = sizeof(struct rec_options),
        .flags = (o->pid ? REC_OPTION_ATTACHED : REC_OPTION_FOLLOW_EXEC) |
                 (o->follow_fork ? REC_OPTION_FOLLOW_FORK : 0) | (o->gpu ? REC_OPTION_GPU : 0) |
                 (o->pid || o->adopt || o->no_client ? 0 : REC_OPTION_CLIENT),
        .depth = (uint32_t)o->depth,
        .pools = REC_POOLS_HEAP | (o->mmap_pool ? REC_POOLS_MMAP : 0),
        .min_size = o->min_size,
        .sample_bytes = o->sample,
        .file_bytes = o->buffer,
        .when_full = when_full[o->when_full],
    };
}

static int prepare(struct run *r, struct err *e)
{
    const struct collector_options collecting = {.spool = r->spool,
                                                 .children = r->options.follow_fork,
                                                 .threads = r->options.threads,
                                                 .record = recording_options(&r->options)};
    if (launch_init(&r->launch, e) != 0 || collector_start(&r->collector, &collecting, e) != 0)
        return -1;
    r->tree.collector = r->collector;
    if (r->options.adopt)
        return 0;
    r->launch.kept = r->options.toggle;
    r->tree.paused = r->options.start_paused;
    collector_set_paused(r->collector, r->tree.paused);
    const struct run_environment_plan plan = {.library = r->options.library,
                                              .folder = collector_folder(r->collector),
                                              .socket = collector_socket(r->collector),
                                              .gpu = r->options.gpu,
                                              .more = r->options.environment.at,
                                              .count = r->options.environment.len};
    return run_environment_make(&r->environment, &plan, e);
}

/* ---- while it runs */

static void note_root(void *ctx, pid_t pid)
{
    struct run *r = ctx;
    collector_set_root(r->collector, pid);
    r->pid = pid;
}

/* Whether the program leaves a processor to us. */
static bool has_spare(struct run *r)
{
    clockid_t id;
    struct timespec t;
    uint64_t now = monotonic_ns();
    if (now - r->measured < 50000000u || r->launch.ended)
        return !r->busy || r->launch.ended;
    if (clock_getcpuclockid(r->pid, &id) != 0 || clock_gettime(id, &t) != 0)
        return true;
    uint64_t used = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    double takes = (double)(used - r->used) / (double)(now - r->measured);
    r->busy = takes + 1 > r->processors + 0.2;
    r->measured = now;
    r->used = used;
    return !r->busy;
}

/* Many processes have files open here. The program keeps the limit that it was given. */
static void raise_limits(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void wait_for_news(struct run *r, int timeout)
{
    const struct pollfd fds[] = {{.fd = r->launch.signals, .events = POLLIN},
                                 {.fd = collector_fd(r->collector), .events = POLLIN}};
    run_offers_wait(&r->offers, fds, 2, timeout);
}

/* Children may outlive the program. A request to end then ends the wait. */
static bool is_over(struct run *r, bool *told)
{
    char n[FORMAT_SIZE];
    if (!r->tree.root_ended)
        return false;
    size_t alive = run_tree_alive(&r->tree);
    /* One that was forked last may not have come yet, or may never come. */
    bool expected = r->tree.forks > r->tree.came + collector_missed(r->collector) &&
                    monotonic_ns() - r->ended < PATIENCE_NS;
    if ((r->launch.asked && !r->attach.pid) || (alive == 0 && !expected))
        return true;
    if (alive == 0)
        return false;
    if (!*told)
        fprintf(stderr,
                "tidemark: the program ended; %s of its children %s on (Ctrl-C saves "
                "what there is)\n",
                format_count(n, alive), alive == 1 ? "goes" : "go");
    return !(*told = true);
}

/* Prints nothing: standard error is the program's while it runs. */
static void take_toggles(struct run *r)
{
    if (r->launch.counted % 2 == 1)
        run_tree_pause(&r->tree, !r->tree.paused);
    r->launch.counted = 0;
}

/* It ends by itself or is detached; if that fails, at least its recording ends. */
static void look_after_attached(struct run *r, bool enough)
{
    bool let_go = (enough || r->launch.asked) && !r->attach.left;
    if (let_go && !run_attach_end(&r->attach)) {
        r->tree.stop = true;
        (void)run_tree_step(&r->tree, true);
        r->launch.ended = true;
    }
    r->launch.ended |= run_tree_root_is_gone(&r->tree);
}

static void put_up_address(struct run *r)
{
    r->offers.root.moved = false;
    run_signpost_put(collector_folder(r->collector), RUN_SIGNPOST_LISTENER,
                     run_listen_address(&r->offers.root));
}

/* TRACY_NO_EXIT is for the client that the program has, which waited for its server by now. */
static void heed_client(struct run *r)
{
    const struct run_process *last = run_tree_last(&r->tree);
    struct rec_header h;
    struct err e = {0};
    if (r->options.no_exit_of_clients && last &&
        recording_read_header(last->collected->fd, &h, &e) == 0 && h.client_port)
        r->options.no_exit = false;
}

/*
 * Of an adopted process. Scripts start many short ones with the library preloaded, and a server
 * that waits for the program's own client, which comes within a second, is not to find our
 * listener.
 */
static void settle(struct run *r)
{
    struct err e = {0};
    double lived = (double)(monotonic_ns() - r->began) / 1e9;
    r->settled |= lived >= r->options.adopt_after;
    if (r->launch.ended)
        heed_client(r);
    if (r->listens || !r->settled ||
        (r->options.adopt && lived < LISTEN_AFTER && !(r->launch.ended && r->options.no_exit)))
        return;
    r->listens = true;
    if (r->options.adopt && run_offers_start(&r->offers, &e) != 0)
        print_error(&e);
    put_up_address(r);
}

static bool wants_client(const struct run *r)
{
    return !r->options.adopt && !r->attach.pid && !r->options.no_client;
}

static void look_for_client(struct run *r)
{
    const struct run_process *last = run_tree_last(&r->tree);
    if (last && wants_client(r))
        run_client_look(&r->client, last->collected->fd, collector_folder(r->collector));
}

/* Programs that end soon are asked often, as a client of Tracy does not wait for its server. */
static int longest_pause(const struct run *r)
{
    return wants_client(r) && !r->client.served && monotonic_ns() - r->began < SOON_NS ? PAUSE_SOON
                                                                                       : PAUSE_MOST;
}

static void attend(struct run *r)
{
    int timeout = 0;
    bool told = false;
    settle(r);
    while (!is_over(r, &told)) {
        wait_for_news(r, timeout);
        settle(r);
        launch_take_signals(&r->launch);
        take_toggles(r);
        bool enough = r->options.seconds >= 0 &&
                      (double)(monotonic_ns() - r->began) / 1e9 >= r->options.seconds;
        if (r->attach.pid)
            look_after_attached(r, enough);
        else
            r->tree.stop |= enough;
        if (r->launch.ended && !r->tree.root_ended) {
            r->tree.root_ended = true;
            r->ended = monotonic_ns();
        }
        bool wanted = r->options.buffer || r->options.listen;
        int most = longest_pause(r);
        uint64_t taken = run_tree_step(&r->tree, wanted || has_spare(r));
        run_offers_step(&r->offers);
        look_for_client(r);
        if (r->offers.root.moved)
            put_up_address(r);
        timeout = taken >= EVENTS_TO_GO_ON ? 0
                  : taken || timeout == 0  ? PAUSE_LEAST
                  : timeout * 2 < most     ? timeout * 2
                                           : most;
    }
    (void)run_tree_step(&r->tree, true);
}

/* Answers the queries of a connected server until it is done or a request to end arrives. */
static void attend_server(struct run *r)
{
    /* What was asked before was the program's. */
    if (run_offers_is_busy(&r->offers))
        r->launch.asked = false;
    while (run_offers_is_busy(&r->offers) && !r->launch.asked) {
        /* Not for the collector's news, which is taken no more and would end each wait. */
        const struct pollfd signals = {.fd = r->launch.signals, .events = POLLIN};
        run_offers_wait(&r->offers, &signals, 1, PAUSE_MOST);
        launch_take_signals(&r->launch);
        run_offers_step(&r->offers);
    }
    /* Naming and writing the trace take time, in which other programs may want the port. */
    run_offers_close(&r->offers);
}

/* ---- after */

static void say_end(const struct run *r, struct buf *out)
{
    int status = r->launch.status;
    if (r->attach.pid)
        buf_puts(out, r->attach.left ? "detached, the process goes on" : "the process ended");
    else if (r->launch.adopted)
        buf_puts(out, "unknown: the program was not started by tidemark run");
    else if (WIFSIGNALED(status))
        buf_printf(out, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        buf_printf(out, "exit status %d", WEXITSTATUS(status));
}

/* --pid has no option for it. */
static const char *follow_advice(const struct run *r)
{
    return r->attach.pid ? "" : ": --follow-fork does";
}

/* Why a trace is empty, as far as it shows. */
static void say_why_nothing(const struct run *r, const struct run_process *p, struct buf *out)
{
    struct rec_header h;
    struct err e;
    struct buf why = {0};
    char n[FORMAT_SIZE];
    if (r->program.obstacle != PROGRAM_FINE && r->program.obstacle != PROGRAM_UNKNOWN) {
        buf_printf(out, "%s ", r->program.image);
        program_explain(&r->program, out);
    } else if (!p && collector_failure(r->collector)) {
        buf_printf(out, "there was no file to be had for the recording: %s",
                   strerror(collector_failure(r->collector)));
    } else if (!p) {
        buf_puts(out, "the program never loaded libtidemark.so: LD_PRELOAD was lost on the way to "
                      "it, or its dynamic linker could not load the library");
    } else if (!p->record || p->silent || recording_read_header(p->collected->fd, &h, &e) != 0) {
        buf_puts(out, "the program ended before its first allocation, or there was no room for "
                      "the recording");
    } else if (h.control == REC_CONTROL_HOLD) {
        buf_puts(out, "the process ended before it was attached to");
    } else if (h.options.min_size) {
        buf_printf(out, "no block had --min-size, %s", format_bytes(n, h.options.min_size));
    } else if (h.options.flags & REC_OPTION_PAUSED) {
        buf_puts(out, "the recording was paused from the beginning to the end");
    } else if (h.state == REC_STATE_FULL) {
        buf_puts(out, "there was no room for the recording");
    } else if (h.state == REC_STATE_EXEC && !r->options.follow_fork) {
        buf_printf(out, "it executed another program, which is not recorded%s", follow_advice(r));
    } else if (run_why_memory(&h, &why)) {
        buf_printf(out, "the program %s", buf_str(&why));
    } else {
        buf_puts(out, "the program called none of the functions that are watched: it has an "
                      "its own allocator, or needed no memory");
        if (h.children)
            buf_printf(out, "; its %s were not recorded%s",
                       format_counted(n, h.children, "child process"), follow_advice(r));
    }
    buf_release(&why);
}

/*
 * The trace may be that of a wrapper, which executed something that cannot be recorded. Returns
 * whether that is so.
 */
static bool say_what_followed(const struct run *r, const struct run_process *root)
{
    const char *path = run_unseen_program(&r->tree.unseen, root->collected->hello.pid);
    bool lost = path != NULL;
    const struct run_process *last = run_tree_last(&r->tree);
    struct rec_header h;
    struct err e;
    struct buf text = {0};
    if (last != root) {
        lost = run_why_nothing(last, &text);
        fprintf(stderr, "tidemark: it executed another program, which could not be recorded: %s\n",
                buf_str(&text));
    } else if (path && recording_read_header(root->collected->fd, &h, &e) == 0 && h.bare_execs) {
        fprintf(stderr,
                "tidemark: it executed another program, which never loaded libtidemark.so: a limit "
                "on its memory (RLIMIT_DATA, RLIMIT_AS) leaves no room for recording\n");
    } else if (path) {
        format_terminal(&text, view_of(*path ? path : "it"));
        buf_puts(&text, " ");
        if (r->attach.pid)
            buf_puts(&text, "was executed after the attach, and --pid records one program");
        else
            run_unseen_reason(path, &text);
        fprintf(stderr, "tidemark: it executed another program, which was not recorded: %s\n",
                buf_str(&text));
    }
    buf_release(&text);
    return lost;
}

/* What the trace lacks, where it has the rest. */
static void say_unseen(const struct run_process *p)
{
    struct rec_header h;
    struct err e;
    char n[FORMAT_SIZE];
    struct buf names = {0};
    if (recording_read_header(p->collected->fd, &h, &e) != 0)
        return;
    h.unseen[sizeof h.unseen - 1] = 0;
    if (h.unseen[0]) {
        format_terminal(&names, view_of(h.unseen));
        fprintf(stderr, "tidemark: not recorded are calls of %s\n", buf_str(&names));
    }
    if (h.deep_unseen)
        fprintf(stderr,
                "tidemark: not recorded is what libraries do that %s of dlopen with RTLD_DEEPBIND "
                "loaded\n",
                format_counted(n, h.deep_unseen, "call"));
    buf_release(&names);
}

/* Reports children without a trace, for which a user might look. */
static void say_idle(struct run *r)
{
    char n[FORMAT_SIZE];
    struct run_idle *idle = &r->tree.idle;
    if (idle->count)
        fprintf(stderr, "tidemark: %s recorded nothing and %s no trace: %s%s\n",
                format_counted(n, idle->count, "child process"), idle->count == 1 ? "has" : "have",
                buf_str(&idle->why), idle->count == 1 ? "" : ", to name one");
}

static void say_clients(const struct run *r)
{
    char n[FORMAT_SIZE];
    if (r->tree.clients && !r->options.no_client)
        fprintf(stderr,
                "tidemark: not recorded: %s of child processes; their traces have malloc alone\n",
                format_counted(n, r->tree.clients, "Tracy client"));
}

/* They cannot be counted: a child that was missed at its fork reports again when it executes. */
static void say_missed(const struct run *r)
{
    if (collector_missed(r->collector))
        fprintf(stderr,
                "tidemark: not all children were recorded: there was no file to be had: %s\n",
                strerror(collector_failure(r->collector)));
}

/* What ran beside the programs that have traces, and what --fail-if therefore says nothing of. */
static void say_unrecorded(struct run *r)
{
    struct buf text = {0};
    uint64_t unseen = run_unseen_tell(&r->tree.unseen, r->pid,
                                      r->attach.pid ? "" : "; --follow-fork records them", &text);
    fputs(buf_str(&text), stderr);
    buf_release(&text);
    r->traces.uncovered =
        unseen + (r->tree.idle.told || r->tree.folded_idle.told) + collector_missed(r->collector);
}

/* Two traces: the recording cannot be read anew, or a clock not be compared with another. */
static int save_client(struct run *r, struct err *e)
{
    uint32_t own = r->options.version, version;
    struct run_record *client = run_client_read(&r->client, -1, r->spool, &version, e);
    char *name = client ? run_tree_name(r->output, "client") : NULL;
    if (client && !name)
        err_no_memory(e, "the output's name");
    if (!r->options.version_given && client)
        r->options.version = version;
    int status = name ? run_trace_save(&r->traces, &client->trace, name, e) : -1;
    r->options.version = own;
    if (status == 0)
        fprintf(stderr, "tidemark: the program's Tracy client has a separate trace, %s: %s\n", name,
                r->options.buffer ? "with --buffer what was read of the recording is given back"
                                  : "its clock is not the processor's time stamp counter, by which "
                                    "malloc is recorded");
    free(name);
    run_record_free(client);
    return status;
}

static int join_client(struct run *r, const struct run_process *p, struct err *e)
{
    uint32_t version;
    int fits = r->options.buffer ? 0 : run_client_fits(&r->client, p->collected->fd, e);
    if (fits <= 0)
        return fits < 0 ? -1 : save_client(r, e);
    r->joined = run_client_read(&r->client, p->collected->fd, r->spool, &version, e);
    if (r->joined && !r->options.version_given)
        r->options.version = version;
    return r->joined ? 0 : -1;
}

/* What the program reports through tidemark.h: zones and more are the client's in the trace. */
static void say_left_out(const struct run *r, const struct run_process *p)
{
    char n[FORMAT_SIZE];
    if (r->joined && p->record->notes)
        fprintf(stderr,
                "tidemark: not in the trace beside the Tracy client's: %s of tidemark.h; "
                "--no-client records them with malloc alone\n",
                format_counted(n, p->record->notes, "report"));
}

/* The program has a client of Tracy: what that sent and the recording become one trace. */
static void take_client(struct run *r, const struct run_process *p)
{
    struct rec_header h;
    struct err e = {0};
    if (recording_read_header(p->collected->fd, &h, &e) != 0 || h.client_port == 0 ||
        !wants_client(r))
        return;
    if (r->client.connected && h.client_port == r->client.port && join_client(r, p, &e) == 0) {
        say_left_out(r, p);
        return;
    }
    fprintf(stderr,
            "tidemark: the trace has malloc alone, and nothing of the program's Tracy client at "
            "port %u%s\n",
            h.client_port,
            !r->client.journal || access(r->client.journal, F_OK) != 0
                ? ": the program ended before a server was connected; with TRACY_NO_EXIT=1 the "
                  "client waits for it, and --no-client leaves it alone"
                : "");
    if (e.code)
        print_error(&e);
    else
        err_set(&e, ERR_CONNECT, "the program's Tracy client was not recorded");
    r->tree.failure = r->tree.failure.code ? r->tree.failure : e;
    if (r->client.journal && access(r->client.journal, F_OK) == 0) {
        fprintf(stderr,
                "tidemark: what that client sent is kept in %s; `tidemark recover` makes a trace "
                "of it\n",
                r->client.journal);
        r->keeps_client = true;
    }
}

static int save_root(struct run *r, struct run_process *p, struct err *e)
{
    struct buf end = {0};
    take_client(r, p);
    struct trace *t = r->joined ? &r->joined->trace : &p->record->trace;
    say_end(r, &end);
    int status =
        end.failed ? err_no_memory(e, "a fact") : trace_add_fact(t, e, "end", "%s", buf_str(&end));
    if (status == 0 && p->record->events == 0) {
        struct buf why = {0};
        say_why_nothing(r, p, &why);
        fprintf(stderr, "tidemark: nothing was recorded: %s\n", buf_str(&why));
        status = trace_add_fact(t, e, "nothing_recorded", "%s", buf_str(&why));
        buf_release(&why);
    }
    buf_release(&end);
    return status == 0 ? run_trace_finish(&r->traces, t, r->output, r->options.replace, e) : -1;
}

/* What the run comes to, when the program itself ended well. */
static int finish(struct run *r)
{
    struct err e = {0};
    int status = 0;
    run_tree_save_alive(&r->tree);
    run_tree_save_folded(&r->tree);
    say_idle(r);
    say_clients(r);
    struct run_process *root = run_tree_root(&r->tree);
    say_unrecorded(r);
    if (root && root->record && !root->silent) {
        r->traces.replaced = say_what_followed(r, root);
        say_unseen(root);
        say_missed(r);
        if (save_root(r, root, &e) != 0) {
            print_error(&e);
            r->tree.keep = true;
            status = err_exit_status(&e);
        }
    } else {
        struct buf why = {0};
        say_why_nothing(r, root, &why);
        fprintf(stderr, "tidemark: nothing was recorded: %s\n", buf_str(&why));
        buf_release(&why);
        status = r->tree.children ? 0 : 3;
        r->traces.replaced = true;
        run_trace_check_cover(&r->traces, NULL);
        if (r->options.report != RUN_JSON)
            run_trace_list_processes(&r->traces);
    }
    if (status == 0 && r->tree.failure.code)
        status = err_exit_status(&r->tree.failure);
    if (r->tree.keep)
        fprintf(stderr,
                "tidemark: the recordings are kept; `tidemark run --recover %s` finishes them\n",
                collector_folder(r->collector));
    return status == 0 && r->traces.exceeded ? 1 : status;
}

/* ---- all of it */

static void note_machine(struct run *r)
{
    cpu_set_t set;
    r->measured = r->began;
    r->processors = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        r->processors = CPU_COUNT(&set);
}

static int start(struct run *r, struct err *e)
{
    bool missing = false;
    const struct launch_plan plan = {.path = r->program.path,
                                     .arguments = r->options.program,
                                     .environment = r->environment.list,
                                     .forked = note_root,
                                     .ctx = r};
    r->began = monotonic_ns();
    if (launch_program(&r->launch, &plan, &missing, e) != 0)
        return missing ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    note_machine(r);
    return -1;
}

/* As start, of a process that is there. */
static int start_attached(struct run *r, struct err *e)
{
    note_root(r, r->attach.pid);
    int status = run_attach_begin(&r->attach, r->library, collector_socket(r->collector), e);
    r->tree.changes++; /* allocations are on hold */
    r->began = monotonic_ns();
    note_machine(r);
    return status == 0 ? -1 : EXIT_CANNOT_RUN;
}

/* As start, of a process that loads the library already. */
static int start_adopted(struct run *r, struct err *e)
{
    pid_t pid = (pid_t)r->options.adopt;
    if (run_adopt_begin(&r->launch, pid, e) != 0)
        return EXIT_NOT_FOUND;
    note_root(r, pid);
    r->began = monotonic_ns();
    note_machine(r);
    r->told = run_adopt_tell(collector_socket(r->collector), e) == 0;
    return r->told ? -1 : EXIT_CANNOT_RUN;
}

static int find_program(struct run *r, struct err *e)
{
    return r->options.adopt ? run_adopt_find(&r->program, (pid_t)r->options.adopt, e)
                            : program_find(&r->program, r->options.program[0], e);
}

/* What is to be recorded, and that it can be. -1 to go on, else the exit status. */
static int find_target(struct run *r, struct err *e)
{
    if (r->attach.pid) {
        r->library = run_environment_library(r->options.library, e);
        if (!r->library)
            return EXIT_NO_OUTPUT;
        if (run_attach_check(&r->attach, &r->program, r->library, e) != 0)
            return EXIT_CANNOT_RUN;
    } else if (find_program(r, e) != 0) {
        return r->program.missing ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    }
    return r->options.adopt || check_program(r, e) == 0 ? -1 : EXIT_CANNOT_RUN;
}

/* The same, of beginning. */
static int begin(struct run *r, struct err *e)
{
    if (check_output(r, e) != 0)
        return EXIT_NO_OUTPUT;
    /* The helper starts before there are threads. */
    run_traces_init(&r->traces, &r->options);
    if (prepare(r, e) != 0 ||
        run_offers_open(&r->offers, &r->options, &r->traces, r->spool, e) != 0 ||
        (!r->options.adopt && run_offers_start(&r->offers, e) != 0))
        return EXIT_NO_OUTPUT;
    return r->attach.pid      ? start_attached(r, e)
           : r->options.adopt ? start_adopted(r, e)
                              : start(r, e);
}

static void put_up_trace(const struct run *r)
{
    char *folder = outfile_folder(r->tree.output), *real = folder ? realpath(folder, NULL) : NULL;
    const char *slash = strrchr(r->tree.output, '/');
    struct buf path = {0};
    if (real)
        buf_printf(&path, "%s/%s", real, slash ? slash + 1 : r->tree.output);
    if (real && !path.failed)
        run_signpost_put(collector_folder(r->collector), RUN_SIGNPOST_TRACE, buf_str(&path));
    buf_release(&path);
    free(real);
    free(folder);
}

/* To the program's end. From here on its own doings decide; it has the signals as they were. */
static int record(struct run *r)
{
    signal(SIGPIPE, SIG_IGN);
    raise_limits();
    r->output = r->options.output ? strdup(r->options.output) : default_output(r);
    r->tree.output = r->output ? r->output : "run.tracy";
    put_up_trace(r);
    attend(r);
    if (!r->settled) {
        run_adopt_brief(r->pid, r->program.path, r->options.adopt_after);
        return 0;
    }
    run_client_wait(&r->client);
    settle(r);
    attend_server(r);
    int ours = finish(r), its = launch_exit_status(&r->launch);
    return its ? its : ours;
}

/* The exit status. */
static int run(struct run *r)
{
    struct err e = {0};
    int status = EXIT_NO_OUTPUT;
    r->attach.pid = (pid_t)r->options.pid;
    const char *output = r->options.output ? r->options.output : "";
    r->spool = r->options.spool ? strdup(r->options.spool) : outfile_folder(output);
    if (!r->spool)
        err_no_memory(&e, "options");
    else if ((status = find_target(r, &e)) < 0 && (status = begin(r, &e)) < 0)
        return record(r);
    if (r->options.adopt && !r->told)
        run_adopt_refuse(&e);
    else
        print_error(&e);
    return status;
}

int cmd_run(int argc, char **argv)
{
    struct run r = {
        .options = RUN_OPTIONS_EMPTY, .launch = LAUNCH_NONE, .traces = {.resolver = RESOLVER_NONE}};
    r.tree.offers = &r.offers;
    int status = run_options_parse(&r.options, argc, argv);
    if (status < 0 && r.options.recover) {
        status = run_recover(&r.options);
    } else if (status < 0) {
        r.tree.options = &r.options;
        r.tree.traces = &r.traces;
        status = run(&r);
    }
    run_tree_release(&r.tree);
    run_record_free(r.joined);
    run_client_release(&r.client, r.keeps_client);
    run_offers_release(&r.offers);
    if (r.collector)
        run_signpost_remove(collector_folder(r.collector));
    collector_stop(r.collector);
    launch_release(&r.launch);
    run_traces_release(&r.traces);
    run_environment_release(&r.environment);
    program_release(&r.program);
    run_options_release(&r.options);
    free(r.library);
    free(r.output);
    free(r.spool);
    return status;
}
