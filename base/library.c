#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

void *library_load(const char *soname, const struct library_function *functions, size_t n)
{
    void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; handle && i < n; i++) {
        /* POSIX allows converting the data pointer that dlsym returns to a function pointer. */
        void *function = dlsym(handle, functions[i].name);
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
