#ifndef TIDEMARK_SYMBOLS_PLACE_MODULE_TABLE_H
#define TIDEMARK_SYMBOLS_PLACE_MODULE_TABLE_H

/*
 * Which part of which file a process had mapped where: what makes the addresses of a trace mean
 * something once the process is gone. The lines are those of the facts in a trace and of the files
 * that `tidemark modules` writes:
 *
 *     START-END OFFSET BUILDID PATH       hexadecimal without 0x; BUILDID is - when unknown
 *
 * Of files without a build id a trace may also have which one it was when it was mapped, in
 * decimal:
 *
 *     #file DEVICE INODE SIZE MTIME PATH  MTIME in ns; a comment for those who do not know it
 *
 * A file may also be a copy of /proc/PID/maps, which has no build ids. Lines of other mappings than
 * executable ones of files, empty lines and those that begin with # are passed over.
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
    uint64_t start, end; /* addresses in the process, end exclusive */
    uint64_t offset;     /* in the file, of what is mapped at `start` */
    struct build_id build_id;
    const char *path; /* of the process; the table's own, NUL-terminated */
};

/* Which file had a path when it was mapped. */
struct module_file {
    uint64_t device, inode, size;
    uint64_t mtime;   /* ns */
    const char *path; /* the table's own, NUL-terminated */
    bool ambiguous;   /* several files had this path */
};

/* Zero-initialise to get an empty table. */
struct module_table {
    VEC(struct module_file) files;
    VEC(struct module) list; /* in the order in which they were added */
    VEC(uint32_t) sorted;    /* positions in `list` by start; made by module_table_sort */
    uint64_t longest;        /* bytes of the longest mapping */
};

void module_table_release(struct module_table *t);

/*
 * Adds one line, without its line break. ERR_INPUT when it is neither such a line nor one of
 * /proc/PID/maps; of those and of comments only what is executable code of a file is added.
 */
int module_table_add_line(struct module_table *t, struct view line, struct err *e);

/* Adds all lines of a text; `name` begins the text of errors, which has the line's number. */
int module_table_add_text(struct module_table *t, struct view text, const char *name,
                          struct err *e);

/* Adds a mapping; the path is copied. */
int module_table_add(struct module_table *t, const struct module *m, struct err *e);

/* Which file it was that had this path; NULL: that is not known, or there were several. */
const struct module_file *module_table_file(const struct module_table *t, struct view path);

/* Whether an open file is that one, as it was then. */
bool module_file_is(const struct module_file *f, int fd);

/* To be called before the first look-up, and after more was added. */
int module_table_sort(struct module_table *t, struct err *e);

/*
 * The mapping that covers an address: of several (a library went, another came) the one of that
 * path, if `path` is not NULL and one is, else the one that was added last. NULL when there is
 * none.
 */
const struct module *module_table_find(const struct module_table *t, uint64_t address,
                                       const char *path);

#endif
