/*
 * Application info of all inputs, and facts about the merge. Tidemark's facts about an input
 * (docs/facts.md) must not be mistaken for facts about the whole trace:
 *
 *     counts                are added up, whatever they count
 *     module, fault         are kept, with the new addresses, pools, threads and call stacks
 *     incomplete            is kept, with the program's name
 *     containers            is kept: it is about names of pools
 *     everything else       becomes tidemark.input=N|KEY=VALUE
 */

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/saturate.h"
#include "trace/merge/merge_internal.h"

#define PREFIX "tidemark."

struct facts {
    struct merge *m;
    struct map sums;    /* key, a number in merge.aside → sum of the counts */
    VEC(uint32_t) keys; /* in order of first occurrence */
};

/* Adds a fact "tidemark.KEY=VALUE". */
static __attribute__((format(printf, 3, 4))) int merge_fact(struct merge *m, struct err *e,
                                                            const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    buf_puts(&text, PREFIX);
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    uint32_t number =
        text.failed
            ? 0
            : strings_intern(&m->strings, (struct view){(const char *)text.data, text.len}, e);
    bool failed = text.failed;
    buf_release(&text);
    struct rec_string_ref ref = {number - UINT64_C(1), STRING_REF_INDEX};
    if (!failed && !number)
        return -1;
    return !failed && pageable_push(&m->pageable, &m->app_info, ref) ? 0
                                                                     : err_no_memory(e, "facts");
}

/* ---- facts that contain renumbered ids */

/* Takes the text up to and including `stop`, or all of it. False when there is no `stop`. */
static bool take_until(struct view *text, char stop, struct view *out)
{
    const char *end = text->len ? memchr(text->p, stop, text->len) : NULL;
    *out = (struct view){text->p, end ? (size_t)(end - text->p) : text->len};
    text->p += out->len + (end != NULL);
    text->len -= out->len + (end != NULL);
    return end != NULL;
}

/* Parses the whole text as a number, decimal or with 0x. */
static bool parse(struct view text, int base, uint64_t *out)
{
    char copy[32], *end;
    bool negative = text.len > 0 && text.p[0] == '-';
    if (text.len == 0 || text.len >= sizeof copy ||
        (!negative && !isxdigit((unsigned char)text.p[0])))
        return false;
    memcpy(copy, text.p, text.len);
    copy[text.len] = 0;
    *out = negative ? (uint64_t)strtoll(copy, &end, base) : strtoull(copy, &end, base);
    return *end == 0;
}

static bool take_number(struct view *text, char stop, int base, uint64_t *out)
{
    struct view part;
    take_until(text, stop, &part);
    return parse(part, base, out);
}

/* "START-END OFFSET BUILDID PATH", or "#file …", which contains no addresses. */
static int put_module(struct merge_input *in, struct view text, bool *done, struct err *e)
{
    uint64_t start, end;
    *done = text.len > 0 && text.p[0] == '#';
    if (*done)
        return merge_fact(in->m, e, "module=%.*s", (int)text.len, text.p);
    *done = take_number(&text, '-', 16, &start) && take_number(&text, ' ', 16, &end);
    if (!*done)
        return 0;
    return merge_fact(in->m, e, "module=%" PRIx64 "-%" PRIx64 " %.*s", start ^ in->address_tag,
                      end ^ in->address_tag, (int)text.len, text.p);
}

static uint64_t pool_key(const struct merge_input *in, uint64_t key)
{
    const uint64_t *place = map_find(&in->pools, key);
    return place ? in->named[KIND_POOL].at[*place - 1].new_key : key;
}

static uint64_t callstack(const struct merge_input *in, uint64_t number)
{
    return number == 0 ? 0 : number + in->callstack_base;
}

/* "TIME,THREAD ID,ADDRESS,SIZE,CALL STACK" */
static bool put_sample(struct merge_input *in, struct view text, struct buf *out, struct err *e)
{
    uint64_t time, thread, address, size, stack;
    if (!take_number(&text, ',', 10, &time) || !take_number(&text, ',', 10, &thread) ||
        !take_number(&text, ',', 0, &address) || !take_number(&text, ',', 10, &size) ||
        !take_number(&text, ',', 10, &stack) || merge_thread(in, &thread, e) != 0)
        return false;
    buf_printf(out, "%" PRId64 ",%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 ",%" PRIu64,
               (int64_t)(time + (uint64_t)in->shift), thread, address, size, callstack(in, stack));
    return true;
}

/* "KIND|POOL KEY|COUNT|CALL STACK|SAMPLE;SAMPLE;…" */
static int put_fault(struct merge_input *in, struct view text, bool *done, struct err *e)
{
    struct view kind, sample;
    struct buf samples = {0};
    uint64_t key, n, stack;
    bool more = true;
    take_until(&text, '|', &kind);
    *done = take_number(&text, '|', 0, &key) && take_number(&text, '|', 10, &n) &&
            take_number(&text, '|', 10, &stack);
    while (*done && more && text.len > 0) {
        more = take_until(&text, ';', &sample);
        buf_puts(&samples, samples.len ? ";" : "");
        *done = put_sample(in, sample, &samples, e);
    }
    int status = samples.failed ? err_no_memory(e, "facts") : 0;
    if (*done && status == 0)
        status = merge_fact(in->m, e, "fault=%.*s|0x%" PRIx64 "|%" PRIu64 "|%" PRIu64 "|%s",
                            (int)kind.len, kind.p, pool_key(in, key), n, callstack(in, stack),
                            buf_str(&samples));
    buf_release(&samples);
    return status;
}

