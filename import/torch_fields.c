#include "import/torch_fields.h"

static const struct torch_name {
    const char *name;
    enum torch_field field;
} names[] = {
    {"segments", TORCH_SEGMENTS},
    {"device_traces", TORCH_DEVICE_TRACES},
    {"allocator_settings", TORCH_ALLOCATOR_SETTINGS},
    {"host_traces", TORCH_HOST_TRACES},
    {"external_annotations", TORCH_ANNOTATIONS},
    {"stage", TORCH_STAGE},
    {"device", TORCH_DEVICE},
    {"total_size", TORCH_TOTAL_SIZE},
    {"segment_pool_id", TORCH_POOL_ID},
    {"pool_id", TORCH_POOL_ID},
    {"blocks", TORCH_BLOCKS},
    {"is_expandable", TORCH_EXPANDABLE},
    {"address", TORCH_ADDRESS},
    {"addr", TORCH_ADDRESS},
    {"size", TORCH_SIZE},
    {"stream", TORCH_STREAM},
    {"frames", TORCH_FRAMES},
    {"requested_size", TORCH_REQUESTED_SIZE},
    {"state", TORCH_STATE},
    {"history", TORCH_HISTORY},
    {"real_size", TORCH_REAL_SIZE},
    {"action", TORCH_ACTION},
    {"device_free", TORCH_DEVICE_FREE},
    {"time_us", TORCH_TIME},
    {"user_metadata", TORCH_METADATA},
    {"filename", TORCH_FILE},
    {"name", TORCH_NAME},
    {"line", TORCH_LINE},
    {"PYTORCH_CUDA_ALLOC_CONF", TORCH_CONFIG},
    {"trace_alloc_overflowed", TORCH_OVERFLOWED},
    {"trace_alloc_max_entries", TORCH_MAX_ENTRIES},
};

void torch_reader_release(struct torch_reader *r)
{
    value_arena_release(&r->arena);
    map_release(&r->shapes);
    vec_release(&r->columns);
}

static uint8_t field_of(struct view key)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (view_equal(key, view_of(names[i].name)))
            return (uint8_t)names[i].field;
    }
    return TORCH_FIELD_COUNT;
}

/* The fields of a list of keys: where they start in `columns`. */
static int find_shape(struct torch_reader *r, uint64_t keys, uint64_t *start, struct err *e)
{
    struct value_walk walk = {0};
    uint64_t key;
    bool fresh;
    uint64_t *known = map_add(&r->shapes, keys, &fresh);
    if (!known)
        return err_no_memory(e, "the snapshot's entries");
    if (!fresh) {
        *start = *known;
        return 0;
    }
    *start = *known = r->columns.len;
    int status = value_walk_begin(&walk, &r->arena, keys, e);
    while (status == 0 && value_walk_next(&walk, &key)) {
        if (!vec_push(&r->columns, field_of(value_view(&r->arena, key))))
            status = err_no_memory(e, "the snapshot's entries");
    }
    value_walk_release(&walk);
    return status;
}

int torch_fields_read(struct torch_reader *r, uint64_t dict, struct torch_fields *fields,
                      struct err *e)
{
    struct value_pairs pairs;
    uint64_t start;
    for (int i = 0; i < TORCH_FIELD_COUNT; i++)
        fields->at[i] = VALUE_NONE;
    if (r->entries++ >= r->entries_most)
        return err_set(e, ERR_INPUT, "its entries are repeated more often than its size allows");
    if (value_kind(dict) != VALUE_DICT)
        return 0;
    for (; value_pairs_of(&r->arena, dict, &pairs); dict = pairs.before) {
        r->entries += pairs.n / TORCH_FIELD_COUNT;
        if (find_shape(r, pairs.keys, &start, e) != 0)
            return -1;
        for (uint64_t i = 0; i < pairs.n; i++) {
            uint64_t value = value_pairs_next(&pairs);
            uint8_t field = r->columns.at[start + i];
            if (field != TORCH_FIELD_COUNT)
                fields->at[field] = value;
        }
    }
    return 1;
}
