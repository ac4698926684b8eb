#include <dwarf.h>
#include <elf.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>

#include "symbols/dwarf/dwarf.h"

/* One file: its own, or the alternate one. */
struct image {
    Elf *elf;
    Dwarf *dwarf;
};

struct dwarf_reader {
    struct image main;
    struct image alternate;
    Dwarf_CU *unit; /* the last one that dwarf_reader_next returned */
};

/* ---- the image of an ELF file */

static void put_word(struct buf *b, bool wide, uint64_t v)
{
    if (wide)
        buf_u64(b, v);
    else
        buf_u32(b, (uint32_t)v);
}

static void put_file_header(struct buf *b, const struct dwarf_sections *s, uint64_t headers,
                            unsigned count)
{
    bool wide = s->is_64;
    const uint8_t ident[EI_NIDENT] = {
        0x7f, 'E', 'L', 'F', wide ? ELFCLASS64 : ELFCLASS32, ELFDATA2LSB, EV_CURRENT};
    buf_put(b, ident, sizeof ident);
    buf_u16(b, ET_EXEC);
    buf_u16(b, s->machine);
    buf_u32(b, EV_CURRENT);
    put_word(b, wide, 0); /* e_entry */
    put_word(b, wide, 0); /* e_phoff */
    put_word(b, wide, headers);
    buf_u32(b, 0); /* e_flags */
    buf_u16(b, wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    buf_u16(b, 0); /* e_phentsize */
    buf_u16(b, 0); /* e_phnum */
    buf_u16(b, wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));
    buf_u16(b, (uint16_t)count);
    buf_u16(b, (uint16_t)(count - 1)); /* index of the section names */
}

static void put_section_header(struct buf *b, bool wide, uint32_t name, uint32_t type,
                               uint64_t offset, uint64_t size)
{
    buf_u32(b, name);
    buf_u32(b, type);
    put_word(b, wide, 0); /* sh_flags */
    put_word(b, wide, 0); /* sh_addr */
    put_word(b, wide, offset);
    put_word(b, wide, size);
    buf_u32(b, 0); /* sh_link */
    buf_u32(b, 0); /* sh_info */
    put_word(b, wide, 1);
    put_word(b, wide, 0); /* sh_entsize */
}

/* Header, section headers, names, sections: in this order, no offset changes later. */
int dwarf_image_make(struct dwarf_image *m, const struct dwarf_sections *s, struct err *e)
{
    struct buf names = {0}, headers = {0}, *b = &m->bytes;
    size_t begin = s->is_64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr), each, at, lines = 0;
    unsigned count = 2;
    *m = (struct dwarf_image){0};
    each = s->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    for (int i = 0; i < DWARF_SECTIONS; i++) {
        count += s->at[i].len > 0;
    }
    at = begin + count * each;
    put_section_header(&headers, s->is_64, 0, SHT_NULL, 0, 0);
    buf_u8(&names, 0);
    for (int i = 0; i < DWARF_SECTIONS; i++) {
        if (s->at[i].len == 0)
            continue;
        if (i == DWARF_LINE)
            lines = at;
        put_section_header(&headers, s->is_64, (uint32_t)names.len, SHT_PROGBITS, at, s->at[i].len);
        at += s->at[i].len;
        buf_put(&names, dwarf_section_names[i], strlen(dwarf_section_names[i]) + 1);
    }
    put_section_header(&headers, s->is_64, 0, SHT_STRTAB, at, names.len);
    (void)buf_reserve(b, at + names.len); /* one allocation instead of doubling */
    put_file_header(b, s, begin, count);
    buf_put(b, headers.data, headers.len);
    for (int i = 0; i < DWARF_SECTIONS; i++)
        buf_put(b, s->at[i].p, s->at[i].len);
    buf_put(b, names.data, names.len);
    bool made = !names.failed && !headers.failed && !b->failed;
    buf_release(&names);
    buf_release(&headers);
    if (!made) {
        buf_release(b);
        return err_no_memory(e, "debug information");
    }
    m->lines = b->data + lines;
    m->lines_len = s->at[DWARF_LINE].len;
    return 0;
}

/* ---- the reader */

static int image_open(struct image *i, const struct dwarf_image *m, struct err *e)
{
    elf_version(EV_CURRENT);
    i->elf = elf_memory((char *)m->bytes.data, m->bytes.len);
    if (!i->elf)
        return err_set(e, ERR_INPUT, "libelf: %s", elf_errmsg(-1));
    i->dwarf = dwarf_begin_elf(i->elf, DWARF_C_READ, NULL);
    if (!i->dwarf)
        return err_set(e, ERR_INPUT, "libdw: %s", dwarf_errmsg(-1));
    return 0;
}

void dwarf_reader_close(struct dwarf_reader *r)
{
    if (!r)
        return;
    dwarf_end(r->main.dwarf);
    dwarf_end(r->alternate.dwarf);
    elf_end(r->main.elf);
    elf_end(r->alternate.elf);
    free(r);
}

