/*
 * The cache file. In order, all numbers little-endian, each part aligned to 8 bytes:
 *
 *     struct cache_header
 *     key            key_size bytes
 *     units          struct cache_unit, n_units
 *     ranges         struct index_range, n_ranges
 *     names          struct cached_name, n_names
 *     symbols        u32 number + 1 of a name, n_symbols times
 *     texts          of the names
 *     blocks         as the units state (symbols/index/index_block.h)
 *
 * `hash` covers the bytes between the header and the texts. Any change of this format or of blocks
 * increments the version.
 */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "symbols/index/index_parts.h"

#define CACHE_VERSION 4u
#define KEY_MAX 4096u

struct cache_header {
    char magic[8];
    uint32_t version;
    uint32_t key_size;
    uint32_t n_units, n_ranges;
    uint32_t n_names, n_symbols;
    uint64_t texts, blocks; /* their offsets in the file */
    uint64_t size;          /* of the file */
    uint64_t hash;
};

struct cache_unit {
    uint64_t root, split_id;
    uint32_t state, flags;
    uint64_t block, size; /* offset and size in the file; both 0 unless built */
};

/* Offsets of the parts in the file. */
struct parts {
    size_t units, ranges, names, symbols;
};

static size_t padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* ---- saving */

static void pad(struct buf *b)
{
    while (b->len % 8 != 0 && !b->failed)
        buf_u8(b, 0);
}

static void put_units(struct buf *b, const struct symbol_index *x, uint64_t blocks)
{
    for (size_t i = 0; i < x->units.len; i++) {
        const struct index_unit *u = &x->units.at[i];
        struct cache_unit out = {.root = u->root,
                                 .split_id = u->split_id,
                                 .state = u->state,
                                 .flags = u->flags,
                                 .block = u->block.len ? blocks : 0,
                                 .size = u->block.len};
        buf_put(b, &out, sizeof out);
        blocks += padded(u->block.len);
    }
}

/* Writes the names. An invalid name from a damaged cache file stays invalid. */
static void put_names(struct buf *b, const struct symbol_index *x)
{
    uint64_t at = 0;
    for (size_t i = 1; i <= index_name_count(x); i++) {
        struct index_name name;
        struct cached_name out = {.at = UINT64_MAX};
        if (index_name_get(x, (uint32_t)i, &name)) {
            bool same = name.function.p == name.linkage.p || name.function.len >= CACHED_PLAIN;
            out = (struct cached_name){at, (uint32_t)name.linkage.len,
                                       same ? 0 : (uint32_t)name.function.len};
            at += name.linkage.len + 1 + (same ? 0 : name.function.len + 1);
            if (name.plain)
                out.function_len = CACHED_PLAIN;
        }
        buf_put(b, &out, sizeof out);
    }
}

static void put_texts(struct buf *b, const struct symbol_index *x)
{
    for (size_t i = 1; i <= index_name_count(x); i++) {
        struct index_name name;
        if (!index_name_get(x, (uint32_t)i, &name))
            continue;
        buf_put(b, name.linkage.p, name.linkage.len);
        buf_u8(b, 0);
        if (name.function.p == name.linkage.p || name.function.len >= CACHED_PLAIN)
            continue;
        buf_put(b, name.function.p, name.function.len);
        buf_u8(b, 0);
    }
}

