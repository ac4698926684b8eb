/* Feeds the modules of a PDB file to a maker. */

#include "symbols/index/index_pdb.h"

#include "base/order.h"
#include "symbols/pdb/codeview.h"
#include "symbols/pdb/inline_site.h"
#include "symbols/pdb/pdb_lines.h"

#define MODULE_SIGNATURE 4u /* C13 */

int index_pdb_init(struct index_build *b, struct err *e)
{
    return b->x->types ? 0 : pdb_types_read(&b->x->types, b->pdb, e);
}

/* ---- modules and their code */

struct part_sink {
    struct index_build *build;
    bool failed;
};

static bool take_part(void *user, uint32_t module, uint64_t low, uint64_t high)
{
    struct part_sink *sink = user;
    struct index_build *b = sink->build;
    if (low >= high || pdb_file_module_at(b->pdb, module)->stream == UINT32_MAX ||
        !code_map_has(&b->code, low, low + 1))
        return true;
    sink->failed = !vec_push(&b->claims, (struct unit_claim){low, high, module});
    return !sink->failed;
}

int index_pdb_scan(struct index_build *b, struct err *e)
{
    struct part_sink sink = {.build = b};
    size_t n = pdb_file_module_count(b->pdb);
    for (size_t i = 0; i < n && !sink.failed; i++)
        sink.failed = !vec_push(&b->x->units, (struct index_unit){.root = i});
    if (!sink.failed)
        pdb_file_parts(b->pdb, take_part, &sink);
    return sink.failed ? err_no_memory(e, "the modules of a PDB file") : 0;
}

static const struct pdb_module *module_of(const struct index_build *b, uint64_t module)
{
    return module < pdb_file_module_count(b->pdb) ? pdb_file_module_at(b->pdb, (size_t)module)
                                                  : NULL;
}

uint64_t index_pdb_size(const struct index_build *b, uint64_t module)
{
    const struct pdb_module *m = module_of(b, module);
    return m ? msf_file_size(pdb_file_streams(b->pdb), m->stream) : 0;
}

/* ---- one module */

/* An open function, inlined call or block. */
struct level {
    uint32_t scope; /* number + 1; 0: its contents are ignored */
    bool inlined;
    size_t first_row, end_row; /* of an inlined call, among the maker's rows */
};

struct function {
    uint64_t low, high;
    uint32_t scope;
};

struct module_walk {
    const struct index_build *build;
    struct unit_walk *walk;
    struct unit_maker *maker;
    struct pdb_lines lines;
    VEC(uint32_t) files; /* by file of `lines`: its number + 1 in the maker; 0: not there yet */
    VEC(struct function) functions;
    VEC(struct level) levels;
    struct map starts;  /* of functions */
    struct map names;   /* by number of an inlined function: its string */
    struct buf name;    /* in the making */
    uint64_t low, high; /* of the current function */
};

static uint32_t file_of(struct module_walk *w, uint32_t file)
{
    if (file == 0 || file > w->files.len)
        return 0;
    uint32_t *number = &w->files.at[file - 1];
    if (*number == 0)
        *number = maker_path(w->maker, w->lines.files.at[file - 1]);
    return *number;
}

static void push(struct module_walk *w, struct level level)
{
    if (w->levels.len == WALK_DEPTH) {
        w->maker->fault = "functions that lie too deep";
        level = w->levels.at[WALK_DEPTH - 1];
        level.scope = 0;
        w->levels.at[WALK_DEPTH - 1] = level;
    } else if (!vec_push(&w->levels, level)) {
        w->maker->failed = true;
    }
}

/* Of functions with the same code (folded by the linker) the first one counts. */
static void open_function(struct module_walk *w, struct cursor c)
{
    bool fresh;
    uint64_t low;
    (void)cursor_take(&c, 12); /* parent, end, next */
    uint32_t size = cursor_u32(&c);
    (void)cursor_take(&c, 12); /* debug start and end, type */
    uint32_t offset = cursor_u32(&c);
    uint16_t section = cursor_u16(&c);
    (void)cursor_u8(&c);
    const char *name = codeview_text(&c);
    w->levels.len = 0;
    if (c.short_read || size == 0 || !pdb_file_address(w->build->pdb, section, offset, &low)) {
        push(w, (struct level){0});
        return;
    }
    if (!map_add(&w->starts, low, &fresh)) {
        w->maker->failed = true;
        return;
    }
    if (!fresh) {
        push(w, (struct level){0});
        return;
    }
    const struct block_scope scope = {.name = maker_string(w->maker, name)};
    struct function f = {low, low + size, maker_scope(w->maker, &scope)};
    maker_scope_range(w->maker, f.scope, f.low, f.high);
    if (!vec_push(&w->functions, f))
        w->maker->failed = true;
    w->low = f.low;
    w->high = f.high;
    push(w, (struct level){.scope = f.scope});
}

