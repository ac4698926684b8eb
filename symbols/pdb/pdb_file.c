#include "symbols/pdb/pdb_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/vec.h"
#include "symbols/pdb/codeview.h"

/* Streams with fixed numbers. */
#define STREAM_INFO 1u
#define STREAM_DBI 3u

#define NO_STREAM 0xffffu
#define STRINGS_SIGNATURE 0xeffeeffeu
#define PARTS_60 (0xeffe0000u + 19970605u)
#define PARTS_V2 (0xeffe0000u + 20140516u)
#define PUBLIC_CODE 3u /* code, or a function */

/* Positions in the list of streams at the end of the DBI stream. */
enum debug_stream { DEBUG_OMAP_TO = 3, DEBUG_OMAP_FROM, DEBUG_SECTIONS };

struct pdb_file {
    struct msf_file *msf;
    struct pdb_id id;
    uint16_t machine;
    uint16_t records; /* stream of symbol records */
    struct msf_stream dbi, headers, strings, symbols;
    struct view texts; /* of the string table; ends with a NUL, or is empty */
    pe_sections sections;
    VEC(struct pdb_module) modules;
    struct view parts; /* contributions to sections */
    size_t part_size;
};

/* ---- the string table, which the info stream names */

/* The stream called "/names" in the map of named streams; NO_STREAM if there is none. */
static uint32_t find_names(struct cursor *c)
{
    uint32_t size = cursor_u32(c);
    const char *texts = (const char *)cursor_take(c, size);
    uint32_t count = cursor_u32(c);
    (void)cursor_u32(c); /* capacity */
    for (unsigned i = 0; i < 2 && !c->short_read; i++) {
        uint32_t words = cursor_u32(c); /* present, deleted */
        (void)cursor_take(c, (size_t)4 * words);
    }
    for (uint32_t i = 0; i < count && !c->short_read; i++) {
        uint32_t key = cursor_u32(c), stream = cursor_u32(c);
        static const char names[] = "/names";
        if (!c->short_read && key <= size && size - key >= sizeof names &&
            memcmp(texts + key, names, sizeof names) == 0)
            return stream;
    }
    return NO_STREAM;
}

static int read_strings(struct pdb_file *f, uint32_t stream, struct err *e)
{
    if (msf_file_read(f->msf, stream, &f->strings, e) != 0)
        return -1;
    struct cursor c = cursor_over(f->strings.bytes.p, f->strings.bytes.len);
    uint32_t signature = cursor_u32(&c);
    (void)cursor_u32(&c); /* version of the hash */
    uint32_t size = cursor_u32(&c);
    const char *texts = (const char *)cursor_take(&c, size);
    if (!texts || signature != STRINGS_SIGNATURE)
        return 0; /* files are unknown then */
    while (size > 0 && texts[size - 1] != 0)
        size--;
    f->texts = (struct view){texts, size};
    return 0;
}

static int read_info(struct pdb_file *f, struct err *e)
{
    struct msf_stream info;
    if (msf_file_read(f->msf, STREAM_INFO, &info, e) != 0)
        return -1;
    struct cursor c = cursor_over(info.bytes.p, info.bytes.len);
    (void)cursor_take(&c, 8); /* version, time */
    uint32_t age = cursor_u32(&c);
    const uint8_t *guid = cursor_take(&c, 16);
    uint32_t names = guid ? find_names(&c) : NO_STREAM;
    if (guid)
        f->id = pdb_id_of(guid, age);
    msf_stream_release(&info);
    if (!guid)
        return err_set(e, ERR_INPUT, "the info stream of a PDB file is cut short");
    return names == NO_STREAM ? 0 : read_strings(f, names, e);
}

/* ---- the DBI stream */

