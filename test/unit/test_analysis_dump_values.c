/* The dump of a trace differs when any value in it does; what the manual leaves out does not show.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "dump_test.h"

/* ---- changing one value */

enum kind {
    KIND_BITS, /* any number: its lowest bit is flipped */
    KIND_STRING,
    KIND_REF,
    KIND_CALLSTACK,
    KIND_SRCLOC,
    KIND_IMAGE,
    KIND_THREAD,
    KIND_EXTRA,
    KIND_LOCK_THREAD,
};

/* Where a change shows. */
enum shows {
    ALWAYS,
    SOMEWHERE, /* in some of the records: entries of tables show where they are used */
    NEVER,     /* the manual says so */
};

struct field {
    enum record_type type;
    size_t offset;
    enum kind kind;
    enum shows shows;
    const char *name;
};

#define F(TYPE, STRUCT, FIELD, KIND, SHOWS)                                                        \
    {                                                                                              \
        REC_##TYPE, offsetof(struct rec_##STRUCT, FIELD), KIND_##KIND, SHOWS, #TYPE " " #FIELD     \
    }

static const struct field fields[] = {
    F(HEADER, header, resolution, BITS, ALWAYS),
    F(HEADER, header, timer_mul, BITS, ALWAYS),
    F(HEADER, header, last_time, BITS, ALWAYS),
    F(HEADER, header, frame_offset, BITS, ALWAYS),
    F(HEADER, header, pid, BITS, ALWAYS),
    F(HEADER, header, sampling_period, BITS, ALWAYS),
    F(HEADER, header, cpu_arch, BITS, ALWAYS),
    F(HEADER, header, cpu_id, BITS, ALWAYS),
    F(HEADER, header, cpu_manufacturer, BITS, ALWAYS),
    F(HEADER, header, on_demand, BITS, ALWAYS),
    F(HEADER, header, capture_time, BITS, ALWAYS),
    F(HEADER, header, executable_time, BITS, ALWAYS),
    F(PACKAGE, topology_node, id, BITS, ALWAYS),
    F(DIE, topology_node, id, BITS, ALWAYS),
    F(CORE, topology_node, id, BITS, ALWAYS),
    F(CPU, topology_node, id, BITS, ALWAYS),
    F(CRASH, crash, thread, BITS, ALWAYS),
    F(CRASH, crash, time, BITS, ALWAYS),
    F(CRASH, crash, message, BITS, ALWAYS),
    F(CRASH, crash, callstack, CALLSTACK, ALWAYS),
    F(FRAME_SET, frame_set, name, BITS, ALWAYS),
    F(FRAME_SET, frame_set, continuous, BITS, ALWAYS),
    F(FRAME, frame, start, BITS, ALWAYS),
    F(FRAME, frame, end, BITS, SOMEWHERE),
    F(FRAME, frame, image, IMAGE, ALWAYS),
    F(SECTION_LIST, section_list, category, BITS, ALWAYS),
    F(SECTION, section, start, BITS, ALWAYS),
    F(SECTION, section, end, BITS, ALWAYS),
    F(SECTION, section, text, STRING, ALWAYS),
    F(SECTION_CATEGORY, section_category, category, BITS, ALWAYS),
    F(SECTION_CATEGORY, section_category, description, STRING, ALWAYS),
    F(STRING, string, key, BITS, SOMEWHERE),
    F(STRING_POINTER, pair, key, BITS, ALWAYS),
    F(STRING_POINTER, pair, value, BITS, ALWAYS),
    F(THREAD_NAME, pair, key, BITS, ALWAYS),
    F(THREAD_NAME, pair, value, BITS, ALWAYS),
    F(EXTERNAL_NAME, external_name, id, BITS, ALWAYS),
    F(EXTERNAL_NAME, external_name, program_key, BITS, ALWAYS),
    F(EXTERNAL_NAME, external_name, thread_key, BITS, ALWAYS),
    F(LOCAL_THREAD, id, id, BITS, SOMEWHERE),
    F(EXTERNAL_THREAD, id, id, BITS, SOMEWHERE),
    F(SOURCE_LOCATION, source_location, pointer, BITS, ALWAYS),
    F(SOURCE_LOCATION, source_location, name, REF, ALWAYS),
    F(SOURCE_LOCATION, source_location, function, REF, ALWAYS),
    F(SOURCE_LOCATION, source_location, file, REF, ALWAYS),
    F(SOURCE_LOCATION, source_location, line, BITS, ALWAYS),
    F(SOURCE_LOCATION, source_location, color, BITS, ALWAYS),
    F(SOURCE_LOCATION_EXPAND, id, id, BITS, SOMEWHERE),
    F(SOURCE_LOCATION_PAYLOAD, source_location, name, REF, ALWAYS),
    F(SOURCE_LOCATION_PAYLOAD, source_location, function, REF, ALWAYS),
    F(SOURCE_LOCATION_PAYLOAD, source_location, file, REF, ALWAYS),
    F(SOURCE_LOCATION_PAYLOAD, source_location, line, BITS, ALWAYS),
    F(SOURCE_LOCATION_PAYLOAD, source_location, color, BITS, ALWAYS),
    F(ZONE_STAT, zone_stat, srcloc, SRCLOC, NEVER),
    F(ZONE_STAT, zone_stat, n, BITS, NEVER),
    F(GPU_ZONE_STAT, zone_stat, srcloc, SRCLOC, NEVER),
    F(GPU_ZONE_STAT, zone_stat, n, BITS, NEVER),
    F(LOCK, lock, id, BITS, ALWAYS),
    F(LOCK, lock, custom_name, STRING, ALWAYS),
    F(LOCK, lock, srcloc, SRCLOC, ALWAYS),
    F(LOCK, lock, type, BITS, ALWAYS),
    F(LOCK, lock, valid, BITS, ALWAYS),
    F(LOCK, lock, time_announce, BITS, ALWAYS),
    F(LOCK, lock, time_terminate, BITS, ALWAYS),
    F(LOCK_THREAD, id, id, BITS, SOMEWHERE),
    F(LOCK_EVENT, lock_event, time, BITS, ALWAYS),
    F(LOCK_EVENT, lock_event, srcloc, SRCLOC, ALWAYS),
    F(LOCK_EVENT, lock_event, thread, LOCK_THREAD, SOMEWHERE),
    F(LOCK_EVENT, lock_event, event, BITS, ALWAYS),
    F(MESSAGE, message, key, BITS, SOMEWHERE),
    F(MESSAGE, message, time, BITS, ALWAYS),
    F(MESSAGE, message, text, REF, ALWAYS),
    F(MESSAGE, message, color, BITS, ALWAYS),
    F(MESSAGE, message, callstack, CALLSTACK, ALWAYS),
    F(MESSAGE, message, source, BITS, ALWAYS),
    F(MESSAGE, message, severity, BITS, ALWAYS),
    F(ZONE_EXTRA, zone_extra, callstack, CALLSTACK, SOMEWHERE),
    F(ZONE_EXTRA, zone_extra, text, STRING, SOMEWHERE),
    F(ZONE_EXTRA, zone_extra, name, STRING, SOMEWHERE),
    F(ZONE_EXTRA, zone_extra, color, BITS, SOMEWHERE),
    F(THREADS, threads, zones, BITS, NEVER),
    F(THREADS, threads, child_lists, BITS, NEVER),
    F(THREAD, thread, id, BITS, ALWAYS),
    F(THREAD, thread, zones, BITS, NEVER),
    F(THREAD, thread, kernel_samples, BITS, ALWAYS),
    F(THREAD, thread, is_fiber, BITS, ALWAYS),
    F(THREAD, thread, group_hint, BITS, ALWAYS),
    F(ZONE_BEGIN, zone_begin, srcloc, SRCLOC, ALWAYS),
    F(ZONE_BEGIN, zone_begin, start, BITS, ALWAYS),
    F(ZONE_BEGIN, zone_begin, extra, EXTRA, ALWAYS),
    F(ZONE_END, zone_end, end, BITS, ALWAYS),
    F(THREAD_MESSAGE, id, id, BITS, ALWAYS),
    F(SWITCH_SAMPLE, sample, time, BITS, ALWAYS),
    F(SWITCH_SAMPLE, sample, callstack, CALLSTACK, ALWAYS),
    F(SAMPLE, sample, time, BITS, ALWAYS),
    F(SAMPLE, sample, callstack, CALLSTACK, ALWAYS),
    F(GPU_CONTEXTS, threads, zones, BITS, NEVER),
    F(GPU_CONTEXTS, threads, child_lists, BITS, NEVER),
    F(GPU_CONTEXT, gpu_context, thread, BITS, ALWAYS),
    F(GPU_CONTEXT, gpu_context, calibration, BITS, ALWAYS),
    F(GPU_CONTEXT, gpu_context, zones, BITS, NEVER),
    F(GPU_CONTEXT, gpu_context, period, BITS, ALWAYS),
    F(GPU_CONTEXT, gpu_context, type, BITS, ALWAYS),
    F(GPU_CONTEXT, gpu_context, name, STRING, ALWAYS),
    F(GPU_CONTEXT, gpu_context, overflow, BITS, ALWAYS),
    F(GPU_NOTE_NAME, gpu_note_name, id, BITS, ALWAYS),
    F(GPU_NOTE_NAME, gpu_note_name, name, STRING, ALWAYS),
    F(GPU_THREAD, gpu_thread, id, BITS, ALWAYS),
    F(GPU_ZONE_BEGIN, gpu_zone_begin, cpu_start, BITS, ALWAYS),
    F(GPU_ZONE_BEGIN, gpu_zone_begin, gpu_start, BITS, ALWAYS),
    F(GPU_ZONE_BEGIN, gpu_zone_begin, srcloc, SRCLOC, ALWAYS),
    F(GPU_ZONE_BEGIN, gpu_zone_begin, callstack, CALLSTACK, ALWAYS),
    F(GPU_ZONE_BEGIN, gpu_zone_begin, thread, THREAD, ALWAYS),
    F(GPU_ZONE_END, gpu_zone_end, cpu_end, BITS, ALWAYS),
    F(GPU_ZONE_END, gpu_zone_end, gpu_end, BITS, ALWAYS),
    F(GPU_ZONE_END, gpu_zone_end, query_id, BITS, ALWAYS),
    F(GPU_NOTE_QUERY, gpu_note_query, query_id, BITS, ALWAYS),
    F(GPU_NOTE, gpu_note, id, BITS, ALWAYS),
    F(GPU_NOTE, gpu_note, value, BITS, ALWAYS),
    F(PLOT, plot, type, BITS, ALWAYS),
    F(PLOT, plot, format, BITS, ALWAYS),
    F(PLOT, plot, show_steps, BITS, ALWAYS),
    F(PLOT, plot, fill, BITS, ALWAYS),
    F(PLOT, plot, color, BITS, ALWAYS),
    F(PLOT, plot, name, BITS, ALWAYS),
    F(PLOT, plot, min, BITS, ALWAYS),
    F(PLOT, plot, max, BITS, ALWAYS),
    F(PLOT, plot, sum, BITS, ALWAYS),
    F(PLOT_POINT, plot_point, time, BITS, ALWAYS),
    F(PLOT_POINT, plot_point, value, BITS, ALWAYS),
    F(POOLS, pools, events, BITS, NEVER),
    F(POOL, pool, key, BITS, ALWAYS),
    F(POOL, pool, active, BITS, NEVER),
    F(POOL, pool, frees, BITS, NEVER),
    F(MEMORY_EVENT, memory_event, ptr, BITS, ALWAYS),
    F(MEMORY_EVENT, memory_event, size, BITS, ALWAYS),
    F(MEMORY_EVENT, memory_event, time_alloc, BITS, ALWAYS),
    F(MEMORY_EVENT, memory_event, time_free, BITS, SOMEWHERE),
    F(MEMORY_EVENT, memory_event, callstack_alloc, CALLSTACK, ALWAYS),
    F(MEMORY_EVENT, memory_event, callstack_free, CALLSTACK, SOMEWHERE),
    F(MEMORY_EVENT, memory_event, thread_alloc, THREAD, ALWAYS),
    F(MEMORY_EVENT, memory_event, thread_free, THREAD, SOMEWHERE),
    F(POOL_END, pool_end, high, BITS, ALWAYS),
    F(POOL_END, pool_end, low, BITS, ALWAYS),
    F(POOL_END, pool_end, usage, BITS, ALWAYS),
    F(POOL_END, pool_end, name, BITS, ALWAYS),
    F(CALLSTACK_FRAME, callstack_frame, frame, BITS, SOMEWHERE),
    F(CALLSTACK_FRAME, callstack_frame, image, STRING, ALWAYS),
    F(APP_INFO, string_ref, value, REF, ALWAYS),
    F(FRAME_IMAGE, frame_image, flip, BITS, ALWAYS),
    F(CONTEXT_SWITCH_THREAD, id_count, id, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, wakeup, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, start, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, end, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, cpu, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, reason, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, state, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, thread, BITS, ALWAYS),
    F(CONTEXT_SWITCH, context_switch, wakeup_cpu, BITS, ALWAYS),
    F(CPU_SWITCH, cpu_switch, start, BITS, ALWAYS),
    F(CPU_SWITCH, cpu_switch, end, BITS, ALWAYS),
    F(CPU_SWITCH, cpu_switch, thread, THREAD, ALWAYS),
    F(TID_TO_PID, pair, key, BITS, ALWAYS),
    F(TID_TO_PID, pair, value, BITS, ALWAYS),
    F(CPU_THREAD, cpu_thread, tid, BITS, ALWAYS),
    F(CPU_THREAD, cpu_thread, running_time, BITS, ALWAYS),
    F(CPU_THREAD, cpu_thread, running_regions, BITS, ALWAYS),
    F(CPU_THREAD, cpu_thread, migrations, BITS, ALWAYS),
    F(SYMBOLS, symbols, regular, BITS, NEVER),
    F(SYMBOLS, symbols, inlined, BITS, NEVER),
    F(SYMBOL, symbol, address, BITS, ALWAYS),
    F(SYMBOL, symbol, name, STRING, ALWAYS),
    F(SYMBOL, symbol, file, STRING, ALWAYS),
    F(SYMBOL, symbol, line, BITS, ALWAYS),
    F(SYMBOL, symbol, image, STRING, ALWAYS),
    F(SYMBOL, symbol, call_file, STRING, ALWAYS),
    F(SYMBOL, symbol, call_line, BITS, ALWAYS),
    F(SYMBOL, symbol, is_inline, BITS, ALWAYS),
    F(SYMBOL, symbol, size, BITS, ALWAYS),
    F(SYMBOL_CODE, symbol_code, address, BITS, ALWAYS),
    F(CODE_SYMBOL, pair, key, BITS, ALWAYS),
    F(CODE_SYMBOL, pair, value, BITS, ALWAYS),
    F(HW_SAMPLE, id, id, BITS, ALWAYS),
    F(HW_SAMPLE_TIME, time, time, BITS, ALWAYS),
};

