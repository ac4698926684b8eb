#include "symbols/elf/elf_file.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cursor.h"
#include "base/vec.h"
#include "symbols/elf/inflate.h"
#include "symbols/pdb/pdb_file.h"

/* Longer names are cut: the search for a name's end is repeated for each section that has it. */
#define SECTION_NAME_MAX 256u

/*
 * Many headers may point to the same bytes. Limits on the total per file keep a small file from
 * causing hours of work.
 */
#define NOTES_MAX ((uint64_t)16 << 20) /* bytes of notes, in total */
#define SEGMENTS_MAX 4096u             /* PT_LOAD segments; each look-up walks them */

struct elf_file {
    struct view bytes;
    bool mapped;
    bool wide; /* 64-bit */
    uint16_t type;
    uint16_t machine;
    uint64_t inflated_limit;
    uint64_t inflated_bytes;
    VEC(struct elf_segment) segments;
    VEC(struct elf_section) sections;
    struct inflated *inflated; /* one per section */
    struct view headers[3];    /* program headers, section headers, section names */
    struct build_id build_id;
    uint64_t modified;   /* ns since 1970; 0 for bytes in memory */
    uint64_t notes_read; /* bytes */
    uint64_t eh_frame_hdr, eh_frame_hdr_size;
    struct pdb_file *pdb; /* NULL: another file */
    struct view pdb_name; /* of a PE image */
};

/* The fields of an ELF header that locate the tables. */
struct tables {
    uint64_t program_at, section_at;
    uint16_t program_size, section_size;
    uint64_t program_count, section_count;
    uint32_t names; /* index of the section with the section names */
};

/* ---- ranges of the file */

static bool in_range(uint64_t at, uint64_t size, uint64_t whole)
{
    return at <= whole && size <= whole - at;
}

static bool file_range(const struct elf_file *f, uint64_t at, uint64_t size, struct view *out)
{
    if (!in_range(at, size, f->bytes.len))
        return false;
    *out = (struct view){f->bytes.p + at, (size_t)size};
    return true;
}

/* Reads a word of the file's class: 8 or 4 bytes. */
static uint64_t word(const struct elf_file *f, struct cursor *c)
{
    return f->wide ? cursor_u64(c) : cursor_u32(c);
}

/* ---- headers */

static int read_section_header(const struct elf_file *f, struct cursor *c, uint32_t *name,
                               uint32_t *info, struct elf_section *s)
{
    *name = cursor_u32(c);
    s->type = cursor_u32(c);
    s->flags = word(f, c);
    s->address = word(f, c);
    s->offset = word(f, c);
    s->size = word(f, c);
    s->link = cursor_u32(c);
    *info = cursor_u32(c);
    s->align = word(f, c);
    s->entry_size = word(f, c);
    return c->short_read ? -1 : 0;
}

static int read_elf_header(struct elf_file *f, struct tables *t, struct err *e)
{
    struct cursor c = cursor_over(f->bytes.p, f->bytes.len);
    const uint8_t *ident = cursor_take(&c, EI_NIDENT);
    if (!ident || memcmp(ident, ELFMAG, SELFMAG) != 0)
        return err_set(e, ERR_INPUT, "no ELF file, PE image or PDB file");
    if (ident[EI_DATA] != ELFDATA2LSB)
        return err_set(e, ERR_INPUT, "an ELF file for big-endian machines");
    if (ident[EI_CLASS] != ELFCLASS64 && ident[EI_CLASS] != ELFCLASS32)
        return err_set(e, ERR_INPUT, "an ELF file of unknown class %u", ident[EI_CLASS]);
    f->wide = ident[EI_CLASS] == ELFCLASS64;
    f->type = cursor_u16(&c);
    f->machine = cursor_u16(&c);
    (void)cursor_u32(&c); /* version */
    (void)word(f, &c);    /* entry */
    t->program_at = word(f, &c);
    t->section_at = word(f, &c);
    (void)cursor_u32(&c); /* flags */
    (void)cursor_u16(&c); /* size of this header */
    t->program_size = cursor_u16(&c);
    t->program_count = cursor_u16(&c);
    t->section_size = cursor_u16(&c);
    t->section_count = cursor_u16(&c);
    t->names = cursor_u16(&c);
    return c.short_read ? err_set(e, ERR_INPUT, "the ELF header is cut short") : 0;
}

