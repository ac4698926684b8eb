/* Lines of a dump: the trace itself and its tables. */

#include <string.h>

#include "analysis/dump/dump_lines.h"

static int trace_number(struct dump *d, const char *name, uint64_t value, struct err *e)
{
    dump_begin(d, DUMP_TRACE, 0, d->ordinal++, 0);
    dump_number(d, name, value);
    return dump_end(d, e);
}

static int trace_integer(struct dump *d, const char *name, int64_t value, struct err *e)
{
    dump_begin(d, DUMP_TRACE, 0, d->ordinal++, 0);
    dump_integer(d, name, value);
    return dump_end(d, e);
}

static int trace_text(struct dump *d, const char *name, struct view text, struct err *e)
{
    dump_begin(d, DUMP_TRACE, 0, d->ordinal++, 0);
    dump_text(d, name, text);
    return dump_end(d, e);
}

static int trace_real(struct dump *d, const char *name, double value, struct err *e)
{
    dump_begin(d, DUMP_TRACE, 0, d->ordinal++, 0);
    dump_real(d, name, value);
    return dump_end(d, e);
}

static int dump_clock(struct dump *d, const struct rec_header *h, struct err *e)
{
    /* Versions from 0.12.3 on have no delay, so --common leaves it out. */
    if (d->t.layout->delay && !d->o->common && trace_integer(d, "delay", h->delay, e) != 0)
        return -1;
    if (trace_integer(d, "resolution", h->resolution, e) != 0 ||
        trace_real(d, "timer_multiplier", h->timer_mul, e) != 0)
        return -1;
    return trace_integer(d, "last_time", h->last_time, e);
}

static int dump_machine(struct dump *d, const struct rec_header *h, struct err *e)
{
    struct view maker = {h->cpu_manufacturer, sizeof h->cpu_manufacturer};
    while (maker.len > 0 && maker.p[maker.len - 1] == 0)
        maker.len--;
    if (trace_number(d, "cpu_architecture", h->cpu_arch, e) != 0 ||
        trace_number(d, "cpu_id", h->cpu_id, e) != 0)
        return -1;
    return trace_text(d, "cpu_manufacturer", maker, e);
}

int dump_header(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_header *h = recs;
    char version[FILE_VERSION_TEXT_SIZE];
    d->ordinal = 0;
    if (trace_text(d, "version", view_of(file_version_text(h->version, version)), e) != 0 ||
        dump_clock(d, h, e) != 0 || trace_number(d, "frame_offset", h->frame_offset, e) != 0 ||
        trace_number(d, "pid", h->pid, e) != 0 ||
        trace_integer(d, "sampling_period", h->sampling_period, e) != 0 ||
        dump_machine(d, h, e) != 0)
        return -1;
    if (d->t.layout->on_demand && trace_number(d, "on_demand", h->on_demand, e) != 0)
        return -1;
    if (trace_text(d, "capture_name", h->capture_name, e) != 0 ||
        trace_text(d, "program", h->capture_program, e) != 0 ||
        trace_number(d, "capture_time", h->capture_time, e) != 0 ||
        trace_number(d, "executable_time", h->executable_time, e) != 0)
        return -1;
    return trace_text(d, "host_info", h->host_info, e);
}

/* ---- topology: a line for each processor, and for each node without children */

enum topology_level { LEVEL_PACKAGE, LEVEL_DIE, LEVEL_CORE, LEVEL_CPU };

static int topology_line(struct dump *d, enum topology_level level, uint32_t cpu, struct err *e)
{
    dump_begin(d, DUMP_TOPOLOGY, d->package, (uint64_t)d->die << 32 | d->core, cpu);
    dump_number(d, "package", d->package);
    if (level >= LEVEL_DIE && d->t.layout->dies)
        dump_number(d, "die", d->die);
    if (level >= LEVEL_CORE)
        dump_number(d, "core", d->core);
    if (level >= LEVEL_CPU)
        dump_number(d, "cpu", cpu);
    return dump_end(d, e);
}

int dump_package(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_topology_node *r = recs;
    d->package = r->id;
    d->die = 0;
    d->core = 0;
    return r->n == 0 ? topology_line(d, LEVEL_PACKAGE, 0, e) : 0;
}

int dump_die(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_topology_node *r = recs;
    d->die = r->id;
    d->core = 0;
    return r->n == 0 ? topology_line(d, LEVEL_DIE, 0, e) : 0;
}

int dump_core(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_topology_node *r = recs;
    d->core = r->id;
    return r->n == 0 ? topology_line(d, LEVEL_CORE, 0, e) : 0;
}

int dump_cpu(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_topology_node *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (topology_line(d, LEVEL_CPU, r[i].id, e) != 0)
            return -1;
    }
    return 0;
}

int dump_crash(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_crash *r = recs;
    if (r->thread == 0 && r->time == 0 && r->message == 0 && r->callstack == 0)
        return 0;
    dump_begin(d, DUMP_CRASH, 0, 0, 0);
    dump_integer(d, "time", r->time);
    dump_number(d, "thread", r->thread);
    dump_field_pointer(&d->t, &d->line, "message", r->message);
    dump_callstack_field(d, "callstack", r->callstack);
    return dump_end(d, e);
}

/* ---- frames and sections */

int dump_frame_set(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_frame_set *r = recs;
    dump_group_pointer(d, "set", r->name);
    d->continuous = r->continuous != 0;
    if (!dump_wants(d, DUMP_FRAME_SETS))
        return 0;
    dump_begin(d, DUMP_FRAME_SETS, d->rank, r->name, 0);
    dump_group_fields(d);
    dump_address(d, "pointer", r->name);
    dump_number(d, "continuous", r->continuous);
    return dump_end(d, e);
}

