/* Any text as an answer of dpkg-query --search: a name that is found is a name in the answer. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "naming/debug_packages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char package[DEBUG_PACKAGE_SIZE], debug[DEBUG_PACKAGE_SIZE];
    bool known = package_of_answer((struct view){(const char *)data, size}, package);
    if (known != (package[0] != 0))
        abort();
    if (known && (!memmem(data, size, package, strlen(package)) ||
                  strlen(debug_package_name(package, debug)) < 5))
        abort();
    return 0;
}
