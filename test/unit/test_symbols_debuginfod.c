/*
 * The fetcher of debug files: against a server of our own that misbehaves in known ways, and
 * against Debian's debuginfod where it is installed.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "symbols/elf/debug_files.h"
#include "symbols/elf/elf_symbols.h"
#include "symbols/helper/debuginfod.h"

extern char **environ;

struct place {
    char folder[64];
    char urls[64];
    pid_t server;
};

/* ---- folders and processes */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void make_place(struct place *p)
{
    char cache[96];
    snprintf(p->folder, sizeof p->folder, "/tmp/tidemark-debuginfod-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(cache, sizeof cache, "%s/cache", p->folder);
    assert_int_equal(setenv("DEBUGINFOD_CACHE_PATH", cache, 1), 0);
    assert_int_equal(unsetenv("DEBUGINFOD_URLS"), 0);
    assert_int_equal(setenv("DEBUGINFOD_RETRY_LIMIT", "1", 1), 0);
}

static void stop_process(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void clear_place(struct place *p)
{
    stop_process(p->server);
    nftw(p->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int loopback_socket(struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
    return fd;
}

/* ---- a server with a few habits, told by the first byte of the build id */

#define HAS 0xa1
#define HAS_NOT 0xa2
#define HUGE 0xa3
#define SILENT 0xa4
#define TRICKLES 0xa5
#define REDIRECTS 0xa6  /* for ever */
#define REDIRECTS5 0xa7 /* as often as is allowed */
#define BOMB 0xa8       /* four MiB in four KiB */
#define BREAKS_ONCE 0xa9
#define BREAKS 0xaa

#define BODY "these are the bytes of a debug file"

static bool say(int fd, const char *text)
{
    return write(fd, text, strlen(text)) > 0;
}

static void redirect(int fd, const char *request, unsigned habit)
{
    unsigned times = 0;
    char text[160];
    const char *count = strstr(request, "?");
    if (count)
        (void)sscanf(count, "?%u", &times);
    if (habit == REDIRECTS5 && times == DEBUGINFOD_REDIRECTS_MOST) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n" BODY);
        return;
    }
    snprintf(text, sizeof text,
             "HTTP/1.1 302 Found\r\nLocation: /buildid/%02x/debuginfo?%u\r\n"
             "Content-Length: 0\r\nConnection: close\r\n\r\n",
             habit, times + 1);
    say(fd, text);
}

static void send_bomb(int fd)
{
    enum { MIB = 1 << 20 };
    uint8_t *zeros = calloc(4, MIB), *packed = malloc(MIB);
    z_stream z = {0};
    char head[160];
    if (!zeros || !packed || deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        _exit(1);
    z.next_in = zeros;
    z.avail_in = 4 * MIB;
    z.next_out = packed;
    z.avail_out = MIB;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        _exit(1);
    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %lu\r\n\r\n",
             z.total_out);
    say(fd, head);
    (void)!write(fd, packed, z.total_out);
}

/* Resets the connection in the middle of the body: each time, or the first time only. */
static void break_off(int fd, bool once)
{
    const struct linger reset = {.l_onoff = 1};
    bool first = open("broken", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0;
    if (once && !first) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n" BODY);
        return;
    }
    say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\nthese");
    usleep(100000); /* for the client to read it */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

static void answer(int fd)
{
    char request[4096];
    ssize_t n = read(fd, request, sizeof request - 1);
    unsigned habit = 0;
    request[n > 0 ? n : 0] = 0;
    if (sscanf(request, "GET /buildid/%2x", &habit) != 1)
        habit = HAS_NOT;
    if (habit == HAS)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n" BODY);
    else if (habit == REDIRECTS || habit == REDIRECTS5)
        redirect(fd, request, habit);
    else if (habit == BOMB)
        send_bomb(fd);
    else if (habit == BREAKS || habit == BREAKS_ONCE)
        break_off(fd, habit == BREAKS_ONCE);
    else if (habit == HUGE)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 99000000000\r\n\r\nit begins");
    else if (habit == TRICKLES)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    else if (habit != SILENT)
        say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    while (habit == TRICKLES && say(fd, "some more bytes"))
        usleep(50000);
    while (habit == SILENT || habit == HUGE) /* until the test ends */
        pause();
}

static void start_server(struct place *p)
{
    struct sockaddr_in address;
    int fd = loopback_socket(&address);
    assert_int_equal(listen(fd, 8), 0);
    snprintf(p->urls, sizeof p->urls, "http://127.0.0.1:%u", ntohs(address.sin_port));
    p->server = fork();
    assert_true(p->server >= 0);
    if (p->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGCHLD, SIG_IGN);
        if (chdir(p->folder) != 0)
            _exit(1);
        for (;;) {
            int client = accept(fd, NULL, NULL);
            if (client >= 0 && fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                answer(client);
                _exit(0);
            }
            close(client);
        }
    }
    close(fd);
}

/* ---- asking */

static struct build_id id_of(uint8_t habit)
{
    struct build_id id = {.len = 20};
    memset(id.bytes, 0x55, id.len);
    id.bytes[0] = habit;
    return id;
}

static void start_fetcher(struct debuginfod *d, const struct debuginfod_options *o)
{
    struct err e = {0};
    if (debuginfod_start(d, o, &e) != 0)
        fail_msg("%s", e.text);
}

static void assert_fails(const struct debuginfod *d, uint8_t habit, debuginfod_progress *progress,
                         void *ctx, const char *cause)
{
    struct build_id id = id_of(habit);
    struct err e = {0};
    int fd;
    assert_int_equal(debuginfod_ask(d->socket, &id, false, progress, ctx, &fd, &e), -1);
    assert_int_equal(fd, -1);
    assert_int_equal(e.code, ERR_CONNECT);
    if (!strstr(e.text, cause))
        fail_msg("'%s' does not say '%s'", e.text, cause);
}

static void assert_gives_file(const struct debuginfod *d, uint8_t habit, bool executable)
{
    struct build_id id = id_of(habit);
    struct err e = {0};
    char bytes[64];
    int fd;
    if (debuginfod_ask(d->socket, &id, executable, NULL, NULL, &fd, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), strlen(BODY));
    assert_memory_equal(bytes, BODY, strlen(BODY));
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}

static void assert_has_file(const struct debuginfod *d, bool executable)
{
    assert_gives_file(d, HAS, executable);
}

static void files_come_and_are_kept(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    struct build_id id = id_of(HAS_NOT);
    struct err e = {0};
    int fd;
    (void)state;
    make_place(&p);
    start_server(&p);
    struct debuginfod_options o = {.urls = p.urls};
    assert_true(debuginfod_is_wanted(&o));
    start_fetcher(&d, &o);
    assert_has_file(&d, false);
    assert_has_file(&d, true);
    assert_int_equal(debuginfod_ask(d.socket, &id, false, NULL, NULL, &fd, &e), 0);
    assert_int_equal(fd, -1);
    stop_process(p.server);
    p.server = 0;
    assert_has_file(&d, false); /* from the cache */
    debuginfod_stop(&d);
    clear_place(&p);
}

static void urls_of_the_environment(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    struct debuginfod_options o = {0};
    (void)state;
    make_place(&p);
    start_server(&p);
    assert_false(debuginfod_is_wanted(&o));
    start_fetcher(&d, &o);
    assert_fails(&d, HAS, NULL, NULL, "DEBUGINFOD_URLS");
    debuginfod_stop(&d);
    assert_int_equal(setenv("DEBUGINFOD_URLS", "  ", 1), 0);
    assert_false(debuginfod_is_wanted(&o));
    assert_int_equal(setenv("DEBUGINFOD_URLS", p.urls, 1), 0);
    assert_true(debuginfod_is_wanted(&o));
    start_fetcher(&d, &o);
    assert_has_file(&d, false);
    debuginfod_stop(&d);
    clear_place(&p);
}

static void nobody_at_the_url(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    struct sockaddr_in address;
    (void)state;
    make_place(&p);
    int fd = loopback_socket(&address); /* bound, not listening */
    snprintf(p.urls, sizeof p.urls, "http://127.0.0.1:%u", ntohs(address.sin_port));
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls});
    assert_fails(&d, HAS, NULL, NULL, "debuginfod: ");
    debuginfod_stop(&d);
    close(fd);
    clear_place(&p);
}

static void limits_hold(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    (void)state;
    make_place(&p);
    start_server(&p);
    start_fetcher(
        &d, &(struct debuginfod_options){.urls = p.urls, .size_limit = 1 << 20, .seconds = 2});
    assert_fails(&d, HUGE, NULL, NULL, "larger than the limit of 1048576 bytes");
    assert_fails(&d, SILENT, NULL, NULL, "too long");
    assert_fails(&d, TRICKLES, NULL, NULL, "too long");
    assert_has_file(&d, false); /* and it goes on */
    debuginfod_stop(&d);
    clear_place(&p);
}

static void redirects_end(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    (void)state;
    make_place(&p);
    start_server(&p);
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls, .seconds = 20});
    assert_gives_file(&d, REDIRECTS5, false);
    assert_fails(&d, REDIRECTS, NULL, NULL, "redirects more than 5 times");
    assert_has_file(&d, false);
    debuginfod_stop(&d);
    clear_place(&p);
}

