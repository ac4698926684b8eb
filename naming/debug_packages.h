#pragma once

/*
 * The Debian packages that files belong to, by dpkg's lists (NAME.list and NAME:ARCH.list, a path
 * on each line), which are read without trust and without running dpkg.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/view.h"

#define DEBUG_PACKAGE_SIZE 96

#define DPKG_LISTS "/var/lib/dpkg/info"

struct packaged_file {
    struct view path;                 /* absolute */
    char package[DEBUG_PACKAGE_SIZE]; /* "": of none, of several, or unknown */
    bool ambiguous;                   /* several list it */
};

/* Sets `package` and `ambiguous` of each file. Without such a folder no package is known. */
void packages_of_files(const char *folder, struct packaged_file *files, size_t n);

/*
 * Whether a list has the path, with or without "/usr" before it: distributions moved /lib and /bin
 * there, and lists may have the former names.
 */
bool package_lists(struct view list, struct view path);

/* The package of a list's file name, without architecture. False: no such name. */
bool package_of_list(const char *file, char out[DEBUG_PACKAGE_SIZE]);

/*
 * The name that the package with the debug symbols has by Debian's rules. Whether an archive has it
 * is not known.
 */
const char *debug_package_name(const char *package, char out[DEBUG_PACKAGE_SIZE]);
