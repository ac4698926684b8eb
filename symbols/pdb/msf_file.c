#include "symbols/pdb/msf_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cursor.h"

#define MAGIC                                                                                      \
    "Microsoft C/C++ MSF 7.00\r\n\x1a"                                                             \
    "DS\0\0"
#define MAGIC_SIZE 32u
#define BLOCK_MIN 512u
#define BLOCK_MAX 65536u
#define NO_STREAM UINT32_MAX /* the size of a deleted stream */

struct stream {
    uint32_t size;   /* bytes */
    uint32_t blocks; /* index of its first block in the directory's list */
};

struct msf_file {
    struct view bytes;
    uint32_t block_size, block_count;
    struct msf_stream directory;
    const uint8_t *blocks; /* of all streams, u32 each; part of the directory */
    struct stream *streams;
    uint32_t n_streams;
};

bool msf_file_is(struct view bytes)
{
    return bytes.len >= MAGIC_SIZE && memcmp(bytes.p, MAGIC, MAGIC_SIZE) == 0;
}

static uint64_t blocks_for(const struct msf_file *m, uint64_t size)
{
    return (size + m->block_size - 1) / m->block_size;
}

/* Bytes of the file in a block; the last block may be cut short. NULL if it lies outside. */
static const char *block_at(const struct msf_file *m, uint32_t block, size_t size)
{
    uint64_t at = (uint64_t)block * m->block_size;
    return at <= m->bytes.len && size <= m->bytes.len - at ? m->bytes.p + at : NULL;
}

static bool is_one_run(const uint8_t *blocks, uint64_t n)
{
    uint32_t first = n ? load_u32(blocks) : 0;
    for (uint64_t i = 1; i < n; i++) {
        if (load_u32(blocks + 4 * i) != first + i)
            return false;
    }
    return true;
}

/* Copies `size` bytes together, unless their blocks follow each other. */
static int gather(const struct msf_file *m, const uint8_t *blocks, uint32_t size,
                  struct msf_stream *out, struct err *e)
{
    uint64_t n = blocks_for(m, size);
    *out = (struct msf_stream){.bytes = {"", 0}};
    if (size == 0)
        return 0;
    if (is_one_run(blocks, n)) {
        const char *all = block_at(m, load_u32(blocks), size);
        if (!all)
            return err_set(e, ERR_INPUT, "a block lies beyond the end of the file");
        out->bytes = (struct view){all, size};
        return 0;
    }
    char *copy = malloc(size);
    if (!copy)
        return err_no_memory(e, "a stream of a PDB file");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t left = size - i * m->block_size;
        size_t part = left < m->block_size ? (size_t)left : m->block_size;
        const char *from = block_at(m, load_u32(blocks + 4 * i), part);
        if (!from) {
            free(copy);
            return err_set(e, ERR_INPUT, "a block lies beyond the end of the file");
        }
        memcpy(copy + i * m->block_size, from, part);
    }
    *out = (struct msf_stream){.bytes = {copy, size}, .owned = true};
    return 0;
}

static int read_directory(struct msf_file *m, struct err *e)
{
    struct cursor c = cursor_over(m->directory.bytes.p, m->directory.bytes.len);
    uint32_t n = cursor_u32(&c);
    uint64_t blocks = 0;
    if (c.short_read || n > cursor_left(&c) / 4)
        return err_set(e, ERR_INPUT, "the stream directory is cut short");
    m->streams = calloc(n ? n : 1, sizeof *m->streams);
    if (!m->streams)
        return err_no_memory(e, "streams of a PDB file");
    m->n_streams = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size = cursor_u32(&c);
        size = size == NO_STREAM ? 0 : size;
        m->streams[i] = (struct stream){size, (uint32_t)blocks};
        blocks += blocks_for(m, size);
        if (blocks > m->block_count)
            return err_set(e, ERR_INPUT, "the streams are larger than the file");
    }
    if (blocks > cursor_left(&c) / 4)
        return err_set(e, ERR_INPUT, "the stream directory lists too few blocks");
    m->blocks = c.pos;
    return 0;
}

static int read_superblock(struct msf_file *m, struct err *e)
{
    struct cursor c = cursor_over(m->bytes.p, m->bytes.len);
    (void)cursor_take(&c, MAGIC_SIZE);
    m->block_size = cursor_u32(&c);
    (void)cursor_u32(&c); /* map of free blocks */
    (void)cursor_u32(&c); /* number of blocks; the file's size decides */
    uint32_t size = cursor_u32(&c);
    (void)cursor_u32(&c); /* unused */
    uint32_t list = cursor_u32(&c);
    if (c.short_read || m->block_size < BLOCK_MIN || m->block_size > BLOCK_MAX ||
        (m->block_size & (m->block_size - 1)) != 0)
        return err_set(e, ERR_INPUT, "blocks of %u bytes", m->block_size);
    uint64_t count = blocks_for(m, m->bytes.len);
    m->block_count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    uint64_t n = blocks_for(m, size);
    const char *blocks = n <= m->block_count ? block_at(m, list, (size_t)(4 * n)) : NULL;
    if (!blocks)
        return err_set(e, ERR_INPUT, "the stream directory lies beyond the end of the file");
    return gather(m, (const uint8_t *)blocks, size, &m->directory, e);
}

int msf_file_open(struct msf_file **out, struct view bytes, struct err *e)
{
    struct msf_file *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return err_no_memory(e, "a PDB file");
    m->bytes = bytes;
    if (!msf_file_is(bytes)) {
        err_set(e, ERR_INPUT, "no PDB file");
    } else if (read_superblock(m, e) == 0 && read_directory(m, e) == 0) {
        *out = m;
        return 0;
    }
    msf_file_close(m);
    return -1;
}

void msf_file_close(struct msf_file *m)
{
    if (!m)
        return;
    msf_stream_release(&m->directory);
    free(m->streams);
    free(m);
}

uint32_t msf_file_size(const struct msf_file *m, uint32_t stream)
{
    return stream < m->n_streams ? m->streams[stream].size : 0;
}

int msf_file_read(const struct msf_file *m, uint32_t stream, struct msf_stream *out, struct err *e)
{
    *out = (struct msf_stream){.bytes = {"", 0}};
    if (stream >= m->n_streams)
        return 0;
    const struct stream *s = &m->streams[stream];
    if (gather(m, m->blocks + (size_t)4 * s->blocks, s->size, out, e) == 0)
        return 0;
    return e ? err_prefix(e, "stream %u", stream) : -1;
}

void msf_stream_release(struct msf_stream *s)
{
    if (s->owned)
        free((char *)s->bytes.p);
    *s = (struct msf_stream){.bytes = {"", 0}};
}