/* ---- a single fact of an input */

static bool key_is(struct view key, const char *name)
{
    return view_equal(key, view_of(name));
}

static int add_count(struct facts *f, struct view key, uint64_t n, struct err *e)
{
    bool fresh;
    uint32_t number = strings_intern(&f->m->aside, key, e);
    if (!number)
        return -1;
    uint64_t *sum = map_add(&f->sums, number, &fresh);
    if (!sum || (fresh && !vec_push(&f->keys, number)))
        return err_no_memory(e, "facts");
    *sum = saturating_add(*sum, n);
    return 0;
}

static int put_fact(struct facts *f, struct merge_input *in, struct view text, struct err *e)
{
    struct view key, value = {text.p + sizeof PREFIX - 1, text.len - (sizeof PREFIX - 1)};
    struct view label = strings_get(&f->m->aside, in->label), all = value;
    bool done = false;
    uint64_t n;
    take_until(&value, '=', &key);
    if (!key_is(key, "protocol") && isdigit((unsigned char)(value.len ? *value.p : 0)) &&
        parse(value, 10, &n))
        return add_count(f, key, n, e);
    if (key_is(key, "incomplete"))
        return merge_fact(f->m, e, "incomplete=%.*s: %.*s", (int)label.len, label.p, (int)value.len,
                          value.p);
    if (key_is(key, "containers"))
        return merge_fact(f->m, e, "containers=%.*s", (int)value.len, value.p);
    int status = 0;
    if (key_is(key, "module"))
        status = put_module(in, value, &done, e);
    else if (key_is(key, "fault"))
        status = put_fault(in, value, &done, e);
    if (done || status != 0)
        return status;
    return merge_fact(f->m, e, "input=%zu|%.*s", in->index + 1, (int)all.len, all.p);
}

static int put_app_info(struct facts *f, struct merge_input *in, struct err *e)
{
    struct merge *m = f->m;
    for (size_t i = 0; i < in->app_info.len; i++) {
        struct rec_string_ref ref = in->app_info.at[i];
        if (ref.flags == STRING_REF_INDEX && m->n > 1 && ref.value < in->strings.len) {
            struct view text = strings_get(&m->strings, in->strings.at[ref.value]);
            if (text.len >= sizeof PREFIX - 1 && memcmp(text.p, PREFIX, sizeof PREFIX - 1) == 0) {
                if (put_fact(f, in, text, e) != 0)
                    return -1;
                continue;
            }
        }
        if (merge_ref(in, &ref, e) != 0)
            return -1;
        if (!pageable_push(&m->pageable, &m->app_info, ref))
            return err_no_memory(e, "application info");
    }
    return 0;
}

/* Adds the header fields of an input that the merged header cannot hold. */
static int put_input(struct merge *m, const struct merge_input *in, struct err *e)
{
    const struct rec_header *h = &in->header;
    struct view host = h->host_info;
    if (merge_fact(m, e, "merged=%zu|%.*s|%" PRIu64 "|%" PRId64 "|%.*s|%" PRIu64, in->index + 1,
                   (int)h->capture_program.len, h->capture_program.p, h->pid, in->shift,
                   (int)h->capture_name.len, h->capture_name.p, h->capture_time) != 0)
        return -1;
    if (in->index == 0 || view_equal(host, m->order[0]->header.host_info))
        return 0;
    return merge_fact(m, e, "host=%zu|%.*s", in->index + 1, (int)host.len, host.p);
}

/* A trace can hold only one crash. */
static int put_crashes(struct merge *m, struct err *e)
{
    bool first = true;
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        const uint64_t *number = map_find(&in->texts, in->crash.message);
        struct view text = strings_get(&m->strings, number ? (uint32_t)*number : 0);
        uint64_t thread = in->crash.thread;
        if (!merge_has_crash(in))
            continue;
        if (!first)
            buf_printf(&m->outcome->notes,
                       "%s: its crash becomes a fact, as a trace has room for one crash\n",
                       in->name);
        if (!first && (merge_thread(in, &thread, e) != 0 ||
                       merge_fact(m, e, "crash=%zu|%" PRId64 "|%" PRIu64 "|%" PRIu64 "|%.*s", i + 1,
                                  (int64_t)((uint64_t)in->crash.time + (uint64_t)in->shift), thread,
                                  callstack(in, in->crash.callstack), (int)text.len, text.p) != 0))
            return -1;
        first = false;
    }
    return 0;
}

static int put_counts(struct facts *f, struct err *e)
{
    for (size_t i = 0; i < f->keys.len; i++) {
        struct view key = strings_get(&f->m->aside, f->keys.at[i]);
        const uint64_t *sum = map_find(&f->sums, f->keys.at[i]);
        if (merge_fact(f->m, e, "%.*s=%" PRIu64, (int)key.len, key.p, sum ? *sum : 0) != 0)
            return -1;
    }
    return 0;
}

static int put_facts(struct facts *f, struct err *e)
{
    struct merge *m = f->m;
    for (size_t i = 0; i < m->n; i++) {
        if (put_app_info(f, m->order[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; i < m->n; i++) {
        if (put_input(m, m->order[i], e) != 0)
            return -1;
    }
    return put_crashes(m, e) != 0 ? -1 : put_counts(f, e);
}

int merge_plan_facts(struct merge *m, struct err *e)
{
    struct facts f = {.m = m};
    int status = put_facts(&f, e);
    map_release(&f.sums);
    vec_release(&f.keys);
    return status;
}
