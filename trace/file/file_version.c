#include "trace/file/file_version.h"

#include <stdio.h>

#include "base/buf.h"

/* Rows are generations: each repeats the previous one with its changes. */
#define BASE .delay = true, .locations_max = UINT32_MAX
#define SINCE_0_9_2 BASE, .on_demand = true
#define SINCE_0_11_0                                                                               \
    .delay = true, .locations_max = INT16_MAX, .on_demand = true, .multi_stream = true
#define SINCE_0_11_1 SINCE_0_11_0, .group_hint = true
#define SINCE_0_11_2 SINCE_0_11_1, .dies = true, .no_location = true
#define SINCE_0_11_3 SINCE_0_11_2, .wakeup_cpu = true
#define SINCE_0_12_3                                                                               \
    .locations_max = INT16_MAX, .on_demand = true, .multi_stream = true, .group_hint = true,       \
    .dies = true, .no_location = true, .wakeup_cpu = true
#define SINCE_0_12_4 SINCE_0_12_3, .gpu_notes = true
#define SINCE_0_13_2 SINCE_0_12_4, .message_meta = true
#define SINCE_0_13_3 SINCE_0_13_2, .sorted_plots = true
#define SINCE_0_13_4 SINCE_0_13_3, .sections = SECTIONS_FLAT
#define SINCE_0_13_5 SINCE_0_13_3, .sections = SECTIONS_BY_CATEGORY
#define SINCE_0_13_6 SINCE_0_13_5, .sorted_switches = true

#define ENUMS(GPU, PLOT, FORMAT)                                                                   \
    .gpu_type_max = (GPU), .plot_type_max = (PLOT), .plot_format_max = (FORMAT)

/* Highest GPU context type: 5 D3D11, 8 CUDA, 9 ROCprof, 10 WebGPU. 3 is power and watt. */
static const struct file_layout layouts[] = {
    {FILE_VERSION(0, 9, 0), BASE, ENUMS(5, 2, 2)},
    {FILE_VERSION(0, 9, 1), BASE, ENUMS(5, 2, 2)},
    {FILE_VERSION(0, 9, 2), SINCE_0_9_2, ENUMS(5, 3, 3)},
    {FILE_VERSION(0, 10, 0), SINCE_0_9_2, ENUMS(5, 3, 3)},
    {FILE_VERSION(0, 11, 0), SINCE_0_11_0, ENUMS(5, 3, 3)},
    {FILE_VERSION(0, 11, 1), SINCE_0_11_1, ENUMS(5, 3, 3)},
    {FILE_VERSION(0, 11, 2), SINCE_0_11_2, ENUMS(8, 3, 3)},
    {FILE_VERSION(0, 11, 3), SINCE_0_11_3, ENUMS(8, 3, 3)},
    {FILE_VERSION(0, 12, 0), SINCE_0_11_3, ENUMS(8, 3, 3)},
    {FILE_VERSION(0, 12, 1), SINCE_0_11_3, ENUMS(8, 3, 3)},
    {FILE_VERSION(0, 12, 2), SINCE_0_11_3, ENUMS(8, 3, 3)},
    {FILE_VERSION(0, 12, 3), SINCE_0_12_3, ENUMS(9, 3, 3)},
    {FILE_VERSION(0, 12, 4), SINCE_0_12_4, ENUMS(9, 3, 3)},
    {FILE_VERSION(0, 13, 0), SINCE_0_12_4, ENUMS(9, 3, 3)},
    {FILE_VERSION(0, 13, 1), SINCE_0_12_4, ENUMS(9, 3, 3)},
    {FILE_VERSION(0, 13, 2), SINCE_0_13_2, ENUMS(10, 3, 3)},
    {FILE_VERSION(0, 13, 3), SINCE_0_13_3, ENUMS(10, 3, 3)},
    {FILE_VERSION(0, 13, 4), SINCE_0_13_4, ENUMS(10, 3, 3)},
    {FILE_VERSION(0, 13, 5), SINCE_0_13_5, ENUMS(10, 3, 3)},
    {FILE_VERSION(0, 13, 6), SINCE_0_13_6, ENUMS(10, 3, 3)},
    {FILE_VERSION(0, 14, 0), SINCE_0_13_6, ENUMS(10, 3, 3)},
};

#define LAYOUT_COUNT ((unsigned)(sizeof layouts / sizeof layouts[0]))

const struct file_layout *file_layout_all(unsigned *n)
{
    *n = LAYOUT_COUNT;
    return layouts;
}

const struct file_layout *file_layout_find(uint32_t version)
{
    for (unsigned i = 0; i < LAYOUT_COUNT; i++) {
        if (layouts[i].version == version)
            return &layouts[i];
    }
    return NULL;
}

const char *file_version_text(uint32_t version, char out[FILE_VERSION_TEXT_SIZE])
{
    snprintf(out, FILE_VERSION_TEXT_SIZE, "%u.%u.%u", version >> 16 & 0xffff, version >> 8 & 0xff,
             version & 0xff);
    return out;
}

static int unknown_version(const char *text, struct err *e)
{
    struct buf known = {0};
    char number[FILE_VERSION_TEXT_SIZE];
    for (unsigned i = 0; i < LAYOUT_COUNT; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", file_version_text(layouts[i].version, number));
    err_set(e, ERR_USAGE, "\"%.32s\" is no known trace file version (known: %s)", text,
            buf_str(&known));
    buf_release(&known);
    return -1;
}

int file_version_parse(const char *text, uint32_t *version, struct err *e)
{
    uint32_t part[3] = {0};
    const char *p = text;
    for (unsigned i = 0; i < 3; i++) {
        if (*p < '0' || *p > '9')
            return unknown_version(text, e);
        while (*p >= '0' && *p <= '9') {
            part[i] = part[i] * 10 + (uint32_t)(*p++ - '0');
            if (part[i] > 255)
                return unknown_version(text, e);
        }
        if (*p != (i < 2 ? '.' : '\0'))
            return unknown_version(text, e);
        p += i < 2;
    }
    uint32_t found = FILE_VERSION(part[0], part[1], part[2]);
    if (!file_layout_find(found))
        return unknown_version(text, e);
    *version = found;
    return 0;
}
