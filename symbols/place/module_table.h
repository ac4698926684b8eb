#pragma once

/*
 * Which part of which file a process had mapped where. Addresses of a trace have a meaning only
 * with this table once the process has exited. The lines are those of a trace's facts and of the
 * files that `tidemark modules` writes:
 *
 *     START-END OFFSET BUILDID PATH       hexadecimal without 0x; BUILDID is - if unknown
 *
 * For files without a build id, a trace may also identify the mapped file, in decimal:
 *
 *     #file DEVICE INODE SIZE MTIME PATH  MTIME in ns; older readers take it as a comment
 *
 * A file may also be a copy of /proc/PID/maps, which has no build ids. Mappings other than
 * executable file mappings, empty lines and lines that begin with # are skipped.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"

/* Far more than any process has. */
#define MODULES_MAX ((size_t)1 << 17)

struct module {
    uint64_t start, end; /* addresses in the process; end is exclusive */
    uint64_t offset;     /* file offset of the byte at `start` */
    struct build_id build_id;
    const char *path; /* in the process; owned by the table, NUL-terminated */
};

/* The identity of a file when it was mapped. */
struct module_file {
    uint64_t device, inode, size;
    uint64_t mtime;   /* ns */
    const char *path; /* owned by the table, NUL-terminated */
    bool ambiguous;   /* several files had this path */
};

/* Zero-initialised: an empty table. */
struct module_table {
    VEC(struct module_file) files;
    VEC(struct module) list; /* in the order added */
    VEC(uint32_t) sorted;    /* indices in `list`, sorted by start; set by module_table_sort */
    uint64_t longest;        /* bytes of the longest mapping */
};

void module_table_release(struct module_table *t);

/*
 * Adds one line, without its line break. Fails with ERR_INPUT if it is neither such a line nor one
 * of /proc/PID/maps. Of the latter, adds only executable file mappings; ignores comments.
 */
int module_table_add_line(struct module_table *t, struct view line, struct err *e);

/* Adds all lines of a text. Error texts begin with `name` and the line number. */
int module_table_add_text(struct module_table *t, struct view text, const char *name,
                          struct err *e);

/* The identity of the file that had this path; NULL if unknown or ambiguous. */
const struct module_file *module_table_file(const struct module_table *t, struct view path);

/* Whether an open file is that one, unchanged. */
bool module_file_is(const struct module_file *f, int fd);

/* Call before the first look-up and after adding lines. */
int module_table_sort(struct module_table *t, struct err *e);

/*
 * The mapping that covers an address. If several do (a library was replaced by another), prefers
 * one of `path` (may be NULL), else the one added last. NULL if there is none.
 */
const struct module *module_table_find(const struct module_table *t, uint64_t address,
                                       const char *path);
