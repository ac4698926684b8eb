#pragma once

/* Names of the allocation functions of well-known projects. The data is in wrapper_names.c. */

#include <stddef.h>

/*
 * The project whose allocation function has this bare name (function_name.h); NULL if there is
 * none. The string is static.
 */
const char *wrapper_project(const char *name, size_t len);