/* Counts that exceed 16 bits are in the first section header. */
static int read_large_counts(struct elf_file *f, struct tables *t, struct err *e)
{
    struct view first;
    struct elf_section s = {0};
    uint32_t name, info;
    if (t->section_at == 0) {
        t->section_count = 0;
        return 0;
    }
    if (t->section_size < (f->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)))
        return err_set(e, ERR_INPUT, "section headers of %u bytes are too small", t->section_size);
    if (!file_range(f, t->section_at, t->section_size, &first))
        return err_set(e, ERR_INPUT, "the section headers lie beyond the end of the file");
    struct cursor c = cursor_over(first.p, first.len);
    if (read_section_header(f, &c, &name, &info, &s) != 0)
        return err_set(e, ERR_INPUT, "the section headers are cut short");
    if (t->section_count == 0)
        t->section_count = s.size;
    if (t->names == SHN_XINDEX)
        t->names = s.link;
    if (t->program_count == PN_XNUM)
        t->program_count = info;
    return 0;
}

static int table_range(const struct elf_file *f, const char *what, uint64_t at, uint64_t count,
                       uint64_t size, struct view *out, struct err *e)
{
    *out = (struct view){0};
    if (count == 0)
        return 0;
    if (at > f->bytes.len || count > (f->bytes.len - at) / size)
        return err_set(e, ERR_INPUT,
                       "%" PRIu64 " %s headers at offset %" PRIu64 " reach beyond the end of the "
                       "file",
                       count, what, at);
    *out = (struct view){f->bytes.p + at, (size_t)(count * size)};
    return 0;
}

/* ---- segments */

struct program_header {
    uint32_t type;
    struct elf_segment segment;
    uint64_t align;
};

static bool read_program_header(const struct elf_file *f, const char *at, size_t size,
                                struct program_header *p)
{
    struct cursor c = cursor_over(at, size);
    p->type = cursor_u32(&c);
    if (f->wide)
        p->segment.flags = cursor_u32(&c);
    p->segment.offset = word(f, &c);
    p->segment.address = word(f, &c);
    (void)word(f, &c); /* physical address */
    p->segment.file_size = word(f, &c);
    p->segment.memory_size = word(f, &c);
    if (!f->wide)
        p->segment.flags = cursor_u32(&c);
    p->align = word(f, &c);
    return !c.short_read;
}

static void find_build_id(struct elf_file *f, uint64_t at, uint64_t size, uint64_t align)
{
    struct view notes;
    if (f->build_id.len > 0 || size > NOTES_MAX - f->notes_read || !file_range(f, at, size, &notes))
        return;
    f->notes_read += size;
    build_id_in_notes((const uint8_t *)notes.p, notes.len, align, &f->build_id);
}

static int add_segment(struct elf_file *f, struct elf_segment s, struct err *e)
{
    if (f->segments.len == SEGMENTS_MAX)
        return err_set(e, ERR_INPUT, "more than %u segments to load", SEGMENTS_MAX);
    uint64_t in_file = s.offset < f->bytes.len ? f->bytes.len - s.offset : 0;
    if (s.file_size > in_file)
        s.file_size = in_file;
    if (s.memory_size < s.file_size)
        s.memory_size = s.file_size;
    if (s.memory_size > UINT64_MAX - s.address)
        s.memory_size = UINT64_MAX - s.address;
    if (s.file_size > s.memory_size)
        s.file_size = s.memory_size;
    return vec_push(&f->segments, s) ? 0 : err_no_memory(e, "segments of an ELF file");
}

/* Debug files keep the image's program headers, whose offsets are meaningless there. */
static int read_segments(struct elf_file *f, const struct tables *t, struct err *e)
{
    size_t least = f->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    if (t->program_count > 0 && t->program_size < least)
        return err_set(e, ERR_INPUT, "program headers of %u bytes are too small", t->program_size);
    if (table_range(f, "program", t->program_at, t->program_count, t->program_size, &f->headers[0],
                    e) != 0)
        return -1;
    for (uint64_t i = 0; i < t->program_count; i++) {
        struct program_header p = {0};
        if (!read_program_header(f, f->headers[0].p + i * t->program_size, t->program_size, &p))
            return err_set(e, ERR_INPUT, "program header %" PRIu64 " is cut short", i);
        if (p.type == PT_LOAD && add_segment(f, p.segment, e) != 0)
            return -1;
        if (p.type == PT_NOTE)
            find_build_id(f, p.segment.offset, p.segment.file_size, p.align);
        if (p.type == PT_GNU_EH_FRAME) {
            f->eh_frame_hdr = p.segment.address;
            f->eh_frame_hdr_size = p.segment.file_size;
        }
    }
    return 0;
}

