#pragma once

/* Debian packages that files belong to, and those with their debug symbols. */

#include <stdbool.h>

#include "base/view.h"

#define DEBUG_PACKAGE_SIZE 96

/*
 * The package in what `dpkg-query --search PATH` printed, lines "NAME:ARCH: /PATH". False: it names
 * none, or several, as of diverted files.
 */
bool package_of_answer(struct view answer, char out[DEBUG_PACKAGE_SIZE]);

/*
 * The name that the package with the debug symbols has by Debian's rules. Whether an archive has it
 * is not known.
 */
const char *debug_package_name(const char *package, char out[DEBUG_PACKAGE_SIZE]);
