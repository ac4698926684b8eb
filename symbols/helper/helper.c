#include "symbols/helper/helper.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/monotonic.h"

/* Limit of file requests for one image: a large program has that many .dwo files. */
#define WISHES_MAX 200000u

/* Time for the process to start, on a busy machine. */
#define START_NS (INT64_C(60) * 1000000000)

int helper_init(struct helper *h, const struct helper_options *options, struct err *e)
{
    *h = (struct helper){
        .launcher = LAUNCHER_NONE, .options = *options, .socket = -1, .in = HELPER_MESSAGE_EMPTY};
    return launcher_start(&h->launcher, e);
}

static void hang_up(struct helper *h)
{
    if (h->socket >= 0)
        close(h->socket);
    h->socket = -1;
    h->ready_by = 0;
    h->closing = false;
}

/* When an answer is due; monotonic ns. */
static int64_t deadline(const struct helper *h)
{
    double seconds = h->options.seconds < 1e9 ? h->options.seconds : 1e9;
    return monotonic_ns() + (int64_t)(seconds * 1e9) + 1;
}

/* Gives the process up. Reports the reason as ERR_CHECK. */
static int lost(struct helper *h, enum helper_silence why, struct err *e)
{
    int status = 0;
    hang_up(h);
    if (e && e->code == ERR_MEMORY)
        return -1;
    /* Reports the status of a process that exited by itself; otherwise kills it. */
    bool known = launcher_kill(&h->launcher, &status, NULL) == 0 && why == HELPER_ENDED;
    if (why == HELPER_LATE)
        return err_set(e, ERR_CHECK, "gave no answer for %.0f s", h->options.seconds);
    if (known && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return err_set(e, ERR_CHECK, "took too long");
    if (known && WIFSIGNALED(status))
        return err_set(e, ERR_CHECK, "crashed the symbol helper (signal %d)", WTERMSIG(status));
    if (known && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(e, ERR_CHECK, "the symbol helper cannot be started");
    return err_prefix(e, "the symbol helper");
}

/* ---- one request */

static int grant(struct helper *h, struct err *e)
{
    struct file_wish wish;
    if (helper_get_wish(h->in.body, &wish, e) != 0)
        return -1;
    int fd = h->options.wish ? h->options.wish(h->options.ctx, &wish) : -1;
    int status = helper_send(h->socket, HELPER_FILE, NULL, fd, e);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Waits for a message of a type and serves file requests meanwhile. FAILED becomes ERR_CHECK. */
static int await(struct helper *h, enum helper_type type, int64_t until, struct err *e)
{
    enum helper_silence why = HELPER_STRANGE;
    for (uint64_t wishes = 0; wishes < WISHES_MAX; wishes++) {
        if (helper_receive(h->socket, &h->in, until, &why, e) != 0)
            return lost(h, why, e);
        if (h->in.type == (uint32_t)type)
            return 0;
        if (h->in.type == HELPER_FAILED) {
            struct cursor c = cursor_over(h->in.body.p, h->in.body.len);
            struct view text;
            if (helper_get_text(&c, &text, e) != 0)
                return lost(h, HELPER_STRANGE, e);
            return err_set(e, ERR_CHECK, "%.*s", (int)(text.len < 400 ? text.len : 400), text.p);
        }
        if (h->in.type != HELPER_WISH) {
            err_set(e, ERR_CHECK, "it sent an answer that was not asked for");
            return lost(h, HELPER_STRANGE, e);
        }
        /* A slow download does not count against the helper's time. */
        int64_t before = monotonic_ns();
        if (grant(h, e) != 0)
            return lost(h, HELPER_STRANGE, e);
        until += monotonic_ns() - before;
    }
    err_set(e, ERR_CHECK, "it wishes for too many files");
    return lost(h, HELPER_STRANGE, e);
}

/* Receives the pending answer to CLOSE. */
static void finish_closing(struct helper *h)
{
    struct err e = {0};
    bool closing = h->closing && h->socket >= 0;
    h->closing = false;
    if (closing)
        (void)await(h, HELPER_CLOSED, deadline(h), &e);
}

void helper_release(struct helper *h)
{
    finish_closing(h);
    hang_up(h);
    launcher_stop(&h->launcher);
    helper_message_release(&h->in);
    answers_close(&h->answers);
    buf_release(&h->out);
}

static int ask_until(struct helper *h, enum helper_type question, enum helper_type answer,
                     int64_t until, struct err *e)
{
    finish_closing(h);
    if (h->socket < 0)
        return err_set(e, ERR_CHECK, "no image is open");
    if (helper_send(h->socket, question, &h->out, -1, e) != 0)
        return lost(h, HELPER_ENDED, e);
    return await(h, answer, until, e);
}

static int ask(struct helper *h, enum helper_type question, enum helper_type answer, struct err *e)
{
    return ask_until(h, question, answer, deadline(h), e);
}

/* ---- images */

static int start(struct helper *h, struct err *e)
{
    if (launcher_spawn(&h->launcher, &h->socket, e) != 0)
        return -1;
    h->started++;
    h->ready_by = monotonic_ns() + START_NS;
    buf_clear(&h->out);
    buf_u64(&h->out, h->options.memory);
    buf_u64(&h->out, HELPER_FILE_BYTES);
    /* CPU time sums up over all threads. The real limit is the time that the program waits. */
    buf_u64(&h->out, (uint64_t)(h->options.seconds * 4) * 64 + 60);
    if (helper_send(h->socket, HELPER_LIMITS, &h->out, -1, e) != 0)
        return lost(h, HELPER_ENDED, e);
    return 0;
}

static int get_ready(struct helper *h, struct err *e)
{
    finish_closing(h);
    if (h->socket < 0 && start(h, e) != 0)
        return -1;
    if (!h->ready_by)
        return 0;
    int64_t until = h->ready_by;
    h->ready_by = 0;
    if (await(h, HELPER_READY, until, e) != 0)
        return -1;
    struct cursor c = cursor_over(h->in.body.p, h->in.body.len);
    h->guards = cursor_u32(&c);
    return 0;
}

void helper_start_early(struct helper *h)
{
    struct err e = {0};
    if (h->socket < 0)
        (void)start(h, &e);
}

int helper_open_image(struct helper *h, const struct helper_open *open, struct image_facts *facts,
                      struct err *e)
{
    if (get_ready(h, e) != 0)
        return -1;
    buf_clear(&h->out);
    helper_put_open(&h->out, open);
    if (ask(h, HELPER_OPEN, HELPER_OPENED, e) != 0)
        return -1;
    if (helper_get_facts(h->in.body, facts, e) != 0)
        return lost(h, HELPER_STRANGE, e);
    h->from_cache = facts->from_cache;
    return 0;
}

void helper_close_image(struct helper *h)
{
    struct err e = {0};
    if (h->socket < 0 || h->closing)
        return;
    buf_clear(&h->out);
    if (helper_send(h->socket, HELPER_CLOSE, &h->out, -1, &e) != 0) {
        (void)lost(h, HELPER_ENDED, &e);
        return;
    }
    h->closing = true;
    if (!h->from_cache)
        finish_closing(h);
}

/* Puts the answers of one message, starting at number `first`; *taken counts them. */
static int take_answers(struct helper *h, size_t first, size_t most, helper_put *put, void *ctx,
                        size_t *taken, struct err *e)
{
    struct symbol_frame frames[PLACE_FRAMES_MAX];
    uint32_t n;
    if (answers_open(&h->answers, h->in.body, &n, e) != 0)
        return lost(h, HELPER_STRANGE, e);
    if (n == 0 || n > most) {
        err_set(e, ERR_CHECK, "it sent more answers than places");
        return lost(h, HELPER_STRANGE, e);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct place_answer answer;
        if (answers_get(&h->answers, &answer, frames, e) != 0)
            return lost(h, HELPER_STRANGE, e);
        if (put(ctx, first + i, &answer, e) != 0) {
            hang_up(h); /* the rest of its answers is not read */
            return -1;
        }
    }
    *taken = n;
    return 0;
}

static int look_up_some(struct helper *h, const struct place *places, size_t n, size_t first,
                        helper_put *put, void *ctx, struct err *e)
{
    int64_t until = deadline(h);
    buf_clear(&h->out);
    helper_put_places(&h->out, places, n, h->options.linkage);
    if (ask(h, HELPER_LOOKUP, HELPER_FRAMES, e) != 0)
        return -1;
    for (size_t done = 0, taken = 0; done < n; done += taken) {
        if (done > 0 && await(h, HELPER_FRAMES, until, e) != 0)
            return -1;
        if (take_answers(h, first + done, n - done, put, ctx, &taken, e) != 0)
            return -1;
    }
    return 0;
}

int helper_look_up(struct helper *h, const struct place *places, size_t n, helper_put *put,
                   void *ctx, struct err *e)
{
    for (size_t done = 0; done < n; done += HELPER_PLACES_MAX) {
        size_t part = n - done < HELPER_PLACES_MAX ? n - done : HELPER_PLACES_MAX;
        if (look_up_some(h, places + done, part, done, put, ctx, e) != 0)
            return -1;
    }
    return 0;
}

int helper_infer_bias(struct helper *h, const struct helper_hint *hints, size_t n,
                      struct helper_bias *bias, struct err *e)
{
    buf_clear(&h->out);
    helper_put_hints(&h->out, hints, n < HELPER_HINTS_MAX ? n : HELPER_HINTS_MAX);
    if (ask(h, HELPER_INFER, HELPER_BIAS, e) != 0)
        return -1;
    return helper_get_bias(h->in.body, bias, e) == 0 ? 0 : lost(h, HELPER_STRANGE, e);
}

int helper_read_code(struct helper *h, const struct place *place, struct place_code *code,
                     bool *found, struct err *e)
{
    buf_clear(&h->out);
    helper_put_place(&h->out, place);
    if (ask(h, HELPER_CODE, HELPER_BYTES, e) != 0)
        return -1;
    return helper_get_code(h->in.body, code, found, e) == 0 ? 0 : lost(h, HELPER_STRANGE, e);
}
