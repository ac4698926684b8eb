#include "import/chrome_plots.h"

#include <xxhash.h>

#define PLOTS_KEPT 65536u

/* enum PlotValueFormatting: server/TracyEvent.hpp @ v0.14.0 */
#define PLOT_MEMORY 1

void chrome_plots_release(struct chrome_plots *p)
{
    vec_release(&p->list);
    map_release(&p->numbers);
}

static uint64_t hash_of(const void *words, size_t size)
{
    return XXH3_64bits(words, size);
}

int64_t chrome_plot_number(struct chrome_plots *p, struct chrome_ids *ids,
                           const struct chrome_event *ev, struct view member, struct err *e)
{
    struct strings *strings = &ids->trace->strings;
    struct view id = chrome_field_text(ev, FIELD_ID);
    struct chrome_plot plot = {0};
    if (chrome_id_of(ids, ev, FIELD_PROCESS, &plot.process, e) != 0)
        return -2;
    plot.counter = strings_intern(strings, chrome_field_text(ev, FIELD_NAME), e);
    plot.member = strings_intern(strings, member, e);
    plot.id = id.len ? strings_intern(strings, id, e) : 0;
    if (!plot.counter || !plot.member || (id.len && !plot.id))
        return -2;
    const uint64_t words[] = {plot.process.number, plot.process.text, plot.process.there,
                              plot.counter,        plot.id,           plot.member};
    uint64_t hash = hash_of(words, sizeof words);
    const uint64_t *known = map_find(&p->numbers, hash);
    if (known)
        return (int64_t)*known;
    if (p->list.len == PLOTS_KEPT)
        return -1;
    uint64_t *number = map_add(&p->numbers, hash, NULL);
    if (!number || !vec_push(&p->list, plot)) {
        err_no_memory(e, "plots");
        return -2;
    }
    *number = p->list.len - 1;
    return (int64_t)*number;
}

/* Key of the counter, or of its member across processes. */
static uint64_t key_of(const struct chrome_plot *p, bool other_processes)
{
    const struct chrome_id *pid = &p->process;
    return other_processes
               ? hash_of((uint64_t[]){p->member, p->counter, p->id}, 24)
               : hash_of((uint64_t[]){pid->number, pid->text, pid->there, p->counter, p->id}, 40);
}

static int count_keys(const struct chrome_plots *p, struct map *counts, struct err *e)
{
    for (size_t i = 0; i < p->list.len; i++) {
        for (int others = 0; others < 2; others++) {
            uint64_t *n = map_add(counts, key_of(&p->list.at[i], others), NULL);
            if (!n)
                return err_no_memory(e, "plots");
            ++*n;
        }
    }
    return 0;
}

static void put_string(const struct trace *t, struct buf *to, uint32_t number)
{
    struct view text = strings_get(&t->strings, number);
    buf_put(to, text.p, text.len);
}

/*
 * Whether the member adds nothing to the counter's name: it is the only one and is called like the
 * counter or "value".
 */
static bool is_plain(const struct chrome_plot *p, const struct trace *t, const struct map *counts)
{
    return *map_find(counts, key_of(p, false)) == 1 &&
           (p->member == p->counter ||
            view_equal(strings_get(&t->strings, p->member), view_of("value")));
}

static void put_name(const struct chrome_plot *p, const struct chrome_ids *ids,
                     const struct map *counts, struct buf *to)
{
    const struct trace *t = ids->trace;
    bool named = strings_get(&t->strings, p->counter).len > 0;
    put_string(t, to, p->counter);
    if (p->id) {
        buf_puts(to, "[");
        put_string(t, to, p->id);
        buf_puts(to, "]");
    }
    if (!named || !is_plain(p, t, counts)) {
        buf_puts(to, named || p->id ? ": " : "");
        put_string(t, to, p->member);
    }
    if (*map_find(counts, key_of(p, true)) > 1) {
        buf_puts(to, " (PID ");
        chrome_id_put(ids, to, p->process);
        buf_puts(to, ")");
    }
}

static bool is_memory(struct view name)
{
    static const char end[] = "_bytes";
    size_t n = sizeof end - 1;
    return name.len >= n && memcmp(name.p + name.len - n, end, n) == 0;
}

static int finish_plot(const struct chrome_plots *p, size_t i, const struct chrome_ids *ids,
                       struct ingest *in, const struct buf *name, struct err *e)
{
    struct event ev = {
        .kind = EVENT_PLOT_NAME,
        .name = {.key = CHROME_PLOT_KEY + i, .text = {(const char *)name->data, name->len}}};
    if (in->sink.event(in->sink.ctx, &ev, e) != 0)
        return -1;
    if (!is_memory(strings_get(&ids->trace->strings, p->list.at[i].member)) &&
        !is_memory(strings_get(&ids->trace->strings, p->list.at[i].counter)))
        return 0;
    ev = (struct event){
        .kind = EVENT_PLOT_CONFIG,
        .plot_config = {.name = CHROME_PLOT_KEY + i, .type = PLOT_MEMORY, .fill = 1}};
    return in->sink.event(in->sink.ctx, &ev, e);
}

int chrome_plots_finish(const struct chrome_plots *p, const struct chrome_ids *ids,
                        struct ingest *in, struct err *e)
{
    struct map counts = {0};
    struct buf name = {0};
    int status = count_keys(p, &counts, e);
    for (size_t i = 0; status == 0 && i < p->list.len; i++) {
        buf_clear(&name);
        put_name(&p->list.at[i], ids, &counts, &name);
        status = name.failed ? err_no_memory(e, "plots") : finish_plot(p, i, ids, in, &name, e);
    }
    buf_release(&name);
    map_release(&counts);
    return status;
}
