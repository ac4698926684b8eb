#include "protocol/wire_version.h"

#include <string.h>

const struct wire_version *wire_version_find(uint32_t protocol)
{
    for (unsigned i = 0; i < wire_version_count; i++)
        if (wire_versions[i].protocol == protocol)
            return &wire_versions[i];
    return NULL;
}

const uint32_t *wire_version_probe_order(unsigned *n)
{
    static const uint32_t order[] = {82, 76, 74, 72, 69, 66, 64, 63, 81, 80,
                                     79, 78, 77, 75, 73, 71, 70, 68, 67, 65};
    *n = sizeof order / sizeof *order;
    return order;
}

int wire_version_item(const struct wire_version *v, const char *name)
{
    for (int id = 0; id < v->item_count; id++)
        if (strcmp(v->info[id].name, name) == 0)
            return id;
    return -1;
}

size_t wire_version_welcome_size(const struct wire_version *v)
{
    return v->facts.welcome_delay ? 1178 : 1170;
}

unsigned wire_type_size(enum wire_type type)
{
    static const uint8_t sizes[] = {
        [WIRE_U8] = 1,  [WIRE_I8] = 1,  [WIRE_U16] = 2,         [WIRE_U32] = 4,
        [WIRE_I32] = 4, [WIRE_U48] = 6, [WIRE_U64] = 8,         [WIRE_I64] = 8,
        [WIRE_F32] = 4, [WIRE_F64] = 8, [WIRE_U64_TAG_LOW] = 8, [WIRE_U64_TAG_HIGH] = 8,
    };
    return sizes[type];
}
