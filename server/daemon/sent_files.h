#ifndef TIDEMARK_SERVER_DAEMON_SENT_FILES_H
#define TIDEMARK_SERVER_DAEMON_SENT_FILES_H

/*
 * Files of a folder that were dealt with, where the files themselves cannot be marked: by number,
 * size and time. Those that are to be known by the next process, too, stand in a hidden file of the
 * folder, which is of no use to anybody else. What has gone from the folder is forgotten, so this
 * is never more than what lies there. Zero-initialise.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/map.h"

#define SENT_NAME_SIZE 24u

struct sent_files {
    struct map known;          /* key → the look that it was seen in last, or KEPT too */
    uint64_t look;             /* number of the last one */
    uint64_t lines;            /* of the file */
    bool cut;                  /* the last one of them has no end */
    char name[SENT_NAME_SIZE]; /* of the file; "": nothing is kept in one */
};

void sent_files_release(struct sent_files *s);

/* Takes what a process before knew of `purpose`. `dir` is the folder. */
void sent_files_open(struct sent_files *s, int dir, uint64_t purpose);

/* `keep`: for the next process, too. */
void sent_files_add(struct sent_files *s, int dir, const struct stat *file, bool keep);

bool sent_files_have(struct sent_files *s, const struct stat *file);

/* Between them the whole folder is gone through, and asked for each file. */
void sent_files_begin_look(struct sent_files *s);
void sent_files_end_look(struct sent_files *s, int dir);

#endif
