/*
 * Any bytes as the answer of an addr2line: entries come in the order of the addresses, one for each
 * at most, and are the same however the bytes are cut.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/addr2line_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ADDRESSES 8u

struct entries {
    struct buf text;
    size_t n;
};

static void check_text(struct view text)
{
    if (text.len > 0 && (memchr(text.p, '\n', text.len) || text.len > (1u << 20)))
        abort();
}

static int put(void *ctx, const struct addr2line_entry *entry, struct err *e)
{
    struct entries *got = ctx;
    (void)e;
    if (entry->i != got->n++)
        abort();
    check_text(entry->function);
    check_text(entry->file);
    buf_put(&got->text, entry->function.p, entry->function.len);
    buf_u8(&got->text, 0);
    buf_put(&got->text, entry->file.p, entry->file.len);
    buf_u32(&got->text, entry->line);
    return 0;
}

static void parse(const uint8_t *data, size_t size, size_t n, size_t piece, struct entries *got)
{
    static const uint64_t addresses[ADDRESSES] = {
        0x1000, 0x1010, 0, UINT64_MAX, 0x1000, 0xffffffff81000000, 0x7f0000001234, 1};
    struct addr2line_answer a = {.addresses = addresses, .n = n, .put = put, .ctx = got};
    struct err e = {0};
    for (size_t at = 0; at < size; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        if (addr2line_answer_feed(&a, (const char *)data + at, part, &e) != 0)
            abort();
    }
    if (a.next != got->n || got->n > n)
        abort();
    addr2line_answer_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct entries whole = {0}, cut = {0};
    if (size < 2)
        return 0;
    size_t n = 1 + data[0] % ADDRESSES, piece = 1 + data[1] % 64;
    parse(data + 2, size - 2, n, size, &whole);
    parse(data + 2, size - 2, n, piece, &cut);
    if (whole.n != cut.n || whole.text.len != cut.text.len ||
        (whole.text.len > 0 && memcmp(whole.text.data, cut.text.data, whole.text.len) != 0))
        abort();
    buf_release(&whole.text);
    buf_release(&cut.text);
    return 0;
}
