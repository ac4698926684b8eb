#pragma once

/*
 * Walks DWARF (versions 2 to 5) behind one narrow interface with two back ends, libdwarf and libdw.
 * A back end only walks units, entries with their attributes, ranges and line rows. Tidemark's own
 * index answers look-ups (symbols/index/index.h).
 *
 * A back end reads inflated sections from memory (struct dwarf_sections) and opens no file. The
 * input is untrusted. If the back end fails on a part, that part is left out.
 *
 * A reader belongs to one thread. Several readers may share the same sections.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct elf_file;

enum dwarf_section {
    DWARF_INFO,
    DWARF_ABBREV,
    DWARF_LINE,
    DWARF_STR,
    DWARF_LINE_STR,
    DWARF_STR_OFFSETS,
    DWARF_ADDR,
    DWARF_RANGES,
    DWARF_RNGLISTS,
    DWARF_SECTIONS /* number of sections */
};

/*
 * The sections of one file that are read; an absent one has length 0. The struct does not own the
 * bytes.
 */
struct dwarf_sections {
    struct view at[DWARF_SECTIONS];
    bool is_64;       /* 64-bit ELF */
    uint16_t machine; /* EM_… */
};

/* ".debug_info" and so on. */
const char *dwarf_section_name(enum dwarf_section s);

/*
 * Reads the sections of `f` and inflates them; `f` keeps the bytes. With `split`, reads
 * ".debug_info.dwo" and so on. Fails with ERR_INPUT if a section cannot be inflated.
 */
int dwarf_sections_read(struct dwarf_sections *out, struct elf_file *f, bool split, struct err *e);

enum dwarf_unit_kind {
    DWARF_UNIT_FULL,     /* a compilation unit, a partial unit (dwz), or a skeleton of DWARF 4 */
    DWARF_UNIT_SKELETON, /* the rest is in a .dwo or .dwp file */
    DWARF_UNIT_SPLIT,    /* the contents of a .dwo or .dwp file */
    DWARF_UNIT_TYPE      /* types only; skipped */
};

/* Of a unit type, DW_UT_…. */
enum dwarf_unit_kind dwarf_unit_kind(unsigned type);

struct dwarf_unit {
    uint64_t offset; /* of its header in .debug_info */
    uint64_t root;   /* offset of its first entry */
    uint16_t version;
    enum dwarf_unit_kind kind;
    uint64_t id; /* of a skeleton or split unit; 0 if only an attribute of the root has it */
};

/* A position in the tree of entries. The caller frees it with `release`. */
struct dwarf_node {
    uint64_t store[4]; /* owned by the back end */
    bool alternate;    /* in the alternate file */
};

/* An entry that another one refers to. */
struct dwarf_reference {
    bool present;
    bool alternate; /* in the alternate file */
    uint64_t offset;
};

/*
 * The attributes of an entry that Tidemark uses. Strings point into the sections and are NULL if
 * absent.
 */
struct dwarf_entry {
    const char *name;
    const char *linkage_name;
    bool has_low, has_high, has_ranges;
    uint64_t low, high; /* addresses; high is exclusive */
    struct dwarf_reference origin, specification;
    uint32_t call_file, call_line, call_column; /* 0: absent */
    /* Only in the first entry of a unit: */
    const char *directory;  /* compilation directory */
    const char *split_name; /* .dwo file */
    uint64_t split_id;      /* an attribute in DWARF 4 */
    bool has_lines;
    uint64_t lines_offset; /* in .debug_line */
    uint64_t address_base; /* in .debug_addr */
    uint64_t ranges_base;  /* in .debug_ranges, for the split unit (DWARF 4) */
    bool has_address_base;
};

/* One row of a line table. At the end of a sequence, only the address after its last row. */
struct dwarf_row {
    uint64_t address;
    uint32_t file; /* the number passed to the sink's `file` */
    uint32_t line;
    uint32_t column;
    bool end;
};

/* Receives a line table. A callback that returns false ends the walk. */
struct dwarf_line_sink {
    /*
     * Called for each file before the rows. Relative paths of the line table are prefixed with the
     * compilation directory. The path is valid only during the call.
     */
    bool (*file)(void *user, uint32_t number, struct view path);
    bool (*row)(void *user, const struct dwarf_row *row);
    void *user;
};

struct dwarf_base {
    uint64_t address;
    bool of_skeleton;
};

typedef bool dwarf_range_fn(void *user, uint64_t low, uint64_t high);

/*
 * Functions that return int return 1 if the item exists, 0 if not, and -1 if it cannot be read;
 * `e`, where there is one, holds the reason.
 */
struct dwarf_back_end {
    const char *name;
    /* The version that the loaded library reports; NULL if it reports none. */
    const char *(*version)(void);

    /* `alternate` (dwz) may be NULL. Returns 0 or -1. The sections must outlive the reader. */
    int (*open)(void **reader, const struct dwarf_sections *sections,
                const struct dwarf_sections *alternate, struct err *e);
    void (*close)(void *reader);

    /* Iterates over the units of .debug_info in order. */
    int (*next_unit)(void *reader, struct dwarf_unit *unit, struct err *e);

    int (*node_at)(void *reader, bool alternate, uint64_t offset, struct dwarf_node *node);
    int (*child)(void *reader, const struct dwarf_node *node, struct dwarf_node *child);
    int (*sibling)(void *reader, const struct dwarf_node *node, struct dwarf_node *sibling);
    void (*release)(void *reader, struct dwarf_node *node);

    unsigned (*tag)(void *reader, const struct dwarf_node *node);
    uint64_t (*offset)(void *reader, const struct dwarf_node *node);
    /*
     * Whether an entry has an address or ranges, and whether it is only a declaration. Both are
     * much cheaper than reading the entry.
     */
    bool (*has_code)(void *reader, const struct dwarf_node *node);
    bool (*declares)(void *reader, const struct dwarf_node *node);
    int (*read)(void *reader, const struct dwarf_node *node, struct dwarf_entry *entry);

    /*
     * The ranges of an entry with `has_ranges`. They may be relative to the address of the unit:
     * that of its first entry or, for a split unit, of its skeleton's.
     */
    int (*ranges)(void *reader, const struct dwarf_node *node, struct dwarf_base base,
                  dwarf_range_fn *fn, void *user);

    /*
     * Reads the line table that the first entry of a unit names, in file order or sorted
     * (rows_sorted).
     */
    int (*lines)(void *reader, const struct dwarf_node *root, const struct dwarf_line_sink *sink);
    bool rows_sorted; /* by address, across all sequences */
};

extern const struct dwarf_back_end dwarf_libdwarf;
extern const struct dwarf_back_end dwarf_libdw;
