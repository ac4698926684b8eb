#pragma once

/* Paths as text: no function here accesses the file system. Results go into an empty buffer. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"

/* The part before the last slash; "." without a slash, "/" for a file in the root. */
struct view path_folder(struct view path);

/* The part after the last slash. */
struct view path_base(struct view path);

/* Whether a path is one of Windows: "C:\\…", "C:/…" or "\\\\…". */
bool path_is_windows(struct view path);

/* A name without what follows its last dot. */
struct view path_stem(struct view name);

/* Whether `name` is a valid file name: not empty, no slash or NUL, not "." or "..". */
bool path_is_name(struct view name);

/*
 * Joins `folder` and `path`, or copies an absolute `path`. Removes "." and doubled slashes, and
 * resolves ".." as text. False if the result would leave the root or the folder that a relative
 * path starts in, or holds a NUL.
 */
bool path_join(struct buf *out, struct view folder, struct view path);

/* Whether a path that path_join made is below `folder`. */
bool path_is_below(struct view path, struct view folder);

/* ".build-id/ab/cdef…" and `suffix`. False if the id is too short. */
bool path_of_build_id(struct buf *out, const struct build_id *id, const char *suffix);