/* Writes everything but the blocks, whose offset is known afterwards. */
static void put_head(struct buf *b, const struct symbol_index *x, struct view key)
{
    struct cache_header h = {.version = CACHE_VERSION,
                             .key_size = (uint32_t)key.len,
                             .n_units = (uint32_t)x->units.len,
                             .n_ranges = (uint32_t)x->ranges.len,
                             .n_names = (uint32_t)index_name_count(x),
                             .n_symbols = (uint32_t)x->n_symbols};
    memcpy(h.magic, INDEX_CACHE_MAGIC, sizeof h.magic);
    buf_put(b, &h, sizeof h);
    buf_put(b, key.p, key.len);
    pad(b);
    size_t units = b->len;
    put_units(b, x, 0);
    buf_put(b, x->ranges.at, x->ranges.len * sizeof *x->ranges.at);
    put_names(b, x);
    buf_put(b, x->symbols, x->n_symbols * sizeof *x->symbols);
    pad(b);
    h.texts = b->len;
    put_texts(b, x);
    pad(b);
    h.blocks = h.size = b->len;
    for (size_t i = 0; i < x->units.len; i++)
        h.size += padded(x->units.at[i].block.len);
    if (b->failed)
        return;
    b->len = units;
    put_units(b, x, h.blocks);
    b->len = (size_t)h.blocks;
    h.hash = XXH3_64bits(b->data + sizeof h, (size_t)h.texts - sizeof h);
    memcpy(b->data, &h, sizeof h);
}

static int write_all(int fd, const void *bytes, size_t n, struct err *e)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t written = write(fd, p, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return err_errno(e, ERR_OUTPUT, "the cache of symbols cannot be written");
        p += written;
        n -= (size_t)written;
    }
    return 0;
}

static int write_blocks(const struct symbol_index *x, int fd, struct err *e)
{
    static const char zeroes[8];
    for (size_t i = 0; i < x->units.len; i++) {
        struct view v = x->units.at[i].block;
        if (write_all(fd, v.p, v.len, e) != 0 ||
            write_all(fd, zeroes, padded(v.len) - v.len, e) != 0)
            return -1;
    }
    return 0;
}

static bool is_loaded_from(const struct symbol_index *x, int fd)
{
    struct stat st;
    return x->mapped && fstat(fd, &st) == 0 && st.st_dev == x->mapped_device &&
           st.st_ino == x->mapped_inode;
}

int symbol_index_save(const struct symbol_index *x, int fd, struct view key, struct err *e)
{
    struct buf head = {0};
    int status = -1;
    if (key.len > KEY_MAX)
        return err_set(e, ERR_OUTPUT, "a key for the cache of symbols of %zu bytes", key.len);
    if (is_loaded_from(x, fd))
        return err_set(e, ERR_OUTPUT, "a cache of symbols cannot be written over while it is used");
    put_head(&head, x, key);
    if (head.failed)
        err_no_memory(e, "the cache of symbols");
    else if (lseek(fd, 0, SEEK_SET) != 0 || ftruncate(fd, 0) != 0)
        err_errno(e, ERR_OUTPUT, "the cache of symbols cannot be written");
    else if (write_all(fd, head.data, head.len, e) == 0)
        status = write_blocks(x, fd, e);
    buf_release(&head);
    return status;
}

/* ---- loading */

static int bad_file(struct err *e, const char *why)
{
    return err_set(e, ERR_INPUT, "not a cache of these symbols: %s", why);
}

static int map_file(struct symbol_index *x, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return bad_file(e, "it is no file");
    if (st.st_size < (off_t)sizeof(struct cache_header))
        return bad_file(e, "it is too short");
    /* Name numbers are filled in, in private copies of the pages. */
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_errno(e, ERR_INPUT, "the cache of symbols cannot be read");
    x->mapped = p;
    x->mapped_size = (size_t)st.st_size;
    x->mapped_device = st.st_dev;
    x->mapped_inode = st.st_ino;
    return 0;
}

/* Computes the offsets of the parts; false if they exceed the file. */
static bool find_parts(const struct cache_header *h, struct parts *p)
{
    p->units = sizeof *h + padded(h->key_size);
    p->ranges = p->units + (size_t)h->n_units * sizeof(struct cache_unit);
    p->names = p->ranges + (size_t)h->n_ranges * sizeof(struct index_range);
    p->symbols = p->names + (size_t)h->n_names * sizeof(struct cached_name);
    size_t end = p->symbols + (size_t)h->n_symbols * sizeof(uint32_t);
    return end <= h->texts && h->texts <= h->blocks && h->blocks <= h->size;
}

