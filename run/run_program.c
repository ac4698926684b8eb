#include "run/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/format.h"
#include "base/monotonic.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "run/run_adopt.h"
#include "run/run_state.h"
#include "server/capture/run_signpost.h"

/* Between two looks at the recordings when nothing comes, in milliseconds. */
#define PAUSE_LEAST 5
#define PAUSE_MOST 100
#define PAUSE_SOON 10

/* So many events at a look, and the next one is taken at once. */
#define EVENTS_TO_GO_ON ((uint64_t)1 << 17)

/* For a child that was forked to connect. */
#define PATIENCE_NS UINT64_C(2000000000)

/* Seconds that an adopted process lives before servers can connect. */
#define LISTEN_AFTER 1.0

/* The least that a recording may take of a disk. */
#define SHARE_LEAST ((uint64_t)16 << 20)

/* When nothing was run. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

/* ---- before */

static int check_output(const struct run *r, struct err *e)
{
    const struct run_options *o = r->options;
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
        if (r->options->replace || !file_is_there(out))
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
        (r->options->follow_fork && bears))
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
                 (o->no_python ? REC_OPTION_NO_PYTHON : 0) |
                 (o->no_resident && !o->memory_hz ? 0 : REC_OPTION_LOOK) |
                 (o->pid || o->adopt || o->no_client ? 0 : REC_OPTION_CLIENT),
        .depth = (uint32_t)o->depth,
        .pools = REC_POOLS_HEAP | (o->mmap_pool ? REC_POOLS_MMAP : 0),
        .min_size = o->min_size,
        .sample_bytes = o->sample,
        .file_bytes = o->buffer,
        .when_full = when_full[o->when_full],
    };
}

/*
 * Without --buffer, a recording takes half of what its disk has free: the trace needs the other. A
 * disk with hardly any room stops recordings when it is full.
 */
static void bound_recording(struct run *r)
{
    struct statvfs fs;
    char most[FORMAT_SIZE], room[FORMAT_SIZE];
    if (r->options->buffer || statvfs(r->spool, &fs) != 0)
        return;
    uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    r->options->buffer = left / 2 > SHARE_LEAST ? left / 2 : SHARE_LEAST;
    if (!r->options->adopt && isatty(STDERR_FILENO))
        fprintf(stderr, "tidemark: a recording takes at most %s of the %s that are free\n",
                format_bytes(most, r->options->buffer), format_bytes(room, left));
}

static int prepare(struct run *r, struct err *e)
{
    bound_recording(r);
    const struct collector_options collecting = {.spool = r->spool,
                                                 .children = r->options->follow_fork,
                                                 .threads = r->options->threads,
                                                 .record = recording_options(r->options)};
    if (launch_init(&r->launch, e) != 0 || collector_start(&r->collector, &collecting, e) != 0)
        return -1;
    r->tree.collector = r->collector;
    r->launch.kept[1].signal = r->options->looks.signal;
    if (r->options->adopt)
        return 0;
    r->launch.kept[0].signal = r->options->toggle;
    r->tree.paused = r->options->start_paused;
    collector_set_paused(r->collector, r->tree.paused);
    const struct run_environment_plan plan = {.library = r->options->library,
                                              .folder = collector_folder(r->collector),
                                              .socket = collector_socket(r->collector),
                                              .gpu = r->options->gpu,
                                              .more = r->options->environment.at,
                                              .count = r->options->environment.len};
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
    /* One that was forked last may not have come yet, or may never come; one that ended before the
       program may still count as alive. */
    bool recent = monotonic_ns() - r->ended < PATIENCE_NS;
    bool expected = r->tree.forks > r->tree.came + collector_missed(r->collector) && recent;
    if ((r->launch.asked && !r->attach.pid) || (alive == 0 && !expected))
        return true;
    if (alive == 0 || *told || recent)
        return false;
    fprintf(stderr,
            "tidemark: the program ended; %s of its children %s on (Ctrl-C saves "
            "what there is)\n",
            format_count(n, alive), alive == 1 ? "goes" : "go");
    return !(*told = true);
}

/* Prints nothing: standard error is the program's while it runs. */
static void take_toggles(struct run *r)
{
    if (r->launch.kept[0].count % 2 == 1)
        run_tree_pause(&r->tree, !r->tree.paused);
    r->launch.kept[0].count = 0;
}

