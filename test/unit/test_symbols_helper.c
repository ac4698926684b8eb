/*
 * The symbol helper: its messages, and what it costs when the process that reads images crashes,
 * hangs, lies or tries to get out. The launcher starts this very program again, as it does with
 * tidemark; then it is the helper, with a reader of images that misbehaves by the image's name.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "symbols/helper/helper.h"
#include "symbols/helper/helper_serve.h"
#include "symbols/place/helper_wire.h"

/* ---- the helper's side */

struct symbolizer {
    char path[64];
    symbolizer_wish *wish;
    void *ctx;
    char text[256];
    struct symbol_frame frames[3];
};

static _Noreturn void hang(void)
{
    for (;;)
        pause();
}

static int bad_open(struct symbolizer **out, const struct helper_open *open, symbolizer_wish *wish,
                    void *ctx, struct err *e)
{
    struct symbolizer *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return err_no_memory(e, "an image");
    memcpy(s->path, open->path.p, open->path.len < 63 ? open->path.len : 63);
    s->wish = wish;
    s->ctx = ctx;
    if (strcmp(s->path, "crash in open") == 0)
        raise(SIGSEGV);
    if (strcmp(s->path, "hang in open") == 0)
        hang();
    if (strcmp(s->path, "spin in open") == 0) {
        for (volatile uint64_t i = 0;; i = i + 1)
            ;
    }
    if (strcmp(s->path, "exit in open") == 0)
        _exit(0);
    if (strcmp(s->path, "no image") == 0) {
        free(s);
        *out = NULL;
        return err_set(e, ERR_INPUT, "is no image at all");
    }
    return 0;
}

static void bad_close(struct symbolizer *s)
{
    if (strstr(s->path, "crash in close"))
        raise(SIGSEGV);
    free(s);
}

static void bad_facts(const struct symbolizer *s, struct image_facts *facts)
{
    *facts = (struct image_facts){
        .machine = 62, .has_debug = true, .base = 0x400000, .path = view_of(s->path)};
    facts->from_cache = strncmp(s->path, "cached", 6) == 0;
}

static bool say(struct symbolizer *s, const char *what, bool works)
{
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s%s %s", n ? ", " : "", what,
             works ? "works" : "fails");
    return works;
}

static void *run_thread(void *ctx)
{
    *(bool *)ctx = true;
    return NULL;
}

