/*
 * Any bytes as what is appended to a trace. The first byte chooses: as a file of its own, with the
 * hashes of its end made right or not, as figures, given to a small trace that they fit or not, or
 * as times of its two pools. Either they are refused, or reading them and making use of them stays
 * inside of what is there, and what was read can be written and read again.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "analysis/figures/stored_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/questions/leaks.h"
#include "base/bytes.h"
#include "trace/file/appendix.h"

#define STACKS 24u
#define TRACE_BYTES_AT 23u /* in the end */
#define LENGTH_AT 31u
#define TRACE_HASH_AT 39u
#define HASH_AT 47u
#define PIECE 65512u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* ---- a file */

/* Makes hashes right of a file whose end tells of one piece that is there. */
static void make_right(uint8_t *bytes, size_t size)
{
    if (size < APPENDIX_END)
        return;
    uint8_t *end = bytes + size - APPENDIX_END;
    uint64_t trace = load_u64(end + TRACE_BYTES_AT), len = load_u64(end + LENGTH_AT);
    if (trace > size || len > size - trace || len > PIECE || trace + 7 + len > size)
        return;
    store_u64(end + TRACE_HASH_AT, XXH3_64bits(bytes, (size_t)trace));
    store_u64(end + HASH_AT, XXH3_64bits(bytes + trace + (len ? 7 : 0), (size_t)len));
}

static void read_file(const uint8_t *data, size_t size, bool right)
{
    struct appendix a;
    struct err e = {0};
    uint8_t *copy = malloc(size + 1);
    int fd = memfd_create("trace", MFD_CLOEXEC);
    check(copy && fd >= 0);
    memcpy(copy, data, size);
    if (right)
        make_right(copy, size);
    check(write(fd, copy, size) == (ssize_t)size);
    int found = appendix_read(fd, &a, &e);
    check(found >= 0);
    if (found) {
        check(a.trace_bytes + a.len < size);
        check(ftruncate(fd, (off_t)a.trace_bytes) == 0);
        const struct view content = {(const char *)a.content, a.len};
        check(appendix_write(fd, content, &e) == 0);
        check(lseek(fd, 0, SEEK_END) == (off_t)size);
    }
    free(a.content);
    free(copy);
    close(fd);
}

/* ---- figures */

static void make_trace(struct trace *t)
{
    struct err e = {0};
    check(trace_init(t, NULL, &e) == 0);
    for (uint64_t i = 1; i <= STACKS; i++) {
        char name[16];
        bool fresh;
        uint32_t id;
        snprintf(name, sizeof name, "f%u", (unsigned)i / 3);
        struct rec_inline_frame in = {.function = strings_intern(&t->strings, view_of(name), &e)};
        check(callstacks_resolve(&t->callstacks, i * 16, in.function, &in, 1, &e) == 0);
        check(callstacks_intern(&t->callstacks, &i, 1, &id, &fresh, &e) == 0);
    }
}

static void use(const struct stored_figures *f)
{
    struct trace t;
    struct summary s;
    struct err e = {0};
    const struct summary_options options = {.by = GROUP_SITE, .stored = f};
    uint32_t sites[STACKS + 1];
    make_trace(&t);
    for (uint32_t i = 0; i <= STACKS; i++)
        sites[i] = i / 3;
    bool fit = stored_figures_fit(f, &t, &(struct site_map){sites, STACKS + 1});
    if (stored_figures_make_pools(f, &t, &e) == 0 && fit) {
        if (summary_build(&s, &t, &options, &e) == 0)
            summary_release(&s);
        else
            check(e.code == ERR_INPUT);
    }
    trace_release(&t);
}

static void read_figures(const uint8_t *data, size_t size)
{
    struct stored_figures f, again;
    struct buf bytes = {0}, twice = {0};
    struct err e = {0};
    const struct view in = {(const char *)data, size};
    if (stored_figures_decode(&f, in, &e) != 0) {
        check(e.code == ERR_INPUT && e.text[0]);
        return;
    }
    use(&f);
    stored_figures_encode(&f, &bytes);
    check(stored_figures_decode(&again, buf_view(&bytes), &e) == 0);
    stored_figures_encode(&again, &twice);
    check(bytes.len == twice.len && memcmp(bytes.data, twice.data, bytes.len) == 0);
    stored_figures_release(&f);
    stored_figures_release(&again);
    buf_release(&bytes);
    buf_release(&twice);
}

/* ---- times */

static void read_times(const uint8_t *data, size_t size)
{
    struct trace t;
    struct err e = {0};
    struct selection s;
    struct leaks l;
    const struct selection_options all = {0};
    uint32_t number;
    make_trace(&t);
    for (unsigned i = 0; i < 2; i++) {
        check(memory_pool(&t.memory, 16 * i, &number, &e) == 0);
        t.memory.pools.at[number]->totals.allocations = 1;
    }
    if (stored_times_take(&t, (struct view){(const char *)data, size}, &e) == 0) {
        check(selection_init(&s, &t, &all, &e) == 0);
        check(leaks_build(&l, &s, NULL, NULL, &e) == 0);
        check(l.begin <= l.end);
        leaks_release(&l);
        selection_release(&s);
    } else {
        check(e.code == ERR_INPUT && e.text[0]);
    }
    trace_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] == 'T') {
        read_times(data + 1, size - 1);
        return 0;
    }
    if (data[0] % 3 == 0)
        read_figures(data + 1, size - 1);
    else
        read_file(data + 1, size - 1, data[0] % 3 == 1);
    return 0;
}