/* Returns how many programs were looked at. */
static size_t look(struct run *r, enum look_reason reason)
{
    size_t n = run_tree_look(&r->tree, reason);
    if (!n)
        fprintf(stderr, "tidemark: the pages were not looked at: no recorded program has any that "
                        "may be read\n");
    return n;
}

/* Signals that arrive together are one request. */
static void look_when_asked(struct run *r)
{
    char text[FORMAT_SIZE];
    if (!r->launch.kept[1].count)
        return;
    r->launch.kept[1].count = 0;
    if (r->looks_asked == LOOKS_ASKED_MOST) {
        fprintf(stderr,
                "tidemark: the pages were not looked at: they were on request %u times already\n",
                r->looks_asked);
        return;
    }
    size_t n = look(r, LOOK_ASKED);
    r->looks_asked += n != 0;
    if (n)
        fprintf(stderr, "tidemark: looked at the pages of %s\n",
                format_counted(text, n, "recorded program"));
}

/* It ends by itself or is detached; if that fails, at least its recording ends. */
static void look_after_attached(struct run *r, bool enough)
{
    bool let_go = (enough || r->launch.asked) && !r->attach.left;
    if (let_go)
        (void)run_tree_look(&r->tree, LOOK_AT_END);
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

/* If the program has a Tracy client, TRACY_NO_EXIT is meant for that, which has waited already. */
static void heed_client(struct run *r)
{
    const struct run_process *last = run_tree_last(&r->tree);
    struct rec_header h;
    struct err e = {0};
    if (r->options->no_exit_of_clients && last &&
        recording_read_header(last->collected->fd, &h, &e) == 0 && h.client_port)
        r->options->no_exit = false;
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
    r->settled |= lived >= r->options->adopt_after;
    if (r->launch.ended)
        heed_client(r);
    if (r->listens || !r->settled ||
        (r->options->adopt && lived < LISTEN_AFTER && !(r->launch.ended && r->options->no_exit)))
        return;
    r->listens = true;
    if (r->options->adopt && run_offers_start(&r->offers, &e) != 0)
        print_error(&e);
    put_up_address(r);
}

/* Programs that end soon are asked often, as a client of Tracy does not wait for its server. */
static int longest_pause(const struct run *r)
{
    return run_tree_awaits_client(&r->tree) ? PAUSE_SOON : PAUSE_MOST;
}

/* Looks at the pages if a chosen time has come. Returns the time to the next, at most `timeout`. */
static int look_when_due(struct run *r, int timeout)
{
    const struct look_times *times = &r->options->looks.times;
    double now = (double)(monotonic_ns() - r->began) / 1e9;
    if (look_times_due(times, now, &r->looked))
        (void)look(r, LOOK_AT_TIME);
    return look_times_pause(times, now, r->looked, timeout);
}

static void note_times_to_come(const struct run *r)
{
    for (size_t i = r->looked; i < r->options->looks.times.len; i++)
        fprintf(stderr, "tidemark: the program ended before --resident-at %g\n",
                r->options->looks.times.at[i]);
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
        look_when_asked(r);
        bool enough = r->options->seconds >= 0 &&
                      (double)(monotonic_ns() - r->began) / 1e9 >= r->options->seconds;
        if (r->attach.pid)
            look_after_attached(r, enough);
        else
            r->tree.stop |= enough;
        if (r->launch.ended && !r->tree.root_ended) {
            r->tree.root_ended = true;
            r->ended = monotonic_ns();
        }
        bool wanted = r->options->when_full != RUN_FULL_STOP || r->options->listen;
        int most = longest_pause(r);
        uint64_t taken = run_tree_step(&r->tree, wanted || has_spare(r));
        run_tree_read_memory(&r->tree);
        run_offers_step(&r->offers);
        if (r->offers.root.moved)
            put_up_address(r);
        timeout = taken >= EVENTS_TO_GO_ON ? 0
                  : taken || timeout == 0  ? PAUSE_LEAST
                  : timeout * 2 < most     ? timeout * 2
                                           : most;
        timeout = look_when_due(r, memory_rounds_pause(&r->tree.memory, timeout));
    }
    (void)run_tree_step(&r->tree, true);
    note_times_to_come(r);
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
                                     .arguments = r->options->program,
                                     .environment = r->environment.list,
                                     .may_be_script = r->program.obstacle == PROGRAM_UNKNOWN,
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
    pid_t pid = (pid_t)r->options->adopt;
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
    return r->options->adopt ? run_adopt_find(&r->program, (pid_t)r->options->adopt, e)
                             : program_find(&r->program, r->options->program[0], e);
}

