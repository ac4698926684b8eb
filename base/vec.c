#include "base/vec.h"

#include <stdint.h>

bool vec_grow_raw(void **data, size_t *cap, size_t need, size_t size)
{
    size_t n = *cap ? *cap : 8;
    while (n < need) {
        if (n > SIZE_MAX / 2)
            return false;
        n *= 2;
    }
    if (n > SIZE_MAX / 2 / size)
        return false;
    void *p = realloc(*data, n * size);
    if (!p)
        return false;
    *data = p;
    *cap = n;
    return true;
}
