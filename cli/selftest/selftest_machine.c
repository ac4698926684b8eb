#include "cli/selftest/selftest_machine.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "naming/resolver.h"
#include "protocol/handshake.h"
#include "report/html/html.h"
#include "run/offer.h"
#include "symbols/index/index.h"
#include "symbols/instructions.h"

#define ASK_SECONDS 1 /* timeout of a debuginfod server */

static void say_verdict(const char *verdict, const char *what, const char *detail)
{
    struct buf text = {0};
    format_terminal(&text, view_of(detail));
    printf("%-8s %-18s %s\n", verdict, what, buf_str(&text));
    buf_release(&text);
    fflush(stdout);
}

static void say(bool here, const char *what, const char *detail)
{
    say_verdict(here ? "here" : "MISSING", what, detail);
}

/* The check was not completed: what it looks for may or may not be here. */
static void say_unknown(const char *what, const struct err *why)
{
    say_verdict("UNKNOWN", what, why->text);
}

/* ---- the symbol helper */

static int note_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uint64_t *)base = info->dlpi_addr;
    return 1; /* the program comes first */
}

/* A location in this program that debug information must contain. */
static struct place own_place(void)
{
    uint64_t base = 0;
    (void)dl_iterate_phdr(note_base, &base);
    return (struct place){PLACE_ADDRESS, (uint64_t)(uintptr_t)selftest_machine - base};
}

struct found {
    enum place_source source;
    char text[200];
};

static int take_answer(void *ctx, size_t i, const struct place_answer *answer, struct err *e)
{
    struct found *f = ctx;
    (void)i;
    (void)e;
    f->source = answer->source;
    if (answer->n)
        snprintf(f->text, sizeof f->text, "found %.*s() of this program at line %u",
                 (int)answer->frames[0].function.len, answer->frames[0].function.p,
                 answer->frames[0].line);
    return 0;
}

static void say_guards(unsigned guards)
{
    static const char *const texts[] = {
        "neither seccomp nor Landlock works here: limits alone guard the process that reads images",
        "Landlock does not work here: seccomp alone guards the process that reads images",
        "seccomp does not work here: Landlock alone guards the process that reads images",
        "seccomp and Landlock guard the process that reads images"};
    guards &= GUARD_SYSCALLS | GUARD_FILES;
    say(guards == (GUARD_SYSCALLS | GUARD_FILES), "helper sandbox", texts[guards]);
}

static void try_reader(struct resolver *r, const char *program)
{
    const struct build_id any = {0};
    const struct place place = own_place();
    struct image_facts facts;
    struct found found = {0};
    struct err e = {0};
    int status =
        resolver_open(r, view_of(program), &any, (struct image_proof){.trusted = true}, &facts, &e);
    if (status == 0) {
        status = helper_look_up(&r->helper, &place, 1, take_answer, &found, &e);
        helper_close_image(&r->helper);
    }
    if (status != 0)
        say(false, "libdw", e.text);
    else if (found.source == SOURCE_DEBUG)
        say(true, "libdw", found.text);
    else
        say(false, "libdw",
            facts.has_debug ? "did not find this program's own code"
                            : "not tried: there is no debug information of this program");
}

static void try_symbols(const struct selftest_run *r)
{
    struct resolve_options o = {
        .no_debuginfod = true, .no_cache = true, .seconds = (double)r->seconds};
    struct resolver resolver = RESOLVER_NONE;
    struct err e = {0};
    if (resolver_init(&resolver, &o, &e) != 0) {
        say(false, "helper", e.text);
    } else {
        try_reader(&resolver, r->program);
        say_guards(resolver.helper.guards);
    }
    resolver_release(&resolver);
    resolve_options_release(&o);
}

static void try_debuginfod(void)
{
    const struct debuginfod_options o = {.seconds = ASK_SECONDS};
    struct build_id id = {.len = 20}; /* that no file has */
    struct debuginfod d;
    struct err e = {0};
    int fd = -1;
    if (!debuginfod_is_wanted(&o)) {
        say(false, "debuginfod", "DEBUGINFOD_URLS names no server");
        return;
    }
    int status = debuginfod_start(&d, &o, &e);
    if (status == 0) {
        status = debuginfod_ask(d.socket, &id, false, NULL, NULL, &fd, &e);
        debuginfod_stop(&d);
    }
    if (fd >= 0)
        close(fd);
    say(status == 0, "debuginfod", status == 0 ? "a server of DEBUGINFOD_URLS answers" : e.text);
}

/* ---- machine code */

static int note_line(void *ctx, uint64_t address, size_t size, const char *text, bool known,
                     struct err *e)
{
    (void)address;
    (void)known;
    (void)size;
    (void)e;
    snprintf(ctx, 64, "%s", text);
    return 0;
}

static void try_disassembler(void)
{
#if defined __x86_64__
    static const char code[] = "\xc3";
    const enum instruction_set set = CODE_X64;
#else
    static const char code[] = "\xc0\x03\x5f\xd6";
    const enum instruction_set set = CODE_ARM64;
#endif
    char text[64] = "";
    struct err e = {0};
    struct instructions *in = instructions_new(set);
    if (in)
        (void)instructions_print(in, 0, view_of(code), note_line, text, &e);
    instructions_free(in);
    say(strncmp(text, "ret", 3) == 0, "disassembler",
        in ? "Capstone decodes code of this processor"
           : "Capstone cannot be loaded: no machine code in annotate and in pages");
}

