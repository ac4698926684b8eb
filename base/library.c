#include "base/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* POSIX allows converting function pointers to data pointers, which dlsym returns, and back. */
static void *find(void *handle, const struct library_function *f)
{
    void *function;
    if (!f->linked_in)
        return dlsym(handle, f->name);
    memcpy(&function, &f->linked_in, sizeof function);
    return function;
}

void *library_load(const char *soname, const struct library_function *functions, size_t n)
{
    const char *file = functions->linked_in ? NULL : soname; /* NULL: the program itself */
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; handle && i < n; i++) {
        void *function = find(handle, &functions[i]);
        if (!function) {
            dlclose(handle);
            return NULL;
        }
        memcpy(functions[i].at, &function, sizeof function);
    }
    return handle;
}

void library_unload(void *handle)
{
    if (handle)
        dlclose(handle);
}

int ca_bundle_find(const char **path, struct err *e)
{
    static const char *const places[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, Red Hat */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
    };
    *path = getenv("SSL_CERT_FILE");
    if (*path && **path)
        return access(*path, R_OK) == 0 ? 0 : err_errno(e, ERR_CONNECT, "SSL_CERT_FILE: %s", *path);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *path = places[i];
        if (access(*path, R_OK) == 0)
            return 0;
    }
    return err_set(e, ERR_CONNECT,
                   "no CA certificates for https: none of %s, %s and %s can be read; name a file "
                   "in SSL_CERT_FILE, or install the package ca-certificates",
                   places[0], places[1], places[2]);
}
