/* Lines of a dump: the trace itself and its tables. */

#include <string.h>

#include "analysis/dump/dump_lines.h"

static void trace_begin(struct dump *d)
{
    dump_begin(d, DUMP_TRACE, 0, d->ordinal++, 0);
}

static void trace_number(struct dump *d, const char *name, uint64_t value)
{
    trace_begin(d);
    dump_number(d, name, value);
}

static void trace_integer(struct dump *d, const char *name, int64_t value)
{
    trace_begin(d);
    dump_integer(d, name, value);
}

static void trace_text(struct dump *d, const char *name, struct view text)
{
    trace_begin(d);
    dump_text(d, name, text);
}

void dump_header(struct dump *d, const void *rec)
{
    const struct rec_header *h = rec;
    char version[FILE_VERSION_TEXT_SIZE];
    struct view maker = {h->cpu_manufacturer, sizeof h->cpu_manufacturer};
    while (maker.len > 0 && maker.p[maker.len - 1] == 0)
        maker.len--;
    d->ordinal = 0;
    trace_text(d, "version", view_of(file_version_text(h->version, version)));
    /* Versions from 0.12.3 on have no delay, so --common leaves it out. */
    if (d->t.layout->delay && !d->o->common)
        trace_integer(d, "delay", h->delay);
    trace_integer(d, "resolution", h->resolution);
    trace_begin(d);
    dump_real(d, "timer_multiplier", h->timer_mul);
    trace_integer(d, "last_time", h->last_time);
    trace_number(d, "frame_offset", h->frame_offset);
    trace_number(d, "pid", h->pid);
    trace_integer(d, "sampling_period", h->sampling_period);
    trace_number(d, "cpu_architecture", h->cpu_arch);
    trace_number(d, "cpu_id", h->cpu_id);
    trace_text(d, "cpu_manufacturer", maker);
    if (d->t.layout->on_demand)
        trace_number(d, "on_demand", h->on_demand);
    trace_text(d, "capture_name", h->capture_name);
    trace_text(d, "program", h->capture_program);
    trace_number(d, "capture_time", h->capture_time);
    trace_number(d, "executable_time", h->executable_time);
    trace_text(d, "host_info", h->host_info);
}

/* ---- topology: a line for each processor, and for each node without children */

enum topology_level { LEVEL_PACKAGE, LEVEL_DIE, LEVEL_CORE, LEVEL_CPU };

static void topology_line(struct dump *d, enum topology_level level, uint32_t cpu)
{
    dump_begin(d, DUMP_TOPOLOGY, d->package, (uint64_t)d->die << 32 | d->core, cpu);
    dump_number(d, "package", d->package);
    if (level >= LEVEL_DIE && d->t.layout->dies)
        dump_number(d, "die", d->die);
    if (level >= LEVEL_CORE)
        dump_number(d, "core", d->core);
    if (level >= LEVEL_CPU)
        dump_number(d, "cpu", cpu);
}

void dump_package(struct dump *d, const void *rec)
{
    const struct rec_topology_node *r = rec;
    d->package = r->id;
    d->die = 0;
    d->core = 0;
    if (r->n == 0)
        topology_line(d, LEVEL_PACKAGE, 0);
}

void dump_die(struct dump *d, const void *rec)
{
    const struct rec_topology_node *r = rec;
    d->die = r->id;
    d->core = 0;
    if (r->n == 0)
        topology_line(d, LEVEL_DIE, 0);
}

void dump_core(struct dump *d, const void *rec)
{
    const struct rec_topology_node *r = rec;
    d->core = r->id;
    if (r->n == 0)
        topology_line(d, LEVEL_CORE, 0);
}

void dump_cpu(struct dump *d, const void *rec)
{
    topology_line(d, LEVEL_CPU, ((const struct rec_topology_node *)rec)->id);
}

void dump_crash(struct dump *d, const void *rec)
{
    const struct rec_crash *r = rec;
    if (r->thread == 0 && r->time == 0 && r->message == 0 && r->callstack == 0)
        return;
    dump_begin(d, DUMP_CRASH, 0, 0, 0);
    dump_integer(d, "time", r->time);
    dump_number(d, "thread", r->thread);
    dump_field_pointer(&d->t, &d->line, "message", r->message);
    dump_callstack_field(d, "callstack", r->callstack);
}

/* ---- frames and sections */

void dump_frame_set(struct dump *d, const void *rec)
{
    const struct rec_frame_set *r = rec;
    dump_group_pointer(d, "set", r->name);
    d->continuous = r->continuous != 0;
    if (!dump_wants(d, DUMP_FRAME_SETS))
        return;
    dump_begin(d, DUMP_FRAME_SETS, d->rank, r->name, 0);
    dump_group_fields(d);
    dump_address(d, "pointer", r->name);
    dump_number(d, "continuous", r->continuous);
}

void dump_frame(struct dump *d, const void *rec)
{
    const struct rec_frame *r = rec;
    dump_begin(d, DUMP_FRAMES, d->rank, d->owner, dump_signed(r->start));
    dump_group_fields(d);
    dump_integer(d, "start", r->start);
    if (!d->continuous)
        dump_end_time(d, "end", r->end);
    if (r->image >= 0 && (size_t)r->image < d->t.images.len)
        dump_field_hash(&d->t, &d->line, "image", d->t.images.at[r->image]);
}

void dump_section_list(struct dump *d, const void *rec)
{
    d->category = ((const struct rec_section_list *)rec)->category;
}

void dump_section(struct dump *d, const void *rec)
{
    const struct rec_section *r = rec;
    dump_begin(d, DUMP_SECTIONS, 0, d->category, dump_signed(r->start));
    if (d->t.layout->sections == SECTIONS_BY_CATEGORY)
        dump_number(d, "category", d->category);
    dump_integer(d, "start", r->start);
    dump_end_time(d, "end", r->end);
    dump_string_field(d, "text", r->text);
}

