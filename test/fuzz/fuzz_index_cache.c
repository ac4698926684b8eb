/*
 * Any bytes as a cache file of an index: it is refused, or answers about any address without
 * reading outside of the file; and what was loaded can be saved and loaded again, with the same
 * answers. The first byte chooses whether the hash of the head is made right first, since it would
 * keep most damage from being looked at.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "symbols/index/index.h"

#define FRAMES 16u
#define HASH_AT 56u /* in the header */
#define TEXTS_AT 32u
#define HEADER 64u
#define KEY ((struct view){"fuzz", 4})
#define ADDRESSES 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void make_right(uint8_t *bytes, size_t size)
{
    if (size < HEADER)
        return;
    uint64_t texts = load_u64(bytes + TEXTS_AT);
    if (texts >= HEADER && texts <= size)
        store_u64(bytes + HASH_AT, XXH3_64bits(bytes + HEADER, (size_t)texts - HEADER));
}

static uint64_t hash_of(struct view v)
{
    return XXH3_64bits(v.p ? v.p : "", v.len);
}

static uint64_t ask(struct symbol_index *x, uint64_t address)
{
    struct symbol_frame f[FRAMES];
    uint64_t sum = 0;
    size_t n;
    if (!symbol_index_lookup(x, address, f, FRAMES, &n))
        return 0;
    check(symbol_index_covers(x, address) && n > 0);
    for (size_t i = 0; i < n && i < FRAMES; i++)
        sum = sum * 31 + (hash_of(f[i].function) ^ hash_of(f[i].linkage) ^ hash_of(f[i].file) ^
                          f[i].line ^ f[i].column);
    return sum;
}

static void round_trip(struct symbol_index *x)
{
    struct symbol_index *again;
    struct err e = {0};
    uint64_t answers[ADDRESSES];
    int fd = memfd_create("again", MFD_CLOEXEC);
    check(fd >= 0);
    for (uint64_t i = 0; i < ADDRESSES; i++)
        answers[i] = ask(x, 0x401000 + i * 8);
    ask(x, 0);
    ask(x, UINT64_MAX);
    check(symbol_index_save(x, fd, KEY, &e) == 0);
    if (symbol_index_load(&again, fd, KEY, &e) != 0)
        abort();
    for (uint64_t i = 0; i < ADDRESSES; i++)
        check(answers[i] == ask(again, 0x401000 + i * 8));
    symbol_index_free(again);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct symbol_index *x;
    struct err e = {0};
    if (size < 1)
        return 0;
    uint8_t *copy = malloc(size);
    int fd = memfd_create("cache", MFD_CLOEXEC);
    check(copy && fd >= 0);
    memcpy(copy, data + 1, size - 1);
    if (data[0] & 1)
        make_right(copy, size - 1);
    check(write(fd, copy, size - 1) == (ssize_t)(size - 1));
    if (symbol_index_load(&x, fd, KEY, &e) == 0) {
        round_trip(x);
        symbol_index_free(x);
    } else {
        check(e.code == ERR_INPUT && e.text[0]);
    }
    free(copy);
    close(fd);
    return 0;
}
