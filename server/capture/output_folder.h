#ifndef TIDEMARK_SERVER_CAPTURE_OUTPUT_FOLDER_H
#define TIDEMARK_SERVER_CAPTURE_OUTPUT_FOLDER_H

/*
 * The folder that a capture began in: it stays that, whatever becomes of its name. Captures that
 * begin in the same one share it, and with it one descriptor.
 */

#include <stdbool.h>

struct output_folder {
    int fd; /* O_PATH */
    unsigned users;
};

/*
 * The folder that has that name now, for one more user: `last`, if it is that one still. NULL when
 * there is none to be had.
 */
struct output_folder *output_folder_take(struct output_folder *last, const char *path);

/* One user less, none: it is closed. NULL is no folder. */
void output_folder_leave(struct output_folder *f);

/* Whether it is the one that has that name now. */
bool output_folder_is_at(const struct output_folder *f, const char *path);

/* It has no name any more, and nothing can be written into it. */
bool output_folder_is_removed(const struct output_folder *f);

/* The same of the folder that this process works in. */
bool working_folder_is_removed(void);

/*
 * The path of what has that name in it, which is `path` unless the folder was moved since. The
 * caller frees it. NULL when memory is short, or nobody can say.
 */
char *output_folder_path(const struct output_folder *f, const char *name, const char *path);

#endif