#define FIELD_COUNT (sizeof fields / sizeof fields[0])

static int16_t other_srcloc(int16_t srcloc)
{
    return srcloc < 0 ? (int16_t)(srcloc == -SAMPLE_PAYLOADS ? -1 : srcloc - 1)
                      : (int16_t)(srcloc == SAMPLE_EXPANDS - 1 ? -1 : srcloc + 1);
}

/* Another value that is no less valid. */
static void change(enum kind kind, void *at)
{
    switch (kind) {
    case KIND_BITS:
        *(uint8_t *)at ^= 1;
        break;
    case KIND_STRING:
        *(uint32_t *)at = (*(uint32_t *)at + 1) % (SAMPLE_STRINGS + 1);
        break;
    case KIND_REF: {
        struct rec_string_ref *ref = at;
        if (ref->flags == 0)
            ref->flags = STRING_REF_INDEX;
        else
            ref->value = (ref->value + 1) % SAMPLE_STRINGS;
        break;
    }
    case KIND_CALLSTACK:
        *(uint32_t *)at = (*(uint32_t *)at + 1) % (SAMPLE_CALLSTACKS + 1);
        break;
    case KIND_SRCLOC:
        *(int16_t *)at = other_srcloc(*(int16_t *)at);
        break;
    case KIND_IMAGE:
        *(int32_t *)at = (*(int32_t *)at + 2) % (SAMPLE_IMAGES + 1) - 1;
        break;
    case KIND_THREAD:
        *(uint16_t *)at = (uint16_t)((*(uint16_t *)at + 1) % SAMPLE_THREADS);
        break;
    case KIND_EXTRA:
        *(uint32_t *)at = (*(uint32_t *)at + 1) % SAMPLE_EXTRAS;
        break;
    case KIND_LOCK_THREAD:
        *(uint8_t *)at = *(uint8_t *)at == 0;
        break;
    }
}

