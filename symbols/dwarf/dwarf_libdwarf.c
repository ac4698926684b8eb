/*
 * The back end that walks with libdwarf. The Makefile links this file and dwarf_libdwarf_lines.c
 * with libdwarf's archive into one object whose only global symbol is `dwarf_libdwarf`, because
 * libdwarf and libdw share the names of more than thirty functions.
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "symbols/dwarf/dwarf_libdwarf.h"

/* ---- sections in memory for libdwarf's object access; section 0 is the empty one */

static int access_info(void *object, access_index index, access_section *out, int *error)
{
    const struct image *m = object;
    (void)error;
    *out = (access_section){.AS(name) = ""};
    if (index > DWARF_SECTIONS)
        return DW_DLV_NO_ENTRY;
    if (index > 0 && m->sections->at[index - 1].len > 0) {
        out->AS(name) = dwarf_section_name((enum dwarf_section)(index - 1));
        out->AS(size) = m->sections->at[index - 1].len;
        out->AS(type) = 1; /* SHT_PROGBITS */
    }
    return DW_DLV_OK;
}

static access_byte_order access_order(void *object)
{
    (void)object;
    return ACCESS_LITTLE;
}

static Dwarf_Small access_length_size(void *object)
{
    const struct image *m = object;
    return m->sections->is_64 ? 8 : 4;
}

static Dwarf_Unsigned access_count(void *object)
{
    (void)object;
    return DWARF_SECTIONS + 1;
}

#ifdef DW_LIBDWARF_VERSION
/*
 * libdwarf checks section sizes against the file size. There is no file, so no size is too large.
 */
static Dwarf_Unsigned access_file_size(void *object)
{
    (void)object;
    return UINT64_MAX / 2;
}
#endif

static int access_load(void *object, access_index index, Dwarf_Small **bytes, int *error)
{
    const struct image *m = object;
    (void)error;
    if (index == 0 || index > DWARF_SECTIONS || m->sections->at[index - 1].len == 0)
        return DW_DLV_NO_ENTRY;
    *bytes = (Dwarf_Small *)m->sections->at[index - 1].p;
    return DW_DLV_OK;
}

static const access_methods access_table = {
    .OM(get_section_info) = access_info,
    .OM(get_byte_order) = access_order,
    .OM(get_length_size) = access_length_size,
    .OM(get_pointer_size) = access_length_size,
#ifdef DW_LIBDWARF_VERSION
    .OM(get_filesize) = access_file_size,
#endif
    .OM(get_section_count) = access_count,
    .OM(load_section) = access_load,
};

/* ---- opening */

/*
 * By default libdwarf tracks its allocations in a tree, to free what its user forgets. The tree
 * takes more time than the walk. The switch is global and must be set before first use.
 */
static void without_tracking(void)
{
    dwarf_set_de_alloc_flag(0);
}

static int image_open(struct image *m, const struct dwarf_sections *sections, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    Dwarf_Error error = NULL;
    pthread_once(&once, without_tracking);
    m->sections = sections;
    m->access = (access_interface){.AI(object) = m, .AI(methods) = &access_table};
    pthread_mutex_lock(&one_at_a_time); /* opening uses libdwarf's static memory */
    int status = dwarf_object_init_b(&m->access, NULL, NULL, DW_GROUPNUMBER_ANY, &m->debug, &error);
    pthread_mutex_unlock(&one_at_a_time);
    if (status != DW_DLV_OK) {
        err_set(e, ERR_INPUT, "libdwarf: %s",
                status == DW_DLV_ERROR ? dwarf_errmsg(error) : "no debug information");
        forget(NULL, &error);
        m->debug = NULL;
        return -1;
    }
    return 0;
}

static void image_close(struct image *m)
{
    if (!m->debug)
        return;
#ifdef DW_LIBDWARF_VERSION
    dwarf_object_finish(m->debug);
#else
    Dwarf_Error error = NULL;
    dwarf_object_finish(m->debug, &error);
#endif
}