/* Everything that reading an image does not take, and some that it does. */
static void try_to_escape(struct symbolizer *s)
{
    static char *const arguments[] = {(char *)"true", NULL};
    bool ran = false;
    pthread_t thread;
    int fd = open("/etc/passwd", O_RDONLY);
    say(s, "open", fd >= 0);
    say(s, "create", open("/tmp/tidemark-escaped", O_CREAT | O_WRONLY, 0600) >= 0);
    say(s, "socket", socket(AF_INET, SOCK_STREAM, 0) >= 0);
    say(s, "exec", execv("/bin/true", arguments) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    say(s, "fork", child > 0);
    say(s, "kill", kill(getppid(), 0) == 0);
    say(s, "code",
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    void *room = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say(s, "memory", room != MAP_FAILED);
    if (pthread_create(&thread, NULL, run_thread, &ran) == 0)
        pthread_join(thread, NULL);
    say(s, "thread", ran);
}

static int bad_prepare(struct symbolizer *s, const struct place *places, size_t n, struct err *e)
{
    (void)places;
    (void)n;
    if (strcmp(s->path, "crash in prepare") == 0)
        raise(SIGABRT);
    if (strcmp(s->path, "escape") == 0)
        try_to_escape(s);
    if (strcmp(s->path, "eat memory") == 0) {
        for (size_t i = 0; i < 100000; i++) {
            char *p = malloc(1u << 20);
            if (!p)
                return err_set(e, ERR_INPUT, "no memory after %zu MiB", i);
            memset(p, 1, 1u << 20);
        }
    }
    if (strcmp(s->path, "wish") == 0) {
        const struct file_wish wish = {.need = NEED_PATH, .name = view_of("/some/file")};
        int fd = s->wish(s->ctx, &wish);
        ssize_t got = fd < 0 ? -1 : pread(fd, s->text, sizeof s->text - 1, 0);
        if (fd >= 0)
            close(fd);
        if (got < 0)
            snprintf(s->text, sizeof s->text, "none");
    }
    for (uint64_t i = 0; strcmp(s->path, "wish for ever") == 0; i++) {
        const struct file_wish wish = {.need = NEED_FETCH, .id = {(char *)&i, 8}};
        (void)s->wish(s->ctx, &wish);
    }
    return strcmp(s->path, "bad prepare") == 0 ? err_set(e, ERR_INPUT, "cannot prepare") : 0;
}

static void bad_lookup(struct symbolizer *s, const struct place *place, struct place_answer *answer)
{
    static const char garbage[] = "this is no message, whatever it may be";
    if (strcmp(s->path, "garbage") == 0 && write(0, garbage, sizeof garbage) < 0)
        _exit(1);
    if (strcmp(s->path, "hang in lookup") == 0)
        hang();
    if (strcmp(s->path, "half an answer") == 0) {
        struct answers_out all = {0};
        answers_begin(&all);
        store_u32(all.body.data, 1);
        buf_u8(&all.body, SOURCE_DEBUG);
        helper_send(0, HELPER_FRAMES, &all.body, -1, NULL);
        hang();
    }
    if (strcmp(s->path, "too many answers") == 0) {
        struct answers_out all = {0};
        const struct place_answer nothing = {.source = SOURCE_IMAGE};
        answers_begin(&all);
        for (int i = 0; i < 3; i++)
            answers_put(&all, &nothing);
        helper_send(0, HELPER_FRAMES, &all.body, -1, NULL);
        hang();
    }
    if (strcmp(s->path, "no answers") == 0) {
        struct answers_out all = {0};
        answers_begin(&all);
        helper_send(0, HELPER_FRAMES, &all.body, -1, NULL);
        hang();
    }
    if (strcmp(s->path, "wrong answer") == 0) {
        helper_send(0, HELPER_BIAS, NULL, -1, NULL);
        hang();
    }
    *answer = (struct place_answer){.source = SOURCE_IMAGE, .address = place->value};
    if (place->value == 0)
        return;
    s->frames[0] = (struct symbol_frame){.function = view_of(s->text[0] ? s->text : "inner"),
                                         .file = view_of("a.c"),
                                         .line = 7,
                                         .column = 3,
                                         .inlined = true};
    s->frames[1] = (struct symbol_frame){.function = view_of("outer"), .start = 0x10};
    answer->source = SOURCE_DEBUG;
    answer->n = 2;
    answer->frames = s->frames;
}

static int bad_infer(struct symbolizer *s, const struct helper_hint *hints, size_t n,
                     struct helper_bias *bias, struct err *e)
{
    (void)e;
    *bias = (struct helper_bias){.found = n > 0,
                                 .bias = n ? hints[0].address : 0,
                                 .agree = (uint32_t)n,
                                 .hints = (uint32_t)n};
    if (strcmp(s->path, "crooked bias") == 0)
        bias->bias = 0x1001;
    return 0;
}

static bool bad_code(struct symbolizer *s, const struct place *place, struct place_code *code)
{
    bool crooked = strcmp(s->path, "crooked code") == 0;
    *code = (struct place_code){.address = place->value,
                                .start = crooked ? place->value + 1 : place->value & ~(uint64_t)7,
                                .size = 8,
                                .bytes = view_of("12345678")};
    return strcmp(s->path, "no code") != 0;
}

static const struct helper_backend bad_backend = {.open = bad_open,
                                                  .close = bad_close,
                                                  .facts = bad_facts,
                                                  .prepare = bad_prepare,
                                                  .lookup = bad_lookup,
                                                  .infer = bad_infer,
                                                  .code = bad_code};

/* ---- the program's side */

struct answers {
    size_t n;
    struct buf text;
    size_t fail_at; /* 0: never */
};

static int take(void *ctx, size_t i, const struct place_answer *a, struct err *e)
{
    struct answers *all = ctx;
    assert_int_equal(i, all->n);
    all->n++;
    if (all->fail_at == all->n)
        return err_set(e, ERR_MEMORY, "enough");
    if (i >= 3)
        return 0;
    buf_printf(&all->text, "%d/%d/%zx:", (int)i, (int)a->source, (size_t)a->address);
    for (size_t k = 0; k < a->n; k++)
        buf_printf(&all->text, " %.*s %.*s:%u:%u%s", (int)a->frames[k].function.len,
                   a->frames[k].function.p, (int)a->frames[k].file.len, a->frames[k].file.p,
                   a->frames[k].line, a->frames[k].column, a->frames[k].inlined ? "+" : "");
    buf_puts(&all->text, "\n");
    return 0;
}

static int grant(void *ctx, const struct file_wish *wish)
{
    int *granted = ctx;
    ++*granted;
    if (wish->need != NEED_PATH)
        return -1;
    assert_true(view_equal(wish->name, view_of("/some/file")));
    int fd = memfd_create("wish", MFD_CLOEXEC);
    assert_int_equal(write(fd, "granted", 7), 7);
    return fd;
}

static int granted;

static void start(struct helper *h, double seconds, uint64_t memory)
{
    struct err e = {0};
    const struct helper_options options = {
        .seconds = seconds, .memory = memory, .wish = grant, .ctx = &granted};
    granted = 0;
    assert_int_equal(helper_init(h, &options, &e), 0);
}

static int open_image(struct helper *h, const char *path, struct err *e)
{
    const struct helper_open open = {.path = view_of(path)};
    struct image_facts facts;
    *e = (struct err){0};
    int status = helper_open_image(h, &open, &facts, e);
    if (status == 0) {
        assert_int_equal(facts.machine, 62);
        assert_true(facts.has_debug);
        assert_false(facts.has_symbols);
        assert_int_equal(facts.base, 0x400000);
        assert_true(view_equal(facts.path, view_of(path)));
    } else {
        assert_int_equal(e->code, ERR_CHECK);
    }
    return status;
}

static int look_up(struct helper *h, size_t n, struct answers *all, struct err *e)
{
    struct place *places = calloc(n, sizeof *places);
    assert_non_null(places);
    for (size_t i = 0; i < n; i++)
        places[i] = (struct place){PLACE_ADDRESS, i};
    all->n = 0;
    buf_clear(&all->text);
    *e = (struct err){0};
    int status = helper_look_up(h, places, n, take, all, e);
    free(places);
    return status;
}

/* After whatever happened the next image is answered for. */
static void expect_alive(struct helper *h)
{
    struct answers all = {0};
    struct err e;
    if (open_image(h, "good", &e) != 0 || look_up(h, 3, &all, &e) != 0)
        fail_msg("%s", e.text);
    /* 1: SOURCE_IMAGE; 4: SOURCE_DEBUG */
    assert_string_equal(buf_str(&all.text), "0/1/0:\n"
                                            "1/7/1: inner a.c:7:3+ outer :0:0\n"
                                            "2/7/2: inner a.c:7:3+ outer :0:0\n");
    helper_close_image(h);
    buf_release(&all.text);
}

static void test_answers(void **state)
{
    (void)state;
    struct helper h;
    struct err e;
    struct answers all = {0};
    start(&h, 20, 0);
    expect_alive(&h);
    /* More than one message of questions, and of answers. */
    assert_int_equal(open_image(&h, "good", &e), 0);
    assert_int_equal(look_up(&h, HELPER_PLACES_MAX * 2 + 5, &all, &e), 0);
    assert_int_equal(all.n, HELPER_PLACES_MAX * 2 + 5);
    const struct helper_hint hint = {.address = 0x7000, .name = view_of("f")};
    struct helper_bias bias;
    assert_int_equal(helper_infer_bias(&h, &hint, 1, &bias, &e), 0);
    assert_true(bias.found);
    assert_int_equal(bias.bias, 0x7000);
    assert_int_equal(h.started, 1);
    /* What was refused is no loss of the process. */
    assert_int_equal(open_image(&h, "no image", &e), -1);
    assert_string_equal(e.text, "is no image at all");
    assert_int_equal(open_image(&h, "bad prepare", &e), 0);
    assert_int_equal(look_up(&h, 1, &all, &e), -1);
    assert_string_equal(e.text, "cannot prepare");
    expect_alive(&h);
    assert_int_equal(h.started, 1);
    buf_release(&all.text);
    helper_release(&h);
}

/* Each costs this image, says why, and the next one gets a new process. */
static void test_misbehaviour(void **state)
{
    (void)state;
    static const struct {
        const char *image, *why;
    } cases[] = {
        {"crash in open", "crashed the symbol helper (signal 11)"},
        {"crash in prepare", "crashed the symbol helper (signal 6)"},
        {"exit in open", "the symbol helper: it ended"},
        {"hang in open", "gave no answer for 2 s"},
        {"hang in lookup", "gave no answer for 2 s"},
        {"spin in open", "gave no answer for 2 s"},
        {"wish for ever", "gave no answer for 2 s"},
        {"garbage", "the symbol helper: it sent what is no message"},
        {"half an answer", "the symbol helper: it sent a message with a wrong answer"},
        {"too many answers", "the symbol helper: it sent more answers than places"},
        {"no answers", "the symbol helper: it sent more answers than places"},
        {"wrong answer", "the symbol helper: it sent an answer that was not asked for"},
    };
    struct helper h;
    struct err e;
    struct answers all = {0};
    start(&h, 2, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t before = h.started;
        if (open_image(&h, cases[i].image, &e) == 0)
            assert_int_equal(look_up(&h, 2, &all, &e), -1);
        assert_int_equal(e.code, ERR_CHECK);
        /* Sanitizers make an end of their own; and time or number of wishes may be up first. */
        bool other = strncmp(cases[i].image, "crash", 5) == 0 && strstr(e.text, "it ended");
        if (strcmp(cases[i].image, "wish for ever") == 0)
            other = strcmp(e.text, "the symbol helper: it wishes for too many files") == 0;
        if (!other)
            assert_string_equal(e.text, cases[i].why);
        expect_alive(&h);
        assert_int_equal(h.started, before + 1 + (i == 0));
    }
    assert_int_equal(open_image(&h, "crooked bias", &e), 0);
    struct helper_bias bias;
    assert_int_equal(helper_infer_bias(&h, NULL, 0, &bias, &e), -1);
    assert_int_equal(open_image(&h, "crash in close", &e), 0);
    helper_close_image(&h);
    expect_alive(&h);
    /* That of an image which needs nothing to be kept is not waited for; it costs nobody either. */
    assert_int_equal(open_image(&h, "cached, crash in close", &e), 0);
    helper_close_image(&h);
    assert_true(h.closing);
    expect_alive(&h);
    assert_int_equal(open_image(&h, "cached", &e), 0);
    uint64_t before = h.started;
    helper_close_image(&h);
    expect_alive(&h);
    assert_int_equal(h.started, before);
    assert_int_equal(open_image(&h, "cached", &e), 0);
    helper_close_image(&h);
    assert_int_equal(look_up(&h, 1, &all, &e), -1);
    expect_alive(&h);
    assert_int_equal(open_image(&h, "cached, crash in close", &e), 0);
    helper_close_image(&h);
    /* Without an open image there is nothing to ask. */
    helper_release(&h);
    buf_release(&all.text);
}

static void test_error_of_caller(void **state)
{
    (void)state;
    struct helper h;
    struct err e;
    struct answers all = {.fail_at = 2};
    start(&h, 20, 0);
    assert_int_equal(open_image(&h, "good", &e), 0);
    assert_int_equal(look_up(&h, 3, &all, &e), -1);
    assert_int_equal(e.code, ERR_MEMORY);
    assert_string_equal(e.text, "enough");
    expect_alive(&h);
    helper_release(&h);
    buf_release(&all.text);
}

static void test_wishes(void **state)
{
    (void)state;
    struct helper h;
    struct err e;
    struct answers all = {0};
    start(&h, 20, 0);
    assert_int_equal(open_image(&h, "wish", &e), 0);
    assert_int_equal(look_up(&h, 2, &all, &e), 0);
    assert_non_null(strstr(buf_str(&all.text), "granted a.c"));
    assert_int_equal(granted, 1);
    helper_release(&h);
    buf_release(&all.text);
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

/* What this kernel guards with: without seccomp only Landlock's part holds. */
static void test_escape(void **state)
{
    (void)state;
    struct helper h;
    struct err e;
    struct answers all = {0};
    start(&h, 20, 0);
    assert_int_equal(open_image(&h, "escape", &e), 0);
    assert_int_equal(look_up(&h, 2, &all, &e), 0);
    const char *text = buf_str(&all.text);
    assert_int_not_equal(access("/tmp/tidemark-escaped", F_OK), 0);
    if (h.guards & GUARD_SYSCALLS)
        assert_non_null(strstr(text, "open fails, create fails, socket fails, exec fails, "
                                     "fork fails, kill fails, code fails, memory works, "
                                     "thread works"));
    else if (h.guards & GUARD_FILES)
        assert_non_null(strstr(text, "open fails, create fails"));
    helper_release(&h);
    buf_release(&all.text);
}

static void test_memory_limit(void **state)
{
    (void)state;
#ifdef SANITIZED
    skip();
#endif
    struct helper h;
    struct err e;
    struct answers all = {0};
    start(&h, 20, (uint64_t)256 << 20);
    assert_int_equal(open_image(&h, "eat memory", &e), 0);
    assert_int_equal(look_up(&h, 2, &all, &e), -1);
    assert_non_null(strstr(e.text, "no memory after"));
    expect_alive(&h);
    helper_release(&h);
    buf_release(&all.text);
}

/* ---- messages */

static void test_bodies(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e = {0};
    struct view dirs[HELPER_RULES_MAX], rules[HELPER_RULES_MAX];
    const struct view two[] = {view_of("/a"), view_of("/b")};
    struct helper_open open = {.path = view_of("/x"),
                               .build_id = {{1, 2, 3}, 3},
                               .trust_paths = true,
                               .threads = 7,
                               .sysroot = view_of("/root"),
                               .dirs = two,
                               .dir_count = 2,
                               .rules = two,
                               .rule_count = 1};
    struct helper_open got;
    helper_put_open(&b, &open);
    struct view body = {(const char *)b.data, b.len};
    assert_int_equal(helper_get_open(body, &got, dirs, rules, &e), 0);
    assert_true(view_equal(got.path, open.path));
    assert_int_equal(got.build_id.len, 3);
    assert_true(got.trust_paths);
    assert_int_equal(got.threads, 7);
    assert_true(view_equal(got.sysroot, open.sysroot));
    assert_int_equal(got.dir_count, 2);
    assert_true(view_equal(dirs[1], two[1]));
    assert_int_equal(got.rule_count, 1);
    /* Cut anywhere, or longer than it says, it is refused. */
    for (size_t n = 0; n < body.len; n++)
        assert_int_equal(helper_get_open((struct view){body.p, n}, &got, dirs, rules, &e), -1);
    buf_u8(&b, 0);
    body = (struct view){(const char *)b.data, b.len};
    assert_int_equal(helper_get_open(body, &got, dirs, rules, &e), -1);
    /* A path with a NUL in it would be another path. */
    open.path = (struct view){"/x\0y", 4};
    buf_clear(&b);
    helper_put_open(&b, &open);
    body = (struct view){(const char *)b.data, b.len};
    assert_int_equal(helper_get_open(body, &got, dirs, rules, &e), -1);
    buf_release(&b);
}

/* ---- code */

static int get_code(const struct place_code *code, size_t cut, bool more, struct place_code *got,
                    bool *found)
{
    static struct buf b;
    struct err e = {0};
    buf_clear(&b);
    helper_put_code(&b, code);
    if (more)
        buf_u8(&b, 0);
    int status = helper_get_code((struct view){(const char *)b.data, b.len - cut}, got, found, &e);
    if (status != 0)
        assert_int_equal(e.code, ERR_CHECK);
    buf_release(&b);
    return status;
}

/* A function of `size` bytes, of which `bytes` came. */
static struct place_code code_of(uint64_t address, uint64_t start, uint64_t size, size_t bytes)
{
    static const char zeroes[PLACE_CODE_MAX + 1];
    return (struct place_code){.address = address,
                               .start = start,
                               .size = size,
                               .name = view_of("f"),
                               .bytes = {zeroes, bytes}};
}

static void test_code_bodies(void **state)
{
    (void)state;
    struct place_code got;
    bool found = true;
    const struct place_code good = code_of(0x1005, 0x1000, 16, 16);
    assert_int_equal(get_code(NULL, 0, false, &got, &found), 0);
    assert_false(found);
    assert_int_equal(get_code(NULL, 0, true, &got, &found), -1);
    assert_int_equal(get_code(&good, 0, false, &got, &found), 0);
    assert_true(found);
    assert_int_equal(got.start, 0x1000);
    assert_int_equal(got.size, 16);
    for (size_t cut = 1; cut < 40; cut++)
        assert_int_equal(get_code(&good, cut, false, &got, &found), -1);
    assert_int_equal(get_code(&good, 0, true, &got, &found), -1);
    const struct place_code cases[] = {
        code_of(0x1010, 0x1000, 16, 16),                      /* behind it */
        code_of(0x0fff, 0x1000, 16, 16),                      /* before it */
        code_of(0x1000, 0x1000, 0, 0),                        /* nothing */
        code_of(0x1000, 0x1000, 16, 15),                      /* less than it says */
        code_of(0x1000, 0x1000, 16, 17),                      /* more */
        code_of(UINT64_MAX - 2, UINT64_MAX - 3, 16, 16),      /* around the end of memory */
        code_of(1, 0, UINT64_MAX, 16),                        /* all of memory */
        code_of(1, 0, PLACE_CODE_MAX + 1, PLACE_CODE_MAX + 1) /* more than is sent */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(get_code(&cases[i], 0, false, &got, &found), -1);
    const struct place_code long_one = code_of(1, 0, (uint64_t)1 << 40, PLACE_CODE_MAX);
    assert_int_equal(get_code(&long_one, 0, false, &got, &found), 0);
    assert_int_equal(got.bytes.len, PLACE_CODE_MAX);
    /* Places that are of no kind. */
    struct buf b = {0};
    struct err e = {0};
    struct place place = {PLACE_KINDS, 5};
    helper_put_place(&b, &place);
    assert_int_equal(helper_get_place((struct view){(const char *)b.data, b.len}, &place, &e), -1);
    assert_int_equal(helper_get_place((struct view){(const char *)b.data, 8}, &place, &e), -1);
    buf_release(&b);
}

static void test_code(void **state)
{
    (void)state;
    static const struct place place = {PLACE_ADDRESS, 0x1234};
    struct helper h;
    struct err e = {0};
    struct place_code code;
    bool found = false;
    start(&h, 20, 0);
    assert_int_equal(open_image(&h, "good", &e), 0);
    assert_int_equal(helper_read_code(&h, &place, &code, &found, &e), 0);
    assert_true(found);
    assert_int_equal(code.start, 0x1230);
    assert_true(view_equal(code.bytes, view_of("12345678")));
    helper_close_image(&h);
    assert_int_equal(open_image(&h, "no code", &e), 0);
    assert_int_equal(helper_read_code(&h, &place, &code, &found, &e), 0);
    assert_false(found);
    helper_close_image(&h);
    assert_int_equal(open_image(&h, "crooked code", &e), 0);
    assert_int_equal(helper_read_code(&h, &place, &code, &found, &e), -1);
    assert_string_equal(e.text, "the symbol helper: it sent a message with a wrong piece of code");
    expect_alive(&h);
    assert_int_equal(h.started, 2);
    helper_release(&h);
}

/* Whoever prints them has said already whom they are about. */
static void test_errors_do_not_say_whose_they_are(void **state)
{
    (void)state;
    int pair[2];
    uint8_t rest[12] = {0};
    struct err e;
    struct helper_message m = HELPER_MESSAGE_EMPTY;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[0], rest, sizeof rest), sizeof rest);
    close(pair[1]); /* with bytes unread: the connection is reset */
    assert_int_equal(helper_receive(pair[0], &m, 0, NULL, &e), -1);
    assert_string_equal(e.text, "cannot receive from it: Connection reset by peer");
    assert_int_equal(helper_send(pair[0], HELPER_CLOSE, NULL, -1, &e), -1);
    assert_string_equal(e.text, "cannot send to it: Broken pipe");
    close(pair[0]);
    helper_message_release(&m);
}

static void test_long_texts(void **state)
{
    (void)state;
    struct answers_out all = {0};
    struct answers_in in = {0};
    struct buf text = {0};
    struct err e = {0};
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct place_answer answer;
    uint32_t n;
    for (size_t i = 0; i < 100000; i++)
        buf_u8(&text, 'x');
    const struct symbol_frame frame = {.function = {(const char *)text.data, text.len}};
    const struct place_answer out = {.source = SOURCE_SYMTAB, .n = 1, .frames = &frame};
    answers_begin(&all);
    answers_put(&all, &out);
    struct view body = {(const char *)all.body.data, all.body.len};
    assert_int_equal(answers_open(&in, body, &n, &e), 0);
    assert_int_equal(answers_get(&in, &answer, frames, &e), 0);
    assert_int_equal(frames[0].function.len, HELPER_TEXT_MAX);
    assert_int_equal(cursor_left(&in.rest), 0);
    answers_close(&in);
    answers_release(&all);
    buf_release(&text);
}

/* Descriptors beyond the first are closed, and so are those of a message that nobody looks at. */
static void test_descriptors(void **state)
{
    (void)state;
    int ends[2];
    struct helper_message m = HELPER_MESSAGE_EMPTY;
    struct err e = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    int before = dup(0);
    close(before);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(helper_send(ends[0], HELPER_FILE, NULL, 0, &e), 0);
        assert_int_equal(helper_receive(ends[1], &m, 0, NULL, &e), 0);
        assert_int_equal(m.type, HELPER_FILE);
        assert_true(m.fd >= 0);
        assert_true(fcntl(m.fd, F_GETFD) & FD_CLOEXEC);
    }
    helper_message_release(&m);
    int after = dup(0);
    close(after);
    assert_int_equal(before, after);
    close(ends[0]);
    assert_int_equal(helper_receive(ends[1], &m, 0, NULL, &e), -1);
    helper_message_release(&m);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "symbolize") == 0 && strcmp(argv[2], "--serve") == 0) {
        struct err e = {0};
        _exit(helper_serve(0, &bad_backend, &e) == 0 ? 0 : 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_misbehaviour),
        cmocka_unit_test(test_error_of_caller),
        cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_errors_do_not_say_whose_they_are),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_code_bodies),
        cmocka_unit_test(test_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
