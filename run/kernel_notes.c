#include "run/kernel_notes.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/file_io.h"

#define HEAD_SIZE 8u

/* ---- writing */

int kernel_notes_open(struct kernel_notes *n, const char *recording, struct err *e)
{
    struct buf path = {0};
    *n = KERNEL_NOTES_NONE;
    buf_printf(&path, "%s" KERNEL_NOTES_ENDING, recording);
    if (!path.failed)
        n->fd = open(buf_str(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int status = path.failed ? err_no_memory(e, "a name")
                 : n->fd < 0 ? err_errno(e, ERR_OUTPUT, "cannot create %s", buf_str(&path))
                             : 0;
    buf_release(&path);
    return status;
}

void kernel_notes_close(struct kernel_notes *n)
{
    if (n->fd >= 0)
        close(n->fd);
    *n = KERNEL_NOTES_NONE;
}

static int add(struct kernel_notes *n, enum kernel_note_kind kind, const struct buf *body,
               struct err *e)
{
    struct buf note = {0};
    int status = 0;
    buf_u32(&note, kind);
    buf_u32(&note, (uint32_t)body->len);
    buf_put(&note, body->data, body->len);
    if (note.failed || body->failed || body->len > UINT32_MAX) {
        status = err_no_memory(e, "what the kernel counts");
    } else if (file_write(n->fd, note.data, note.len, n->size) != 0) {
        status = err_errno(e, ERR_OUTPUT, "cannot write what the kernel counts");
        (void)file_resize(n->fd, n->size);
    }
    n->size += note.len;
    buf_release(&note);
    if (status != 0)
        kernel_notes_close(n);
    return status;
}

int kernel_notes_add_reading(struct kernel_notes *n, const struct memory_reading *r, struct err *e)
{
    struct buf body = {0};
    if (n->fd < 0)
        return 0;
    buf_u64(&body, (uint64_t)r->time);
    buf_u32(&body, r->known);
    for (uint32_t i = 0; i < MEMORY_VALUES; i++) {
        uint64_t bits;
        memcpy(&bits, &r->value[i], sizeof bits);
        if (r->known & UINT32_C(1) << i)
            buf_u64(&body, bits);
    }
    int status = add(n, NOTE_READING, &body, e);
    buf_release(&body);
    return status;
}

int kernel_notes_add_look(struct kernel_notes *n, const struct page_look *look, struct err *e)
{
    struct page_look one = *look;
    const struct page_looks list = {.list = {.at = &one, .len = 1}};
    struct buf body = {0};
    if (n->fd < 0)
        return 0;
    page_looks_encode(&list, &body);
    int status = add(n, NOTE_LOOK, &body, e);
    buf_release(&body);
    return status;
}

int kernel_notes_add_cgroup(struct kernel_notes *n, const struct process_memory *of, struct err *e)
{
    struct buf body = {0};
    bool known = n->fd >= 0 && process_memory_note(of, &body);
    int status = known || body.failed ? add(n, NOTE_CGROUP, &body, e) : 0;
    buf_release(&body);
    return status;
}

/* ---- reading */

static int take_reading(struct view body, kernel_notes_taker *take, void *ctx, struct err *e)
{
    struct cursor c = cursor_over(body.p, body.len);
    struct kernel_note note = {.kind = NOTE_READING};
    struct memory_reading *r = &note.reading;
    r->time = cursor_i64(&c);
    r->known = cursor_u32(&c);
    for (uint32_t i = 0; i < MEMORY_VALUES; i++) {
        if (r->known & UINT32_C(1) << i)
            r->value[i] = cursor_f64(&c);
    }
    if (c.short_read || cursor_left(&c) || r->known >> MEMORY_VALUES)
        return err_set(e, ERR_INPUT, "a malformed reading");
    return take(ctx, &note, e);
}

static int take_look(struct view body, kernel_notes_taker *take, void *ctx, struct err *e)
{
    struct page_looks one;
    struct kernel_note note = {.kind = NOTE_LOOK};
    if (page_looks_decode(&one, body, e) != 0)
        return -1;
    int status = -1;
    if (one.list.len == 1) {
        note.look = one.list.at[0];
        status = take(ctx, &note, e);
        one.list.at[0] = note.look;
    } else {
        err_set(e, ERR_INPUT, "not one look");
    }
    page_looks_release(&one);
    return status;
}

static int take_cgroup(struct view body, kernel_notes_taker *take, void *ctx, struct err *e)
{
    struct kernel_note note = {.kind = NOTE_CGROUP, .cgroup = body};
    return take(ctx, &note, e);
}

static int take_note(uint32_t kind, struct view body, kernel_notes_taker *take, void *ctx,
                     struct err *e)
{
    static int (*const takers[])(struct view, kernel_notes_taker *, void *, struct err *) = {
        [NOTE_READING] = take_reading, [NOTE_LOOK] = take_look, [NOTE_CGROUP] = take_cgroup};
    return kind < sizeof takers / sizeof *takers
               ? takers[kind](body, take, ctx, e)
               : err_set(e, ERR_INPUT, "a note of an unknown kind");
}

/* Reads the note at *at into `body`. 1: a note; 0: none, or a torn one. */
static int read_note(int fd, uint64_t size, uint64_t *at, uint32_t *kind, struct buf *body,
                     struct err *e)
{
    uint8_t head[HEAD_SIZE];
    buf_clear(body);
    if (size - *at < HEAD_SIZE)
        return 0;
    if (file_read(fd, head, sizeof head, *at) != 0)
        return err_errno(e, ERR_INPUT, "cannot read");
    *kind = load_u32(head);
    uint32_t len = load_u32(head + 4);
    if (len > size - *at - HEAD_SIZE)
        return 0;
    uint8_t *room = buf_reserve(body, (size_t)len + 1);
    if (!room)
        return err_no_memory(e, "what the kernel counted");
    if (file_read(fd, room, len, *at + HEAD_SIZE) != 0)
        return err_errno(e, ERR_INPUT, "cannot read");
    body->len = len;
    *at += HEAD_SIZE + len;
    return 1;
}

int kernel_notes_read(int fd, kernel_notes_taker *take, void *ctx, struct err *e)
{
    struct stat st;
    struct buf body = {0};
    uint64_t at = 0, begin = 0;
    uint32_t kind = 0;
    int status = 0;
    if (fstat(fd, &st) != 0)
        return err_errno(e, ERR_INPUT, "cannot read");
    do {
        begin = at;
        status = read_note(fd, (uint64_t)st.st_size, &at, &kind, &body, e);
        if (status == 1 && take_note(kind, buf_view(&body), take, ctx, e) != 0)
            status = -1;
    } while (status == 1);
    buf_release(&body);
    return status == 0 ? 0 : err_prefix(e, "offset %" PRIu64, begin);
}
