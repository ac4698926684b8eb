/*
 * Any text as a function's name: a type is read within its bounds, and the same each time. Its
 * parts at a line feed are names of merged functions: what they have in common is no longer.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/names/element_type.h"
#include "analysis/names/function_name.h"
#include "symbols/elf/merged_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void merge(struct view a, struct view b)
{
    struct buf out = {0}, again = {0};
    if (!merged_name(a, b, &out) || out.len > 2 * a.len)
        abort();
    if (!merged_name(a, a, &again) || again.len != a.len || memcmp(again.data, a.p, a.len) != 0)
        abort();
    buf_release(&out);
    buf_release(&again);
}

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
    const char *end = size ? memchr(text, '\n', size) : NULL;
    if (end && end > text)
        merge((struct view){text, (size_t)(end - text)},
              (struct view){end + 1, size - (size_t)(end - text) - 1});
    buf_release(&first);
    buf_release(&second);
    free(text);
    return 0;
}
