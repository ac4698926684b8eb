#include "analysis/runs/run_figures.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"

/* ---- names */

static int keep(struct run_figures *f, struct view text, struct view *kept, struct err *e)
{
    char *copy = strndup(text.p ? text.p : "", text.len);
    if (!copy || !vec_push(&f->texts, copy)) {
        free(copy);
        return err_no_memory(e, "names");
    }
    *kept = (struct view){copy, strlen(copy)};
    return 0;
}

static int begin(struct run_figures *f, const char *name, struct view program, struct err *e)
{
    *f = (struct run_figures){.name = strdup(name),
                              .program = strndup(program.p ? program.p : "", program.len)};
    return f->name && f->program ? 0 : err_no_memory(e, "a run");
}

void run_figures_release(struct run_figures *f)
{
    for (size_t i = 0; i < f->texts.len; i++)
        free(f->texts.at[i]);
    vec_release(&f->texts);
    vec_release(&f->summary.pools);
    vec_release(&f->summary.sites);
    vec_release(&f->summary.faults);
    buf_release(&f->summary.verdict);
    free(f->name);
    free(f->program);
    *f = (struct run_figures){0};
}

/* ---- of a summary */

static int add_pool(struct run_figures *f, struct summary_pool p, struct err *e)
{
    if (keep(f, p.name, &p.name, e) != 0)
        return -1;
    p.first_key = p.key_count = 0;
    return vec_push(&f->summary.pools, p) ? 0 : err_no_memory(e, "pools");
}

static int add_site(struct run_figures *f, const struct summary_row *from, struct err *e)
{
    struct summary_row r = {.pool = from->pool,
                            .frame = {.line = from->frame.line},
                            .no_callstack = from->no_callstack,
                            .permanent = from->permanent,
                            .figures = from->figures,
                            .resident_bytes = from->resident_bytes};
    if (keep(f, from->frame.function, &r.frame.function, e) != 0 ||
        keep(f, from->frame.file, &r.frame.file, e) != 0 ||
        keep(f, from->frame.image, &r.frame.image, e) != 0)
        return -1;
    return vec_push(&f->summary.sites, r) ? 0 : err_no_memory(e, "sites");
}

static int add_fault(struct run_figures *f, const struct summary_fault *from, struct err *e)
{
    struct summary_fault one = {.count = from->count, .least = from->least};
    if (keep(f, from->pool, &one.pool, e) != 0)
        return -1;
    return vec_push(&f->summary.faults, one) ? 0 : err_no_memory(e, "memory faults");
}

