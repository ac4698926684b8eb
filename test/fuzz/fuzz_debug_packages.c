/* Any text as a list of dpkg, searched for each of its own lines, and as a list's file name. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "naming/debug_packages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct view list = {(const char *)data, size};
    char package[DEBUG_PACKAGE_SIZE], debug[DEBUG_PACKAGE_SIZE];
    for (size_t at = 0, lines = 0; at < size && lines < 100; lines++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) - at : size - at;
        bool listed = package_lists(list, (struct view){(const char *)data + at, n});
        if (listed != (n && data[at] == '/'))
            abort();
        at += n + 1;
    }
    char *name = malloc(size + 1);
    if (!name)
        return 0;
    memcpy(name, data, size);
    name[size] = 0;
    if (package_of_list(name, package) && strlen(debug_package_name(package, debug)) < 5)
        abort();
    free(name);
    return 0;
}