/* ---- sections */

static struct view name_at(struct view names, uint32_t at)
{
    if (at >= names.len)
        return (struct view){"", 0};
    size_t most = names.len - at < SECTION_NAME_MAX ? names.len - at : SECTION_NAME_MAX;
    return (struct view){names.p + at, strnlen(names.p + at, most)};
}

static int name_sections(struct elf_file *f, const uint32_t *names, uint32_t names_section)
{
    struct view *table = &f->headers[2];
    if (names_section < f->sections.len) {
        const struct elf_section *s = &f->sections.at[names_section];
        if (s->type != SHT_NOBITS && !file_range(f, s->offset, s->size, table))
            return -1;
    }
    for (size_t i = 0; i < f->sections.len; i++)
        f->sections.at[i].name = name_at(*table, names[i]);
    return 0;
}

static int read_sections(struct elf_file *f, const struct tables *t, struct err *e)
{
    if (table_range(f, "section", t->section_at, t->section_count, t->section_size, &f->headers[1],
                    e) != 0)
        return -1;
    if (t->section_count == 0)
        return 0;
    uint32_t *names = calloc(t->section_count, sizeof *names);
    f->inflated = calloc(t->section_count, sizeof *f->inflated);
    int status = 0;
    if (!names || !f->inflated || !vec_reserve(&f->sections, t->section_count))
        status = err_no_memory(e, "sections of an ELF file");
    for (uint64_t i = 0; i < t->section_count && status == 0; i++) {
        uint32_t info;
        struct elf_section s = {0};
        struct cursor c = cursor_over(f->headers[1].p + i * t->section_size, t->section_size);
        status = read_section_header(f, &c, &names[i], &info, &s);
        f->sections.at[f->sections.len++] = s;
    }
    if (status == 0 && name_sections(f, names, t->names) != 0)
        status = err_set(e, ERR_INPUT, "the names of sections lie beyond the end of the file");
    free(names);
    return status;
}

/* Section notes come first: in a debug file the segment offsets may be the image's. */
static int read_headers(struct elf_file *f, struct err *e)
{
    struct tables t = {0};
    if (read_elf_header(f, &t, e) != 0 || read_large_counts(f, &t, e) != 0 ||
        read_sections(f, &t, e) != 0)
        return -1;
    for (size_t i = 0; i < f->sections.len; i++) {
        const struct elf_section *s = &f->sections.at[i];
        if (s->type == SHT_NOTE)
            find_build_id(f, s->offset, s->size, s->align);
    }
    return read_segments(f, &t, e);
}

/* ---- PE images and PDB files */

static int take_sections(struct elf_file *f, const pe_sections *sections, struct err *e)
{
    f->inflated = calloc(sections->len + 1, sizeof *f->inflated);
    if (!f->inflated || !vec_reserve(&f->sections, sections->len))
        return err_no_memory(e, "sections of an image");
    for (size_t i = 0; i < sections->len; i++) {
        const struct pe_section *from = &sections->at[i];
        bool code = from->flags & PE_SECTION_EXECUTE;
        struct elf_section s = {.name = from->name,
                                .type = f->pdb ? SHT_NOBITS : SHT_PROGBITS,
                                .flags = SHF_ALLOC | (code ? SHF_EXECINSTR : 0),
                                .address = from->address,
                                .offset = from->offset,
                                .size = from->memory_size};
        if (!f->pdb && from->file_size < from->memory_size)
            s.size = from->file_size;
        struct elf_segment segment = {.flags = PF_R | (code ? PF_X : 0),
                                      .offset = from->offset,
                                      .address = from->address,
                                      .file_size = f->pdb ? 0 : from->file_size,
                                      .memory_size = from->memory_size};
        f->sections.at[f->sections.len++] = s;
        if (add_segment(f, segment, e) != 0)
            return -1;
    }
    return 0;
}

