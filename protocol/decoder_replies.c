/* Answers to queries, and texts that precede their items. */

#include "protocol/decoder_state.h"

#include <inttypes.h>
#include <string.h>

/* ---- texts that precede their item */

HANDLER(on_string)
{
    if (it->kind == WIRE_SINGLE_STRING)
        return slot_fill(d, &d->single, "SingleStringData", tail);
    return slot_fill(d, &d->second, "SecondStringData", tail);
}

HANDLER(on_image_data)
{
    return slot_fill(d, &d->image, "FrameImageData", tail);
}

/* ---- names */

/* Counts an answer. *deliver is set for the first answer to its key. */
static int count_answer(struct decoder *d, enum query_answer answer, bool *deliver)
{
    *deliver = answer != ANSWER_REPEATED;
    if (answer == ANSWER_NO_MEMORY)
        return err_no_memory(d->err, "the client's answers");
    d->stats.unasked += answer == ANSWER_UNASKED;
    d->stats.repeated += answer == ANSWER_REPEATED;
    return 0;
}

static int emit_name(struct decoder *d, enum event_kind kind, uint64_t key, struct view text)
{
    struct event ev = {.kind = kind};
    ev.name.key = key;
    ev.name.text = text;
    return decoder_emit(d, &ev);
}

HANDLER(on_name)
{
    static const struct {
        uint8_t query, event;
    } what[WIRE_KIND_COUNT] = {
        [WIRE_STRING_DATA] = {QUERY_STRING, EVENT_STRING},
        [WIRE_THREAD_NAME] = {QUERY_THREAD, EVENT_THREAD_NAME},
        [WIRE_PLOT_NAME] = {QUERY_PLOT_NAME, EVENT_PLOT_NAME},
        [WIRE_FRAME_NAME] = {QUERY_FRAME_NAME, EVENT_FRAME_NAME},
        [WIRE_FIBER_NAME] = {QUERY_FIBER_NAME, EVENT_FIBER_NAME},
        [WIRE_EXTERNAL_NAME] = {QUERY_EXTERNAL_NAME, EVENT_EXTERNAL_NAME},
        [WIRE_SYMBOL_CODE] = {QUERY_SYMBOL_CODE, EVENT_SYMBOL_CODE},
        [WIRE_SOURCE_CODE] = {QUERY_SOURCE_CODE, EVENT_SOURCE_CODE},
    };
    uint64_t key = field_u64(it, p, AT_KEY);
    bool deliver;
    if (count_answer(d, query_answered(d->query, (enum query_kind)what[it->kind].query, key),
                     &deliver) < 0)
        return -1;
    if (!deliver)
        return 0;
    if (emit_name(d, (enum event_kind)what[it->kind].event, key, tail) < 0)
        return -1;
    switch (it->kind) {
    case WIRE_STRING_DATA:
        return sources_string(d, key, tail);
    case WIRE_SYMBOL_CODE:
        return code_received(d, key, tail);
    case WIRE_SOURCE_CODE:
        return sources_received(d, key);
    default:
        return 0;
    }
}

HANDLER(on_external_thread_name)
{
    uint64_t key = field_u64(it, p, AT_KEY);
    bool deliver;
    if (count_answer(d, query_answered_external_thread(d->query, key), &deliver) < 0)
        return -1;
    return deliver ? emit_name(d, EVENT_EXTERNAL_THREAD_NAME, key, tail) : 0;
}

/* ---- source locations */

