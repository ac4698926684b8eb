#include "symbols/place/helper_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"

#define MAGIC 0x31484d54u /* "TMH1" */
#define HEADER_SIZE 12u

/* ---- messages */

void helper_message_release(struct helper_message *m)
{
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    buf_release(&m->bytes);
    m->body = (struct view){NULL, 0};
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void attach(struct msghdr *m, union control *control, int fd)
{
    memset(control, 0, sizeof *control);
    m->msg_control = control->bytes;
    m->msg_controllen = sizeof control->bytes;
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
}

int helper_send(int socket, enum helper_type type, const struct buf *body, int fd, struct err *e)
{
    uint8_t header[HEADER_SIZE];
    union control control;
    size_t len = body ? body->len : 0;
    if (body && body->failed)
        return err_no_memory(e, "a message to the symbol helper");
    if (len > HELPER_BODY_MAX)
        return err_set(e, ERR_CHECK, "a message of %zu bytes is too long", len);
    store_u32(header, MAGIC);
    store_u32(header + 4, (uint32_t)type);
    store_u32(header + 8, (uint32_t)len);
    struct iovec parts[2] = {{header, sizeof header}, {body ? body->data : NULL, len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = len ? 2 : 1};
    if (fd >= 0)
        attach(&m, &control, fd);
    while (m.msg_iovlen > 0) {
        ssize_t sent = sendmsg(socket, &m, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_errno(e, ERR_CHECK, "cannot send to it");
        m.msg_control = NULL;
        m.msg_controllen = 0;
        for (size_t left = (size_t)sent; m.msg_iovlen > 0 && left >= m.msg_iov->iov_len;) {
            left -= m.msg_iov->iov_len;
            m.msg_iov++;
            m.msg_iovlen--;
            sent = (ssize_t)left;
        }
        if (m.msg_iovlen > 0) {
            m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + sent;
            m.msg_iov->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

/* Keeps one of the received descriptors and closes the others. */
static void take_descriptors(struct msghdr *m, struct helper_message *out)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (out->fd < 0)
                out->fd = fd;
            else
                close(fd);
        }
    }
}

static int wait_for(int socket, int64_t deadline, enum helper_silence *why, struct err *e)
{
    struct pollfd p = {.fd = socket, .events = POLLIN};
    for (;;) {
        int timeout = -1;
        if (deadline) {
            int64_t left = deadline - monotonic_ns();
            if (left <= 0) {
                if (why)
                    *why = HELPER_LATE;
                return err_set(e, ERR_CHECK, "time is up");
            }
            timeout = left > INT64_C(1000000000) * 1000 ? 1000000 : (int)(left / 1000000 + 1);
        }
        int ready = poll(&p, 1, timeout);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return err_errno(e, ERR_CHECK, "cannot wait for it");
    }
}

static int receive_bytes(int socket, uint8_t *to, size_t n, struct helper_message *m,
                         int64_t deadline, enum helper_silence *why, struct err *e)
{
    while (n > 0) {
        union control control;
        struct iovec part = {to, n};
        struct msghdr header = {.msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = control.bytes,
                                .msg_controllen = sizeof control.bytes};
        if (deadline && wait_for(socket, deadline, why, e) != 0)
            return -1;
        ssize_t got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(e, ERR_CHECK, "cannot receive from it");
        take_descriptors(&header, m);
        if (got == 0) {
            if (why)
                *why = HELPER_ENDED;
            return err_set(e, ERR_CHECK, "it ended");
        }
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

int helper_receive(int socket, struct helper_message *m, int64_t deadline, enum helper_silence *why,
                   struct err *e)
{
    uint8_t header[HEADER_SIZE];
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    buf_clear(&m->bytes);
    m->body = (struct view){NULL, 0};
    if (why)
        *why = HELPER_STRANGE;
    if (receive_bytes(socket, header, sizeof header, m, deadline, why, e) != 0)
        return -1;
    uint32_t len = load_u32(header + 8);
    m->type = load_u32(header + 4);
    if (load_u32(header) != MAGIC || len > HELPER_BODY_MAX)
        return err_set(e, ERR_CHECK, "it sent what is no message");
    /* Allocates as bytes arrive. */
    while (m->bytes.len < len) {
        size_t part = len - m->bytes.len < 65536 ? len - m->bytes.len : 65536;
        uint8_t *room = buf_reserve(&m->bytes, part);
        if (!room)
            return err_no_memory(e, "a message of the symbol helper");
        if (receive_bytes(socket, room, part, m, deadline, why, e) != 0)
            return -1;
        m->bytes.len += part;
    }
    m->body = (struct view){len ? (const char *)m->bytes.data : "", len};
    return 0;
}

/* ---- parts of bodies */

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_CHECK, "it sent a message with a wrong %s", what);
}

static struct cursor over(struct view body)
{
    return cursor_over(body.p ? body.p : "", body.len);
}

/* Checks that a body was read to its end. */
static int finished(const struct cursor *c, struct err *e)
{
    return c->short_read || cursor_left(c) > 0 ? bad(e, "length") : 0;
}

void helper_put_text(struct buf *out, struct view text)
{
    uint32_t n = text.len < HELPER_TEXT_MAX ? (uint32_t)text.len : HELPER_TEXT_MAX;
    buf_u32(out, n);
    buf_put(out, text.p, n);
}

int helper_get_text(struct cursor *c, struct view *text, struct err *e)
{
    uint32_t n = cursor_u32(c);
    const uint8_t *p = n <= HELPER_TEXT_MAX ? cursor_take(c, n) : NULL;
    if (!p)
        return bad(e, "text");
    *text = (struct view){(const char *)p, n};
    return 0;
}

static void put_texts(struct buf *out, const struct view *texts, size_t n)
{
    buf_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        helper_put_text(out, texts[i]);
}

/* A text for a path or a rule; it must not contain a NUL. */
static int get_path(struct cursor *c, struct view *text, struct err *e)
{
    if (helper_get_text(c, text, e) != 0)
        return -1;
    return text->len > 0 && memchr(text->p, 0, text->len) ? bad(e, "path") : 0;
}

static int get_texts(struct cursor *c, struct view *texts, size_t *n, struct err *e)
{
    *n = cursor_u32(c);
    if (*n > HELPER_RULES_MAX)
        return bad(e, "count of texts");
    for (size_t i = 0; i < *n; i++) {
        if (get_path(c, &texts[i], e) != 0)
            return -1;
    }
    return 0;
}

void helper_put_open(struct buf *out, const struct helper_open *open)
{
    helper_put_text(out, open->path);
    buf_u8(out, open->build_id.len);
    buf_put(out, open->build_id.bytes, open->build_id.len);
    buf_u8(out, open->trust_paths);
    buf_u32(out, open->threads);
    helper_put_text(out, open->sysroot);
    put_texts(out, open->dirs, open->dir_count);
    put_texts(out, open->rules, open->rule_count);
}

int helper_get_open(struct view body, struct helper_open *open, struct view *dirs,
                    struct view *rules, struct err *e)
{
    struct cursor c = over(body);
    *open = (struct helper_open){.dirs = dirs, .rules = rules};
    if (get_path(&c, &open->path, e) != 0)
        return -1;
    uint8_t n = cursor_u8(&c);
    const uint8_t *id = n <= BUILD_ID_MAX ? cursor_take(&c, n) : NULL;
    if (!id)
        return bad(e, "build id");
    memcpy(open->build_id.bytes, id, n);
    open->build_id.len = n;
    open->trust_paths = cursor_u8(&c) == 1;
    open->threads = cursor_u32(&c);
    if (get_path(&c, &open->sysroot, e) != 0 || get_texts(&c, dirs, &open->dir_count, e) != 0 ||
        get_texts(&c, rules, &open->rule_count, e) != 0)
        return -1;
    return finished(&c, e);
}

void helper_put_places(struct buf *out, const struct place *places, size_t n, bool linkage)
{
    buf_u8(out, linkage);
    buf_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        buf_u8(out, places[i].kind);
        buf_u64(out, places[i].value);
    }
}

int helper_get_places(struct view body, struct place *places, size_t *n, bool *linkage,
                      struct err *e)
{
    struct cursor c = over(body);
    *linkage = cursor_u8(&c) == 1;
    *n = cursor_u32(&c);
    if (c.short_read || *n > HELPER_PLACES_MAX || cursor_left(&c) != *n * 9)
        return bad(e, "count of places");
    for (size_t i = 0; i < *n; i++) {
        places[i] = (struct place){.kind = cursor_u8(&c)};
        places[i].value = cursor_u64(&c);
        if (places[i].kind >= PLACE_KINDS)
            return bad(e, "kind of place");
    }
    return finished(&c, e);
}

void helper_put_place(struct buf *out, const struct place *place)
{
    buf_u8(out, place->kind);
    buf_u64(out, place->value);
}

int helper_get_place(struct view body, struct place *place, struct err *e)
{
    struct cursor c = over(body);
    *place = (struct place){.kind = cursor_u8(&c)};
    place->value = cursor_u64(&c);
    return place->kind >= PLACE_KINDS ? bad(e, "kind of place") : finished(&c, e);
}

void helper_put_code(struct buf *out, const struct place_code *code)
{
    buf_u8(out, code != NULL);
    if (!code)
        return;
    buf_u64(out, code->address);
    buf_u64(out, code->start);
    buf_u64(out, code->size);
    buf_u8(out, code->by_unwind);
    helper_put_text(out, code->name);
    buf_u32(out, (uint32_t)code->bytes.len);
    buf_put(out, code->bytes.p, code->bytes.len);
}

int helper_get_code(struct view body, struct place_code *code, bool *found, struct err *e)
{
    struct cursor c = over(body);
    uint8_t flag = cursor_u8(&c);
    *code = (struct place_code){0};
    *found = flag == 1;
    if (flag == 0)
        return finished(&c, e);
    code->address = cursor_u64(&c);
    code->start = cursor_u64(&c);
    code->size = cursor_u64(&c);
    uint8_t by_unwind = cursor_u8(&c);
    code->by_unwind = by_unwind;
    if (helper_get_text(&c, &code->name, e) != 0)
        return -1;
    uint32_t n = cursor_u32(&c);
    const uint8_t *bytes = cursor_take(&c, n);
    if (!bytes || flag > 1 || by_unwind > 1)
        return bad(e, "piece of code");
    code->bytes = (struct view){(const char *)bytes, n};
    /* The function contains the place, ends within the address space, and its code is complete. */
    if (code->address - code->start >= code->size || code->size > 0 - code->start - 1 ||
        n != (code->size < PLACE_CODE_MAX ? code->size : PLACE_CODE_MAX))
        return bad(e, "piece of code");
    return finished(&c, e);
}

void helper_put_hints(struct buf *out, const struct helper_hint *hints, size_t n)
{
    buf_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        buf_u64(out, hints[i].address);
        helper_put_text(out, hints[i].name);
    }
}

int helper_get_hints(struct view body, struct helper_hint *hints, size_t *n, struct err *e)
{
    struct cursor c = over(body);
    *n = cursor_u32(&c);
    if (*n > HELPER_HINTS_MAX)
        return bad(e, "count of symbols");
    for (size_t i = 0; i < *n; i++) {
        hints[i].address = cursor_u64(&c);
        if (helper_get_text(&c, &hints[i].name, e) != 0)
            return -1;
    }
    return finished(&c, e);
}

void helper_put_facts(struct buf *out, const struct image_facts *facts)
{
    buf_u16(out, facts->machine);
    buf_u8(out, (uint8_t)(facts->has_symbols | facts->has_debug << 1 | facts->from_cache << 2 |
                          facts->debug_separate << 3 | facts->is_64 << 4));
    buf_u64(out, facts->base);
    helper_put_text(out, facts->path);
    helper_put_text(out, facts->debug_path);
}

int helper_get_facts(struct view body, struct image_facts *facts, struct err *e)
{
    struct cursor c = over(body);
    *facts = (struct image_facts){.machine = cursor_u16(&c)};
    uint8_t flags = cursor_u8(&c);
    facts->base = cursor_u64(&c);
    if (flags > 31)
        return bad(e, "flag");
    facts->has_symbols = flags & 1;
    facts->has_debug = flags & 2;
    facts->from_cache = flags & 4;
    facts->debug_separate = flags & 8;
    facts->is_64 = flags & 16;
    if (get_path(&c, &facts->path, e) != 0 || get_path(&c, &facts->debug_path, e) != 0)
        return -1;
    return finished(&c, e);
}

void helper_put_bias(struct buf *out, const struct helper_bias *bias)
{
    buf_u8(out, bias->found);
    buf_u64(out, bias->bias);
    buf_u32(out, bias->agree);
    buf_u32(out, bias->hints);
}

int helper_get_bias(struct view body, struct helper_bias *bias, struct err *e)
{
    struct cursor c = over(body);
    uint8_t found = cursor_u8(&c);
    *bias = (struct helper_bias){.found = found, .bias = cursor_u64(&c)};
    bias->agree = cursor_u32(&c);
    bias->hints = cursor_u32(&c);
    if (found > 1 || bias->bias % 4096 != 0)
        return bad(e, "bias");
    return finished(&c, e);
}

void helper_put_wish(struct buf *out, const struct file_wish *wish)
{
    buf_u8(out, wish->need);
    buf_u8(out, wish->flag);
    helper_put_text(out, wish->name);
    helper_put_text(out, wish->id);
}

int helper_get_wish(struct view body, struct file_wish *wish, struct err *e)
{
    struct cursor c = over(body);
    *wish = (struct file_wish){.need = cursor_u8(&c)};
    wish->flag = cursor_u8(&c) == 1;
    if (get_path(&c, &wish->name, e) != 0 || helper_get_text(&c, &wish->id, e) != 0)
        return -1;
    if (wish->need >= FILE_NEEDS || wish->id.len > FILE_ID_MAX)
        return bad(e, "wish for a file");
    return finished(&c, e);
}