/* ---- recording */

static void try_recording(struct selftest_run *r)
{
    char trace[SELFTEST_PATH], text[FORMAT_SIZE * 2], number[FORMAT_SIZE];
    const char *const record[] = {"run",      "-o",      selftest_path(r, "run.tracy", trace),
                                  "--report", "none",    "--",
                                  r->program, "version", NULL};
    const char *const info[] = {"info", "--format", "json", trace, NULL};
    struct buf out = {0};
    struct err why = {0}, e = {0};
    json_t *document = NULL;
    json_int_t n = 0;
    int status = selftest_run(r, record, &out, &why, NULL, NULL, &e);
    if (status == 0 && (document = selftest_run_json(r, info, &e)) &&
        json_unpack(document, "{s:{s:I}}", "counts", "memory_allocations", &n) == 0 && n > 0) {
        snprintf(text, sizeof text, "tidemark run recorded %s of `tidemark version`",
                 format_counted(number, (uint64_t)n, "allocation"));
        say(true, "preload library", text);
    } else if (e.code) {
        say_unknown("preload library", &e);
    } else {
        say(false, "preload library",
            status ? why.text : "the program ran, and nothing was recorded");
    }
    json_decref(document);
    buf_release(&out);
}

/*
 * Starts a process that is not a child of this one, like those that `run --pid` attaches to. It
 * exits when *hold is closed. -1 on errors.
 */
static pid_t start_target(int *hold)
{
    int life[2], tell[2];
    pid_t target = -1;
    if (pipe(life) != 0)
        return -1;
    if (pipe(tell) != 0) {
        close(life[0]);
        close(life[1]);
        return -1;
    }
    pid_t between = fork();
    if (between == 0) {
        close(life[1]);
        target = fork();
        if (target == 0) {
            char end;
            close(tell[0]);
            close(tell[1]);
            (void)!read(life[0], &end, 1);
            _exit(0);
        }
        (void)!write(tell[1], &target, sizeof target);
        _exit(0);
    }
    close(tell[1]);
    close(life[0]);
    if (between < 0 || read(tell[0], &target, sizeof target) != sizeof target)
        target = -1;
    if (between > 0)
        (void)waitpid(between, NULL, 0);
    close(tell[0]);
    *hold = life[1];
    return target;
}

static void read_scope(char *text, size_t room)
{
    char scope[8] = "";
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    size_t used = strlen(text);
    if (f && fgets(scope, sizeof scope, f))
        snprintf(text + used, room - used, " (kernel.yama.ptrace_scope is %.*s)",
                 (int)strspn(scope, "0123456789"), scope);
    if (f)
        fclose(f);
}

static void try_attach(void)
{
    char text[256];
    int hold = -1;
    pid_t target = start_target(&hold);
    bool attached = target > 0 && ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0;
    int why = errno;
    if (attached) {
        (void)kill(target, SIGKILL);
        (void)waitpid(target, NULL, __WALL);
        say(true, "attach", "a process of yours can be traced, as run --pid does");
    } else {
        snprintf(text, sizeof text, "ptrace of a process of yours, as run --pid needs it: %s",
                 strerror(why));
        read_scope(text, sizeof text);
        say(false, "attach", text);
    }
    if (hold >= 0)
        close(hold);
}

/* ---- the rest */

static void try_page(struct selftest_run *r, const char *trace)
{
    char page[SELFTEST_PATH], text[FORMAT_SIZE * 2], size[FORMAT_SIZE];
    const char *const words[] = {
        "report", trace, "--format", "html", "-o", selftest_path(r, "page.html", page), NULL};
    struct buf out = {0};
    struct err why = {0}, e = {0};
    struct stat st = {0};
    if (!html_available()) {
        say(false, "report page",
            "this program was built without the page; `make web` builds it when node and npm are "
            "there");
        return;
    }
    int status = selftest_run(r, words, &out, &why, NULL, NULL, &e);
    if (status == 0 && stat(page, &st) == 0 && st.st_size > 0) {
        snprintf(text, sizeof text, "report --format html wrote %s",
                 format_bytes(size, (uint64_t)st.st_size));
        say(true, "report page", text);
    } else if (e.code) {
        say_unknown("report page", &e);
    } else {
        say(false, "report page", status ? why.text : "report wrote no file");
    }
    buf_release(&out);
}

static bool accept_nobody(void *ctx, struct welcome *w)
{
    (void)ctx;
    (void)w;
    return false;
}

static void try_port(const struct selftest_run *r)
{
    const struct offer_options o = {.version = wire_version_find(PROTOCOL_MAX),
                                    .port = BROADCAST_PORT,
                                    .spool = r->folder,
                                    .welcome = accept_nobody};
    struct err e = {0};
    struct offer *offer = offer_new(&o, &e);
    bool free = offer && offer_listen(offer, &e) == 0;
    say(free, "port 8086", free ? "no program listens there" : e.text);
    offer_free(offer);
}

void selftest_machine(struct selftest_run *r, const char *trace)
{
    try_symbols(r);
    try_debuginfod();
    try_disassembler();
    try_recording(r);
    try_attach();
    try_page(r, trace);
    try_port(r);
}