static void libdwarf_close(void *reader)
{
    struct reader *r = reader;
    if (!r)
        return;
    image_close(&r->main);
    image_close(&r->alternate);
    vec_release(&r->abbreviations);
    vec_release(&r->forms);
    free(r);
}

static int libdwarf_open(void **reader, const struct dwarf_sections *sections,
                         const struct dwarf_sections *alternate, struct err *e)
{
    struct reader *r = calloc(1, sizeof *r);
    if (!r)
        return err_no_memory(e, "a DWARF reader");
    int status = image_open(&r->main, sections, e);
    if (status == 0 && alternate)
        status = image_open(&r->alternate, alternate, e);
    if (status != 0) {
        libdwarf_close(r);
        return -1;
    }
    *reader = r;
    return 0;
}

static const char *libdwarf_version(void)
{
    return dwarf_package_version();
}

/* ---- walking */

/* Converts the status of a call that makes a DIE: 1, 0 or -1. */
static int node_set(Dwarf_Debug debug, struct dwarf_node *node, bool alternate, int status,
                    Dwarf_Die die, Dwarf_Error *error)
{
    node->alternate = alternate;
    node->store[0] = (uintptr_t)(status == DW_DLV_OK ? die : NULL);
    if (status == DW_DLV_ERROR)
        forget(debug, error);
    return status == DW_DLV_OK ? 1 : status == DW_DLV_NO_ENTRY ? 0 : -1;
}

static int root_offset(struct reader *r, uint64_t *offset, struct err *e)
{
    Dwarf_Error error = NULL;
    Dwarf_Die die = NULL;
    Dwarf_Off at = 0;
    int status = dwarf_siblingof_b(r->main.debug, NULL, 1, &die, &error);
    if (status == DW_DLV_OK) {
        status = dwarf_dieoffset(die, &at, &error);
        dwarf_dealloc_die(die);
    }
    *offset = at;
    if (status == DW_DLV_OK)
        return 1;
    err_set(e, ERR_INPUT, ".debug_info: %s",
            status == DW_DLV_ERROR ? dwarf_errmsg(error) : "a unit without entries");
    forget(r->main.debug, &error);
    return -1;
}

static int libdwarf_next_unit(void *reader, struct dwarf_unit *unit, struct err *e)
{
    struct reader *r = reader;
    Dwarf_Error error = NULL;
    Dwarf_Half version = 0, type = 0;
    Dwarf_Unsigned next = 0;
    Dwarf_Sig8 id = {{0}};
    int status = dwarf_next_cu_header_d(r->main.debug, 1, NULL, &version, NULL, NULL, NULL, NULL,
                                        &id, NULL, &next, &type, &error);
    if (status == DW_DLV_NO_ENTRY)
        return 0;
    if (status != DW_DLV_OK) {
        err_set(e, ERR_INPUT, ".debug_info: %s", dwarf_errmsg(error));
        forget(r->main.debug, &error);
        return -1;
    }
    *unit = (struct dwarf_unit){.offset = r->next,
                                .version = version,
                                .kind = dwarf_unit_kind(type),
                                .id = load_u64(id.signature)};
    r->next = next;
    return root_offset(r, &unit->root, e);
}

static int libdwarf_node_at(void *reader, bool alternate, uint64_t offset, struct dwarf_node *node)
{
    struct reader *r = reader;
    Dwarf_Debug debug = alternate ? r->alternate.debug : r->main.debug;
    Dwarf_Error error = NULL;
    Dwarf_Die die = NULL;
    if (!debug)
        return -1;
    int status = dwarf_offdie_b(debug, offset, 1, &die, &error);
    return node_set(debug, node, alternate, status, die, &error) == 1 ? 1 : -1;
}

static int libdwarf_child(void *reader, const struct dwarf_node *node, struct dwarf_node *child)
{
    Dwarf_Error error = NULL;
    Dwarf_Die die = NULL;
    int status = dwarf_child(die_of(node), &die, &error);
    return node_set(debug_of(reader, node), child, node->alternate, status, die, &error);
}

