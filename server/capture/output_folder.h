#pragma once

/*
 * The folder in which a capture began, held open, so that renaming it does not matter. Captures
 * that begin in the same folder share one descriptor.
 */

#include <stdbool.h>

struct output_folder {
    int fd; /* O_PATH */
    unsigned users;
};

/*
 * Opens the folder at `path` for one more user, or shares `last` if that is the same folder. NULL
 * when it cannot be opened.
 */
struct output_folder *output_folder_take(struct output_folder *last, const char *path);

/* Releases one user's share; the last one closes it. NULL is allowed. */
void output_folder_leave(struct output_folder *f);

/* Whether `path` still leads to this folder. */
bool output_folder_is_at(const struct output_folder *f, const char *path);

/* Whether the folder was removed, so that no file can be made in it. */
bool output_folder_is_removed(const struct output_folder *f);

/* The same for the working folder of this process. */
bool working_folder_is_removed(void);

/*
 * The path of `name` in it, which is `path` unless the folder was moved. The caller frees it. NULL
 * when memory is short or the path is unknown.
 */
char *output_folder_path(const struct output_folder *f, const char *name, const char *path);
