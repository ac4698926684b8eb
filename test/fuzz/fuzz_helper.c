/*
 * Any bytes as what the other end of the symbol helper's socket says. The first byte chooses the
 * end: the helper, which is asked, or the program, which is answered.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "symbols/helper/helper_answers.h"
#include "symbols/helper/helper_serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a reader of images that knows nothing, and says so at some length */

struct symbolizer {
    struct symbol_frame frames[2];
};

static int open_any(struct symbolizer **out, const struct helper_open *open, symbolizer_wish *wish,
                    void *ctx, struct err *e)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return err_no_memory(e, "an image");
    const struct file_wish any = {.need = NEED_PATH, .name = open->path};
    if (open->trust_paths) {
        int fd = wish(ctx, &any);
        if (fd >= 0)
            close(fd);
    }
    return 0;
}

static void close_any(struct symbolizer *s)
{
    free(s);
}

static void facts_of_any(const struct symbolizer *s, struct image_facts *facts)
{
    (void)s;
    *facts = (struct image_facts){.machine = 62};
}

static int prepare_any(struct symbolizer *s, const struct place *places, size_t n, struct err *e)
{
    (void)s;
    for (size_t i = 0; i < n; i++) {
        if (places[i].kind >= PLACE_KINDS)
            abort();
    }
    return n == 3 ? err_set(e, ERR_INPUT, "three") : 0;
}

static void look_up_any(struct symbolizer *s, const struct place *place,
                        struct place_answer *answer)
{
    s->frames[0] = (struct symbol_frame){.function = view_of("f")};
    *answer = (struct place_answer){
        .source = SOURCE_DEBUG, .address = place->value, .n = 2, .frames = s->frames};
}

static int infer_any(struct symbolizer *s, const struct helper_hint *hints, size_t n,
                     struct helper_bias *bias, struct err *e)
{
    (void)s;
    (void)hints;
    (void)e;
    *bias = (struct helper_bias){.found = n > 1, .hints = (uint32_t)n};
    return 0;
}

static bool code_of_any(struct symbolizer *s, const struct place *place, struct place_code *code)
{
    (void)s;
    *code = (struct place_code){
        .address = place->value, .start = place->value, .size = 1, .bytes = {"", 1}};
    return place->kind == PLACE_ADDRESS;
}

static const struct helper_backend any = {.open = open_any,
                                          .close = close_any,
                                          .facts = facts_of_any,
                                          .prepare = prepare_any,
                                          .lookup = look_up_any,
                                          .infer = infer_any,
                                          .code = code_of_any};

/* ---- the program's end: each body that it reads */

static void check_text(struct view text)
{
    char *copy = malloc(text.len + 1);
    if (!copy)
        abort();
    if (text.len)
        memcpy(copy, text.p, text.len); /* all of it is there */
    free(copy);
}

static void read_message(struct answers_in *in, uint32_t n)
{
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    struct place_answer answer;
    struct err e = {0};
    for (uint32_t i = 0; i < n && answers_get(in, &answer, frames, &e) == 0; i++) {
        if (answer.source >= PLACE_SOURCES || answer.n > PLACE_FRAMES_MAX)
            abort();
        for (size_t k = 0; k < answer.n; k++) {
            check_text(frames[k].function);
            check_text(frames[k].file);
        }
    }
}

static void read_answers(struct view body)
{
    struct answers_in in = {0};
    struct err e = {0};
    uint32_t n = 0;
    /* Twice: the second message goes on with the texts of the first, unless it is fresh. */
    for (int again = 0; again < 2 && answers_open(&in, body, &n, &e) == 0; again++)
        read_message(&in, n);
    answers_close(&in);
}

static void read_body(uint32_t type, struct view body)
{
    struct view dirs[HELPER_RULES_MAX], rules[HELPER_RULES_MAX];
    struct helper_open open;
    struct image_facts facts;
    struct helper_bias bias;
    struct file_wish wish;
    struct place_code code;
    struct err e = {0};
    bool found;
    switch (type % 6) {
    case 0:
        if (helper_get_open(body, &open, dirs, rules, &e) == 0)
            check_text(open.path);
        break;
    case 1:
        if (helper_get_facts(body, &facts, &e) == 0)
            check_text(facts.debug_path);
        break;
    case 2:
        read_answers(body);
        break;
    case 3:
        if (helper_get_bias(body, &bias, &e) == 0 && bias.bias % 4096 != 0)
            abort();
        break;
    case 4:
        if (helper_get_code(body, &code, &found, &e) == 0 && found) {
            if (code.bytes.len > code.size || code.address - code.start >= code.size)
                abort();
            check_text(code.bytes);
        }
        break;
    default:
        if (helper_get_wish(body, &wish, &e) == 0 &&
            (wish.need >= FILE_NEEDS || wish.id.len > FILE_ID_MAX))
            abort();
    }
}

/* Writes all and hangs up, as far as the socket's buffer takes it. */
static void feed(int socket, const uint8_t *data, size_t size)
{
    (void)send(socket, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(socket, SHUT_WR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct helper_message m = HELPER_MESSAGE_EMPTY;
    struct err e = {0};
    int ends[2];
    if (size < 1 || size > 65536)
        return 0;
    if (data[0] % 2) {
        read_body(data[0] / 2, (struct view){(const char *)data + 1, size - 1});
        return 0;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    /* Answers that nobody reads must not block it. */
    int room = 8 << 20;
    (void)setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    struct timeval soon = {.tv_usec = 200000};
    (void)setsockopt(ends[1], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    feed(ends[0], data + 1, size - 1);
    if (data[0] % 4)
        (void)helper_receive(ends[1], &m, 0, NULL, &e);
    else
        (void)helper_answer_all(ends[1], &any, &e);
    helper_message_release(&m);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