HANDLER(on_source_location)
{
    struct event ev = {.kind = EVENT_SOURCE_LOCATION};
    if (!query_take_source_location(d->query, &ev.srcloc_reply.pointer))
        return decoder_fail(d, "it answers no query: every source location that the stream named "
                               "has its answer already");
    ev.srcloc_reply.name = field_u64(it, p, AT_SRCLOC_NAME);
    ev.srcloc_reply.function = field_u64(it, p, AT_SRCLOC_FUNCTION);
    ev.srcloc_reply.file = field_u64(it, p, AT_SRCLOC_FILE);
    ev.srcloc_reply.line = field_u32(it, p, AT_SRCLOC_LINE);
    ev.srcloc_reply.color = load_u24(p + it->at[AT_SRCLOC_COLOR]);
    if (query_ask(d->query, QUERY_STRING, ev.srcloc_reply.name, d->err) < 0 ||
        query_ask(d->query, QUERY_STRING, ev.srcloc_reply.file, d->err) < 0 ||
        query_ask(d->query, QUERY_STRING, ev.srcloc_reply.function, d->err) < 0 ||
        sources_pointer(d, ev.srcloc_reply.file) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* ---- call stack frames and symbols */

/* Delivers a complete answer and queries its symbols. */
static int finish_reply(struct decoder *d)
{
    struct frame_reply *r = &d->reply;
    struct event_inline inlines[UINT8_MAX];
    const unsigned n = r->count;
    r->open = false;
    if (!r->deliver)
        return 0;
    const char *text = (const char *)r->text.data;
    struct event ev = {.kind = EVENT_CALLSTACK_FRAME};
    ev.frames.address = r->address;
    ev.frames.image = (struct view){text, r->image_len};
    ev.frames.n = (uint8_t)n;
    ev.frames.inlines = inlines;
    text = text ? text + r->image_len : NULL;
    for (unsigned i = 0; i < n; i++) {
        inlines[i].function = (struct view){text, r->frames[i].function_len};
        text = text ? text + r->frames[i].function_len : NULL;
        inlines[i].file = (struct view){text, r->frames[i].file_len};
        text = text ? text + r->frames[i].file_len : NULL;
        inlines[i].line = r->frames[i].line;
        inlines[i].symbol = r->frames[i].symbol;
        inlines[i].symbol_len = r->frames[i].symbol_len;
    }
    while (ev.frames.skip + 1u < n && skip_file(inlines[ev.frames.skip].file))
        ev.frames.skip++;
    for (unsigned i = ev.frames.skip; i < n; i++)
        if (query_ask(d->query, QUERY_SYMBOL, inlines[i].symbol, d->err) < 0 ||
            code_note_size(d, inlines[i].symbol, inlines[i].symbol_len) < 0 ||
            sources_text(d, inlines[i].file, ev.frames.image) < 0)
            return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_frame_size)
{
    struct frame_reply *r = &d->reply;
    struct view image;
    if (r->open)
        return decoder_fail(d, "%u of %u CallstackFrames of the one before it are missing",
                            r->count - r->have, r->count);
    if (slot_take(d, &d->single, "SingleStringData", &image) < 0)
        return -1;
    r->address = field_u64(it, p, AT_KEY);
    r->count = field_u8(it, p, AT_FRAME_COUNT);
    r->have = 0;
    if (count_answer(d, query_answered(d->query, QUERY_CALLSTACK_FRAME, r->address), &r->deliver) <
        0)
        return -1;
    buf_clear(&r->text);
    buf_put(&r->text, image.p, image.len);
    r->image_len = image.len;
    if (r->text.failed)
        return err_no_memory(d->err, "the texts of a call stack frame");
    r->open = true;
    return r->count == 0 ? finish_reply(d) : 0;
}

HANDLER(on_frame)
{
    struct frame_reply *r = &d->reply;
    struct view function, file;
    if (!r->open)
        return decoder_fail(d, "no CallstackFrameSize announced it");
    if (slot_take(d, &d->single, "SingleStringData", &function) < 0 ||
        slot_take(d, &d->second, "SecondStringData", &file) < 0)
        return -1;
    buf_put(&r->text, function.p, function.len);
    buf_put(&r->text, file.p, file.len);
    if (r->text.failed)
        return err_no_memory(d->err, "the texts of a call stack frame");
    r->frames[r->have].function_len = function.len;
    r->frames[r->have].file_len = file.len;
    r->frames[r->have].symbol = field_u64(it, p, AT_KEY);
    r->frames[r->have].line = field_u32(it, p, AT_FRAME_LINE);
    r->frames[r->have].symbol_len = field_u32(it, p, AT_FRAME_LEN);
    r->have++;
    return r->have == r->count ? finish_reply(d) : 0;
}

HANDLER(on_symbol)
{
    struct event ev = {.kind = EVENT_SYMBOL};
    ev.symbol.address = field_u64(it, p, AT_KEY);
    ev.symbol.line = field_u32(it, p, AT_FRAME_LINE);
    bool deliver;
    if (slot_take(d, &d->single, "SingleStringData", &ev.symbol.file) < 0 ||
        count_answer(d, query_answered(d->query, QUERY_SYMBOL, ev.symbol.address), &deliver) < 0)
        return -1;
    if (!deliver)
        return 0;
    if (code_ask(d, ev.symbol.address) < 0 ||
        sources_text(d, ev.symbol.file, (struct view){NULL, 0}) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* ---- answers without content */

HANDLER(on_ack)
{
    struct event ev = {0};
    bool deliver;
    switch (it->kind) {
    case WIRE_ACK_NO_SOURCE:
        ev.kind = EVENT_SOURCE_CODE_MISSING;
        ev.name.key = field_u32(it, p, AT_KEY);
        if (count_answer(d, query_answered(d->query, QUERY_SOURCE_CODE, ev.name.key), &deliver) < 0)
            return -1;
        return deliver ? decoder_emit(d, &ev) : 0;
    case WIRE_ACK_NO_SYMBOL_CODE:
        d->stats.unasked += !query_answered_no_code(d->query);
        return 0;
    default:
        /*
         * A keyless "done": it carries no information but frees a unit of query space. A recording
         * contains those that answer another server's queries.
         */
        d->stats.unasked += !query_answered_noop(d->query);
        return 0;
    }
}
