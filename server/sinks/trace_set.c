#include "server/sinks/trace_set.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "analysis/tables/fleet.h"
#include "report/export/parquet_read.h"

#define ID_LENGTH 32u

void trace_set_release(struct trace_set *s)
{
    map_release(&s->entries);
    vec_release(&s->at);
}

/* The entry's key: of the id's own, or one behind it that another id does not have. */
static uint64_t *find(const struct trace_set *s, struct view id, uint64_t *key, uint64_t *low)
{
    XXH128_hash_t hash = XXH3_128bits(id.p, id.len);
    uint64_t *index;
    *low = hash.low64;
    for (*key = hash.high64; (index = map_find(&s->entries, *key)); ++*key) {
        struct trace_entry *entry = &s->at.at[*index];
        if (entry->low == hash.low64)
            return &entry->number;
    }
    return NULL;
}

uint64_t *trace_set_find(const struct trace_set *s, struct view id)
{
    uint64_t key, low;
    return find(s, id, &key, &low);
}

uint64_t *trace_set_add(struct trace_set *s, struct view id, struct err *e)
{
    uint64_t key, low;
    uint64_t *number = find(s, id, &key, &low);
    if (number)
        return number;
    uint64_t *index = vec_reserve(&s->at, s->at.len + 1) ? map_add(&s->entries, key, NULL) : NULL;
    if (!index) {
        err_no_memory(e, "traces");
        return NULL;
    }
    *index = s->at.len;
    s->at.at[s->at.len] = (struct trace_entry){.low = low};
    return &s->at.at[s->at.len++].number;
}

bool trace_file_name(const char *name, struct view *id)
{
    *id = (struct view){name, strspn(name, "0123456789abcdef")};
    return id->len == ID_LENGTH && strcmp(name + id->len, ".parquet") == 0;
}

int table_file_read(const char *path, const struct table *table, unsigned width, table_row *each,
                    void *ctx, struct err *e)
{
    struct cell cells[TABLE_WIDTH_MAX];
    struct parquet_reader *r = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO has no size to read */
    if (fd < 0)
        return err_errno(e, ERR_INPUT, "cannot read %s", path);
    struct err own = {0};
    int row = 1;
    int status = 0;
    enum parquet_opened opened = parquet_read_open(&r, fd, table, width, &own);
    while (opened == PARQUET_OPEN && status == 0 && (row = parquet_read_row(r, cells, &own)) > 0)
        status = each(ctx, cells, e);
    parquet_read_free(r);
    close(fd);
    if (opened == PARQUET_FAILED || row < 0) {
        *e = own;
        return err_prefix(e, "%s", path);
    }
    return status == 0 && opened == PARQUET_OTHER_COLUMNS ? 1 : status;
}

static int add_trace(void *ctx, const struct cell *cells, struct err *e)
{
    return trace_set_add(ctx, cells[FLEET_TRACE].text, e) ? 0 : -1;
}

int trace_set_read(struct trace_set *s, const char *path, struct err *e)
{
    return table_file_read(path, fleet_table(FLEET_TABLE_TRACES), FLEET_TRACE + 1, add_trace, s, e);
}