/* `taken` has the streams of modules before: one stream that many name would be read many times. */
static bool read_module(struct pdb_file *f, struct cursor *c, bool taken[NO_STREAM])
{
    (void)cursor_take(c, 34); /* its first contribution, flags */
    uint16_t stream = cursor_u16(c);
    struct pdb_module m = {.stream = UINT32_MAX};
    if (stream != NO_STREAM && !taken[stream]) {
        m.stream = stream;
        taken[stream] = true;
    }
    m.symbols_size = cursor_u32(c);
    m.old_size = cursor_u32(c);
    m.lines_size = cursor_u32(c);
    (void)cursor_take(c, 16); /* files; names of sources */
    (void)codeview_text(c);
    (void)codeview_text(c);
    size_t odd = cursor_offset(c) % 4;
    (void)cursor_take(c, odd ? 4 - odd : 0);
    return vec_push(&f->modules, m);
}

static int read_modules(struct pdb_file *f, struct view list, struct err *e)
{
    struct cursor c = cursor_over(list.p, list.len);
    bool *taken = calloc(NO_STREAM, sizeof *taken);
    bool fits = taken != NULL;
    while (fits && cursor_left(&c) >= 64 && !c.short_read)
        fits = read_module(f, &c, taken);
    free(taken);
    return fits ? 0 : err_no_memory(e, "modules of a PDB file");
}

static void read_parts(struct pdb_file *f, struct view list)
{
    struct cursor c = cursor_over(list.p, list.len);
    uint32_t version = cursor_u32(&c);
    f->part_size = version == PARTS_60 ? 28 : version == PARTS_V2 ? 32 : 0;
    if (f->part_size)
        f->parts = (struct view){(const char *)c.pos, cursor_left(&c)};
}

static int read_sections(struct pdb_file *f, struct view list, struct err *e)
{
    uint16_t streams[DEBUG_SECTIONS + 1];
    struct cursor c = cursor_over(list.p, list.len);
    for (unsigned i = 0; i <= DEBUG_SECTIONS; i++)
        streams[i] = cursor_left(&c) >= 2 ? cursor_u16(&c) : NO_STREAM;
    if (streams[DEBUG_OMAP_TO] != NO_STREAM || streams[DEBUG_OMAP_FROM] != NO_STREAM)
        return err_set(e, ERR_INPUT,
                       "its code was moved after linking (OMAP), which is not supported");
    if (msf_file_read(f->msf, streams[DEBUG_SECTIONS], &f->headers, e) != 0)
        return -1;
    return pe_sections_read(&f->sections, f->headers.bytes)
               ? 0
               : err_no_memory(e, "sections of a PDB file");
}

/* A part of the DBI stream, with the size that its header states. */
static struct view take_part(struct cursor *c, uint32_t size)
{
    const char *p = (const char *)cursor_take(c, size);
    return (struct view){p ? p : "", p ? size : 0};
}

static int read_dbi(struct pdb_file *f, struct err *e)
{
    if (msf_file_read(f->msf, STREAM_DBI, &f->dbi, e) != 0)
        return -1;
    if (f->dbi.bytes.len == 0)
        return err_set(e, ERR_INPUT, "a PDB file of types only");
    uint32_t sizes[5];
    struct cursor c = cursor_over(f->dbi.bytes.p, f->dbi.bytes.len);
    uint32_t signature = cursor_u32(&c);
    (void)cursor_u32(&c); /* version */
    uint32_t age = cursor_u32(&c);
    (void)cursor_take(&c, 8); /* streams of globals and publics, versions of tools */
    f->records = cursor_u16(&c);
    (void)cursor_u16(&c);
    for (unsigned i = 0; i < 5; i++) /* modules, parts, section map, sources, type servers */
        sizes[i] = cursor_u32(&c);
    (void)cursor_u32(&c);
    uint32_t list_size = cursor_u32(&c), edit_size = cursor_u32(&c);
    (void)cursor_u16(&c); /* flags */
    f->machine = cursor_u16(&c);
    (void)cursor_u32(&c);
    if (c.short_read || signature != UINT32_MAX)
        return err_set(e, ERR_INPUT, "the DBI stream of a PDB file has no header");
    /* Tools that rewrite a PDB file count up the other age; images have this one. */
    for (unsigned i = 0; i < 4; i++)
        f->id.bytes[16 + i] = (uint8_t)(age >> (24 - 8 * i));
    if (read_modules(f, take_part(&c, sizes[0]), e) != 0)
        return -1;
    read_parts(f, take_part(&c, sizes[1]));
    for (unsigned i = 2; i < 5; i++)
        (void)take_part(&c, sizes[i]);
    (void)take_part(&c, edit_size);
    struct view list = take_part(&c, list_size);
    if (c.short_read)
        return err_set(e, ERR_INPUT, "the DBI stream of a PDB file is cut short");
    return read_sections(f, list, e);
}

