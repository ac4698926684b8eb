#pragma once

/* What the daemon keeps: bounds of memory and disk, and its output folder. */

#include <stdint.h>

#include "base/err.h"

struct daemon;

/* ---- memory */

/* Divides the memory among the sessions, once a second, by what they hold and receive. */
void daemon_divide_memory(struct daemon *d);

/* ---- disk */

/* Enforces --quota, --total-quota and --min-free, once a second. */
void daemon_keep_disk(struct daemon *d);

/* Free bytes on the disk of the output folder; UINT64_MAX: unknown. */
uint64_t daemon_free_bytes(const struct daemon *d);

/* Resumes paused sessions, so that they can be saved at the end. */
void daemon_stop_pausing(struct daemon *d);

/* ---- the output folder */

/* As mkdir -p; ERR_OUTPUT also when the folder is not writable. */
int daemon_make_folder(const char *path, struct err *e);

/* At the start: removes unusable files that killed processes left in the folder. */
void daemon_tidy_folder(struct daemon *d);

/*
 * Once a second: makes the folder again if it was removed, and opens the one that has its name now.
 */
void daemon_keep_folder(struct daemon *d);
