#pragma once

/*
 * The second pass of a dump: turns records into lines. Each line is sorted by section, by three
 * numbers that depend on its kind, and by its text. For analysis/.
 */

#include "analysis/dump/dump.h"
#include "analysis/dump/dump_tables.h"
#include "base/line_sort.h"
#include "base/vec.h"

#define DUMP_KEY_SIZE 21u /* section, 32-bit group, 64-bit a and b, big-endian */

struct dump_open_zone {
    uint64_t ordinal;
    union {
        struct rec_zone_begin cpu;
        struct rec_gpu_zone_begin gpu;
    } begin;
};

struct dump {
    const struct dump_options *o;
    struct dump_tables t;
    struct line_sort sort;
    struct line_sort messages; /* by key, with the threads whose lists name it */
    uint8_t key[DUMP_KEY_SIZE];
    struct buf line;
    bool is_open; /* a line was begun */
    struct err *e;
    int status; /* -1: a line failed, *e says why */
    /* output */
    struct buf out;
    struct buf last; /* line of a section without repetitions */
    uint64_t lines[DUMP_SECTION_COUNT];
    uint64_t waiting, written; /* lines in `sort`, and those of them that came out */
    /* the position in the records */
    struct buf group; /* first fields of all lines of the current list */
    uint64_t ordinal; /* preserves the order of the file */
    uint32_t package, die, core;
    bool continuous;
    uint64_t owner; /* the thread, pointer, address or processor of the list */
    uint32_t rank;
    uint16_t category, query;
    struct rec_lock lock;
    VEC(uint64_t) lock_threads;
    VEC(struct dump_open_zone) zones;
    uint64_t gpu_context; /* number in the file, from 1 */
    uint64_t cpu_list, hw_list;
};

static inline bool dump_wants(const struct dump *d, enum dump_section section)
{
    return d->o->sections[section];
}

/* A signed number as a part of a key. */
static inline uint64_t dump_signed(int64_t n)
{
    return (uint64_t)n ^ UINT64_C(1) << 63;
}

/* Passes the line before on and begins one in d->line. */
void dump_begin(struct dump *d, enum dump_section section, uint32_t group, uint64_t a, uint64_t b);
/* Passes the open line on, if any. -1 if this or anything before failed. */
int dump_end(struct dump *d);
void dump_no_room(struct dump *d);

/* Fields of the current line. */
static inline void dump_number(struct dump *d, const char *name, uint64_t value)
{
    d->o->format->number(&d->line, view_of(name), value);
}

static inline void dump_integer(struct dump *d, const char *name, int64_t value)
{
    d->o->format->integer(&d->line, view_of(name), value);
}

static inline void dump_address(struct dump *d, const char *name, uint64_t value)
{
    d->o->format->address(&d->line, view_of(name), value);
}

static inline void dump_real(struct dump *d, const char *name, double value)
{
    d->o->format->real(&d->line, view_of(name), value);
}

static inline void dump_text(struct dump *d, const char *name, struct view text)
{
    dump_field_text(&d->t, &d->line, name, text);
}

/* A time; -1, none, is left out. */
static inline void dump_end_time(struct dump *d, const char *name, int64_t time)
{
    if (time != -1)
        dump_integer(d, name, time);
}

static inline void dump_string_field(struct dump *d, const char *name, uint32_t sidx)
{
    dump_field_string(&d->t, &d->line, name, sidx);
}

static inline void dump_callstack_field(struct dump *d, const char *name, uint32_t callstack)
{
    dump_field_callstack(&d->t, &d->line, name, callstack);
}

/* Length and hash of bytes that are too long for a line. */
static inline void dump_content(struct dump *d, struct view bytes)
{
    dump_number(d, "bytes", bytes.len);
    dump_field_hash(&d->t, &d->line, "hash", dump_hash(bytes));
}

/*
 * d->group: the first fields of the lines of a list. Pointer 0 is the frame set, plot or pool
 * without a name, whatever text some official versions bind to it.
 */
static inline void dump_group_pointer(struct dump *d, const char *name, uint64_t pointer)
{
    buf_clear(&d->group);
    if (pointer != 0)
        dump_field_pointer(&d->t, &d->group, name, pointer);
    d->owner = pointer;
    d->rank = pointer != 0 ? dump_rank(&d->t, pointer) : 0;
}

static inline void dump_group_fields(struct dump *d)
{
    buf_put(&d->line, d->group.data, d->group.len);
}

static inline void dump_location_fields(struct dump *d, int16_t srcloc)
{
    const struct rec_source_location *location = dump_location(&d->t, srcloc);
    if (location)
        dump_fields_location(&d->t, &d->line, location);
}

/* Begins the lines of a record; the caller ends the last one. */
typedef void dump_handler(struct dump *d, const void *rec);

/* dump_lists.c */
dump_handler dump_header, dump_package, dump_die, dump_core, dump_cpu, dump_crash, dump_frame_set,
    dump_frame, dump_section_list, dump_section, dump_section_category, dump_string_pointer,
    dump_thread_name, dump_external_name, dump_source_location, dump_payload, dump_app_info,
    dump_frame_image, dump_process, dump_cpu_thread, dump_symbol, dump_symbol_code,
    dump_code_symbol, dump_source_file;

/* dump_events.c */
dump_handler dump_lock, dump_lock_thread, dump_lock_event, dump_message, dump_thread,
    dump_zone_begin, dump_zone_end, dump_thread_message, dump_switch_sample, dump_sample, dump_plot,
    dump_plot_point, dump_pool, dump_memory_event, dump_pool_end, dump_callstack,
    dump_callstack_frame, dump_context_switch_thread, dump_context_switch, dump_cpu_switch_list,
    dump_cpu_switch, dump_hw_sample, dump_hw_sample_list, dump_hw_sample_time;

/* dump_gpu.c */
dump_handler dump_gpu_context, dump_gpu_note_name, dump_gpu_thread, dump_gpu_zone_begin,
    dump_gpu_zone_end, dump_gpu_note_query, dump_gpu_note;

/* Makes lines of the messages, after all thread lists were read (dump_messages.c). */
int dump_join_messages(struct dump *d, struct err *e);
