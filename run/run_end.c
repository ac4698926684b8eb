/* The end of `tidemark run`: the traces are saved, and what they lack is reported. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/print_error.h"
#include "naming/runtimes.h"
#include "run/run_join.h"
#include "run/run_state.h"
#include "run/run_why.h"

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

/* Why a trace is empty, as far as it shows. Returns whether the process called nothing. */
static bool say_why_nothing(const struct run *r, const struct run_process *p, struct buf *out)
{
    struct rec_header h;
    struct err e;
    struct buf why = {0};
    bool idle = false;
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
    } else if (h.state == REC_STATE_EXEC && !r->options->follow_fork) {
        buf_printf(out, "it executed another program, which is not recorded%s", follow_advice(r));
    } else if (run_why_memory(&h, &why)) {
        buf_printf(out, "the program %s", buf_str(&why));
    } else {
        idle = true;
        buf_puts(out, "the program called none of the functions that are watched: it has "
                      "its own allocator, or needed no memory");
        if (h.children)
            buf_printf(out, "; its %s were not recorded%s",
                       format_counted(n, h.children, "child process"), follow_advice(r));
    }
    buf_release(&why);
    return idle;
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

/* Call stacks without Python functions, where the interpreter's structures are known. */
static void say_python_stacks(const struct rec_header *h, uint64_t events)
{
    char n[FORMAT_SIZE];
    if (h->python_unread)
        fprintf(stderr, "tidemark: %s without Python functions, which could not be read\n",
                format_counted(n, h->python_unread, "call stack"));
    if (h->python_unheld >= events / 100 + 1)
        fprintf(stderr,
                "tidemark: %s without Python functions, of threads that had released the GIL\n",
                format_counted(n, h->python_unheld, "call stack"));
    if (h->python_subinterpreters)
        fprintf(stderr,
                "tidemark: %s without Python functions: those of subinterpreters are not read%s\n",
                format_counted(n, h->python_subinterpreters, "call stack"),
                h->python < 0x030c
                    ? ", and beside subinterpreters none of threads that released the GIL"
                    : "");
}

/* What is not seen of Python, and what shows it. */
static void say_python(const struct rec_header *h)
{
    unsigned major = h->python >> 8 & 255, minor = h->python & 255;
    if (h->options.flags & REC_OPTION_NO_PYTHON)
        return;
    if (h->python == 1)
        fprintf(stderr, "tidemark: call stacks have no Python functions: they are read from "
                        "CPython " PYTHON_VERSIONS "\n");
    else if (h->python && h->python_state == REC_PYTHON_UNKNOWN)
        fprintf(stderr,
                "tidemark: call stacks have no Python functions of CPython %u.%u: they are read "
                "from CPython " PYTHON_VERSIONS
                ", where the program has the interpreter at its start or "
                "loads it by dlopen\n",
                major, minor);
    if (h->python_state == REC_PYTHON_PYMALLOC)
        fprintf(stderr,
                "tidemark: CPython %u.%u takes objects of up to 512 bytes from its own arenas, "
                "which are not recorded; --python-allocators records each object\n",
                major, minor);
}

/* Which options give names to code that the program generated, if it has none or uncertain ones. */
static void say_generated(const struct run_process *p)
{
    const struct runtime *runtime = runtime_find(p->collected->hello.exe);
    struct view fact = {0};
    if (!runtime || !p->record)
        return;
    fact = trace_fact(&p->record->trace, "generated_code", 0);
    if (!fact.p)
        fprintf(stderr,
                "tidemark: call stacks have no names of %s code; the options %s give them\n",
                runtime->program, runtime->advice);
    else if (runtime->exact && (fact.len < 2 || memcmp(fact.p + fact.len - 2, " 0", 2) != 0))
        fprintf(stderr,
                "tidemark: several functions were at one address of %s code; %s separates them\n",
                runtime->program, runtime->exact);
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
    say_generated(p);
    say_python(&h);
    say_python_stacks(&h, p->record ? p->record->events : 0);
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

/*
 * The kernel counts kills in the cgroup, and does not say which process: with SIGKILL, both are
 * reported.
 */
static int say_kill(const struct run *r, struct trace *t, struct err *e)
{
    const struct run_tree *tree = &r->tree;
    char words[PAGE_WATCH_WORDS];
    bool killed = !r->launch.adopted && !r->attach.pid && WIFSIGNALED(r->launch.status) &&
                  WTERMSIG(r->launch.status) == SIGKILL;
    if (!killed || !tree->kills)
        return 0;
    process_kills_words(tree->kills, tree->limit, words, sizeof words);
    fprintf(stderr, "tidemark: the program was killed %s\n", words);
    return trace_add_fact(t, e, "oom_kills", "%" PRIu64 " limit %" PRIu64, tree->kills,
                          tree->limit);
}

static int save_root(struct run *r, struct run_process *p, struct err *e)
{
    struct buf end = {0};
    run_join(&r->tree, p, r->output);
    struct run_record *record = p->joined ? p->joined : p->record;
    struct trace *t = &record->trace;
    say_end(r, &end);
    int status =
        end.failed ? err_no_memory(e, "a fact") : trace_add_fact(t, e, "end", "%s", buf_str(&end));
    if (status == 0)
        status = say_kill(r, t, e);
    if (status == 0 && p->record->events == 0) {
        struct buf why = {0};
        r->traces.idle = say_why_nothing(r, p, &why);
        fprintf(stderr, "tidemark: nothing was recorded: %s\n", buf_str(&why));
        status = trace_add_fact(t, e, "nothing_recorded", "%s", buf_str(&why));
        buf_release(&why);
    }
    buf_release(&end);
    return status == 0
               ? run_trace_finish(&r->traces, t, record->version, r->output, r->options->replace, e)
               : -1;
}

static void say_kept(const char *folder)
{
    if (access(folder, F_OK) == 0)
        fprintf(stderr,
                "tidemark: the recordings are kept; `tidemark run --recover %s` finishes them\n",
                folder);
    else
        fprintf(stderr, "tidemark: the recordings are lost: their folder %s was removed\n", folder);
}

int run_finish(struct run *r)
{
    struct err e = {0};
    int status = 0;
    run_tree_save_alive(&r->tree);
    run_tree_save_folded(&r->tree);
    say_idle(r);
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
        (void)say_why_nothing(r, root, &why);
        status = r->tree.children ? 0 : 3;
        r->traces.replaced = true;
        if (run_trace_finish_nothing(&r->traces, buf_str(&why), &e) != 0)
            status = print_error(&e);
        buf_release(&why);
    }
    if (status == 0 && r->tree.failure.code)
        status = err_exit_status(&r->tree.failure);
    if (status == 0 && r->traces.elsewhere)
        status = EXIT_NO_OUTPUT;
    if (r->tree.keep)
        say_kept(collector_folder(r->collector));
    return status == 0 && r->traces.exceeded ? 1 : status;
}
