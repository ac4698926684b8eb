/* Any text as a function's name: a type is read within its bounds, and the same each time. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/names/element_type.h"
#include "analysis/names/function_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf first = {0};
    struct buf second = {0};
    char name[FUNCTION_NAME_SIZE];
    char *text = malloc(size ? size : 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    const struct view function = {text, size};
    enum element_evidence evidence = element_type(function, &first);
    if ((evidence == ELEMENT_NONE) != (first.len == 0))
        abort();
    if (element_type(function, &second) != evidence || first.len != second.len ||
        (first.len && memcmp(first.data, second.data, first.len) != 0))
        abort();
    if (function_name(function, name) >= sizeof name)
        abort();
    buf_release(&first);
    buf_release(&second);
    free(text);
    return 0;
}
