#include "symbols/helper/helper_serve.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbols/helper/helper_answers.h"
#include "symbols/helper/sandbox.h"

/*
 * Message size at which answers are sent. It keeps both ends busy and lets most texts be sent once.
 */
#define ANSWERS_FLUSH ((size_t)256 << 10)

struct server {
    int socket;
    const struct helper_backend *backend;
    struct symbolizer *image; /* NULL: no open image */
    struct helper_message in;
    struct buf out;
    struct answers_out answers;
    bool lost; /* the client violated the protocol */
};

/* ---- files */

static int wish_for(void *ctx, const struct file_wish *wish)
{
    struct server *s = ctx;
    struct helper_message answer = HELPER_MESSAGE_EMPTY;
    struct buf body = {0};
    int fd = -1;
    helper_put_wish(&body, wish);
    if (!s->lost && helper_send(s->socket, HELPER_WISH, &body, -1, NULL) == 0 &&
        helper_receive(s->socket, &answer, 0, NULL, NULL) == 0 && answer.type == HELPER_FILE) {
        fd = answer.fd;
        answer.fd = -1;
    } else {
        s->lost = true;
    }
    buf_release(&body);
    helper_message_release(&answer);
    return fd;
}

/* ---- answers */

static int fail(struct server *s, const struct err *cause, struct err *e)
{
    buf_clear(&s->out);
    helper_put_text(&s->out, view_of(cause->text));
    return helper_send(s->socket, HELPER_FAILED, &s->out, -1, e);
}

static void end_image(struct server *s)
{
    if (s->image)
        s->backend->close(s->image);
    s->image = NULL;
    answers_image_closed(&s->answers);
}

static int open_image(struct server *s, struct err *e)
{
    struct view dirs[HELPER_RULES_MAX], rules[HELPER_RULES_MAX];
    struct helper_open open;
    struct image_facts facts;
    struct err cause = {0};
    if (helper_get_open(s->in.body, &open, dirs, rules, e) != 0)
        return -1;
    end_image(s);
    if (s->backend->open(&s->image, &open, wish_for, s, &cause) != 0)
        return fail(s, &cause, e);
    s->backend->facts(s->image, &facts);
    buf_clear(&s->out);
    helper_put_facts(&s->out, &facts);
    return helper_send(s->socket, HELPER_OPENED, &s->out, -1, e);
}

/* Announces the next places, from index `announced` on. Returns the number announced. */
static size_t announce_ahead(struct server *s, const struct place *places, size_t n,
                             size_t announced, size_t i)
{
    for (; s->backend->ahead && announced < n && announced < i + HELPER_AHEAD; announced++)
        s->backend->ahead(s->image, &places[announced]);
    return announced;
}

static int send_answers(struct server *s, const struct place *places, size_t n, struct err *e)
{
    size_t announced = 0;
    for (size_t i = 0; i < n;) {
        answers_begin(&s->answers);
        for (; i < n && s->answers.body.len < ANSWERS_FLUSH; i++) {
            struct place_answer answer = {0};
            announced = announce_ahead(s, places, n, announced, i);
            s->backend->lookup(s->image, &places[i], &answer);
            answers_put(&s->answers, &answer);
        }
        if (helper_send(s->socket, HELPER_FRAMES, &s->answers.body, -1, e) != 0)
            return -1;
    }
    return 0;
}

static int look_up(struct server *s, struct err *e)
{
    struct place *places = malloc(HELPER_PLACES_MAX * sizeof *places);
    struct err cause = {0};
    size_t n = 0;
    if (!places)
        return err_no_memory(e, "places");
    int status = helper_get_places(s->in.body, places, &n, &s->answers.linkage, e);
    if (status == 0) {
        if (s->backend->prepare(s->image, places, n, &cause) != 0)
            status = fail(s, &cause, e);
        else
            status = send_answers(s, places, n, e);
    }
    free(places);
    return status;
}

static int infer(struct server *s, struct err *e)
{
    struct helper_hint *hints = malloc(HELPER_HINTS_MAX * sizeof *hints);
    struct helper_bias bias = {0};
    struct err cause = {0};
    size_t n = 0;
    if (!hints)
        return err_no_memory(e, "names");
    int status = helper_get_hints(s->in.body, hints, &n, e);
    if (status == 0) {
        if (s->backend->infer(s->image, hints, n, &bias, &cause) != 0) {
            status = fail(s, &cause, e);
        } else {
            buf_clear(&s->out);
            helper_put_bias(&s->out, &bias);
            status = helper_send(s->socket, HELPER_BIAS, &s->out, -1, e);
        }
    }
    free(hints);
    return status;
}

static int give_code(struct server *s, struct err *e)
{
    struct place place;
    struct place_code code;
    if (helper_get_place(s->in.body, &place, e) != 0)
        return -1;
    bool found = s->backend->code && s->backend->code(s->image, &place, &code);
    buf_clear(&s->out);
    helper_put_code(&s->out, found ? &code : NULL);
    return helper_send(s->socket, HELPER_BYTES, &s->out, -1, e);
}

static int close_image(struct server *s, struct err *e)
{
    if (s->backend->keep)
        s->backend->keep(s->image);
    end_image(s);
    return helper_send(s->socket, HELPER_CLOSED, NULL, -1, e);
}

static int answer(struct server *s, struct err *e)
{
    if (s->in.type == HELPER_OPEN)
        return open_image(s, e);
    if (!s->image)
        return err_set(e, ERR_CHECK, "asked before an image is open");
    if (s->in.type == HELPER_LOOKUP)
        return look_up(s, e);
    if (s->in.type == HELPER_INFER)
        return infer(s, e);
    if (s->in.type == HELPER_CODE)
        return give_code(s, e);
    if (s->in.type == HELPER_CLOSE)
        return close_image(s, e);
    return err_set(e, ERR_CHECK, "a message of unknown type %u", (unsigned)s->in.type);
}

int helper_answer_all(int socket, const struct helper_backend *backend, struct err *e)
{
    struct server s = {.socket = socket, .backend = backend, .in = HELPER_MESSAGE_EMPTY};
    struct err end = {0};
    int status = 0;
    while (status == 0 && helper_receive(socket, &s.in, 0, NULL, &end) == 0) {
        status = answer(&s, e);
        if (status == 0 && s.lost)
            status = err_set(e, ERR_CHECK, "no answer to a wish for a file");
    }
    end_image(&s);
    helper_message_release(&s.in);
    answers_release(&s.answers);
    buf_release(&s.out);
    return status;
}

int helper_serve(int socket, const struct helper_backend *backend, struct err *e)
{
    struct helper_message first = HELPER_MESSAGE_EMPTY;
    struct buf ready = {0};
    if (helper_receive(socket, &first, 0, NULL, e) != 0)
        return -1;
    struct cursor c = cursor_over(first.body.p, first.body.len);
    struct sandbox_limits limits = {.files = 1024};
    limits.memory = cursor_u64(&c);
    limits.file = cursor_u64(&c);
    limits.cpu_seconds = cursor_u64(&c);
    bool ok = first.type == HELPER_LIMITS && !c.short_read;
    helper_message_release(&first);
    if (!ok)
        return err_set(e, ERR_CHECK, "the limits are missing");
    (void)signal(SIGXFSZ, SIG_IGN); /* exceeding the file size is an ordinary error */
    buf_u32(&ready, sandbox_enter(&limits));
    int status = helper_send(socket, HELPER_READY, &ready, -1, e);
    buf_release(&ready);
    return status == 0 ? helper_answer_all(socket, backend, e) : -1;
}