static int check_header(const struct cache_header *h, const struct symbol_index *x, struct view key,
                        struct err *e)
{
    const char *bytes = x->mapped;
    struct parts parts;
    if (memcmp(h->magic, INDEX_CACHE_MAGIC, sizeof h->magic) != 0 || h->version != CACHE_VERSION)
        return bad_file(e, "it has another version");
    if (h->size != x->mapped_size)
        return bad_file(e, "it is cut short");
    if (h->key_size > KEY_MAX || !find_parts(h, &parts))
        return bad_file(e, "its header contradicts itself");
    if (!view_equal(key, (struct view){bytes + sizeof *h, h->key_size}))
        return bad_file(e, "it is of another image");
    if (h->hash != XXH3_64bits(bytes + sizeof *h, (size_t)h->texts - sizeof *h))
        return bad_file(e, "it is damaged");
    return 0;
}

static int load_units(struct symbol_index *x, const struct cache_header *h, size_t at,
                      struct err *e)
{
    const char *bytes = x->mapped;
    if (!vec_reserve(&x->units, (size_t)h->n_units + 1))
        return err_no_memory(e, "the cache of symbols");
    for (uint32_t i = 0; i < h->n_units; i++) {
        struct cache_unit in;
        memcpy(&in, bytes + at + i * sizeof in, sizeof in);
        struct index_unit out = {.root = in.root, .split_id = in.split_id, .flags = in.flags};
        if (in.size > 0) {
            struct block unused;
            if (in.block % 8 != 0 || in.block < h->blocks || in.block > h->size ||
                in.size > h->size - in.block)
                return bad_file(e, "a unit lies outside of it");
            out.block = (struct view){bytes + in.block, (size_t)in.size};
            if (!block_open(&unused, out.block))
                return bad_file(e, "a unit contradicts itself");
            out.state = in.state == UNIT_PARTLY ? UNIT_PARTLY : UNIT_BUILT;
        }
        x->units.at[x->units.len++] = out;
    }
    return 0;
}

static int load_ranges(struct symbol_index *x, const struct cache_header *h, size_t at,
                       struct err *e)
{
    const char *bytes = x->mapped;
    uint64_t end = 0;
    if (!vec_reserve(&x->ranges, (size_t)h->n_ranges + 1))
        return err_no_memory(e, "the cache of symbols");
    for (uint32_t i = 0; i < h->n_ranges; i++) {
        struct index_range r;
        memcpy(&r, bytes + at + i * sizeof r, sizeof r);
        if (r.low < end || r.high <= r.low || r.unit >= h->n_units)
            return bad_file(e, "its ranges are not in order");
        end = r.high;
        x->ranges.at[x->ranges.len++] = r;
    }
    return 0;
}

/* The names are used in place. */
static void load_names(struct symbol_index *x, const struct cache_header *h, const struct parts *p)
{
    char *bytes = x->mapped;
    x->cached = (const void *)(bytes + p->names);
    x->n_cached = h->n_names;
    x->cached_texts = (struct view){bytes + h->texts, (size_t)(h->blocks - h->texts)};
    x->symbols = (void *)(bytes + p->symbols);
    x->n_symbols = h->n_symbols;
}

int symbol_index_load(struct symbol_index **out, int fd, struct view key, struct err *e)
{
    struct cache_header h;
    struct parts parts;
    struct symbol_index *x = calloc(1, sizeof *x);
    if (!x)
        return err_no_memory(e, "the cache of symbols");
    int status = map_file(x, fd, e);
    if (status == 0) {
        memcpy(&h, x->mapped, sizeof h);
        status = check_header(&h, x, key, e);
    }
    if (status == 0) {
        find_parts(&h, &parts);
        load_names(x, &h, &parts);
        status = load_units(x, &h, parts.units, e);
    }
    if (status == 0)
        status = load_ranges(x, &h, parts.ranges, e);
    if (status != 0) {
        symbol_index_free(x);
        return -1;
    }
    *out = x;
    return 0;
}
