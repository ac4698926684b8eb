/*
 * Compressed bytes as they come from a socket. However they are cut, the same frames must come out,
 * or the same refusal. The first byte chooses the cut.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/wire_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    uint64_t frames, bytes, hash;
    int rc;
};

static struct outcome read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct outcome o = {0};
    struct wire_frame frame;
    struct err e = {0};
    struct frame_reader *r = frame_reader_new();
    if (!r)
        abort();
    while (size > 0 && o.rc == 0) {
        size_t n = size < piece ? size : piece;
        const uint8_t *p = data;
        size_t left = n;
        while ((o.rc = frame_reader_feed(r, &p, &left, &frame, &e)) == 1) {
            if (frame.len == 0 || frame.len > FRAME_SIZE_MAX)
                abort();
            o.frames++;
            o.bytes += frame.len;
            for (uint32_t i = 0; i < frame.len; i++)
                o.hash = (o.hash ^ frame.bytes[i]) * 0x100000001b3u;
        }
        if (o.rc == 0 && left != 0)
            abort();
        if (o.rc < 0 && (e.code != ERR_INPUT || !e.text[0]))
            abort();
        data += n;
        size -= n;
    }
    frame_reader_free(r);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t piece = 1 + *data;
    struct outcome whole = read_all(data + 1, size - 1, SIZE_MAX);
    struct outcome cut = read_all(data + 1, size - 1, piece);
    if (whole.frames != cut.frames || whole.bytes != cut.bytes || whole.hash != cut.hash ||
        whole.rc != cut.rc)
        abort();
    return 0;
}
