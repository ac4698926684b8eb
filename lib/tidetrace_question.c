/* Copies the texts of a request, since results use them later. */

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/summary.h"
#include "lib/tidetrace_internal.h"

static int keep_text(struct question *q, const char *text, const char **out, struct err *e)
{
    *out = NULL;
    if (!text)
        return 0;
    char *copy = strdup(text);
    if (!copy || !vec_push(&q->texts, copy)) {
        free(copy);
        return err_no_memory(e, "a question");
    }
    *out = copy;
    return 0;
}

static int take_selection(struct question *q, const struct tidetrace *t,
                          const struct tidetrace_selection *theirs, struct err *e)
{
    const uint32_t all = TIDETRACE_SELECT_RANGE | TIDETRACE_SELECT_AT | TIDETRACE_SELECT_SIZE |
                         TIDETRACE_SELECT_FRAME;
    struct tidetrace_selection s;
    struct selection_options *o = &q->only;
    if (lib_take(&s, sizeof s, theirs, e) != 0)
        return -1;
    if (s.flags & ~all)
        return err_set(e, ERR_USAGE, "unknown flags in a selection");
    o->has_range = s.flags & TIDETRACE_SELECT_RANGE;
    o->has_at = s.flags & TIDETRACE_SELECT_AT;
    o->has_size = s.flags & TIDETRACE_SELECT_SIZE;
    o->has_frame = s.flags & TIDETRACE_SELECT_FRAME;
    o->begin = s.begin;
    o->end = s.end;
    o->at = s.at;
    o->size_min = s.size_min;
    o->size_max = s.size_max;
    o->frame = s.frame;
    if (o->has_range && o->begin >= o->end)
        return err_set(e, ERR_USAGE, "a range of time ends after it begins");
    if (o->has_size && o->size_min > o->size_max)
        return err_set(e, ERR_USAGE, "a range of sizes has the least first");
    if ((s.zone || o->has_frame) && !t->zones)
        return err_set(e, ERR_USAGE, "zones and frames were not loaded (TIDETRACE_OPEN_ZONES)");
    return keep_text(q, s.pool, &o->pool, e) != 0 || keep_text(q, s.thread, &o->thread, e) != 0 ||
                   keep_text(q, s.match, &o->match, e) != 0 ||
                   keep_text(q, s.zone, &o->zone, e) != 0
               ? -1
               : 0;
}

int question_init(struct question *q, const struct tidetrace *t,
                  const struct tidetrace_selection *selection, const struct site_rules *rules,
                  struct err *e)
{
    *q = (struct question){0};
    if (selection && take_selection(q, t, selection, e) != 0)
        return -1;
    for (size_t i = 0; rules && i < rules->skip_count; i++) {
        if (skiplist_add(&q->skip, rules->skip[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; rules && i < rules->no_skip_count; i++) {
        if (skiplist_keep(&q->skip, rules->no_skip[i], e) != 0)
            return -1;
    }
    return 0;
}

void question_release(struct question *q)
{
    for (size_t i = 0; i < q->texts.len; i++)
        free(q->texts.at[i]);
    vec_release(&q->texts);
    skiplist_release(&q->skip);
}

/* ---- expressions and their outcomes */

int expressions_take(struct expressions *x, const char *const *texts, size_t n, bool alone,
                     struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct budget one;
        if (budget_parse(&one, texts[i], e) != 0)
            return -1;
        bool refused = alone && one.needs_base;
        if (!refused && vec_push(&x->list, one))
            continue;
        budget_release(&one);
        return refused ? err_set(e, ERR_USAGE,
                                 "'%.200s' asks for a change, but there is nothing to compare with",
                                 texts[i])
                       : err_no_memory(e, "expressions");
    }
    return 0;
}

void expressions_release(struct expressions *x)
{
    for (size_t i = 0; i < x->list.len; i++)
        budget_release(&x->list.at[i]);
    vec_release(&x->list);
}

int lib_give_check(struct tidetrace_check *theirs, const struct summary_check *check, struct err *e)
{
    const struct tidetrace_check out = {.holds = check->holds,
                                        .name = lib_text(view_of(check->name)),
                                        .detail = lib_text(view_of(check->detail))};
    return lib_give(theirs, &out, sizeof out, e);
}