static int libdwarf_sibling(void *reader, const struct dwarf_node *node, struct dwarf_node *sibling)
{
    Dwarf_Debug debug = debug_of(reader, node);
    Dwarf_Error error = NULL;
    Dwarf_Die die = NULL;
    int status = dwarf_siblingof_b(debug, die_of(node), 1, &die, &error);
    return node_set(debug, sibling, node->alternate, status, die, &error);
}

static void libdwarf_release(void *reader, struct dwarf_node *node)
{
    (void)reader;
    if (node->store[0])
        dwarf_dealloc_die(die_of(node));
    node->store[0] = 0;
}

static unsigned libdwarf_tag(void *reader, const struct dwarf_node *node)
{
    Dwarf_Error error = NULL;
    Dwarf_Half tag = 0;
    if (dwarf_tag(die_of(node), &tag, &error) == DW_DLV_ERROR)
        forget(debug_of(reader, node), &error);
    return tag;
}

static uint64_t libdwarf_offset(void *reader, const struct dwarf_node *node)
{
    Dwarf_Error error = NULL;
    Dwarf_Off offset = 0;
    if (dwarf_dieoffset(die_of(node), &offset, &error) == DW_DLV_ERROR)
        forget(debug_of(reader, node), &error);
    return offset;
}

/* ---- attributes */

struct attribute {
    const struct reader *reader;
    Dwarf_Debug debug;
    Dwarf_Attribute attr;
    Dwarf_Half form;
    bool alternate; /* the entry is in the alternate file */
};

/* The string at an offset of the alternate file's .debug_str. */
static const char *alternate_string(const struct attribute *a)
{
    const struct dwarf_sections *s = a->reader->alternate.sections;
    Dwarf_Error error = NULL;
    Dwarf_Off offset = 0;
    if (dwarf_global_formref(a->attr, &offset, &error) != DW_DLV_OK) {
        forget(a->debug, &error);
        return NULL;
    }
    if (!s || offset >= s->at[DWARF_STR].len)
        return NULL;
    const char *text = s->at[DWARF_STR].p + offset;
    return memchr(text, 0, s->at[DWARF_STR].len - offset) ? text : NULL;
}

static const char *string_of(const struct attribute *a)
{
    Dwarf_Error error = NULL;
    char *text = NULL;
    if (a->form == DW_FORM_GNU_strp_alt || a->form == DW_FORM_strp_sup)
        return alternate_string(a);
    if (dwarf_formstring(a->attr, &text, &error) == DW_DLV_OK)
        return text;
    forget(a->debug, &error);
    return NULL;
}

static bool number_of(const struct attribute *a, uint64_t *out)
{
    Dwarf_Error error = NULL;
    Dwarf_Unsigned value = 0;
    Dwarf_Signed with_sign = 0;
    int status = dwarf_formudata(a->attr, &value, &error);
    if (status != DW_DLV_OK) {
        forget(a->debug, &error);
        status = dwarf_formsdata(a->attr, &with_sign, &error);
        value = with_sign < 0 ? 0 : (Dwarf_Unsigned)with_sign;
    }
    if (status != DW_DLV_OK)
        forget(a->debug, &error);
    *out = value;
    return status == DW_DLV_OK;
}

