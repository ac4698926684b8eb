/* Reads line tables through libdwarf. */

#include "base/buf.h"
#include "symbols/dwarf/dwarf_libdwarf.h"

#define MAX_FILES 20000 /* of one line table */

/* Appends a part to a path, after a slash. */
static void join(struct buf *path, const char *part)
{
    if (!part || !part[0])
        return;
    if (path->len > 0 && path->data[path->len - 1] != '/' && part[0] != '/')
        buf_u8(path, '/');
    buf_puts(path, part);
}

/* Joins the compilation directory (for relative paths), the directory and the name. */
static void whole_path(struct buf *path, const char *compilation, const char *directory,
                       const char *name)
{
    buf_clear(path);
    if (name[0] != '/' && (!directory || directory[0] != '/'))
        join(path, compilation);
    if (name[0] != '/')
        join(path, directory);
    join(path, name);
}

/* The directory and name of file `i`. False if it has no name. */
static bool file_parts(Dwarf_Debug debug, Dwarf_Line_Context context, Dwarf_Signed i, bool from_0,
                       const char **directory, const char **name)
{
    Dwarf_Error error = NULL;
    Dwarf_Unsigned number = 0;
    if (dwarf_srclines_files_data_b(context, i, name, &number, NULL, NULL, NULL, &error) !=
        DW_DLV_OK) {
        forget(debug, &error);
        return false;
    }
    if ((number > 0 || from_0) &&
        dwarf_srclines_include_dir_data(context, (Dwarf_Signed)number, directory, &error) ==
            DW_DLV_ERROR)
        forget(debug, &error);
    return *name != NULL;
}

/*
 * Files are numbered from 0 in DWARF 5, from 1 before. libdwarf walks a list for each number, so
 * the count is bounded. dwarf_srcfiles would return all files at once, but works in static memory.
 */
static int give_files(Dwarf_Debug debug, Dwarf_Line_Context context, bool from_0,
                      const struct dwarf_line_sink *sink)
{
    Dwarf_Error error = NULL;
    const char *compilation = NULL;
    Dwarf_Signed first = 0, n = 0, end = 0;
    struct buf path = {0};
    bool goes_on = true;
    if (dwarf_srclines_files_indexes(context, &first, &n, &end, &error) != DW_DLV_OK ||
        dwarf_srclines_comp_dir(context, &compilation, &error) != DW_DLV_OK) {
        forget(debug, &error);
        return -1;
    }
    for (Dwarf_Signed i = first; goes_on && i < end && i < MAX_FILES; i++) {
        const char *directory = NULL, *name = NULL;
        if (!file_parts(debug, context, i, from_0, &directory, &name))
            continue;
        whole_path(&path, compilation, directory, name);
        goes_on = !path.failed && sink->file(sink->user, (uint32_t)i,
                                             (struct view){(const char *)path.data, path.len});
    }
    buf_release(&path);
    return goes_on && end <= MAX_FILES ? 1 : -1;
}

/*
 * libdwarf 20210528 reports a row that begins an epilogue as the end of a sequence. A true end
 * never begins an epilogue.
 */
static bool begins_epilogue(Dwarf_Debug debug, Dwarf_Line line)
{
    Dwarf_Error error = NULL;
    Dwarf_Bool prologue = 0, epilogue = 0;
    Dwarf_Unsigned isa = 0, discriminator = 0;
    if (dwarf_prologue_end_etc(line, &prologue, &epilogue, &isa, &discriminator, &error) ==
        DW_DLV_OK)
        return epilogue;
    forget(debug, &error);
    return false;
}

static bool row_of(Dwarf_Debug debug, Dwarf_Line line, struct dwarf_row *row)
{
    Dwarf_Error error = NULL;
    Dwarf_Addr address = 0;
    Dwarf_Unsigned number = 0, column = 0, file = 0;
    Dwarf_Bool end = 0;
    if (dwarf_lineaddr(line, &address, &error) != DW_DLV_OK ||
        dwarf_lineno(line, &number, &error) != DW_DLV_OK ||
        dwarf_lineoff_b(line, &column, &error) != DW_DLV_OK ||
        dwarf_line_srcfileno(line, &file, &error) != DW_DLV_OK ||
        dwarf_lineendsequence(line, &end, &error) != DW_DLV_OK) {
        forget(debug, &error);
        return false;
    }
    *row = (struct dwarf_row){.address = address,
                              .file = file <= UINT32_MAX ? (uint32_t)file : UINT32_MAX,
                              .line = number <= UINT32_MAX ? (uint32_t)number : 0,
                              .column = column <= UINT32_MAX ? (uint32_t)column : 0,
                              .end = end && !begins_epilogue(debug, line)};
    return true;
}

static int give_rows(Dwarf_Debug debug, Dwarf_Line_Context context,
                     const struct dwarf_line_sink *sink)
{
    Dwarf_Error error = NULL;
    Dwarf_Line *lines = NULL;
    Dwarf_Signed n = 0;
    struct dwarf_row row;
    int status = dwarf_srclines_from_linecontext(context, &lines, &n, &error);
    if (status != DW_DLV_OK) {
        if (status == DW_DLV_ERROR)
            forget(debug, &error);
        return status == DW_DLV_NO_ENTRY ? 1 : -1;
    }
    for (Dwarf_Signed i = 0; i < n; i++) {
        if (row_of(debug, lines[i], &row) && !sink->row(sink->user, &row))
            break;
    }
    return 1;
}

int libdwarf_lines(void *reader, const struct dwarf_node *root, const struct dwarf_line_sink *sink)
{
    Dwarf_Debug debug = debug_of(reader, root);
    Dwarf_Error error = NULL;
    Dwarf_Line_Context context = NULL;
    Dwarf_Unsigned version = 0;
    Dwarf_Small tables = 0;
    int status = dwarf_srclines_b(die_of(root), &version, &tables, &context, &error);
    if (status != DW_DLV_OK) {
        if (status == DW_DLV_ERROR)
            forget(debug, &error);
        return -1;
    }
    status = give_files(debug, context, version >= 5, sink);
    if (status == 1)
        status = give_rows(debug, context, sink);
    dwarf_srclines_dealloc_b(context);
    return status;
}