static int take_image(struct elf_file *f, const pe_sections *sections, struct pdb_id id,
                      uint16_t machine, uint32_t headers, struct err *e)
{
    f->type = ET_DYN;
    f->machine = pe_elf_machine(machine);
    if (id.known) {
        memcpy(f->build_id.bytes, id.bytes, PDB_ID_SIZE);
        f->build_id.len = PDB_ID_SIZE;
    }
    /* The headers are mapped at address 0, to which all others are relative. */
    const struct elf_segment first = {
        .flags = PF_R, .file_size = f->pdb ? 0 : headers, .memory_size = headers ? headers : 1};
    f->headers[0] = (struct view){f->bytes.p, headers < f->bytes.len ? headers : f->bytes.len};
    return add_segment(f, first, e) == 0 ? take_sections(f, sections, e) : -1;
}

static int read_pe(struct elf_file *f, struct err *e)
{
    struct pe_image pe;
    int status = pe_image_read(&pe, f->bytes, e);
    if (status == 0) {
        f->wide = pe.wide;
        f->pdb_name = pe.pdb_name;
        status = take_image(f, &pe.sections, pe.id, pe.machine, pe.headers_size, e);
    }
    pe_image_release(&pe);
    return status;
}

static int read_pdb(struct elf_file *f, struct err *e)
{
    if (pdb_file_open(&f->pdb, f->bytes, e) != 0)
        return -1;
    uint16_t machine = pdb_file_machine(f->pdb);
    f->wide = pe_elf_machine(machine) != EM_386;
    return take_image(f, pdb_file_sections(f->pdb), pdb_file_id(f->pdb), machine, 0, e);
}

static int read_file(struct elf_file *f, struct err *e)
{
    if (pe_image_is(f->bytes))
        return read_pe(f, e);
    return msf_file_is(f->bytes) ? read_pdb(f, e) : read_headers(f, e);
}

/* ---- opening */

int elf_file_open_bytes(struct elf_file **out, struct view bytes, const struct elf_limits *limits,
                        struct err *e)
{
    struct elf_limits l = limits ? *limits : ELF_LIMITS_DEFAULT;
    struct elf_file *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f)
        return err_no_memory(e, "an ELF file");
    f->bytes = bytes;
    f->inflated_limit = l.inflated_bytes;
    if (read_file(f, e) != 0) {
        elf_file_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

int elf_file_open(struct elf_file **out, int fd, const struct elf_limits *limits, struct err *e)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st) != 0)
        return err_errno(e, ERR_INPUT, "cannot look at the file");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "not a regular file");
    if (st.st_size == 0)
        return err_set(e, ERR_INPUT, "no ELF file: it is empty");
    size_t size = (size_t)st.st_size;
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_errno(e, ERR_INPUT, "cannot map the file");
    if (elf_file_open_bytes(out, (struct view){p, size}, limits, e) != 0) {
        munmap(p, size);
        return -1;
    }
    (*out)->mapped = true;
    (*out)->modified =
        (uint64_t)st.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)st.st_mtim.tv_nsec;
    return 0;
}

void elf_file_close(struct elf_file *f)
{
    if (!f)
        return;
    for (size_t i = 0; f->inflated && i < f->sections.len; i++)
        inflated_release(&f->inflated[i]);
    free(f->inflated);
    vec_release(&f->sections);
    vec_release(&f->segments);
    pdb_file_close(f->pdb);
    if (f->mapped)
        munmap((void *)f->bytes.p, f->bytes.len);
    free(f);
}

/* ---- bytes of sections */

/* How a section is compressed, from the header before its bytes. */
struct packing {
    bool packed;
    enum inflate_method method;
    uint64_t size;
    struct view bytes;
};

static bool is_zdebug(struct view name)
{
    return name.len > 8 && memcmp(name.p, ".zdebug_", 8) == 0;
}

