#ifndef TIDEMARK_SERVER_CAPTURE_JOURNAL_FOLDER_H
#define TIDEMARK_SERVER_CAPTURE_JOURNAL_FOLDER_H

/*
 * The folder of a journal and the files in it. No symlink at its name is followed, files are
 * reached through the folder's descriptor, and a file is removed only if it begins with a whole
 * header of a segment or a checkpoint. Files are named only after their header is written, so every
 * journal file has one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOURNAL_FILE_HEADER_MAX 64u /* bytes of the longest header */

struct journal_folder {
    int parent; /* O_PATH: the folder that it lies in; -1 when closed */
    int fd;     /* of itself; -1 when closed */
    char *name; /* in `parent` */
};

#define JOURNAL_FOLDER_NONE ((struct journal_folder){.parent = -1, .fd = -1})

/* Opens what `path` names. -1 with errno; ENOTDIR for a symlink, too. */
int journal_folder_open(struct journal_folder *f, const char *path);

/* Makes a folder that only its user can enter, and opens it. -1 with errno. */
int journal_folder_make(struct journal_folder *f, const char *path);

void journal_folder_close(struct journal_folder *f);

/* Whether `fd` is a folder as journal_folder_make makes them: owner and mode. */
bool journal_folder_is_ours(int fd);

/*
 * Removes the folder, if its name still leads to it. A folder that is gone already is no error. -1
 * with errno; ENOTEMPTY: there is something in it that is not ours.
 */
int journal_folder_remove(const struct journal_folder *f);

/*
 * Makes the file `name`, which must not exist, with `header` at its beginning. `sync`: both are on
 * the disk. Its descriptor, or -1 with errno.
 */
int journal_file_make(int dir, const char *name, const uint8_t *header, size_t n, bool sync);

/* Whether it is a regular file that begins with a journal file's header. */
bool journal_file_is_ours(int dir, const char *name);

/* Removes such a file and gives its size; 0 when there is no such file. */
off_t journal_file_remove(int dir, const char *name);

#endif
