#include "analysis/dump/dump.h"

#include "analysis/dump/dump_lines.h"
#include "trace/filter/convert.h"

#define WRITE_BYTES ((size_t)256 << 10)
#define LINES_BETWEEN_LOOKS 4096u

/* ---- output */

static int flush(struct dump *d, struct err *e)
{
    size_t n = d->out.len;
    if (d->out.failed)
        return err_no_memory(e, "the dump");
    buf_clear(&d->out);
    return n > 0 ? d->o->write(d->o->write_ctx, d->out.data, n, e) : 0;
}

/*
 * Sections of tables whose entries are identified by content: a tool may have stored the same entry
 * twice.
 */
static bool without_repetitions(enum dump_section section)
{
    return section == DUMP_ALLOCATED_LOCATIONS || section == DUMP_CALLSTACKS;
}

static bool is_repetition(struct dump *d, struct view line)
{
    struct view last = {(const char *)d->last.data, d->last.len};
    if (view_equal(line, last))
        return true;
    buf_clear(&d->last);
    buf_put(&d->last, line.p, line.len);
    return false;
}

static int put_line(void *ctx, struct view line, struct err *e)
{
    struct dump *d = ctx;
    enum dump_section section = (enum dump_section)(uint8_t)line.p[0];
    if (d->o->writing && d->written++ % LINES_BETWEEN_LOOKS == 0)
        d->o->writing(d->o->writing_ctx, d->written, d->waiting);
    if (d->lines[section] >= d->o->limit ||
        (without_repetitions(section) && is_repetition(d, line)))
        return 0;
    d->lines[section]++;
    buf_put(&d->out, line.p + DUMP_KEY_SIZE, line.len - DUMP_KEY_SIZE);
    return d->out.failed || d->out.len >= WRITE_BYTES ? flush(d, e) : 0;
}

/* ---- records */

#define BIT(SECTION) (UINT64_C(1) << DUMP_##SECTION)

/* The function that makes lines of a record type, and their sections. */
struct dump_row {
    dump_handler *handler;
    uint64_t sections;
};

#define FRAME_BITS (BIT(FRAME_SETS) | BIT(FRAMES))
#define LOCK_BITS (BIT(LOCKS) | BIT(LOCK_EVENTS))
#define THREAD_BITS (BIT(THREADS) | BIT(ZONES) | BIT(MESSAGES) | BIT(SWITCH_SAMPLES) | BIT(SAMPLES))
#define GPU_BITS (BIT(GPU_CONTEXTS) | BIT(GPU_NOTE_NAMES) | BIT(GPU_ZONES) | BIT(GPU_NOTES))
#define PLOT_BITS (BIT(PLOTS) | BIT(PLOT_POINTS))

