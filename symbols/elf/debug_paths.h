#ifndef TIDEMARK_SYMBOLS_ELF_DEBUG_PATHS_H
#define TIDEMARK_SYMBOLS_ELF_DEBUG_PATHS_H

/* Paths as text: nothing here looks at a disk. All put their result into an empty buffer. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"

/* What stands before the last slash; "." when there is none, "/" for what is in the root. */
struct view path_folder(struct view path);

/* What stands behind the last slash. */
struct view path_base(struct view path);

/* Whether it can be the name of a file in a folder: not empty, no slash or NUL, no "." or "..". */
bool path_is_name(struct view name);

/*
 * `folder` and `path` in one, or `path` alone when it is absolute; without "." and doubled slashes,
 * and with ".." resolved as text. False when it would lead above the root or the folder that a
 * relative path begins in, or holds a NUL.
 */
bool path_join(struct buf *out, struct view folder, struct view path);

/* Whether a path that path_join made is below `folder`. */
bool path_is_below(struct view path, struct view folder);

/* ".build-id/ab/cdef…" and `suffix`. False for an id too short to have such a path. */
bool path_of_build_id(struct buf *out, const struct build_id *id, const char *suffix);

#endif