static void what_breaks_off_is_asked_for_again(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    (void)state;
    make_place(&p);
    start_server(&p);
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls, .seconds = 20});
    assert_gives_file(&d, BREAKS_ONCE, false);
    assert_fails(&d, BREAKS, NULL, NULL, "debuginfod: Connection reset by peer");
    debuginfod_stop(&d);
    clear_place(&p);
}

static void what_decompresses_is_limited(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    (void)state;
    make_place(&p);
    start_server(&p);
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls, .size_limit = 1 << 20});
    assert_fails(&d, BOMB, NULL, NULL, "larger than the limit of 1048576 bytes");
    assert_has_file(&d, false);
    debuginfod_stop(&d);
    clear_place(&p);
}

/* However many files are asked for. */
static void time_for_all_is_limited(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    (void)state;
    make_place(&p);
    start_server(&p);
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls, .seconds = 2, .all_seconds = 3});
    assert_fails(&d, TRICKLES, NULL, NULL, "too long");
    assert_fails(&d, SILENT, NULL, NULL, "too long");
    assert_fails(&d, TRICKLES, NULL, NULL, "the time for all files together is over");
    assert_fails(&d, HAS, NULL, NULL, "the time for all files together is over");
    debuginfod_stop(&d);
    clear_place(&p);
}