static uint32_t small_number(const struct attribute *a)
{
    uint64_t value;
    return number_of(a, &value) && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static bool offset_of(const struct attribute *a, uint64_t *out)
{
    Dwarf_Error error = NULL;
    Dwarf_Off offset = 0;
    if (dwarf_global_formref(a->attr, &offset, &error) == DW_DLV_OK) {
        *out = offset;
        return true;
    }
    forget(a->debug, &error);
    return number_of(a, out);
}

static bool address_of(const struct attribute *a, uint64_t *out)
{
    Dwarf_Error error = NULL;
    Dwarf_Addr address = 0;
    if (dwarf_formaddr(a->attr, &address, &error) != DW_DLV_OK) {
        forget(a->debug, &error);
        return false;
    }
    *out = address;
    return true;
}

static bool is_address(Dwarf_Half form)
{
    return form == DW_FORM_addr || form == DW_FORM_addrx || form == DW_FORM_GNU_addr_index ||
           (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4);
}

static struct dwarf_reference reference_of(const struct attribute *a)
{
    struct dwarf_reference out = {.alternate = a->alternate || a->form == DW_FORM_GNU_ref_alt};
    Dwarf_Error error = NULL;
    Dwarf_Off offset = 0;
    if (dwarf_global_formref(a->attr, &offset, &error) == DW_DLV_OK) {
        out.present = true;
        out.offset = offset;
    } else {
        forget(a->debug, &error);
    }
    return out;
}

/* Attributes of the first entry of a unit. */
static void read_of_unit(const struct attribute *a, Dwarf_Half what, struct dwarf_entry *entry)
{
    switch (what) {
    case DW_AT_comp_dir:
        entry->directory = string_of(a);
        break;
    case DW_AT_dwo_name:
    case DW_AT_GNU_dwo_name:
        entry->split_name = string_of(a);
        break;
    case DW_AT_GNU_dwo_id:
        number_of(a, &entry->split_id);
        break;
    case DW_AT_stmt_list:
        entry->has_lines = offset_of(a, &entry->lines_offset);
        break;
    case DW_AT_addr_base:
    case DW_AT_GNU_addr_base:
        entry->has_address_base = offset_of(a, &entry->address_base);
        break;
    case DW_AT_GNU_ranges_base:
        offset_of(a, &entry->ranges_base);
        break;
    default:
        break;
    }
}

static void read_attribute(const struct attribute *a, Dwarf_Half what, struct dwarf_entry *entry,
                           bool *high_is_size)
{
    switch (what) {
    case DW_AT_name:
        entry->name = string_of(a);
        break;
    case DW_AT_linkage_name:
    case DW_AT_MIPS_linkage_name:
        entry->linkage_name = string_of(a);
        break;
    case DW_AT_low_pc:
        entry->has_low = address_of(a, &entry->low);
        break;
    case DW_AT_high_pc:
        *high_is_size = !is_address(a->form);
        entry->has_high = *high_is_size ? number_of(a, &entry->high) : address_of(a, &entry->high);
        break;
    case DW_AT_ranges:
        entry->has_ranges = true;
        break;
    case DW_AT_abstract_origin:
        entry->origin = reference_of(a);
        break;
    case DW_AT_specification:
        entry->specification = reference_of(a);
        break;
    case DW_AT_call_file:
        entry->call_file = small_number(a);
        break;
    case DW_AT_call_line:
        entry->call_line = small_number(a);
        break;
    case DW_AT_call_column:
        entry->call_column = small_number(a);
        break;
    default:
        read_of_unit(a, what, entry);
        break;
    }
}

/* ---- abbreviations: their attributes are read once */

static bool has_attribute(const struct abbreviation *a, const struct dwarf_form *forms,
                          Dwarf_Half what)
{
    for (uint32_t i = 0; i < a->n; i++) {
        if (forms[a->first + i].attribute == what)
            return true;
    }
    return false;
}

/* Reads the forms of an entry's attributes. False if the library cannot report all of them. */
static bool ask_forms(struct reader *r, Dwarf_Die die)
{
    Dwarf_Error error = NULL;
    Dwarf_Attribute *list = NULL;
    Dwarf_Signed n = 0;
    int status = dwarf_attrlist(die, &list, &n, &error);
    bool told = status != DW_DLV_ERROR;
    for (Dwarf_Signed i = 0; status == DW_DLV_OK && i < n; i++) {
        Dwarf_Half what = 0, form = 0;
        told = told && dwarf_whatattr(list[i], &what, &error) == DW_DLV_OK &&
               dwarf_whatform_direct(list[i], &form, &error) == DW_DLV_OK &&
               vec_push(&r->forms, (struct dwarf_form){what, form});
        dwarf_dealloc_attribute(list[i]);
    }
    if (status == DW_DLV_OK)
        dwarf_dealloc(r->main.debug, list, DW_DLA_LIST);
    forget(r->main.debug, &error);
    return told;
}

/*
 * The abbreviation of an entry of the current unit. NULL for other units, and if the library must
 * decode the entry.
 */
static const struct abbreviation *abbreviation_of(struct reader *r, const struct dwarf_node *node)
{
    static const struct abbreviation none;
    Dwarf_Off unit = 0, length = 0;
    Dwarf_Error error = NULL;
    if (r->unit.end == 0 || node->alternate)
        return NULL;
    if (dwarf_die_CU_offset_range(die_of(node), &unit, &length, &error) != DW_DLV_OK) {
        forget(r->main.debug, &error);
        return NULL;
    }
    /* libdwarf before 0.11 returns an int here, negative on failure. */
    Dwarf_Unsigned code = (Dwarf_Unsigned)dwarf_die_abbrev_code(die_of(node));
    if (unit != r->unit.offset || code == 0 || code >= ABBREVIATIONS_MAX)
        return NULL;
    while (r->abbreviations.len <= code) {
        if (!vec_push(&r->abbreviations, none))
            return NULL;
    }
    struct abbreviation *a = &r->abbreviations.at[code];
    if (a->asked)
        return a->n == UINT32_MAX ? NULL : a;
    *a = (struct abbreviation){.asked = true, .first = (uint32_t)r->forms.len};
    if (!ask_forms(r, die_of(node))) {
        a->n = UINT32_MAX;
        return NULL;
    }
    a->n = (uint32_t)r->forms.len - a->first;
    a->has_code =
        has_attribute(a, r->forms.at, DW_AT_low_pc) || has_attribute(a, r->forms.at, DW_AT_ranges);
    a->declares = has_attribute(a, r->forms.at, DW_AT_declaration);
    a->known = a->n > 0 && dwarf_forms_known(r->forms.at + a->first, a->n);
    return a;
}

/* Makes the unit of a first entry the current one. */
static void take_unit(struct reader *r, const struct dwarf_node *root)
{
    Dwarf_Error error = NULL;
    Dwarf_Off offset = 0, length = 0;
    Dwarf_Half version = 0, offset_size = 0, address_size = 0;
    r->abbreviations.len = r->forms.len = 0;
    r->unit = (struct dwarf_form_unit){.sections = r->main.sections};
    if (root->alternate ||
        dwarf_die_CU_offset_range(die_of(root), &offset, &length, &error) != DW_DLV_OK ||
        dwarf_get_version_of_die(die_of(root), &version, &offset_size) != DW_DLV_OK ||
        dwarf_get_die_address_size(die_of(root), &address_size, &error) != DW_DLV_OK) {
        forget(r->main.debug, &error);
        return;
    }
    if ((offset_size != 4 && offset_size != 8) || (address_size != 4 && address_size != 8))
        return;
    r->unit.offset = offset;
    r->unit.end = offset + length;
    r->unit.version = version;
    r->unit.offset_size = (uint8_t)offset_size;
    r->unit.address_size = (uint8_t)address_size;
}

static bool has(void *reader, const struct dwarf_node *node, Dwarf_Half what)
{
    Dwarf_Error error = NULL;
    Dwarf_Bool found = 0;
    int status = dwarf_hasattr(die_of(node), what, &found, &error);
    if (status == DW_DLV_ERROR)
        forget(debug_of(reader, node), &error);
    return status != DW_DLV_OK || found; /* on an error, reading the entry reports it */
}

static bool libdwarf_has_code(void *reader, const struct dwarf_node *node)
{
    const struct abbreviation *a = abbreviation_of(reader, node);
    return a ? a->has_code : has(reader, node, DW_AT_low_pc) || has(reader, node, DW_AT_ranges);
}

static bool libdwarf_declares(void *reader, const struct dwarf_node *node)
{
    const struct abbreviation *a = abbreviation_of(reader, node);
    return a && a->declares;
}

static bool is_first(unsigned tag)
{
    return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit || tag == DW_TAG_partial_unit;
}

/* Decodes an entry from its bytes. False if the library has to read it. */
static bool read_bytes(struct reader *r, const struct dwarf_node *node, struct dwarf_entry *entry)
{
    const struct abbreviation *a = abbreviation_of(r, node);
    return a && a->known &&
           dwarf_forms_read(&r->unit, libdwarf_offset(r, node), r->forms.at + a->first, a->n,
                            entry);
}

static int libdwarf_read(void *reader, const struct dwarf_node *node, struct dwarf_entry *entry)
{
    struct attribute a = {
        .reader = reader, .debug = debug_of(reader, node), .alternate = node->alternate};
    Dwarf_Error error = NULL;
    Dwarf_Attribute *list = NULL;
    Dwarf_Signed n = 0;
    bool high_is_size = false;
    if (is_first(libdwarf_tag(reader, node)))
        take_unit(reader, node);
    else if (read_bytes(reader, node, entry))
        return 1;
    *entry = (struct dwarf_entry){0};
    int status = dwarf_attrlist(die_of(node), &list, &n, &error);
    if (status == DW_DLV_ERROR) {
        forget(a.debug, &error);
        return -1;
    }
    for (Dwarf_Signed i = 0; status == DW_DLV_OK && i < n; i++) {
        Dwarf_Half what = 0;
        a.attr = list[i];
        if (dwarf_whatattr(a.attr, &what, &error) == DW_DLV_OK &&
            dwarf_whatform(a.attr, &a.form, &error) == DW_DLV_OK)
            read_attribute(&a, what, entry, &high_is_size);
        else
            forget(a.debug, &error);
        dwarf_dealloc_attribute(list[i]);
    }
    if (status == DW_DLV_OK)
        dwarf_dealloc(a.debug, list, DW_DLA_LIST);
    if (high_is_size && entry->has_high)
        entry->high += entry->low;
    return 1;
}

/* ---- ranges */

/* DWARF 2 to 4: reads .debug_ranges and adds the base here. */
static int old_ranges(struct reader *r, const struct dwarf_node *node, uint64_t offset,
                      uint64_t base, dwarf_range_fn *fn, void *user)
{
    Dwarf_Debug debug = debug_of(r, node);
    Dwarf_Error error = NULL;
    Dwarf_Ranges *list = NULL;
    Dwarf_Signed n = 0;
    Dwarf_Unsigned bytes = 0;
    int status = dwarf_get_ranges_b(debug, offset, die_of(node), NULL, &list, &n, &bytes, &error);
    if (status != DW_DLV_OK) {
        if (status == DW_DLV_ERROR)
            forget(debug, &error);
        return -1;
    }
    for (Dwarf_Signed i = 0; i < n; i++) {
        if (list[i].dwr_type == DW_RANGES_ADDRESS_SELECTION)
            base = list[i].dwr_addr2;
        else if (list[i].dwr_type == DW_RANGES_END ||
                 !fn(user, base + list[i].dwr_addr1, base + list[i].dwr_addr2))
            break;
    }
    dwarf_dealloc(debug, list, DW_DLA_RANGES);
    return 1;
}

/*
 * The offset of list `index` in .debug_rnglists. libdwarf 20210528 needs a base for this, which a
 * split unit lacks: its offset table follows the section's only header.
 */
static bool split_list_offset(const struct dwarf_sections *s, uint64_t index, uint64_t *offset)
{
    struct view v = s->at[DWARF_RNGLISTS];
    const uint8_t *p = (const uint8_t *)v.p;
    bool wide = v.len >= 20 && load_u32(p) == UINT32_MAX;
    size_t header = wide ? 20 : 12, size = wide ? 8 : 4;
    if (v.len < header || index >= load_u32(p + header - 4) || index > (v.len - header) / size - 1)
        return false;
    const uint8_t *entry = p + header + index * size;
    *offset = header + (wide ? load_u64(entry) : load_u32(entry));
    return *offset < v.len;
}

static int each_entry(Dwarf_Rnglists_Head head, Dwarf_Unsigned n, struct dwarf_base base,
                      dwarf_range_fn *fn, void *user)
{
    Dwarf_Error error = NULL;
    bool from_skeleton = base.of_skeleton; /* libdwarf has no base for it */
    for (Dwarf_Unsigned i = 0; i < n; i++) {
        unsigned length = 0, code = 0;
        Dwarf_Unsigned raw1 = 0, raw2 = 0, low = 0, high = 0;
        Dwarf_Bool unavailable = 0;
        if (dwarf_get_rnglists_entry_fields_a(head, i, &length, &code, &raw1, &raw2, &unavailable,
                                              &low, &high, &error) != DW_DLV_OK)
            return -1;
        if (code == DW_RLE_end_of_list)
            break;
        if (code == DW_RLE_base_address || code == DW_RLE_base_addressx) {
            from_skeleton = false;
            continue;
        }
        if (code == DW_RLE_offset_pair && from_skeleton) {
            low = base.address + raw1;
            high = base.address + raw2;
            unavailable = 0;
        }
        if (!unavailable && !fn(user, low, high))
            break;
    }
    return 1;
}

static int new_ranges(struct reader *r, const struct attribute *a, struct dwarf_base base,
                      dwarf_range_fn *fn, void *user)
{
    const struct dwarf_sections *s = a->alternate ? r->alternate.sections : r->main.sections;
    Dwarf_Error error = NULL;
    Dwarf_Rnglists_Head head = NULL;
    Dwarf_Unsigned n = 0, at = 0;
    uint64_t value = 0;
    bool numbered = a->form == DW_FORM_rnglistx;
    if (!(numbered ? number_of(a, &value) : offset_of(a, &value)))
        return -1;
    int status = dwarf_rnglists_get_rle_head(a->attr, a->form, value, &head, &n, &at, &error);
    if (status == DW_DLV_ERROR && numbered && split_list_offset(s, value, &value)) {
        forget(a->debug, &error);
        status =
            dwarf_rnglists_get_rle_head(a->attr, DW_FORM_sec_offset, value, &head, &n, &at, &error);
    }
    if (status != DW_DLV_OK) {
        if (status == DW_DLV_ERROR)
            forget(a->debug, &error);
        return -1;
    }
    status = each_entry(head, n, base, fn, user);
    dwarf_dealloc_rnglists_head(head);
    return status;
}

static int libdwarf_ranges(void *reader, const struct dwarf_node *node, struct dwarf_base base,
                           dwarf_range_fn *fn, void *user)
{
    struct attribute a = {
        .reader = reader, .debug = debug_of(reader, node), .alternate = node->alternate};
    Dwarf_Error error = NULL;
    Dwarf_Half version = 0, size = 0;
    uint64_t offset = 0;
    int status = -1;
    if (dwarf_attr(die_of(node), DW_AT_ranges, &a.attr, &error) != DW_DLV_OK ||
        dwarf_whatform(a.attr, &a.form, &error) != DW_DLV_OK) {
        forget(a.debug, &error);
        return -1;
    }
    dwarf_get_version_of_die(die_of(node), &version, &size);
    if (version >= 5)
        status = new_ranges(reader, &a, base, fn, user);
    else if (offset_of(&a, &offset))
        status = old_ranges(reader, node, offset, base.address, fn, user);
    dwarf_dealloc_attribute(a.attr);
    return status;
}

const struct dwarf_back_end dwarf_libdwarf = {
    .name = "libdwarf",
    .version = libdwarf_version,
    .open = libdwarf_open,
    .close = libdwarf_close,
    .next_unit = libdwarf_next_unit,
    .node_at = libdwarf_node_at,
    .child = libdwarf_child,
    .sibling = libdwarf_sibling,
    .release = libdwarf_release,
    .tag = libdwarf_tag,
    .offset = libdwarf_offset,
    .has_code = libdwarf_has_code,
    .declares = libdwarf_declares,
    .read = libdwarf_read,
    .ranges = libdwarf_ranges,
    .lines = libdwarf_lines,
};