static int take(struct run_figures *f, const struct summary *s, struct err *e)
{
    f->summary.empty = s->empty;
    f->summary.has_look = s->has_look;
    f->summary.look_bytes = s->look_bytes;
    f->summary.has_resident = s->has_resident;
    f->summary.permanent = s->permanent;
    f->summary.permanent_bytes = s->permanent_bytes;
    buf_put(&f->summary.verdict, s->verdict.data, s->verdict.len);
    for (size_t i = 0; i < s->pools.len; i++) {
        if (add_pool(f, s->pools.at[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; i < s->sites.len; i++) {
        if (add_site(f, &s->sites.at[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; i < s->faults.len; i++) {
        if (add_fault(f, &s->faults.at[i], e) != 0)
            return -1;
    }
    return f->summary.verdict.failed ? err_no_memory(e, "a run") : 0;
}

int run_figures_take(struct run_figures *f, const char *name, const struct summary *s,
                     struct err *e)
{
    struct view program =
        s->trace ? strings_get(&s->trace->strings, s->trace->facts.program) : (struct view){"", 0};
    int status = begin(f, name, program, e);
    if (status == 0)
        status = take(f, s, e);
    if (status != 0)
        run_figures_release(f);
    return status;
}

/* ---- of JSON */

struct reading {
    struct run_figures *f;
    const char *list; /* "pools", … and the element in it, for errors */
    size_t number;
    struct err *e;
};

static int wrong(const struct reading *r, const char *member, const char *wanted)
{
    return err_set(r->e, ERR_INPUT, "%.200s: %s[%zu].%s is no %s", r->f->name, r->list, r->number,
                   member, wanted);
}

/* A count; beyond 2^63 - 1 it is written as a real. */
static int take_count(const struct reading *r, const json_t *from, const char *member,
                      uint64_t *out)
{
    const json_t *v = json_object_get(from, member);
    double real = json_is_real(v) ? json_real_value(v) : -1;
    if (json_is_integer(v) && json_integer_value(v) >= 0)
        *out = (uint64_t)json_integer_value(v);
    else if (real >= 0)
        *out = real < 0x1p64 ? (uint64_t)real : UINT64_MAX;
    else
        return wrong(r, member, "count");
    return 0;
}

/* `optional`: null is the empty text. */
static int take_text(const struct reading *r, const json_t *from, const char *member, bool optional,
                     struct view *out)
{
    const json_t *v = json_object_get(from, member);
    struct view text = {"", 0};
    if (json_is_string(v))
        text = (struct view){json_string_value(v), json_string_length(v)};
    else if (!optional || !json_is_null(v))
        return wrong(r, member, "text");
    return keep(r->f, text, out, r->e);
}

struct member {
    const char *name;
    size_t offset;
};

static int take_counts(const struct reading *r, const json_t *from, const struct member *members,
                       size_t n, void *to)
{
    for (size_t i = 0; i < n; i++) {
        if (take_count(r, from, members[i].name,
                       (uint64_t *)(void *)((char *)to + members[i].offset)) != 0)
            return -1;
    }
    return 0;
}

#define LENGTH(A) (sizeof(A) / sizeof *(A))

static int read_pool(struct reading *r, const json_t *v)
{
    static const struct member members[] = {
        {"allocations", offsetof(struct summary_pool, figures.allocations)},
        {"frees", offsetof(struct summary_pool, figures.frees)},
        {"live_allocations", offsetof(struct summary_pool, figures.live)},
        {"live_bytes", offsetof(struct summary_pool, figures.live_bytes)},
        {"permanent_allocations", offsetof(struct summary_pool, permanent)},
        {"permanent_bytes", offsetof(struct summary_pool, permanent_bytes)},
        {"peak_bytes", offsetof(struct summary_pool, figures.peak_bytes)},
        {"total_bytes", offsetof(struct summary_pool, figures.total_bytes)},
        {"temporary_allocations", offsetof(struct summary_pool, figures.temporary)},
    };
    struct summary_pool p = {0};
    const json_t *counted = json_object_get(v, "counted");
    if (!json_is_boolean(counted))
        return wrong(r, "counted", "boolean");
    p.sum = json_is_true(counted) ? POOL_COUNTS : POOL_CONTAINED;
    if (take_text(r, v, "name", false, &p.name) != 0 ||
        take_counts(r, v, members, LENGTH(members), &p) != 0)
        return -1;
    if (p.permanent > p.figures.live || p.permanent_bytes > p.figures.live_bytes)
        return wrong(r, "permanent_bytes", "part of what is live");
    if (p.sum == POOL_COUNTS) {
        r->f->summary.permanent += p.permanent;
        r->f->summary.permanent_bytes += p.permanent_bytes;
    }
    return vec_push(&r->f->summary.pools, p) ? 0 : err_no_memory(r->e, "pools");
}

static int read_site(struct reading *r, const json_t *v)
{
    static const struct member members[] = {
        {"count", offsetof(struct counter, count)},
        {"bytes", offsetof(struct counter, bytes)},
        {"live_count", offsetof(struct counter, live_count)},
        {"live_bytes", offsetof(struct counter, live_bytes)},
        {"peak_bytes", offsetof(struct counter, peak_bytes)},
        {"at_peak_bytes", offsetof(struct counter, at_peak_bytes)},
        {"temporary", offsetof(struct counter, temporary)},
        {"largest", offsetof(struct counter, largest)},
    };
    struct summary_row row = {0};
    uint64_t pool, permanent, line;
    if (take_count(r, v, "pool", &pool) != 0 || take_count(r, v, "permanent", &permanent) != 0 ||
        take_count(r, v, "line", &line) != 0 ||
        take_text(r, v, "function", true, &row.frame.function) != 0 ||
        take_text(r, v, "file", true, &row.frame.file) != 0 ||
        take_text(r, v, "image", true, &row.frame.image) != 0 ||
        take_counts(r, v, members, LENGTH(members), &row.figures) != 0)
        return -1;
    if (r->f->summary.has_resident && take_count(r, v, "resident_bytes", &row.resident_bytes) != 0)
        return -1;
    if (pool >= r->f->summary.pools.len)
        return wrong(r, "pool", "number of a pool");
    row.pool = (uint32_t)pool;
    row.permanent = permanent != 0;
    row.frame.line = line <= UINT32_MAX ? (uint32_t)line : 0;
    row.no_callstack = !row.frame.function.len && !row.frame.file.len && !row.frame.image.len;
    return vec_push(&r->f->summary.sites, row) ? 0 : err_no_memory(r->e, "sites");
}

static int read_fault(struct reading *r, const json_t *v)
{
    struct summary_fault one = {0};
    if (take_text(r, v, "pool", false, &one.pool) != 0 ||
        take_count(r, v, "count", &one.count) != 0)
        return -1;
    return vec_push(&r->f->summary.faults, one) ? 0 : err_no_memory(r->e, "memory faults");
}

static int read_list(struct reading *r, const json_t *document, const char *name,
                     int (*read)(struct reading *r, const json_t *v))
{
    const json_t *list = json_object_get(document, name);
    r->list = name;
    if (!json_is_array(list))
        return err_set(r->e, ERR_INPUT, "%.200s: %s is no list", r->f->name, name);
    for (r->number = 0; r->number < json_array_size(list); r->number++) {
        if (read(r, json_array_get(list, r->number)) != 0)
            return -1;
    }
    return 0;
}

/* What earlier releases did not write is unknown. */
static int read_look(struct reading *r, const json_t *document)
{
    const json_t *bytes = json_object_get(document, "resident_bytes");
    struct summary *s = &r->f->summary;
    s->has_look = bytes && !json_is_null(bytes);
    s->has_resident = json_is_true(json_object_get(document, "sites_have_resident"));
    r->list = "document";
    return s->has_look ? take_count(r, document, "resident_bytes", &s->look_bytes) : 0;
}

static int read_document(struct run_figures *f, const json_t *document, struct err *e)
{
    struct reading r = {.f = f, .e = e};
    const char *schema = json_string_value(json_object_get(document, "schema"));
    const char *verdict = json_string_value(json_object_get(document, "verdict"));
    const json_t *empty = json_object_get(document, "empty");
    if (!schema || strcmp(schema, "tidemark.figures/1") != 0)
        return err_set(e, ERR_INPUT,
                       "%.200s: not the figures of a run, which `tidemark baseline` "
                       "writes",
                       f->name);
    if (!verdict || !json_is_boolean(empty))
        return err_set(e, ERR_INPUT, "%.200s: verdict or empty is missing", f->name);
    f->summary.empty = json_is_true(empty);
    buf_puts(&f->summary.verdict, verdict);
    if (f->summary.verdict.failed)
        return err_no_memory(e, "a run");
    if (read_look(&r, document) != 0 || read_list(&r, document, "pools", read_pool) != 0 ||
        read_list(&r, document, "sites", read_site) != 0)
        return -1;
    return read_list(&r, document, "faults", read_fault);
}

bool run_figures_is_json(struct view text)
{
    size_t i = 0;
    while (i < text.len && strchr(" \t\r\n", text.p[i]) && text.p[i])
        i++;
    return i < text.len && text.p[i] == '{';
}

int run_figures_read(struct run_figures *f, const char *name, struct view text, struct err *e)
{
    json_t *document = NULL;
    enum json_outcome outcome = json_read(text, false, &document);
    *f = (struct run_figures){0};
    if (outcome == JSON_NO_MEMORY)
        return err_no_memory(e, "the figures of a run");
    if (outcome != JSON_READ)
        return err_set(e, ERR_INPUT, "%.200s: not valid JSON", name);
    const char *program = json_string_value(json_object_get(document, "program"));
    int status = begin(f, name, view_of(program ? program : ""), e);
    if (status == 0)
        status = read_document(f, document, e);
    json_decref(document);
    if (status != 0)
        run_figures_release(f);
    return status;
}
