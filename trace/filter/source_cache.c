#include "trace/filter/source_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/vec.h"
#include "trace/file/record_takers.h"
#include "trace/filter/name_table.h"

struct source_cache {
    struct record_sink next;
    struct name_table table;
    uint64_t older_than;   /* unix seconds */
    struct strings named;  /* distinct paths */
    struct strings framed; /* paths in frames of call stacks */
    bool has_symbols;
    struct strings held; /* paths already in the trace */
    VEC(uint32_t) found; /* numbers in `named` */
    uint64_t left;       /* second pass: the trace's remaining files */
    struct buf bytes;
};

int source_cache_open(struct source_cache **out, struct err *e)
{
    struct source_cache *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return err_no_memory(e, "source files");
    name_table_init(&s->table);
    strings_init(&s->named);
    strings_init(&s->framed);
    strings_init(&s->held);
    strings_use(&s->named, &s->table.pageable);
    strings_use(&s->framed, &s->table.pageable);
    strings_use(&s->held, &s->table.pageable);
    return 0;
}

void source_cache_free(struct source_cache *s)
{
    if (!s)
        return;
    strings_release(&s->named);
    strings_release(&s->framed);
    strings_release(&s->held);
    name_table_release(&s->table);
    vec_release(&s->found);
    buf_release(&s->bytes);
    free(s);
}

/* ---- first pass */

static int name_file(struct strings *to, struct view path, struct err *e)
{
    /* A name with a NUL inside cannot be a file. */
    if (path.len == 0 || memchr(path.p, 0, path.len))
        return 0;
    return strings_intern(to, path, e) ? 0 : -1;
}

TAKE_EACH(name_frame, struct source_cache *s, callstack_frame, f)
{
    for (unsigned i = 0; i < f->n; i++) {
        struct view path = strings_get(&s->table.strings, f->inlines[i].file);
        /* Unknown paths are called "[unknown]". */
        if (path.len && path.p[0] == '/' && name_file(&s->framed, path, e) != 0)
            return -1;
    }
    return 0;
}

TAKE_EACH(take_header, struct source_cache *s, header, h)
{
    s->older_than = h->executable_time ? h->executable_time : h->capture_time;
    return 0;
}

TAKE_EACH(name_location, struct source_cache *s, source_location, l)
{
    return name_file(&s->named, name_table_text(&s->table, &l->file), e);
}

TAKE_EACH(name_symbol, struct source_cache *s, symbol, y)
{
    s->has_symbols = true;
    return name_file(&s->named, strings_get(&s->table.strings, y->file), e);
}

TAKE_EACH(hold_file, struct source_cache *s, source_file, f)
{
    return strings_intern(&s->held, f->path, e) ? 0 : -1;
}

static const record_takers collectors = {
    [REC_HEADER] = take_header,
    [REC_SOURCE_LOCATION] = name_location,
    [REC_SOURCE_LOCATION_PAYLOAD] = name_location,
    [REC_CALLSTACK_FRAME] = name_frame,
    [REC_SYMBOL] = name_symbol,
    [REC_SOURCE_FILE] = hold_file,
};

static int collect_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct source_cache *s = ctx;
    return collectors[type] ? collectors[type](s, recs, n, e)
                            : name_table_put(&s->table, type, recs, n, e);
}

struct record_sink source_cache_collect_sink(struct source_cache *s)
{
    return (struct record_sink){.ctx = s, .put = collect_put};
}

void source_cache_wanted(bool *wanted)
{
    name_table_wanted(wanted);
    records_wanted(collectors, wanted);
}

/* ---- between the passes */

/* Opens an eligible file; -1 when there is none. Never blocks, as a named pipe would. */
static int open_valid(const struct source_cache *s, const char *path, uint64_t *size, bool *newer)
{
    struct stat st;
    *newer = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *size = (uint64_t)st.st_size;
        *newer = (uint64_t)st.st_mtime >= s->older_than;
        if (!*newer)
            return fd;
    }
    close(fd);
    return -1;
}

int source_cache_scan(struct source_cache *s, struct source_cache_found *found, struct err *e)
{
    *found = (struct source_cache_found){0};
    size_t held = s->held.list.len;
    for (uint32_t i = 1; !s->has_symbols && i <= s->framed.list.len; i++) {
        if (name_file(&s->named, strings_get(&s->framed, i), e) != 0)
            return -1;
    }
    for (uint32_t i = 1; i <= s->named.list.len; i++) {
        struct view path = strings_get(&s->named, i);
        uint64_t size;
        bool newer;
        /* If the path was present, interning adds nothing. */
        uint32_t number = strings_intern(&s->held, path, e);
        if (number == 0)
            return -1;
        found->held += number <= held;
        if (number <= held)
            continue;
        int fd = open_valid(s, path.p, &size, &newer);
        found->newer += newer;
        found->absent += fd < 0 && !newer;
        if (fd < 0)
            continue;
        close(fd);
        found->too_large += size > SOURCE_CACHE_FILE_MAX;
        if (size > SOURCE_CACHE_FILE_MAX)
            continue;
        if (!vec_push(&s->found, i))
            return err_no_memory(e, "source files");
        found->files++;
    }
    strings_release(&s->held);
    strings_init(&s->held);
    return 0;
}

/* ---- second pass */

static int read_file(struct source_cache *s, const char *path, struct err *e)
{
    uint64_t size = 0;
    bool newer;
    ssize_t got = 1;
    int fd = open_valid(s, path, &size, &newer);
    buf_clear(&s->bytes);
    while (fd >= 0 && got > 0 && s->bytes.len <= SOURCE_CACHE_FILE_MAX) {
        uint8_t *to = buf_reserve(&s->bytes, 65536);
        if (!to)
            break;
        got = read(fd, to, 65536);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            s->bytes.len += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (s->bytes.failed)
        return err_no_memory(e, "a source file");
    if (fd < 0 || got != 0)
        return err_set(e, ERR_INPUT, "source file %s: it changed or cannot be read", path);
    return 0;
}

static int put_found(struct source_cache *s, struct err *e)
{
    for (size_t i = 0; i < s->found.len; i++) {
        struct view path = strings_get(&s->named, s->found.at[i]);
        if (read_file(s, path.p, e) != 0)
            return -1;
        struct rec_source_file file = {path, {(const char *)s->bytes.data, s->bytes.len}};
        if (record_put(&s->next, REC_SOURCE_FILE, &file, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int cache_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct source_cache *s = ctx;
    if (type == REC_SOURCE_FILES) {
        s->left = ((const struct rec_count *)recs)->n;
        struct rec_count all = {s->left + s->found.len};
        if (record_put(&s->next, type, &all, 1, e) != 0)
            return -1;
        return s->left == 0 ? put_found(s, e) : 0;
    }
    if (record_put(&s->next, type, recs, n, e) != 0)
        return -1;
    return type == REC_SOURCE_FILE && --s->left == 0 ? put_found(s, e) : 0;
}

struct record_sink source_cache_sink(struct source_cache *s, const struct record_sink *next)
{
    s->next = *next;
    return (struct record_sink){.ctx = s, .put = cache_put};
}