static int give_up_later(void *ctx, uint64_t done, uint64_t total)
{
    unsigned *calls = ctx;
    assert_true(total == 0 || done <= total);
    return ++*calls >= 3;
}

static void progress_can_give_up(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    unsigned calls = 0;
    (void)state;
    make_place(&p);
    start_server(&p);
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls});
    assert_fails(&d, TRICKLES, give_up_later, &calls, "given up");
    assert_int_equal(calls, 3);
    assert_has_file(&d, false);
    debuginfod_stop(&d);
    clear_place(&p);
}

static void a_fetcher_that_is_gone(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    (void)state;
    make_place(&p);
    start_fetcher(&d, &(struct debuginfod_options){.urls = "http://127.0.0.1:9"});
    kill(d.pid, SIGKILL);
    assert_fails(&d, HAS, NULL, NULL, "is gone");
    assert_fails(&d, HAS, NULL, NULL, "is gone");
    debuginfod_stop(&d);
    clear_place(&p);
}

/* ---- Debian's server */

static void run(const char *const *argv)
{
    pid_t pid;
    int status;
    assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("%s ends with status %d", argv[0], status);
}

/* Whether the server gives the file of a build id. */
static bool serves(const struct sockaddr_in *address, const char *id)
{
    char text[256] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
        snprintf(text, sizeof text, "GET /buildid/%s/debuginfo HTTP/1.0\r\n\r\n", id);
        say(fd, text);
        memset(text, 0, sizeof text);
        (void)!read(fd, text, sizeof text - 1);
    }
    close(fd);
    return strstr(text, " 200 ") != NULL;
}

/* prog without symbols in one folder, prog.debug in another, found by build id only. */
static void build_program(const struct place *p, char *image, char *debug, size_t room)
{
    char source[128];
    snprintf(source, sizeof source, "%s/prog.c", p->folder);
    snprintf(image, room, "%s/prog", p->folder);
    snprintf(debug, room, "%s/debug/some.debug", p->folder);
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    fputs("static __attribute__((noinline)) int far_away(int a) { return a * 3 + 1; }\n"
          "int main(int argc, char **argv) { (void)argv; return far_away(argc); }\n",
          f);
    assert_int_equal(fclose(f), 0);
    run((const char *[]){"gcc", "-g", "-O1", "-Wl,--build-id", "-o", image, source, NULL});
    snprintf(source, sizeof source, "%s/debug", p->folder);
    assert_int_equal(mkdir(source, 0777), 0);
    run((const char *[]){"objcopy", "--only-keep-debug", image, debug, NULL});
    run((const char *[]){"strip", image, NULL});
}

