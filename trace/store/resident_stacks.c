#include "trace/store/resident_stacks.h"

#include "base/cursor.h"

#define ROW_BYTES 28u

void resident_stacks_release(struct resident_stacks *r)
{
    vec_release(&r->list);
    *r = (struct resident_stacks){0};
}

void resident_stacks_encode(const struct resident_stacks *r, struct buf *out)
{
    for (size_t i = 0; i < r->list.len; i++) {
        const struct resident_stack *one = &r->list.at[i];
        buf_u64(out, one->pool);
        buf_u32(out, one->callstack);
        buf_u64(out, one->present);
        buf_u64(out, one->nested);
    }
}

int resident_stacks_decode(struct resident_stacks *r, struct view bytes, struct err *e)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    *r = (struct resident_stacks){.known = true};
    if (bytes.len % ROW_BYTES)
        return err_set(e, ERR_INPUT, "resident bytes beside the trace: a row is cut (offset %zu)",
                       bytes.len - bytes.len % ROW_BYTES);
    if (!vec_reserve(&r->list, bytes.len / ROW_BYTES))
        return err_no_memory(e, "resident bytes");
    for (size_t n = bytes.len / ROW_BYTES; n > 0; n--) {
        struct resident_stack *one = &r->list.at[r->list.len++];
        one->pool = cursor_u64(&c);
        one->callstack = cursor_u32(&c);
        one->present = cursor_u64(&c);
        one->nested = cursor_u64(&c);
    }
    return 0;
}
