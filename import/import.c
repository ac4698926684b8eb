#include "import/import.h"

#include "import/json_text.h"

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
        [NOTE_TRAILING_BYTES] = "bytes after the end of the JSON text, left out",
        [NOTE_LINES] = "lines that cannot be understood, left out",
        [NOTE_TIMES_BACK] = "time stamps that go back, left out",
        [NOTE_UNKNOWN_TRACES] = "allocations with an unknown call stack, kept without one",
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

enum import_format import_detect(struct view bytes)
{
    size_t i = bytes.len >= 3 && memcmp(bytes.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < bytes.len && json_is_space(bytes.p[i]))
        i++;
    if (i < bytes.len && (bytes.p[i] == '[' || bytes.p[i] == '{'))
        return IMPORT_CHROME;
    return looks_like_heaptrack(bytes) ? IMPORT_HEAPTRACK : IMPORT_UNKNOWN;
}
