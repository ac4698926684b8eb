#pragma once

/*
 * Remembers files of a folder that were handled, where the files themselves cannot be marked: by
 * inode number, size and time. Entries for later processes are written to a hidden file of the
 * folder. Entries of removed files are forgotten, so the list is never larger than the folder.
 * Zero-initialise.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/map.h"

#define SENT_NAME_SIZE 24u

struct sent_files {
    struct map known;          /* key → the last scan that saw it, with the flag KEPT */
    uint64_t look;             /* number of the last scan */
    uint64_t lines;            /* of the file */
    bool cut;                  /* its last line is incomplete */
    char name[SENT_NAME_SIZE]; /* of the file; "": there is none */
};

void sent_files_release(struct sent_files *s);

/* Loads what earlier processes stored for `purpose`. `dir` is the folder. */
void sent_files_open(struct sent_files *s, int dir, uint64_t purpose);

/* `keep`: also for later processes. */
void sent_files_add(struct sent_files *s, int dir, const struct stat *file, bool keep);

bool sent_files_have(struct sent_files *s, const struct stat *file);

/*
 * sent_files_begin_look and sent_files_end_look enclose a scan of the whole folder, which queries
 * each file.
 */
void sent_files_begin_look(struct sent_files *s);
void sent_files_end_look(struct sent_files *s, int dir);