static uint32_t name_of(struct module_walk *w, uint32_t id)
{
    bool fresh;
    uint64_t *known = map_add(&w->names, id, &fresh);
    if (!known) {
        w->maker->failed = true;
        return 0;
    }
    if (fresh) {
        buf_clear(&w->name);
        if (pdb_types_function(w->build->x->types, id, &w->name))
            *known = maker_text(w->maker, (struct view){buf_str(&w->name), w->name.len});
    }
    return (uint32_t)*known;
}

/* The position of a call at `address` in the function or inlined call around it. */
static void set_call(struct module_walk *w, struct block_scope *scope, const struct level *around,
                     uint64_t address)
{
    if (around->inlined) {
        size_t first = around->first_row;
        BISECT(first, around->end_row, i, w->maker->rows.at[i].address <= address);
        if (first == around->first_row)
            return;
        const struct maker_row *row = &w->maker->rows.at[first - 1];
        scope->call_file = row->file;
        scope->call_line = row->line;
        return;
    }
    /* The first row of a function may begin behind its first call. */
    size_t first = 0;
    BISECT(first, w->lines.rows.len, i, w->lines.rows.at[i].address <= address);
    const struct pdb_line *row = first > 0 ? &w->lines.rows.at[first - 1] : NULL;
    if ((!row || row->end || row->address < w->low) && first < w->lines.rows.len)
        row = &w->lines.rows.at[first];
    if (!row || row->end || row->address >= w->high)
        return;
    scope->call_file = file_of(w, row->file);
    scope->call_line = row->line;
    scope->call_column = row->column;
}

static void add_range(struct module_walk *w, uint32_t scope, uint64_t low, uint64_t high)
{
    maker_scope_range(w->maker, scope, low, high < w->high ? high : w->high);
}

/* Adds the pieces of code and the rows of an inlined call. */
static void read_steps(struct module_walk *w, const struct level *around, struct level *level,
                       uint32_t id, struct cursor annotations)
{
    struct inline_step step;
    struct inline_site site = {.c = annotations, .file = UINT32_MAX};
    const struct pdb_inlinee *inlinee = pdb_lines_inlinee(&w->lines, id);
    bool first = true;
    while (inline_site_next(&site, &step) && walk_spend(w->walk)) {
        if (step.end) {
            add_range(w, level->scope, w->low + step.low, w->low + step.offset);
            continue;
        }
        struct dwarf_row row = {.address = w->low + step.offset};
        if (inlinee) {
            row.file = file_of(w, step.file == UINT32_MAX ? inlinee->file
                                                          : pdb_lines_file(&w->lines, step.file));
            row.line = inlinee->line + (uint32_t)step.line;
        }
        maker_scope_row(w->maker, level->scope, &row);
        if (first && !w->maker->failed)
            set_call(w, &w->maker->scopes.at[level->scope - 1].scope, around, row.address);
        first = false;
    }
    if (site.c.short_read)
        w->maker->fault = "an inlined call that cannot be read";
}

static void open_inlined(struct module_walk *w, struct cursor c, bool has_count)
{
    const struct level none = {0};
    const struct level around = w->levels.len ? w->levels.at[w->levels.len - 1] : none;
    (void)cursor_take(&c, 8); /* parent, end */
    uint32_t id = cursor_u32(&c);
    if (has_count)
        (void)cursor_u32(&c);
    if (around.scope == 0 || c.short_read) {
        push(w, none);
        return;
    }
    const struct block_scope scope = {
        .parent = around.scope, .name = name_of(w, id), .flags = SCOPE_INLINED};
    struct level level = {
        .scope = maker_scope(w->maker, &scope), .inlined = true, .first_row = w->maker->rows.len};
    if (level.scope != 0)
        read_steps(w, &around, &level, id, c);
    level.end_row = w->maker->rows.len;
    push(w, level);
}

