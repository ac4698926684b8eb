#include "server/capture/saved_traces.h"

#include <stdlib.h>
#include <string.h>

#include "base/saturate.h"
#include "report/write/json_value.h"

static void drop_oldest(struct saved_traces *s)
{
    free(s->list.at[0].path);
    memmove(s->list.at, s->list.at + 1, --s->list.len * sizeof s->list.at[0]);
}

bool saved_traces_add(struct saved_traces *s, const char *path, uint64_t bytes)
{
    for (size_t i = 0; i < s->list.len; i++) {
        if (strcmp(s->list.at[i].path, path) == 0)
            return false;
    }
    struct saved_trace one = {.path = strdup(path), .bytes = bytes};
    if (s->list.len == SAVED_TRACES_LISTED)
        drop_oldest(s);
    if (!one.path || !vec_push(&s->list, one)) {
        free(one.path);
        return false;
    }
    s->count++;
    s->bytes = saturating_add(s->bytes, bytes);
    return true;
}

const struct saved_trace *saved_traces_newest(const struct saved_traces *s)
{
    return s->list.len ? &s->list.at[s->list.len - 1] : NULL;
}

static json_t *trace_json(const struct saved_trace *one)
{
    json_t *o = json_with(json_object(), "trace", json_text(view_of(one->path)));
    return json_with(o, "trace_bytes", json_count(one->bytes));
}

json_t *saved_traces_json(json_t *o, const struct saved_traces *s)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < s->list.len; i++)
        list = json_add(list, trace_json(&s->list.at[i]));
    o = json_with(o, "parts", list);
    o = json_with(o, "parts_saved", json_count(s->count));
    return json_with(o, "parts_bytes", json_count(s->bytes));
}

void saved_traces_forget(struct saved_traces *s)
{
    for (size_t i = 0; i < s->list.len; i++)
        free(s->list.at[i].path);
    vec_release(&s->list);
}