static int read_packing(const struct elf_file *f, const struct elf_section *s, struct view raw,
                        struct packing *p, struct err *e)
{
    struct cursor c = cursor_over(raw.p, raw.len);
    *p = (struct packing){.bytes = raw};
    if (s->flags & SHF_COMPRESSED) {
        uint32_t type = cursor_u32(&c);
        if (f->wide)
            (void)cursor_u32(&c);
        p->size = word(f, &c);
        (void)word(f, &c); /* alignment */
        if (c.short_read)
            return err_set(e, ERR_INPUT, "its compression header is cut short");
        if (type != 1 && type != 2) /* ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD */
            return err_set(e, ERR_INPUT, "compressed with unknown method %u", type);
        p->method = type == 1 ? INFLATE_ZLIB : INFLATE_ZSTD;
        p->packed = true;
    } else if (is_zdebug(s->name)) {
        const uint8_t *magic = cursor_take(&c, 4);
        if (!magic || memcmp(magic, "ZLIB", 4) != 0)
            return 0; /* GNU tools store a section uncompressed if compression does not help */
        p->size = __builtin_bswap64(cursor_u64(&c));
        if (c.short_read)
            return err_set(e, ERR_INPUT, "its compression header is cut short");
        p->method = INFLATE_ZLIB;
        p->packed = true;
    }
    p->bytes = (struct view){(const char *)c.pos, cursor_left(&c)};
    if (!p->packed)
        p->bytes = raw;
    return 0;
}

static int unpack(struct elf_file *f, size_t i, const struct packing *p, struct err *e)
{
    if (p->size > f->inflated_limit - f->inflated_bytes)
        return err_set(e, ERR_INPUT,
                       "it inflates to %" PRIu64 " bytes, the limit is %" PRIu64 " for one file",
                       p->size, f->inflated_limit);
    /* Counted also on failure: the limit bounds the work, too. */
    f->inflated_bytes += p->size;
    return inflate_exactly(&f->inflated[i], p->method, p->bytes, p->size, e);
}

int elf_file_section_bytes(struct elf_file *f, size_t i, struct view *out, struct err *e)
{
    const struct elf_section *s = &f->sections.at[i];
    struct view raw;
    struct packing p;
    int status = 0;
    *out = (struct view){0};
    if (s->type == SHT_NOBITS || s->type == SHT_NULL)
        return 0;
    if (!f->inflated[i].bytes) {
        if (!file_range(f, s->offset, s->size, &raw))
            status = err_set(e, ERR_INPUT, "it reaches beyond the end of the file");
        else if ((status = read_packing(f, s, raw, &p, e)) == 0 && !p.packed)
            *out = raw;
        else if (status == 0)
            status = unpack(f, i, &p, e);
    }
    if (status == 0 && f->inflated[i].bytes)
        *out = (struct view){(const char *)f->inflated[i].bytes, f->inflated[i].size};
    return status == 0 ? 0 : err_prefix(e, "section %.*s", (int)s->name.len, s->name.p);
}

/* Compares names, also .debug_x with .zdebug_x. */
static bool is_called(struct view have, struct view name)
{
    return view_equal(have, name) ||
           (is_zdebug(have) && have.len == name.len + 1 && name.len > 7 &&
            memcmp(name.p, ".debug_", 7) == 0 && memcmp(have.p + 2, name.p + 1, name.len - 1) == 0);
}

/* The index of the section, or the section count if there is none. */
static size_t find_section(const struct elf_file *f, const char *name)
{
    struct view wanted = view_of(name);
    size_t i = 0;
    while (i < f->sections.len && !is_called(f->sections.at[i].name, wanted))
        i++;
    return i;
}

int elf_file_section(struct elf_file *f, const char *name, struct view *out, struct err *e)
{
    size_t i = find_section(f, name);
    *out = (struct view){0};
    return i < f->sections.len ? elf_file_section_bytes(f, i, out, e) : 0;
}

bool elf_file_has_section(const struct elf_file *f, const char *name)
{
    size_t i = find_section(f, name);
    return i < f->sections.len && f->sections.at[i].type != SHT_NOBITS &&
           f->sections.at[i].type != SHT_NULL && f->sections.at[i].size > 0;
}

bool elf_file_has_debug_info(const struct elf_file *f)
{
    return f->pdb || elf_file_has_section(f, ".debug_info") ||
           elf_file_has_section(f, ".debug_line");
}

bool elf_file_is_elf(const struct elf_file *f)
{
    return !f->pdb && !pe_image_is(f->bytes);
}

struct pdb_file *elf_file_pdb(const struct elf_file *f)
{
    return f->pdb;
}

struct view elf_file_pdb_name(const struct elf_file *f)
{
    return f->pdb_name;
}

size_t elf_file_section_count(const struct elf_file *f)
{
    return f->sections.len;
}

const struct elf_section *elf_file_section_at(const struct elf_file *f, size_t i)
{
    return &f->sections.at[i];
}

/* ---- properties of the file */