int dwarf_reader_open(struct dwarf_reader **out, const struct dwarf_image *image,
                      const struct dwarf_image *alternate, struct err *e)
{
    struct dwarf_reader *r = calloc(1, sizeof *r);
    if (!r)
        return err_no_memory(e, "a DWARF reader");
    int status = image_open(&r->main, image, e);
    if (status == 0 && alternate)
        status = image_open(&r->alternate, alternate, e);
    if (status != 0) {
        dwarf_reader_close(r);
        return -1;
    }
    dwarf_setalt(r->main.dwarf, r->alternate.dwarf); /* NULL: libdw must not search for it */
    *out = r;
    return 0;
}

int dwarf_reader_next(struct dwarf_reader *r, struct dwarf_unit *unit, struct err *e)
{
    Dwarf_Die root;
    uint8_t type;
    Dwarf_Half version;
    int status = dwarf_get_units(r->main.dwarf, r->unit, &r->unit, &version, &type, NULL, NULL);
    if (status == 1)
        return 0;
    uint64_t id = 0;
    if (status != 0 || dwarf_cu_info(r->unit, NULL, NULL, &root, NULL, &id, NULL, NULL) != 0)
        return err_set(e, ERR_INPUT, ".debug_info: %s", dwarf_errmsg(-1));
    *unit = (struct dwarf_unit){.root = dwarf_dieoffset(&root),
                                .version = version,
                                .types = type == DW_UT_type || type == DW_UT_split_type,
                                .id = id};
    return 1;
}

int dwarf_node_at(struct dwarf_reader *r, bool alternate, uint64_t offset, struct dwarf_node *node)
{
    Dwarf *dwarf = alternate ? r->alternate.dwarf : r->main.dwarf;
    node->alternate = alternate;
    return dwarf && dwarf_offdie(dwarf, offset, &node->die) ? 1 : -1;
}

int dwarf_node_child(struct dwarf_node *node, struct dwarf_node *child)
{
    child->alternate = node->alternate;
    int status = dwarf_child(&node->die, &child->die);
    return status == 0 ? 1 : status == 1 ? 0 : -1;
}

int dwarf_node_sibling(struct dwarf_node *node, struct dwarf_node *sibling)
{
    sibling->alternate = node->alternate;
    int status = dwarf_siblingof(&node->die, &sibling->die);
    return status == 0 ? 1 : status == 1 ? 0 : -1;
}

unsigned dwarf_node_tag(struct dwarf_node *node)
{
    int tag = dwarf_tag(&node->die);
    return tag > 0 ? (unsigned)tag : 0;
}

/* State of an attribute callback. */
struct reading {
    struct dwarf_entry *entry;
    bool alternate;
    bool high_is_size;
};

static struct dwarf_reference reference_of(const struct reading *r, Dwarf_Attribute *attr)
{
    Dwarf_Die die;
    unsigned form = dwarf_whatform(attr);
    bool other =
        form == DW_FORM_GNU_ref_alt || form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8;
    if (form == DW_FORM_ref_sig8 || !dwarf_formref_die(attr, &die))
        return (struct dwarf_reference){0};
    return (struct dwarf_reference){
        .present = true, .alternate = r->alternate || other, .offset = dwarf_dieoffset(&die)};
}

