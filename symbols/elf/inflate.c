#include "symbols/elf/inflate.h"

#include <limits.h>
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* Memory limit of an .xz decoder; presets need up to 65 MiB. */
#define XZ_MEMORY ((uint64_t)128 << 20)

void inflated_release(struct inflated *i)
{
    if (i->bytes)
        munmap(i->bytes, i->mapped);
    *i = (struct inflated){0};
}

static int reserve(struct inflated *out, uint64_t size, struct err *e)
{
    void *p = MAP_FAILED;
    size_t mapped = size ? (size_t)size : 1;
    if (size <= SIZE_MAX / 2)
        p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (p == MAP_FAILED)
        return err_no_memory(e, "an inflated section");
    *out = (struct inflated){p, (size_t)size, mapped};
    return 0;
}

static size_t at_most_uint(size_t n)
{
    return n < UINT_MAX ? n : UINT_MAX;
}

static int inflate_zlib(struct inflated *out, struct view packed, struct err *e)
{
    z_stream z = {0};
    size_t in = packed.len, room = out->size;
    int status = inflateInit(&z);
    if (status != Z_OK)
        return err_no_memory(e, "a zlib decoder");
    z.next_in = (Bytef *)packed.p;
    z.next_out = out->bytes;
    while (status == Z_OK) {
        z.avail_in = (uInt)at_most_uint(in);
        z.avail_out = (uInt)at_most_uint(room);
        uInt in_before = z.avail_in, room_before = z.avail_out;
        status = inflate(&z, Z_NO_FLUSH);
        in -= in_before - z.avail_in;
        room -= room_before - z.avail_out;
    }
    inflateEnd(&z);
    if (status == Z_MEM_ERROR)
        return err_no_memory(e, "a zlib decoder");
    if (status != Z_STREAM_END)
        return err_set(e, ERR_INPUT, "zlib data is damaged, cut short or longer than stated");
    if (room > 0)
        return err_set(e, ERR_INPUT, "zlib data gives %zu bytes, %zu are stated", out->size - room,
                       out->size);
    return 0;
}

static int inflate_zstd(struct inflated *out, struct view packed, struct err *e)
{
    size_t got = ZSTD_decompress(out->bytes, out->size, packed.p, packed.len);
    if (ZSTD_isError(got))
        return err_set(e, ERR_INPUT, "zstd data cannot be inflated: %s", ZSTD_getErrorName(got));
    if (got != out->size)
        return err_set(e, ERR_INPUT, "zstd data gives %zu bytes, %zu are stated", got, out->size);
    return 0;
}

int inflate_exactly(struct inflated *out, enum inflate_method method, struct view packed,
                    uint64_t size, struct err *e)
{
    *out = (struct inflated){0};
    if (reserve(out, size, e) != 0)
        return -1;
    int status =
        method == INFLATE_ZLIB ? inflate_zlib(out, packed, e) : inflate_zstd(out, packed, e);
    if (status != 0)
        inflated_release(out);
    return status;
}

/* Unmaps the unused pages at the end, since limits on address space exist. */
static void give_back_rest(struct inflated *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = ((out->size ? out->size : 1) + page - 1) & ~(page - 1);
    if (used < out->mapped && munmap(out->bytes + used, out->mapped - used) == 0)
        out->mapped = used;
}

static int xz_error(lzma_ret status, uint64_t limit, struct err *e)
{
    switch (status) {
    case LZMA_MEM_ERROR:
        return err_no_memory(e, "an xz decoder");
    case LZMA_MEMLIMIT_ERROR:
        return err_set(e, ERR_INPUT, "xz data needs a larger window than is sane");
    case LZMA_OK:
        return err_set(e, ERR_INPUT, "xz data inflates to more than %llu bytes",
                       (unsigned long long)limit);
    default:
        return err_set(e, ERR_INPUT, "xz data is damaged or cut short");
    }
}

int inflate_xz(struct inflated *out, struct view packed, uint64_t limit, struct err *e)
{
    lzma_stream z = LZMA_STREAM_INIT;
    *out = (struct inflated){0};
    if (lzma_stream_decoder(&z, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return err_no_memory(e, "an xz decoder");
    int result = reserve(out, limit, e);
    if (result == 0) {
        z.next_in = (const uint8_t *)packed.p;
        z.avail_in = packed.len;
        z.next_out = out->bytes;
        z.avail_out = out->size;
        lzma_ret status = LZMA_OK;
        while (status == LZMA_OK && z.avail_out > 0)
            status = lzma_code(&z, LZMA_FINISH);
        out->size = (size_t)z.total_out;
        if (status != LZMA_STREAM_END)
            result = xz_error(status, limit, e);
        else
            give_back_rest(out);
    }
    lzma_end(&z);
    if (result != 0)
        inflated_release(out);
    return result;
}