static void take_symbol(struct module_walk *w, unsigned kind, struct cursor c)
{
    switch (kind) {
    case S_GPROC32:
    case S_LPROC32:
    case S_GPROC32_ID:
    case S_LPROC32_ID:
    case S_LPROC32_DPC:
    case S_LPROC32_DPC_ID:
        open_function(w, c);
        break;
    case S_INLINESITE:
    case S_INLINESITE2:
        open_inlined(w, c, kind == S_INLINESITE2);
        break;
    case S_BLOCK32:
    case S_WITH32:
    case S_THUNK32:
    case S_SEPCODE:
        push(w, w->levels.len ? w->levels.at[w->levels.len - 1] : (struct level){0});
        break;
    case S_END:
    case S_INLINESITE_END:
    case S_PROC_ID_END:
        w->levels.len -= w->levels.len > 0;
        break;
    default:
        break;
    }
}

static int compare_functions(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

/* Gives each row to the function around it. */
static void put_rows(struct module_walk *w)
{
    const struct function *f = w->functions.at;
    size_t n = w->functions.len, at = 0;
    if (n > 0)
        qsort(w->functions.at, n, sizeof *f, compare_functions);
    for (size_t i = 0; i < w->lines.rows.len && walk_spend(w->walk); i++) {
        const struct pdb_line *line = &w->lines.rows.at[i];
        while (at < n && f[at].low <= line->address)
            at++;
        bool inside = at > 0 && line->address < f[at - 1].high;
        maker_scope_row(w->maker, inside ? f[at - 1].scope : 0,
                        &(struct dwarf_row){.address = line->address,
                                            .file = line->end ? 0 : file_of(w, line->file),
                                            .line = line->line,
                                            .column = line->column,
                                            .end = line->end});
    }
}

static void walk_module(struct module_walk *w, const struct pdb_module *m, struct view bytes)
{
    unsigned kind;
    struct cursor record, c = cursor_over(bytes.p, bytes.len);
    const char *symbols = (const char *)cursor_take(&c, m->symbols_size);
    (void)cursor_take(&c, m->old_size);
    const char *lines = (const char *)cursor_take(&c, m->lines_size);
    if (!symbols || !lines || m->symbols_size < 4 || load_u32(symbols) != MODULE_SIGNATURE) {
        w->maker->fault = "a module that cannot be read";
        return;
    }
    if (!pdb_lines_read(&w->lines, w->build->pdb, (struct view){lines, m->lines_size}) ||
        !vec_reserve(&w->files, w->lines.files.len)) {
        w->maker->failed = true;
        return;
    }
    if (w->lines.damaged)
        w->maker->fault = "a line table that cannot be read";
    w->files.len = w->lines.files.len;
    if (w->files.len > 0)
        memset(w->files.at, 0, w->files.len * sizeof *w->files.at);
    c = cursor_over(symbols + 4, m->symbols_size - 4);
    while (walk_spend(w->walk) && cursor_left(&c) > 0 && codeview_next(&c, &kind, &record))
        take_symbol(w, kind, record);
    if (c.short_read)
        w->maker->fault = "a symbol that cannot be read";
    put_rows(w);
}

void index_pdb_walk(const struct index_build *b, struct unit_walk *walk, uint64_t module)
{
    struct msf_stream stream;
    struct module_walk w = {.build = b, .walk = walk, .maker = walk->maker};
    const struct pdb_module *m = module_of(b, module);
    struct err e = {0};
    if (!m || msf_file_read(pdb_file_streams(b->pdb), m->stream, &stream, &e) != 0) {
        walk->maker->failed |= e.code == ERR_MEMORY;
        walk->maker->fault = "a module that cannot be read";
        return;
    }
    if (m->stream != UINT32_MAX)
        walk_module(&w, m, stream.bytes);
    msf_stream_release(&stream);
    pdb_lines_release(&w.lines);
    vec_release(&w.files);
    vec_release(&w.functions);
    vec_release(&w.levels);
    map_release(&w.starts);
    map_release(&w.names);
    buf_release(&w.name);
}