static bool start_debuginfod(struct place *p, const char *loopback, const struct sockaddr_in *where)
{
    char port[16], database[96], files[96], preload[512];
    snprintf(port, sizeof port, "%u", ntohs(where->sin_port));
    snprintf(database, sizeof database, "%s/index.sqlite", p->folder);
    snprintf(files, sizeof files, "%s/debug", p->folder);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", loopback);
    p->server = fork();
    assert_true(p->server >= 0);
    if (p->server == 0) {
        int null = open("/dev/null", O_RDWR);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, 1);
        dup2(null, 2);
        putenv(preload);
        execlp("debuginfod", "debuginfod", "-F", "-p", port, "-d", database, "-t", "0", files,
               (char *)NULL);
        _exit(127);
    }
    usleep(300000);
    return waitpid(p->server, NULL, WNOHANG) == 0;
}

static int ask_fetcher(void *ctx, const struct build_id *id, bool executable, int *fd,
                       struct err *e)
{
    const struct debuginfod *d = ctx;
    return debuginfod_ask(d->socket, id, executable, NULL, NULL, fd, e);
}

static void assert_function_known(struct elf_file *image, struct elf_file *debug, bool known)
{
    struct elf_symbols *s;
    struct elf_symbol x;
    bool found = false;
    const struct elf_section *text = NULL;
    for (size_t i = 0; i < elf_file_section_count(image); i++) {
        if (view_equal(elf_file_section_at(image, i)->name, view_of(".text")))
            text = elf_file_section_at(image, i);
    }
    assert_non_null(text);
    assert_int_equal(elf_symbols_read(&s, image, debug, NULL, NULL), 0);
    for (uint64_t a = text->address; a < text->address + text->size; a++)
        found = found || (elf_symbols_find(s, a, &x) && view_equal(x.name, view_of("far_away")));
    assert_int_equal(found, known);
    elf_symbols_free(s);
}

static void the_server_of_debian(void **state)
{
    struct place p = {0};
    struct debuginfod d;
    struct sockaddr_in where;
    struct debug_search search = {
        .dirs = (const char *[]){"/nowhere"}, .dir_count = 1, .trust_paths = true};
    struct debug_file image, debug;
    struct err e = {0};
    char image_path[96], debug_path[96], id[2 * BUILD_ID_MAX + 1], loopback[400];
    (void)state;
    ssize_t n = readlink("/proc/self/exe", loopback, sizeof loopback - 32);
    assert_true(n > 0);
    loopback[n] = 0;
    for (int i = 0; i < 2; i++)
        *strrchr(loopback, '/') = 0;
    size_t folder = strlen(loopback);
    snprintf(loopback + folder, sizeof loopback - folder, "/loopback.so");
    if (access(loopback, R_OK) != 0 || access("/usr/bin/debuginfod", X_OK) != 0)
        skip(); /* the package debuginfod is for CI: make deps-test-full */
    make_place(&p);
    build_program(&p, image_path, debug_path, sizeof image_path);
    if (debug_image_open(&search, image_path, NULL, &image, &e) != 0)
        fail_msg("%s", e.text);
    assert_function_known(image.elf, NULL, false);
    /* While this has the port, only who allows that an address is in use can have it too. */
    int reserved = loopback_socket(&where);
    assert_int_equal(setsockopt(reserved, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    assert_true(start_debuginfod(&p, loopback, &where));
    build_id_text(elf_file_build_id(image.elf), id);
    for (int tries = 0; tries < 3000 && !serves(&where, id); tries++)
        usleep(100000);
    snprintf(p.urls, sizeof p.urls, "http://127.0.0.1:%u", ntohs(where.sin_port));
    start_fetcher(&d, &(struct debuginfod_options){.urls = p.urls});
    search.fetch = ask_fetcher;
    search.fetch_ctx = &d;
    assert_int_equal(debug_file_find(&search, &image, NULL, &debug, &e), 0);
    if (!debug.elf)
        fail_msg("nothing was fetched: %s", debug.refused.text);
    assert_true(elf_file_has_debug_info(debug.elf));
    assert_function_known(image.elf, debug.elf, true);
    debug_file_release(&debug);
    debug_file_release(&image);
    debuginfod_stop(&d);
    clear_place(&p);
    close(reserved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_and_are_kept),
        cmocka_unit_test(urls_of_the_environment),
        cmocka_unit_test(nobody_at_the_url),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(redirects_end),
        cmocka_unit_test(what_breaks_off_is_asked_for_again),
        cmocka_unit_test(what_decompresses_is_limited),
        cmocka_unit_test(time_for_all_is_limited),
        cmocka_unit_test(progress_can_give_up),
        cmocka_unit_test(a_fetcher_that_is_gone),
        cmocka_unit_test(the_server_of_debian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