static uint32_t small_number(Dwarf_Attribute *attr)
{
    Dwarf_Word value;
    return dwarf_formudata(attr, &value) == 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void read_high(struct reading *r, Dwarf_Attribute *attr)
{
    Dwarf_Word value;
    unsigned form = dwarf_whatform(attr);
    bool address = form == DW_FORM_addr || (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4) ||
                   form == DW_FORM_addrx || form == DW_FORM_GNU_addr_index;
    r->high_is_size = !address;
    r->entry->has_high =
        (address ? dwarf_formaddr(attr, &r->entry->high) : dwarf_formudata(attr, &value)) == 0;
    if (r->entry->has_high && !address)
        r->entry->high = value;
}

/* Leaves *out as it is if the attribute is no number. */
static void read_offset(Dwarf_Attribute *attr, uint64_t *out)
{
    Dwarf_Word value;
    if (dwarf_formudata(attr, &value) == 0)
        *out = value;
}

static int read_attribute(Dwarf_Attribute *attr, void *user)
{
    struct reading *r = user;
    struct dwarf_entry *entry = r->entry;
    switch (dwarf_whatattr(attr)) {
    case DW_AT_name:
        entry->name = dwarf_formstring(attr);
        break;
    case DW_AT_linkage_name:
    case DW_AT_MIPS_linkage_name:
        entry->linkage_name = dwarf_formstring(attr);
        break;
    case DW_AT_low_pc:
        entry->has_low = dwarf_formaddr(attr, &entry->low) == 0;
        break;
    case DW_AT_high_pc:
        read_high(r, attr);
        break;
    case DW_AT_ranges:
        entry->has_ranges = true;
        break;
    case DW_AT_abstract_origin:
        entry->origin = reference_of(r, attr);
        break;
    case DW_AT_specification:
        entry->specification = reference_of(r, attr);
        break;
    case DW_AT_call_file:
        entry->call_file = small_number(attr);
        break;
    case DW_AT_call_line:
        entry->call_line = small_number(attr);
        break;
    case DW_AT_call_column:
        entry->call_column = small_number(attr);
        break;
    case DW_AT_comp_dir:
        entry->directory = dwarf_formstring(attr);
        break;
    case DW_AT_dwo_name:
    case DW_AT_GNU_dwo_name:
        entry->split_name = dwarf_formstring(attr);
        break;
    case DW_AT_GNU_dwo_id:
        read_offset(attr, &entry->split_id);
        break;
    case DW_AT_stmt_list:
        entry->has_lines = true;
        break;
    case DW_AT_addr_base:
    case DW_AT_GNU_addr_base:
        read_offset(attr, &entry->address_base);
        break;
    case DW_AT_GNU_ranges_base:
        read_offset(attr, &entry->ranges_base);
        break;
    default:
        break;
    }
    return DWARF_CB_OK;
}

bool dwarf_node_declares(struct dwarf_node *node)
{
    return dwarf_hasattr(&node->die, DW_AT_declaration) == 1;
}

bool dwarf_node_has_code(struct dwarf_node *node)
{
    Dwarf_Die *die = &node->die;
    return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

int dwarf_node_read(struct dwarf_node *node, struct dwarf_entry *entry)
{
    struct reading r = {.entry = entry, .alternate = node->alternate};
    *entry = (struct dwarf_entry){0};
    if (dwarf_getattrs(&node->die, read_attribute, &r, 0) < 0)
        return -1;
    if (r.high_is_size && entry->has_high)
        entry->high += entry->low;
    return 1;
}

int dwarf_node_ranges(struct dwarf_node *node, struct dwarf_base base, dwarf_range_fn *fn,
                      void *user)
{
    Dwarf_Addr own_base = 0, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(&node->die, at, &own_base, &low, &high)) > 0) {
        uint64_t add = base.of_skeleton && own_base == 0 ? base.address : 0;
        if (!fn(user, low + add, high + add))
            return 0;
    }
    return at < 0 ? -1 : 1;
}

/*
 * Before DWARF 5, file numbers start at 1, and libdw puts "???" in file 0. For a skeleton unit
 * libdw returns relative paths.
 */
static bool give_files(Dwarf_Files *files, size_t n, const char *directory,
                       const struct dwarf_line_sink *sink)
{
    struct buf path = {0};
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < n && i <= UINT32_MAX; i++) {
        const char *name = dwarf_filesrc(files, i, NULL, NULL);
        if (!name || strcmp(name, "???") == 0)
            continue;
        buf_clear(&path);
        if (name[0] != '/' && directory)
            buf_printf(&path, "%s/", directory);
        buf_puts(&path, name);
        goes_on = !path.failed && sink->file(sink->user, (uint32_t)i,
                                             (struct view){(const char *)path.data, path.len});
    }
    buf_release(&path);
    return goes_on;
}

static bool row_of(Dwarf_Line *line, struct dwarf_row *row)
{
    Dwarf_Files *files;
    size_t file;
    int number, column;
    if (!line || dwarf_lineaddr(line, &row->address) != 0 ||
        dwarf_lineendsequence(line, &row->end) != 0 || dwarf_lineno(line, &number) != 0 ||
        dwarf_linecol(line, &column) != 0)
        return false;
    row->file = dwarf_line_file(line, &files, &file) == 0 ? (uint32_t)file : UINT32_MAX;
    row->line = number > 0 ? (uint32_t)number : 0;
    row->column = column > 0 ? (uint32_t)column : 0;
    return true;
}

int dwarf_node_lines(struct dwarf_node *root, const struct dwarf_line_sink *sink)
{
    Dwarf_Die *die = &root->die;
    Dwarf_Attribute directory;
    Dwarf_Lines *lines;
    Dwarf_Files *files;
    size_t n_lines, n_files;
    struct dwarf_row row;
    if (dwarf_getsrclines(die, &lines, &n_lines) != 0 ||
        dwarf_getsrcfiles(die, &files, &n_files) != 0)
        return -1;
    if (!give_files(files, n_files, dwarf_formstring(dwarf_attr(die, DW_AT_comp_dir, &directory)),
                    sink))
        return 0;
    for (size_t i = 0; i < n_lines; i++) {
        if (row_of(dwarf_onesrcline(lines, i), &row) && !sink->row(sink->user, &row))
            return 0;
    }
    return 1;
}