/* clang-format off */
static const struct dump_row rows[REC_TYPE_COUNT] = {
    [REC_HEADER] = {dump_header, BIT(TRACE)},
    [REC_PACKAGE] = {dump_package, BIT(TOPOLOGY)},
    [REC_DIE] = {dump_die, BIT(TOPOLOGY)},
    [REC_CORE] = {dump_core, BIT(TOPOLOGY)},
    [REC_CPU] = {dump_cpu, BIT(TOPOLOGY)},
    [REC_CRASH] = {dump_crash, BIT(CRASH)},
    [REC_FRAME_SET] = {dump_frame_set, FRAME_BITS},
    [REC_FRAME] = {dump_frame, BIT(FRAMES)},
    [REC_SECTION_LIST] = {dump_section_list, BIT(SECTIONS)},
    [REC_SECTION] = {dump_section, BIT(SECTIONS)},
    [REC_SECTION_CATEGORY] = {dump_section_category, BIT(SECTION_CATEGORIES)},
    [REC_STRING_POINTER] = {dump_string_pointer, BIT(STRINGS)},
    [REC_THREAD_NAME] = {dump_thread_name, BIT(THREAD_NAMES)},
    [REC_EXTERNAL_NAME] = {dump_external_name, BIT(EXTERNAL_NAMES)},
    [REC_SOURCE_LOCATION] = {dump_source_location, BIT(LOCATIONS)},
    [REC_SOURCE_LOCATION_PAYLOAD] = {dump_payload, BIT(ALLOCATED_LOCATIONS)},
    [REC_LOCK] = {dump_lock, LOCK_BITS},
    [REC_LOCK_THREAD] = {dump_lock_thread, BIT(LOCK_EVENTS)},
    [REC_LOCK_EVENT] = {dump_lock_event, BIT(LOCK_EVENTS)},
    [REC_MESSAGE] = {dump_message, BIT(MESSAGES)},
    [REC_THREAD] = {dump_thread, THREAD_BITS},
    [REC_ZONE_BEGIN] = {dump_zone_begin, BIT(ZONES)},
    [REC_ZONE_END] = {dump_zone_end, BIT(ZONES)},
    [REC_THREAD_MESSAGE] = {dump_thread_message, BIT(MESSAGES)},
    [REC_SWITCH_SAMPLE] = {dump_switch_sample, BIT(SWITCH_SAMPLES)},
    [REC_SAMPLE] = {dump_sample, BIT(SAMPLES)},
    [REC_GPU_CONTEXT] = {dump_gpu_context, GPU_BITS},
    [REC_GPU_NOTE_NAME] = {dump_gpu_note_name, BIT(GPU_NOTE_NAMES)},
    [REC_GPU_THREAD] = {dump_gpu_thread, BIT(GPU_ZONES)},
    [REC_GPU_ZONE_BEGIN] = {dump_gpu_zone_begin, BIT(GPU_ZONES)},
    [REC_GPU_ZONE_END] = {dump_gpu_zone_end, BIT(GPU_ZONES)},
    [REC_GPU_NOTE_QUERY] = {dump_gpu_note_query, BIT(GPU_NOTES)},
    [REC_GPU_NOTE] = {dump_gpu_note, BIT(GPU_NOTES)},
    [REC_PLOT] = {dump_plot, PLOT_BITS},
    [REC_PLOT_POINT] = {dump_plot_point, BIT(PLOT_POINTS)},
    [REC_POOL] = {dump_pool, BIT(POOLS) | BIT(MEMORY)},
    [REC_MEMORY_EVENT] = {dump_memory_event, BIT(MEMORY)},
    [REC_POOL_END] = {dump_pool_end, BIT(POOLS)},
    [REC_CALLSTACK] = {dump_callstack, BIT(CALLSTACKS)},
    [REC_CALLSTACK_FRAME] = {dump_callstack_frame, BIT(CALLSTACK_FRAMES)},
    [REC_APP_INFO] = {dump_app_info, BIT(APP_INFO)},
    [REC_FRAME_IMAGE] = {dump_frame_image, BIT(FRAME_IMAGES)},
    [REC_CONTEXT_SWITCH_THREAD] = {dump_context_switch_thread, BIT(CONTEXT_SWITCHES)},
    [REC_CONTEXT_SWITCH] = {dump_context_switch, BIT(CONTEXT_SWITCHES)},
    [REC_CPU_SWITCH_LIST] = {dump_cpu_switch_list, BIT(CPU_SWITCHES)},
    [REC_CPU_SWITCH] = {dump_cpu_switch, BIT(CPU_SWITCHES)},
    [REC_TID_TO_PID] = {dump_process, BIT(PROCESSES)},
    [REC_CPU_THREAD] = {dump_cpu_thread, BIT(CPU_THREADS)},
    [REC_SYMBOL] = {dump_symbol, BIT(SYMBOLS)},
    [REC_SYMBOL_CODE] = {dump_symbol_code, BIT(SYMBOL_CODE)},
    [REC_CODE_SYMBOL] = {dump_code_symbol, BIT(CODE_SYMBOLS)},
    [REC_HW_SAMPLE] = {dump_hw_sample, BIT(HW_SAMPLES)},
    [REC_HW_SAMPLE_LIST] = {dump_hw_sample_list, BIT(HW_SAMPLES)},
    [REC_HW_SAMPLE_TIME] = {dump_hw_sample_time, BIT(HW_SAMPLES)},
    [REC_SOURCE_FILE] = {dump_source_file, BIT(SOURCE_FILES)},
};

/*
 * Root records at which all lines so far belong to complete sections, in the order of the sections.
 * Between messages and GPU contexts they do not.
 */
