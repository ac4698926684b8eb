#include "import/import.h"

#include "import/json_text.h"
#include "import/pickle.h"

const char *import_note_text(enum import_note note)
{
    static const char *const texts[NOTE_COUNT] = {
        [NOTE_NOT_EVENTS] = "entries of the list of events that are no objects, left out",
        [NOTE_NO_PHASE] = "events without a phase, left out",
        [NOTE_OTHER_PHASES] = "events of phases that a trace has no place for, left out",
        [NOTE_NO_TIME] = "events without a usable time, left out",
        [NOTE_NO_DURATION] = "complete events without a usable duration, taken as 0",
        [NOTE_ASYNC_ENDS] = "ends of asynchronous zones that did not begin, left out",
        [NOTE_PLOT_VALUES] = "values of counters that are no numbers, left out",
        [NOTE_TOO_MANY_PLOTS] = "values of counters beyond the 65,536th, left out",
        [NOTE_TOO_MANY_PROCESSES] = "names of processes beyond the 4,096th, left out",
        [NOTE_UNFINISHED_LIST] = "list of events without an end, taken as it is",
        [NOTE_TRAILING_BYTES] = "bytes after the end of the data, left out",
        [NOTE_LINES] = "lines that cannot be understood, left out",
        [NOTE_TIMES_BACK] = "time stamps that go back, left out",
        [NOTE_UNKNOWN_TRACES] = "allocations with an unknown call stack, kept without one",
        [NOTE_LARGE_SIZES] = "sizes beyond the 256 TiB that a trace can hold, taken as 256 TiB",
        [NOTE_ENTRIES] = "entries without a usable address, size or action, left out",
        [NOTE_ACTIONS] = "entries of actions that a trace has no place for, left out",
        [NOTE_ENTRY_TIMES] = "times that go back or are missing, taken as the time before",
        [NOTE_MISSED_FREES] = "blocks without a free before the next allocation, freed then",
        [NOTE_UNKNOWN_FREES] = "frees of blocks that are not live, left out",
        [NOTE_GONE] = "blocks that are never freed but not in the segments, freed at the end",
        [NOTE_MAPPINGS] = "mappings of mapped memory and unmappings of other memory, left out",
        [NOTE_UNKNOWN_POOLS] = "blocks of segments that are gone, taken as not in a private pool",
        [NOTE_DEEP_STACKS] = "call stacks of more than 255 frames, cut",
        [NOTE_MARKS] = "annotations without a beginning or nested too deep, left out",
        [NOTE_HOST_ENTRIES] = "entries of pinned host memory, left out",
    };
    return texts[note];
}

/*
 * libheaptrack's first line is "v 10500 3
 * ".
 */
static bool looks_like_heaptrack(struct view b)
{
    size_t i = 2;
    if (b.len < 4 || memcmp(b.p, "v ", 2) != 0)
        return false;
    while (i < b.len && ((b.p[i] >= '0' && b.p[i] <= '9') || (b.p[i] >= 'a' && b.p[i] <= 'f')))
        i++;
    return i > 2 && i < b.len && (b.p[i] == ' ' || b.p[i] == '\n');
}

/* Offset of the first byte that is no white space. */
static size_t text_start(struct view bytes)
{
    size_t i = bytes.len >= 3 && memcmp(bytes.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < bytes.len && json_is_space(bytes.p[i]))
        i++;
    return i;
}

bool import_starts_json(struct view bytes)
{
    size_t i = text_start(bytes);
    return i < bytes.len && (bytes.p[i] == '[' || bytes.p[i] == '{');
}

/* Whether the text is an object whose first member is one of a snapshot. */
static bool looks_like_snapshot(struct view b)
{
    static const char *const keys[] = {"\"segments\"", "\"device_traces\"",
                                       "\"allocator_settings\"", "\"external_annotations\""};
    size_t i = text_start(b);
    if (i == b.len || b.p[i] != '{')
        return false;
    do
        i++;
    while (i < b.len && json_is_space(b.p[i]));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        size_t len = strlen(keys[k]);
        if (b.len - i >= len && memcmp(b.p + i, keys[k], len) == 0)
            return true;
    }
    return false;
}

enum import_format import_detect(struct view bytes)
{
    if (pickle_begins(bytes) || looks_like_snapshot(bytes))
        return IMPORT_TORCH;
    if (import_starts_json(bytes))
        return IMPORT_CHROME;
    return looks_like_heaptrack(bytes) ? IMPORT_HEAPTRACK : IMPORT_UNKNOWN;
}
