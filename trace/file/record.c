#include "trace/file/record.h"

#include <stddef.h>

static const uint8_t sizes[REC_TYPE_COUNT] = {
#define RECORD(NAME, STRUCT, TEXT) [REC_##NAME] = sizeof(struct rec_##STRUCT),
    RECORD_TYPES(RECORD)
#undef RECORD
};

static const char *const names[REC_TYPE_COUNT] = {
#define RECORD(NAME, STRUCT, TEXT) [REC_##NAME] = (TEXT),
    RECORD_TYPES(RECORD)
#undef RECORD
};

size_t record_size(enum record_type type)
{
    return sizes[type];
}

const char *record_name(enum record_type type)
{
    return names[type];
}