bool elf_file_is_64(const struct elf_file *f)
{
    return f->wide;
}

uint16_t elf_file_type(const struct elf_file *f)
{
    return f->type;
}

uint16_t elf_file_machine(const struct elf_file *f)
{
    return f->machine;
}

struct view elf_file_bytes(const struct elf_file *f)
{
    return f->bytes;
}

void elf_file_let_go(const struct elf_file *f, struct view bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t file = (uintptr_t)f->bytes.p, p = (uintptr_t)bytes.p;
    if (!f->mapped || p < file || p - file > f->bytes.len || bytes.len > f->bytes.len - (p - file))
        return;
    uintptr_t first = (p + page - 1) / page * page, end = (p + bytes.len) / page * page;
    if (first < end)
        madvise((void *)first, end - first, MADV_DONTNEED); // NOLINT(performance-no-int-to-ptr)
}

const struct build_id *elf_file_build_id(const struct elf_file *f)
{
    return &f->build_id;
}

static void hash_more(struct elf_key *key, struct view bytes)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(bytes.p ? bytes.p : "", bytes.len,
                                            key->hash[0] ^ key->hash[1] * 0x9e3779b97f4a7c15u);
    key->hash[0] = h.low64;
    key->hash[1] = h.high64;
}

/* A file has one table of each type. */
static void hash_table(const struct elf_file *f, uint32_t type, struct elf_key *key)
{
    struct view bytes;
    for (size_t i = 0; i < f->sections.len; i++) {
        const struct elf_section *s = &f->sections.at[i];
        if (s->type != type)
            continue;
        if (file_range(f, s->offset, s->size, &bytes))
            hash_more(key, bytes);
        return;
    }
}

void elf_file_key(const struct elf_file *f, struct elf_key *out)
{
    struct view part = {f->bytes.p, f->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr)};
    *out = (struct elf_key){.size = f->bytes.len};
    hash_more(out, part);
    for (size_t i = 0; i < sizeof f->headers / sizeof f->headers[0]; i++)
        hash_more(out, f->headers[i]);
    hash_table(f, SHT_SYMTAB, out);
    hash_table(f, SHT_DYNSYM, out);
    /* Lines may move while all of this is unchanged. */
    if (f->build_id.len > 0)
        hash_more(out, (struct view){(const char *)f->build_id.bytes, f->build_id.len});
    else
        hash_more(out, (struct view){(const char *)&f->modified, sizeof f->modified});
}

/* ---- addresses */

size_t elf_file_segment_count(const struct elf_file *f)
{
    return f->segments.len;
}

const struct elf_segment *elf_file_segment_at(const struct elf_file *f, size_t i)
{
    return &f->segments.at[i];
}

uint64_t elf_file_base(const struct elf_file *f)
{
    uint64_t base = f->segments.len ? UINT64_MAX : 0;
    for (size_t i = 0; i < f->segments.len; i++) {
        if (f->segments.at[i].address < base)
            base = f->segments.at[i].address;
    }
    return base;
}

/* The segment with file offset `at`, or with address `at`. Executable segments come first. */
static const struct elf_segment *segment_with(const struct elf_file *f, uint64_t at, bool address)
{
    const struct elf_segment *found = NULL;
    for (size_t i = 0; i < f->segments.len; i++) {
        const struct elf_segment *s = &f->segments.at[i];
        uint64_t start = address ? s->address : s->offset;
        if (at < start || at - start >= s->file_size)
            continue;
        if (s->flags & PF_X)
            return s;
        if (!found)
            found = s;
    }
    return found;
}

bool elf_file_address_of_offset(const struct elf_file *f, uint64_t offset, uint64_t *address)
{
    const struct elf_segment *s = segment_with(f, offset, false);
    if (s)
        *address = s->address + (offset - s->offset);
    return s != NULL;
}

void elf_file_at_address(const struct elf_file *f, uint64_t address, struct view *out)
{
    const struct elf_segment *s = segment_with(f, address, true);
    *out = (struct view){0};
    if (s)
        (void)file_range(f, s->offset + (address - s->address),
                         s->file_size - (address - s->address), out);
}

bool elf_file_eh_frame_hdr(const struct elf_file *f, uint64_t *address, uint64_t *size)
{
    *address = f->eh_frame_hdr;
    *size = f->eh_frame_hdr_size;
    return f->eh_frame_hdr != 0;
}
