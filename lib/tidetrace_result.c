/* Shared by the results of all analyses. */

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lib/tidetrace_internal.h"

static struct tidetrace_result *result_new(const struct result_type *type, struct tidetrace *t,
                                           struct tidetrace *other, struct err *e)
{
    struct tidetrace_result *r = calloc(1, type->size);
    if (!r) {
        err_no_memory(e, "a result");
        return NULL;
    }
    r->type = type;
    r->traces[0] = t;
    r->traces[1] = other;
    for (size_t i = 0; i < 2; i++) {
        if (r->traces[i])
            lib_keep(r->traces[i]);
    }
    return r;
}

void tidetrace_result_free(struct tidetrace_result *result)
{
    if (!result)
        return;
    result->type->release(result);
    for (uint64_t i = 0; result->names && i < result->rows; i++)
        free((char *)result->names[i].data);
    free(result->names);
    selection_release(&result->selection);
    question_release(&result->question);
    for (size_t i = 0; i < 2; i++) {
        if (result->traces[i])
            lib_drop(result->traces[i]);
    }
    free(result);
}

int result_ask(const struct result_type *type, struct tidetrace *t, struct tidetrace *other,
               const void *options, struct tidetrace_result **result, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *result = NULL;
    struct tidetrace_result *r = result_new(type, t, other, &c.err);
    int status = r ? type->build(r, options, &c.err) : -1;
    if (status == 0)
        *result = r;
    else
        tidetrace_result_free(r);
    return call_end(&c, status);
}

uint64_t tidetrace_result_rows(const struct tidetrace_result *result)
{
    return result->rows;
}

int result_row(const struct tidetrace_result *r, const struct result_type *type, uint64_t row,
               struct err *e)
{
    if (r->type != type)
        return err_set(e, ERR_USAGE, "this result has rows of another kind");
    if (row >= r->rows)
        return err_set(e, ERR_USAGE, "there is no row %llu: the result has %llu",
                       (unsigned long long)row, (unsigned long long)r->rows);
    return 0;
}

int result_give(const struct result_type *type, struct tidetrace_result *r, uint64_t row, void *to,
                struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    int status = result_row(r, type, row, &c.err);
    return call_end(&c, status == 0 ? type->row(r, row, to, &c.err) : status);
}

int result_name(struct tidetrace_result *r, uint64_t row,
                void (*put)(struct buf *out, const void *of), const void *of,
                struct tidetrace_text *name, struct err *e)
{
    if (!r->names)
        r->names = calloc((size_t)r->rows, sizeof *r->names);
    if (!r->names)
        return err_no_memory(e, "names of rows");
    if (!r->names[row].data) {
        struct buf text = {0};
        put(&text, of);
        char *copy = text.failed ? NULL : malloc(text.len + 1);
        if (copy) {
            if (text.len)
                memcpy(copy, text.data, text.len);
            copy[text.len] = 0;
            r->names[row] = (struct tidetrace_text){copy, text.len};
        }
        buf_release(&text);
        if (!copy)
            return err_no_memory(e, "names of rows");
    }
    *name = r->names[row];
    return 0;
}

int result_select(struct tidetrace_result *r, const struct tidetrace_selection *selection,
                  const struct site_rules *rules, struct err *e)
{
    struct question *q = &r->question;
    return question_init(q, r->traces[0], selection, rules, e) != 0
               ? -1
               : selection_init(&r->selection, &r->traces[0]->trace, &q->only, e);
}

/* ---- JSON */

/* Replaces open_memstream, which loses bytes if memory is short, without reporting it by ferror. */
static ssize_t append(void *ctx, const char *bytes, size_t n)
{
    struct buf *text = ctx;
    buf_put(text, bytes, n);
    return text->failed ? 0 : (ssize_t)n;
}

static int write_text(struct tidetrace_result *r, uint64_t first, uint64_t count, struct buf *text,
                      struct err *e)
{
    const cookie_io_functions_t functions = {.write = append};
    FILE *out = fopencookie(text, "w", functions);
    if (!out)
        return err_no_memory(e, "JSON");
    int status = r->type->write(r, first, count, out, e);
    bool closed = fclose(out) == 0;
    buf_put(text, "", 1);
    if (text->failed || (status == 0 && !closed))
        status = err_no_memory(e, "JSON"); /* the only error possible without a file */
    return status;
}

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, char **json,
                      size_t *size, struct err *e)
{
    struct buf text = {0};
    r->whole = first == 0 && count == UINT64_MAX;
    if (first > r->rows)
        first = r->rows;
    if (count > r->rows - first)
        count = r->rows - first;
    int status = write_text(r, first, count, &text, e);
    if (status != 0) {
        buf_release(&text);
        return status;
    }
    *json = (char *)text.data; /* from malloc; the caller frees it */
    *size = text.len - 1;
    return 0;
}

int tidetrace_result_json(struct tidetrace_result *result, uint64_t first, uint64_t count,
                          char **json, size_t *size, struct tidetrace_error *error)
{
    struct call c = call_begin(error);
    *json = NULL;
    *size = 0;
    return call_end(&c, write_json(result, first, count, json, size, &c.err));
}
