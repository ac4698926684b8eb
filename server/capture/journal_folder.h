#pragma once

/*
 * The folder of a journal and its files. A symlink in its place is not followed, and files are
 * accessed through the folder's descriptor. A file is removed only if it begins with a valid header
 * of a segment or a checkpoint. Files get their name after their header is written, so every
 * journal file has one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOURNAL_FILE_HEADER_MAX 64u /* bytes of the longest header */

struct journal_folder {
    int parent; /* O_PATH: its parent folder; -1 when closed */
    int fd;     /* the folder; -1 when closed */
    char *name; /* within `parent` */
};

#define JOURNAL_FOLDER_NONE ((struct journal_folder){.parent = -1, .fd = -1})

/* Opens the folder at `path`. -1 with errno; ENOTDIR for a symlink, too. */
int journal_folder_open(struct journal_folder *f, const char *path);

/* Makes a folder with access for its owner only, and opens it. -1 with errno. */
int journal_folder_make(struct journal_folder *f, const char *path);

void journal_folder_close(struct journal_folder *f);

/* Whether `fd` is a folder with the owner and mode that journal_folder_make sets. */
bool journal_folder_is_ours(int fd);

/*
 * Removes the folder if its name still refers to it. A folder that is already gone is no error. -1
 * with errno; ENOTEMPTY: it holds files that are not a journal's.
 */
int journal_folder_remove(const struct journal_folder *f);

/*
 * Makes the file `name`, which must not exist, with `header` at its beginning. `sync`: returns when
 * both are on disk. Returns its descriptor, or -1 with errno.
 */
int journal_file_make(int dir, const char *name, const uint8_t *header, size_t n, bool sync);

/* Whether it is a regular file that begins with a journal file's header. */
bool journal_file_is_ours(int dir, const char *name);

/* Removes such a file and returns its size; 0 when there is none. */
off_t journal_file_remove(int dir, const char *name);