int dump_frame(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_frame *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_FRAMES, d->rank, d->owner, dump_signed(r[i].start));
        dump_group_fields(d);
        dump_integer(d, "start", r[i].start);
        if (!d->continuous)
            dump_end_time(d, "end", r[i].end);
        if (r[i].image >= 0 && (size_t)r[i].image < d->t.images.len)
            dump_field_hash(&d->t, &d->line, "image", d->t.images.at[r[i].image]);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_section_list(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n, (void)e;
    d->category = ((const struct rec_section_list *)recs)->category;
    return 0;
}

int dump_section(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_section *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_SECTIONS, 0, d->category, dump_signed(r[i].start));
        if (d->t.layout->sections == SECTIONS_BY_CATEGORY)
            dump_number(d, "category", d->category);
        dump_integer(d, "start", r[i].start);
        dump_end_time(d, "end", r[i].end);
        dump_string_field(d, "text", r[i].text);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_section_category(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_section_category *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_SECTION_CATEGORIES, 0, r[i].category, 0);
        dump_number(d, "category", r[i].category);
        dump_string_field(d, "description", r[i].description);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- names. A key that no string has counts as absent, as in official readers. */

int dump_string_pointer(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_pair *r = recs;
    for (size_t i = 0; i < n; i++) {
        uint32_t text = dump_string_of_key(&d->t, r[i].value);
        if (!text)
            continue;
        dump_begin(d, DUMP_STRINGS, 0, r[i].key, 0);
        dump_address(d, "pointer", r[i].key);
        dump_string_field(d, "text", text);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_thread_name(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_pair *r = recs;
    for (size_t i = 0; i < n; i++) {
        uint32_t text = dump_string_of_key(&d->t, r[i].value);
        if (!text)
            continue;
        dump_begin(d, DUMP_THREAD_NAMES, 0, r[i].key, 0);
        dump_number(d, "thread", r[i].key);
        dump_string_field(d, "name", text);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_external_name(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_external_name *r = recs;
    for (size_t i = 0; i < n; i++) {
        uint32_t program = dump_string_of_key(&d->t, r[i].program_key);
        uint32_t name = dump_string_of_key(&d->t, r[i].thread_key);
        if (!program || !name)
            continue;
        dump_begin(d, DUMP_EXTERNAL_NAMES, 0, r[i].id, 0);
        dump_number(d, "thread", r[i].id);
        dump_string_field(d, "program", program);
        dump_string_field(d, "name", name);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_source_location(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_source_location *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_LOCATIONS, 0, r[i].pointer, 0);
        dump_address(d, "pointer", r[i].pointer);
        dump_fields_location(&d->t, &d->line, &r[i]);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_payload(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_source_location *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_ALLOCATED_LOCATIONS, 0, 0, 0);
        dump_fields_location(&d->t, &d->line, &r[i]);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

/* The facts that a capture stores: docs/facts.md. */
static bool is_own_fact(const struct dump *d, const struct rec_string_ref *r)
{
    static const char prefix[] = "tidemark.";
    struct view text = strings_get(&d->t.strings, dump_string_of(&d->t, r));
    return text.len >= sizeof prefix - 1 && memcmp(text.p, prefix, sizeof prefix - 1) == 0;
}

int dump_app_info(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_string_ref *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (!d->o->own && is_own_fact(d, &r[i]))
            continue;
        dump_begin(d, DUMP_APP_INFO, 0, d->ordinal++, 0);
        dump_field_ref(&d->t, &d->line, "text", &r[i]);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- binary contents */

int dump_frame_image(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_frame_image *r = recs;
    dump_begin(d, DUMP_FRAME_IMAGES, 0, 0, 0);
    dump_field_hash(&d->t, &d->line, "image", dump_image_hash(r));
    dump_number(d, "width", r->w);
    dump_number(d, "height", r->h);
    dump_number(d, "flip", r->flip);
    return dump_end(d, e);
}

int dump_symbol_code(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_symbol_code *r = recs;
    dump_begin(d, DUMP_SYMBOL_CODE, 0, r->address, 0);
    dump_address(d, "address", r->address);
    dump_content(d, r->bytes);
    return dump_end(d, e);
}

int dump_source_file(struct dump *d, const void *recs, size_t n, struct err *e)
{
    (void)n;
    const struct rec_source_file *r = recs;
    dump_begin(d, DUMP_SOURCE_FILES, 0, 0, 0);
    dump_text(d, "path", r->path);
    dump_content(d, r->bytes);
    return dump_end(d, e);
}

/* ---- processes and symbols */

int dump_process(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_pair *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_PROCESSES, 0, r[i].key, 0);
        dump_number(d, "thread", r[i].key);
        dump_number(d, "process", r[i].value);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

int dump_cpu_thread(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_cpu_thread *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_CPU_THREADS, 0, r[i].tid, 0);
        dump_number(d, "thread", r[i].tid);
        dump_integer(d, "running_time", r[i].running_time);
        dump_number(d, "running_regions", r[i].running_regions);
        dump_number(d, "migrations", r[i].migrations);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}

static int symbol_line(struct dump *d, const struct rec_symbol *r, struct err *e)
{
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
    return dump_end(d, e);
}

int dump_symbol(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_symbol *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (symbol_line(d, &r[i], e) != 0)
            return -1;
    }
    return 0;
}

int dump_code_symbol(struct dump *d, const void *recs, size_t n, struct err *e)
{
    const struct rec_pair *r = recs;
    for (size_t i = 0; i < n; i++) {
        dump_begin(d, DUMP_CODE_SYMBOLS, 0, r[i].key, 0);
        dump_address(d, "address", r[i].key);
        dump_address(d, "symbol", r[i].value);
        if (dump_end(d, e) != 0)
            return -1;
    }
    return 0;
}
