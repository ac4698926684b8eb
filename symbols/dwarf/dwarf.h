#ifndef TIDEMARK_SYMBOLS_DWARF_DWARF_H
#define TIDEMARK_SYMBOLS_DWARF_DWARF_H

/*
 * Walking DWARF (versions 2 to 5) behind one narrow interface with two back ends, libdwarf and
 * libdw. A back end is asked only to walk: units, entries and their attributes, ranges, line rows.
 * Everything that answers a look-up is ours (symbols/index/index.h).
 *
 * A back end reads sections that are in memory already, inflated (struct dwarf_sections), and opens
 * no file. What it reads may be anything; where it gives up, the part at hand is left out.
 *
 * A reader is for one thread. Several readers may share the same sections.
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
    DWARF_SECTIONS /* how many */
};

/* The sections of one file that are read; an absent one has no bytes. They are somebody else's. */
struct dwarf_sections {
    struct view at[DWARF_SECTIONS];
    bool is_64;       /* 64-bit ELF */
    uint16_t machine; /* EM_… */
};

/* ".debug_info" and so on. */
const char *dwarf_section_name(enum dwarf_section s);

/*
 * The sections of `f`, inflated and kept there; with `split`, those called ".debug_info.dwo" and so
 * on. A section that cannot be inflated is an error (ERR_INPUT).
 */
int dwarf_sections_read(struct dwarf_sections *out, struct elf_file *f, bool split, struct err *e);

enum dwarf_unit_kind {
    DWARF_UNIT_FULL,     /* a compilation unit, or a partial one (dwz), or a skeleton of DWARF 4 */
    DWARF_UNIT_SKELETON, /* the rest is in a .dwo or .dwp file */
    DWARF_UNIT_SPLIT,    /* that rest */
    DWARF_UNIT_TYPE      /* types only: nothing to see here */
};

struct dwarf_unit {
    uint64_t offset; /* of its header in .debug_info */
    uint64_t root;   /* offset of its first entry */
    uint16_t version;
    enum dwarf_unit_kind kind;
    uint64_t id; /* of a skeleton or split unit; 0 where only an attribute of the root tells it */
};

/* A place in the tree of entries. Given back with `release`. */
struct dwarf_node {
    uint64_t store[4]; /* the back end's own */
    bool alternate;    /* in the alternate file */
};

/* An entry that another one refers to. */
struct dwarf_reference {
    bool present;
    bool alternate; /* in the alternate file */
    uint64_t offset;
};

/* What is wanted of an entry. Strings point into the sections and are NULL when absent. */
struct dwarf_entry {
    const char *name;
    const char *linkage_name;
    bool has_low, has_high, has_ranges;
    uint64_t low, high; /* addresses; high is the first one after it */
    struct dwarf_reference origin, specification;
    uint32_t call_file, call_line, call_column; /* 0: absent */
    /* Of the first entry of a unit only: */
    const char *directory;  /* of compilation */
    const char *split_name; /* .dwo file */
    uint64_t split_id;      /* in DWARF 4 it is an attribute */
    bool has_lines;
    uint64_t lines_offset; /* in .debug_line */
    uint64_t address_base; /* in .debug_addr */
    uint64_t ranges_base;  /* in .debug_ranges, for the split unit (DWARF 4) */
    bool has_address_base;
};

/* One row of a line table, or the end of a sequence of rows: the address after its last one. */
struct dwarf_row {
    uint64_t address;
    uint32_t file; /* as `file` of the sink numbers them */
    uint32_t line;
    uint32_t column;
    bool end;
};

/* Where a line table goes. A function that returns false ends the walk. */
struct dwarf_line_sink {
    /*
     * The files, before the rows. The path has the directory of compilation in front where the line
     * table gives a relative one; it is valid during the call only.
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
 * Functions that return int give 1: there is one; 0: there is none; -1: what is there cannot be
 * read (`e`, where it is taken, says why).
 */
struct dwarf_back_end {
    const char *name;
    /* Of the library that this program runs with, as it says itself; NULL when it does not. */
    const char *(*version)(void);

    /* `alternate` (dwz) may be NULL. 0 or -1. The sections outlive the reader. */
    int (*open)(void **reader, const struct dwarf_sections *sections,
                const struct dwarf_sections *alternate, struct err *e);
    void (*close)(void *reader);

    /* The units of .debug_info in order. */
    int (*next_unit)(void *reader, struct dwarf_unit *unit, struct err *e);

    int (*node_at)(void *reader, bool alternate, uint64_t offset, struct dwarf_node *node);
    int (*child)(void *reader, const struct dwarf_node *node, struct dwarf_node *child);
    int (*sibling)(void *reader, const struct dwarf_node *node, struct dwarf_node *sibling);
    void (*release)(void *reader, struct dwarf_node *node);

    unsigned (*tag)(void *reader, const struct dwarf_node *node);
    uint64_t (*offset)(void *reader, const struct dwarf_node *node);
    /*
     * Whether an entry states an address or ranges, and whether it is only a declaration: much
     * cheaper to know than to read all.
     */
    bool (*has_code)(void *reader, const struct dwarf_node *node);
    bool (*declares)(void *reader, const struct dwarf_node *node);
    int (*read)(void *reader, const struct dwarf_node *node, struct dwarf_entry *entry);

    /*
     * The ranges of an entry with `has_ranges`. They may count from the address of the unit, which
     * is the one of its first entry, or of its skeleton's: then the unit itself does not know it.
     */
    int (*ranges)(void *reader, const struct dwarf_node *node, struct dwarf_base base,
                  dwarf_range_fn *fn, void *user);

    /* The line table that the first entry of a unit names, as it stands there or sorted. */
    int (*lines)(void *reader, const struct dwarf_node *root, const struct dwarf_line_sink *sink);
    bool rows_sorted; /* by address, all sequences together */
};

extern const struct dwarf_back_end dwarf_libdwarf;
extern const struct dwarf_back_end dwarf_libdw;

#endif
