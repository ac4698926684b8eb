#pragma once

/*
 * Walks DWARF (versions 2 to 5) with libdw (elfutils): units, entries with their attributes, ranges
 * and line rows. Tidemark's own index answers look-ups (symbols/index/index.h).
 *
 * libdw reads a copy of inflated sections (struct dwarf_image) and opens no file. The input is
 * untrusted. If libdw fails on a part, that part is left out.
 *
 * A reader belongs to one thread. Several readers may share the same images.
 */

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
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
extern const char *const dwarf_section_names[DWARF_SECTIONS];

/*
 * Reads the sections of `f` and inflates them; `f` keeps the bytes. With `split`, reads
 * ".debug_info.dwo" and so on. Fails with ERR_INPUT if a section cannot be inflated.
 */
int dwarf_sections_read(struct dwarf_sections *out, struct elf_file *f, bool split, struct err *e);

/*
 * An ELF file in memory with copies of the sections, as libdw needs one. As of 0.192, libdw reads
 * only raw file bytes, not sections added with libelf. The copy holds no compressed section,
 * because libelf 0.188 cannot inflate zstd, and no link that would make libdw open other files.
 */
struct dwarf_image {
    struct buf bytes;
    uint8_t *lines; /* .debug_line in `bytes` */
    size_t lines_len;
};

int dwarf_image_make(struct dwarf_image *m, const struct dwarf_sections *s, struct err *e);

struct dwarf_unit {
    uint64_t root; /* offset of its first entry in .debug_info */
    uint16_t version;
    bool types;  /* types only; skipped */
    uint64_t id; /* of a skeleton or split unit; 0 if only an attribute of the root has it */
};

/* A position in the tree of entries. */
struct dwarf_node {
    Dwarf_Die die;
    bool alternate; /* in the alternate file */
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
    uint64_t address_base; /* in .debug_addr */
    uint64_t ranges_base;  /* in .debug_ranges, for the split unit (DWARF 4) */
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

struct dwarf_reader;

/* `alternate` (dwz) may be NULL. Returns 0 or -1. The images must outlive the reader. */
int dwarf_reader_open(struct dwarf_reader **out, const struct dwarf_image *image,
                      const struct dwarf_image *alternate, struct err *e);
/* `r` may be NULL. */
void dwarf_reader_close(struct dwarf_reader *r);

/*
 * These return 1 if the item exists, 0 if not, and -1 if it cannot be read; `e`, where there is
 * one, holds the reason.
 */

/* Iterates over the units of .debug_info in order. */
int dwarf_reader_next(struct dwarf_reader *r, struct dwarf_unit *unit, struct err *e);
int dwarf_node_at(struct dwarf_reader *r, bool alternate, uint64_t offset, struct dwarf_node *node);
int dwarf_node_child(struct dwarf_node *node, struct dwarf_node *child);
int dwarf_node_sibling(struct dwarf_node *node, struct dwarf_node *sibling);
int dwarf_node_read(struct dwarf_node *node, struct dwarf_entry *entry);

/*
 * The ranges of an entry with `has_ranges`. They may be relative to the address of the unit: that
 * of its first entry or, for a split unit, of its skeleton's.
 */
int dwarf_node_ranges(struct dwarf_node *node, struct dwarf_base base, dwarf_range_fn *fn,
                      void *user);

/* Reads the line table that the first entry of a unit names, sorted by address across sequences. */
int dwarf_node_lines(struct dwarf_node *root, const struct dwarf_line_sink *sink);

unsigned dwarf_node_tag(struct dwarf_node *node);
/*
 * Whether an entry has an address or ranges, and whether it is only a declaration. Both are much
 * cheaper than reading the entry.
 */
bool dwarf_node_has_code(struct dwarf_node *node);
bool dwarf_node_declares(struct dwarf_node *node);