/* So many records of a type are tried, spread over the file. */
#define TRIES 12u

static void check_field(struct tree *t, const struct field *f, const struct buf *before)
{
    struct buf after = {0};
    size_t n, shown = 0, tried = 0;
    uint32_t *nodes = tree_nodes(t, f->type, &n);
    assert_true(n > 0);
    size_t step = f->shows == ALWAYS ? 1 + n / TRIES : 1;
    for (size_t i = 0; i < n; i += step, tried++) {
        struct tree_node *node = &t->nodes.at[nodes[i]];
        void *copy = malloc(record_size(f->type));
        assert_non_null(copy);
        memcpy(copy, node->rec, record_size(f->type));
        change(f->kind, (uint8_t *)node->rec + f->offset);
        dump_tree(t, &after);
        shown += !same(before, &after);
        memcpy(node->rec, copy, record_size(f->type));
        free(copy);
    }
    free(nodes);
    buf_release(&after);
    if ((f->shows == ALWAYS && shown != tried) || (f->shows == SOMEWHERE && shown == 0) ||
        (f->shows == NEVER && shown != 0))
        fail_msg("%s: %zu of %zu changes show", f->name, shown, tried);
}

static void test_every_value_shows(void **state)
{
    (void)state;
    struct tree t = {0};
    struct buf before = {0};
    make_sample(&t, file_layout_find(FILE_VERSION_MAX), 99);
    dump_tree(&t, &before);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        check_field(&t, &fields[i], &before);
    buf_release(&before);
    tree_release(&t);
}