/* What is to be recorded, and that it can be. -1 to go on, else the exit status. */
static int find_target(struct run *r, struct err *e)
{
    if (r->attach.pid) {
        r->library = run_environment_library(r->options->library, e);
        if (!r->library)
            return EXIT_NO_OUTPUT;
        if (run_attach_check(&r->attach, &r->program, r->library, e) != 0)
            return EXIT_CANNOT_RUN;
    } else if (find_program(r, e) != 0) {
        return r->program.missing ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    }
    return r->options->adopt || check_program(r, e) == 0 ? -1 : EXIT_CANNOT_RUN;
}

/* Before there is a program, which may remove the folder at once. */
static void hold_folder(struct run *r)
{
    char *folder = outfile_folder(r->options->output ? r->options->output : "");
    r->traces.folder = folder ? output_folder_take(NULL, folder) : NULL;
    free(folder);
}

/* The same, of beginning. */
static int begin(struct run *r, struct err *e)
{
    if (check_output(r, e) != 0)
        return EXIT_NO_OUTPUT;
    /* The helper starts before there are threads. */
    run_traces_init(&r->traces, r->options);
    hold_folder(r);
    if (prepare(r, e) != 0 ||
        run_offers_open(&r->offers, r->options, &r->traces, r->spool, e) != 0 ||
        (!r->options->adopt && run_offers_start(&r->offers, e) != 0))
        return EXIT_NO_OUTPUT;
    return r->attach.pid       ? start_attached(r, e)
           : r->options->adopt ? start_adopted(r, e)
                               : start(r, e);
}

static void put_up_trace(struct run *r)
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
    r->output = r->options->output ? strdup(r->options->output) : default_output(r);
    r->tree.output = r->output ? r->output : "run.tracy";
    put_up_trace(r);
    attend(r);
    if (!r->settled) {
        run_adopt_brief(r->pid, r->program.path, r->options->adopt_after);
        return 0;
    }
    settle(r);
    attend_server(r);
    int ours = run_finish(r), its = launch_exit_status(&r->launch);
    return its ? its : ours;
}

static int run(struct run *r)
{
    struct err e = {0};
    int status = EXIT_NO_OUTPUT;
    r->attach.pid = (pid_t)r->options->pid;
    const char *output = r->options->output ? r->options->output : "";
    r->spool = r->options->spool ? strdup(r->options->spool) : outfile_folder(output);
    r->tree.spool = r->spool;
    r->tree.joins = !r->options->adopt && !r->attach.pid && !r->options->no_client;
    if (!r->spool)
        err_no_memory(&e, "options");
    else if ((status = find_target(r, &e)) < 0 && (status = begin(r, &e)) < 0)
        return record(r);
    if (r->options->adopt && !r->told)
        run_adopt_refuse(&e);
    else
        print_error(&e);
    return status;
}

static void release(struct run *r)
{
    run_tree_release(&r->tree);
    run_offers_release(&r->offers);
    if (r->collector)
        run_signpost_remove(collector_folder(r->collector));
    collector_stop(r->collector);
    launch_release(&r->launch);
    run_traces_release(&r->traces);
    run_environment_release(&r->environment);
    program_release(&r->program);
    free(r->library);
    free(r->output);
    free(r->spool);
}

int run_program(struct run_options *options)
{
    struct run r = {
        .options = options, .launch = LAUNCH_NONE, .traces = {.resolver = RESOLVER_NONE}};
    r.tree.options = options;
    r.tree.memory = memory_rounds(options->memory_hz);
    options->no_resident |= options->sample != 0; /* sizes of samples are estimates */
    options->no_resident |= options->figures;     /* pages are joined with blocks */
    options->no_client |= options->figures;       /* its events and the recording's are merged */
    r.tree.traces = &r.traces;
    r.tree.offers = &r.offers;
    int status = run(&r);
    release(&r);
    return status;
}
