#pragma once

/*
 * Loads shared libraries on demand: only some commands need them, and loading takes milliseconds.
 * In a build with LINKED_IN (`make tarball`) they are part of the program, and nothing is loaded.
 */

#include <stddef.h>

#include "base/err.h"

struct library_function {
    const char *name;
    void *at;                /* receives the function pointer */
    void (*linked_in)(void); /* the function, of whichever type; NULL: it is loaded */
};

/* A row of a table: `function` is a library's, declared by its header; `at` as above. */
#ifdef TIDEMARK_LINKED_IN
#define LIBRARY_LINKED(function) ((void (*)(void))(function))
#else
#define LIBRARY_LINKED(function) NULL
#endif
#define LIBRARY_FUNCTION(function, at)                                                             \
    ((struct library_function){#function, (at), LIBRARY_LINKED(function)})

/*
 * `n` is at least 1. Returns a handle for library_unload; NULL when the library or one of the
 * functions is missing.
 */
void *library_load(const char *soname, const struct library_function *functions, size_t n);

/* Accepts NULL. */
void library_unload(void *handle);

/* ---- for libcurl, which looks for certificates where it was built to look */

/*
 * *path is the file that $SSL_CERT_FILE names, else the system's bundle of CA certificates, whose
 * place depends on the distribution. The text is not to be freed. ERR_CONNECT if the file that
 * $SSL_CERT_FILE names cannot be read, or if the variable is unset and there is no bundle.
 */
int ca_bundle_find(const char **path, struct err *e);
