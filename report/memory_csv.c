#include "report/memory_csv.h"

#include <inttypes.h>

#include "base/digits.h"
#include "report/write/csv_field.h"

#define WRITE_AT 65536u

static int flush(struct memory_csv *w, struct err *e)
{
    size_t n = w->buf.len;
    if (w->buf.failed)
        return err_no_memory(e, "rows of CSV");
    if (n > 0 && fwrite(w->buf.data, 1, n, w->out) < n)
        return err_errno(e, ERR_OUTPUT, "cannot write to standard output");
    buf_clear(&w->buf);
    return 0;
}

static int end_row(struct memory_csv *w, struct err *e)
{
    buf_put(&w->buf, "\n", 1);
    return w->buf.len < WRITE_AT ? 0 : flush(w, e);
}

static void put_number(struct buf *b, uint64_t n)
{
    buf_put(b, ",", 1);
    digits_put_u64(b, n);
}

static void put_text(struct buf *b, struct view text)
{
    buf_put(b, ",", 1);
    csv_field(b, text);
}

static void put_time(struct buf *b, int64_t ns)
{
    buf_put(b, ",", 1);
    digits_put_i64(b, ns);
}

static void put_callstack(struct buf *b, uint32_t callstack)
{
    if (callstack)
        put_number(b, callstack);
    else
        buf_put(b, ",", 1);
}

int memory_csv_begin(struct memory_csv *w, struct err *e)
{
    buf_puts(&w->buf, "pool,address,size,alloc_ns,free_ns,alloc_thread,alloc_thread_name,"
                      "free_thread,free_thread_name,alloc_callstack,free_callstack");
    return end_row(w, e);
}

int memory_csv_row(void *ctx, const struct memory_row *row, struct err *e)
{
    struct memory_csv *w = ctx;
    struct buf *b = &w->buf;
    bool freed = is_freed(row->free_time);
    csv_field(b, row->pool);
    buf_put(b, ",", 1);
    digits_put_address(b, row->address);
    put_number(b, row->size);
    put_time(b, row->alloc_time);
    if (freed)
        put_time(b, row->free_time);
    else
        buf_put(b, ",", 1);
    put_number(b, row->alloc_thread);
    put_text(b, row->alloc_thread_name);
    if (freed)
        put_number(b, row->free_thread);
    else
        buf_put(b, ",", 1);
    put_text(b, row->free_thread_name);
    put_callstack(b, row->alloc_callstack);
    put_callstack(b, row->free_callstack);
    return end_row(w, e);
}

static int callstack_rows(struct memory_csv *w, const struct trace *t, uint32_t callstack,
                          struct err *e)
{
    struct frame_walk walk = frame_walk_start(t, callstack);
    struct frame_view f;
    struct buf *b = &w->buf;
    for (uint32_t position = 0; frame_walk_next(&walk, &f); position++) {
        digits_put_u64(b, callstack);
        put_number(b, position);
        put_text(b, f.function);
        put_text(b, f.file);
        if (f.line)
            put_number(b, f.line);
        else
            buf_put(b, ",", 1);
        put_text(b, f.image);
        buf_put(b, ",", 1);
        digits_put_address(b, f.address);
        buf_puts(b, f.is_inline ? ",1" : ",0");
        if (end_row(w, e) != 0)
            return -1;
    }
    return 0;
}

int memory_csv_callstacks(struct memory_csv *w, const struct trace *t, struct err *e)
{
    buf_puts(&w->buf, "callstack,frame,function,file,line,image,address,inline");
    if (end_row(w, e) != 0)
        return -1;
    for (size_t id = 1; id <= t->callstacks.list.len; id++) {
        if (callstack_rows(w, t, (uint32_t)id, e) != 0)
            return -1;
    }
    return 0;
}

int memory_csv_finish(struct memory_csv *w, struct err *e)
{
    if (flush(w, e) != 0)
        return -1;
    return fflush(w->out) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot write to standard output");
}

void memory_csv_release(struct memory_csv *w)
{
    buf_release(&w->buf);
}