/* Bytes that records point to. */
static void check_byte(struct tree *t, const void *bytes, bool shows, const struct buf *before,
                       const char *what)
{
    struct buf after = {0};
    uint8_t *byte = (uint8_t *)bytes;
    *byte ^= 1;
    dump_tree(t, &after);
    *byte ^= 1;
    if (same(before, &after) == shows)
        fail_msg("%s: a change %s", what, shows ? "does not show" : "shows");
    buf_release(&after);
}

static void test_every_byte_shows(void **state)
{
    (void)state;
    struct tree t = {0};
    struct buf before = {0};
    make_sample(&t, file_layout_find(FILE_VERSION(0, 12, 2)), 5);
    EACH_NODE(&t, SOURCE_FILE, source_file, {
        r->path = (struct view){tree_own(&t, "path", 4), 4};
        r->bytes = (struct view){tree_own(&t, "bytes", 5), 5};
    });
    EACH_NODE(&t, SYMBOL_CODE, symbol_code, r->bytes = (struct view){tree_own(&t, "code", 4), 4});
    EACH_NODE(&t, STRING, string, r->text = (struct view){tree_own(&t, "0123456789", 10), 10});
    dump_tree(&t, &before);
    EACH_NODE(&t, HEADER, header, {
        check_byte(&t, &r->delay, true, &before, "delay");
        check_byte(&t, r->capture_name.p, true, &before, "capture name");
        check_byte(&t, r->capture_program.p, true, &before, "program");
    });
    EACH_NODE(&t, SOURCE_FILE, source_file, {
        check_byte(&t, r->path.p, true, &before, "path");
        check_byte(&t, r->bytes.p, true, &before, "source file");
    });
    EACH_NODE(&t, SYMBOL_CODE, symbol_code, check_byte(&t, r->bytes.p, true, &before, "code"));
    EACH_NODE(&t, FRAME_IMAGE, frame_image, check_byte(&t, r->bytes.p, true, &before, "image"));
    EACH_NODE(&t, FRAME_IMAGE_DICT, blob, {
        if (r->bytes.len > 0)
            check_byte(&t, r->bytes.p, false, &before, "dictionary");
    });
    EACH_NODE(&t, CALLSTACK, callstack,
              check_byte(&t, &r->frames[r->len - 1u], true, &before, "call stack"));
    EACH_NODE(&t, CALLSTACK_FRAME, callstack_frame, {
        check_byte(&t, &r->inlines[0].line, true, &before, "line");
        check_byte(&t, &r->inlines[r->n - 1u].symbol, true, &before, "symbol");
    });
    buf_release(&before);
    tree_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_value_shows),
        cmocka_unit_test(test_every_byte_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