void dump_section_category(struct dump *d, const void *rec)
{
    const struct rec_section_category *r = rec;
    dump_begin(d, DUMP_SECTION_CATEGORIES, 0, r->category, 0);
    dump_number(d, "category", r->category);
    dump_string_field(d, "description", r->description);
}

/* ---- names. A key that no string has counts as absent, as in official readers. */

void dump_string_pointer(struct dump *d, const void *rec)
{
    const struct rec_pair *r = rec;
    uint32_t text = dump_string_of_key(&d->t, r->value);
    if (!text)
        return;
    dump_begin(d, DUMP_STRINGS, 0, r->key, 0);
    dump_address(d, "pointer", r->key);
    dump_string_field(d, "text", text);
}

void dump_thread_name(struct dump *d, const void *rec)
{
    const struct rec_pair *r = rec;
    uint32_t text = dump_string_of_key(&d->t, r->value);
    if (!text)
        return;
    dump_begin(d, DUMP_THREAD_NAMES, 0, r->key, 0);
    dump_number(d, "thread", r->key);
    dump_string_field(d, "name", text);
}

void dump_external_name(struct dump *d, const void *rec)
{
    const struct rec_external_name *r = rec;
    uint32_t program = dump_string_of_key(&d->t, r->program_key);
    uint32_t name = dump_string_of_key(&d->t, r->thread_key);
    if (!program || !name)
        return;
    dump_begin(d, DUMP_EXTERNAL_NAMES, 0, r->id, 0);
    dump_number(d, "thread", r->id);
    dump_string_field(d, "program", program);
    dump_string_field(d, "name", name);
}

void dump_source_location(struct dump *d, const void *rec)
{
    const struct rec_source_location *r = rec;
    dump_begin(d, DUMP_LOCATIONS, 0, r->pointer, 0);
    dump_address(d, "pointer", r->pointer);
    dump_fields_location(&d->t, &d->line, r);
}

void dump_payload(struct dump *d, const void *rec)
{
    const struct rec_source_location *r = rec;
    dump_begin(d, DUMP_ALLOCATED_LOCATIONS, 0, 0, 0);
    dump_fields_location(&d->t, &d->line, r);
}

/* The facts that a capture stores: docs/facts.md. */
static bool is_own_fact(const struct dump *d, const struct rec_string_ref *r)
{
    static const char prefix[] = "tidemark.";
    struct view text = strings_get(&d->t.strings, dump_string_of(&d->t, r));
    return text.len >= sizeof prefix - 1 && memcmp(text.p, prefix, sizeof prefix - 1) == 0;
}

void dump_app_info(struct dump *d, const void *rec)
{
    const struct rec_string_ref *r = rec;
    if (!d->o->own && is_own_fact(d, r))
        return;
    dump_begin(d, DUMP_APP_INFO, 0, d->ordinal++, 0);
    dump_field_ref(&d->t, &d->line, "text", r);
}

/* ---- binary contents */

void dump_frame_image(struct dump *d, const void *rec)
{
    const struct rec_frame_image *r = rec;
    dump_begin(d, DUMP_FRAME_IMAGES, 0, 0, 0);
    dump_field_hash(&d->t, &d->line, "image", dump_image_hash(r));
    dump_number(d, "width", r->w);
    dump_number(d, "height", r->h);
    dump_number(d, "flip", r->flip);
}

void dump_symbol_code(struct dump *d, const void *rec)
{
    const struct rec_symbol_code *r = rec;
    dump_begin(d, DUMP_SYMBOL_CODE, 0, r->address, 0);
    dump_address(d, "address", r->address);
    dump_content(d, r->bytes);
}

void dump_source_file(struct dump *d, const void *rec)
{
    const struct rec_source_file *r = rec;
    dump_begin(d, DUMP_SOURCE_FILES, 0, 0, 0);
    dump_text(d, "path", r->path);
    dump_content(d, r->bytes);
}

/* ---- processes and symbols */

void dump_process(struct dump *d, const void *rec)
{
    const struct rec_pair *r = rec;
    dump_begin(d, DUMP_PROCESSES, 0, r->key, 0);
    dump_number(d, "thread", r->key);
    dump_number(d, "process", r->value);
}

void dump_cpu_thread(struct dump *d, const void *rec)
{
    const struct rec_cpu_thread *r = rec;
    dump_begin(d, DUMP_CPU_THREADS, 0, r->tid, 0);
    dump_number(d, "thread", r->tid);
    dump_integer(d, "running_time", r->running_time);
    dump_number(d, "running_regions", r->running_regions);
    dump_number(d, "migrations", r->migrations);
}

void dump_symbol(struct dump *d, const void *rec)
{
    const struct rec_symbol *r = rec;
    dump_begin(d, DUMP_SYMBOLS, 0, r->address, 0);
    dump_address(d, "address", r->address);
    dump_number(d, "size", r->size);
    dump_string_field(d, "name", r->name);
    dump_string_field(d, "file", r->file);
    dump_number(d, "line", r->line);
    dump_string_field(d, "image", r->image);
    dump_number(d, "inline", r->is_inline);
    dump_string_field(d, "call_file", r->call_file);
    dump_number(d, "call_line", r->call_line);
}

void dump_code_symbol(struct dump *d, const void *rec)
{
    const struct rec_pair *r = rec;
    dump_begin(d, DUMP_CODE_SYMBOLS, 0, r->key, 0);
    dump_address(d, "address", r->key);
    dump_address(d, "symbol", r->value);
}