int pdb_file_open(struct pdb_file **out, struct view bytes, struct err *e)
{
    struct pdb_file *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f)
        return err_no_memory(e, "a PDB file");
    if (msf_file_open(&f->msf, bytes, e) != 0 || read_info(f, e) != 0 || read_dbi(f, e) != 0) {
        pdb_file_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

void pdb_file_close(struct pdb_file *f)
{
    if (!f)
        return;
    msf_stream_release(&f->dbi);
    msf_stream_release(&f->headers);
    msf_stream_release(&f->strings);
    msf_stream_release(&f->symbols);
    msf_file_close(f->msf);
    vec_release(&f->sections);
    vec_release(&f->modules);
    free(f);
}

/* ---- what it holds */

const struct msf_file *pdb_file_streams(const struct pdb_file *f)
{
    return f->msf;
}

struct pdb_id pdb_file_id(const struct pdb_file *f)
{
    return f->id;
}

uint16_t pdb_file_machine(const struct pdb_file *f)
{
    return f->machine;
}

const pe_sections *pdb_file_sections(const struct pdb_file *f)
{
    return &f->sections;
}

bool pdb_file_address(const struct pdb_file *f, uint16_t section, uint32_t offset,
                      uint64_t *address)
{
    if (section == 0 || section > f->sections.len)
        return false;
    *address = (uint64_t)f->sections.at[section - 1].address + offset;
    return true;
}

const char *pdb_file_text(const struct pdb_file *f, uint32_t offset)
{
    return offset < f->texts.len ? f->texts.p + offset : "";
}

size_t pdb_file_module_count(const struct pdb_file *f)
{
    return f->modules.len;
}

const struct pdb_module *pdb_file_module_at(const struct pdb_file *f, size_t i)
{
    return &f->modules.at[i];
}

void pdb_file_parts(const struct pdb_file *f, pdb_take_part *take, void *user)
{
    for (size_t i = 0; f->part_size && i < f->parts.len / f->part_size; i++) {
        struct cursor c = cursor_over(f->parts.p + i * f->part_size, f->part_size);
        uint16_t section = cursor_u16(&c);
        (void)cursor_u16(&c);
        uint32_t offset = cursor_u32(&c), size = cursor_u32(&c);
        (void)cursor_u32(&c);
        uint16_t module = cursor_u16(&c);
        uint64_t low;
        if (module < f->modules.len && size <= INT32_MAX &&
            pdb_file_address(f, section, offset, &low) && !take(user, module, low, low + size))
            return;
    }
}

int pdb_file_publics(struct pdb_file *f, struct view *names, pdb_take_public *take, void *user,
                     struct err *e)
{
    unsigned kind;
    struct cursor record;
    if (f->symbols.bytes.len == 0 && msf_file_read(f->msf, f->records, &f->symbols, e) != 0)
        return -1;
    struct cursor c = cursor_over(f->symbols.bytes.p, f->symbols.bytes.len);
    *names = f->symbols.bytes;
    while (codeview_next(&c, &kind, &record)) {
        if (kind != S_PUB32)
            continue;
        uint32_t flags = cursor_u32(&record), offset = cursor_u32(&record);
        uint16_t section = cursor_u16(&record);
        size_t name = (size_t)((const char *)record.pos - names->p);
        uint64_t address;
        if (!(flags & PUBLIC_CODE) || *codeview_text(&record) == 0 || name > UINT32_MAX ||
            !pdb_file_address(f, section, offset, &address))
            continue;
        if (!take(user, address, (uint32_t)name))
            return err_no_memory(e, "public symbols");
    }
    return 0;
}