static const bool complete_at[REC_TYPE_COUNT] = {
    [REC_PACKAGES] = true,
    [REC_CRASH] = true,
    [REC_FRAME_SETS] = true,
    [REC_STRINGS] = true,
    [REC_STRING_POINTERS] = true,
    [REC_THREAD_NAMES] = true,
    [REC_EXTERNAL_NAMES] = true,
    [REC_LOCAL_THREADS] = true,
    [REC_SOURCE_LOCATION_PAYLOADS] = true,
    [REC_LOCKS] = true,
    [REC_MESSAGES] = true,
    [REC_GPU_CONTEXTS] = true,
    [REC_PLOTS] = true,
    [REC_POOLS] = true,
    [REC_CALLSTACKS] = true,
    [REC_CALLSTACK_FRAMES] = true,
    [REC_APP_INFOS] = true,
    [REC_FRAME_IMAGES] = true,
    [REC_CONTEXT_SWITCH_THREADS] = true,
    [REC_CPU_SWITCH_LISTS] = true,
    [REC_TID_TO_PIDS] = true,
    [REC_CPU_THREADS] = true,
    [REC_SYMBOLS] = true,
    [REC_SYMBOL_CODES] = true,
    [REC_CODE_SYMBOLS] = true,
    [REC_HW_SAMPLES] = true,
    [REC_SOURCE_FILES] = true,
};
/* clang-format on */

static bool wants_row(const struct dump *d, const struct dump_row *row)
{
    for (unsigned i = 0; i < DUMP_SECTION_COUNT; i++) {
        if (d->o->sections[i] && row->sections >> i & 1)
            return true;
    }
    return false;
}

static int complete(struct dump *d, enum record_type type, struct err *e)
{
    if (type == REC_GPU_CONTEXTS && dump_join_messages(d, e) != 0)
        return -1;
    d->ordinal = 0;
    int status = line_sort_drain(&d->sort, put_line, d, e);
    d->waiting = d->written = 0;
    return status;
}

struct second_pass {
    struct dump *d;
    bool wanted[REC_TYPE_COUNT];
};

static int dump_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct second_pass *pass = ctx;
    struct dump *d = pass->d;
    dump_handler *handler = pass->wanted[type] ? rows[type].handler : NULL;
    d->e = e;
    if (complete_at[type] && complete(d, type, e) != 0)
        return -1;
    for (size_t i = 0; handler && i < n; i++) {
        handler(d, (const uint8_t *)recs + i * record_size(type));
        if (dump_end(d) != 0)
            return -1;
    }
    return 0;
}

static int read_lines(struct dump *d, const struct dump_source *source, struct err *e)
{
    struct second_pass pass = {.d = d};
    struct record_sink sink = {&pass, dump_put};
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        pass.wanted[i] = complete_at[i] || (rows[i].handler && wants_row(d, &rows[i]));
    if (source->read(source->ctx, &sink, pass.wanted, e) != 0 ||
        complete(d, REC_SOURCE_FILE, e) != 0)
        return -1;
    return flush(d, e);
}

/* ---- contents that another version can hold */

struct converted {
    const struct dump_source *source;
    const struct dump_options *o;
};

static int read_converted(void *ctx, const struct record_sink *sink, const bool *wanted,
                          struct err *e)
{
    (void)wanted; /* a conversion needs all records */
    struct converted *c = ctx;
    struct convert *convert;
    const struct convert_options options = {.target = c->o->common, .spill_dir = c->o->spill_dir};
    if (convert_open(&convert, sink, &options, e) != 0)
        return -1;
    struct record_sink to_convert = convert_sink(convert);
    int status = c->source->read(c->source->ctx, &to_convert, NULL, e);
    convert_free(convert);
    return status;
}

/* ---- interface */

static void dump_release(struct dump *d)
{
    dump_tables_release(&d->t);
    line_sort_release(&d->sort);
    line_sort_release(&d->messages);
    buf_release(&d->line);
    buf_release(&d->out);
    buf_release(&d->last);
    buf_release(&d->group);
    vec_release(&d->lock_threads);
    vec_release(&d->zones);
}

int dump_run(const struct dump_source *source, const struct dump_options *options, struct err *e)
{
    struct dump d = {.o = options};
    struct converted converted = {source, options};
    struct dump_source other = {&converted, read_converted};
    if (options->common)
        source = &other;
    dump_tables_init(&d.t, options);
    line_sort_init(&d.sort, options->sort_bytes, options->spill_dir);
    line_sort_init(&d.messages, options->sort_bytes, options->spill_dir);
    int status = dump_tables_read(&d.t, source, options->sections[DUMP_FRAMES], e);
    if (status == 0)
        status = read_lines(&d, source, e);
    dump_release(&d);
    return status;
}
