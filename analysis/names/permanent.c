#include "analysis/names/permanent.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/names/frames.h"
#include "analysis/names/function_name.h"

enum image_kind { IMAGE_OTHER, IMAGE_LOADER, IMAGE_C, IMAGE_CXX };

/* File names of images begin so. The parts of the C library before glibc 2.34 are its own. */
static const struct {
    const char *prefix;
    enum image_kind kind;
} images[] = {
    {"ld-linux", IMAGE_LOADER}, {"ld-2.", IMAGE_LOADER},     {"ld64.so", IMAGE_LOADER},
    {"libc.so.", IMAGE_C},      {"libc-2.", IMAGE_C},        {"libpthread", IMAGE_C},
    {"libdl.so", IMAGE_C},      {"libdl-2.", IMAGE_C},       {"libresolv", IMAGE_C},
    {"libnss_", IMAGE_C},       {"libstdc++.so", IMAGE_CXX},
};

static const char *const reasons[] = {
    "the loader's tables, and what the C and C++ libraries allocate at their start",
    "buffers of stdio streams; a stream that is never closed is another block",
    "loaded locales and message catalogues",
    "conversions between character sets",
    "the time zone",
    "the environment",
    "the configuration of name services",
    "results that the next call of a function replaces",
    "texts of errors",
    "functions to call when the process or a thread ends",
    "values of thread-specific keys",
    "buffers of the C++ library's standard streams",
    "facets of C++ locales",
};

enum {
    LOADER = 1,
    STDIO,
    LOCALE,
    CHARSET,
    ZONE,
    ENVIRON,
    NSS,
    STATIC,
    ERRORS,
    AT_EXIT,
    KEYS,
    CXX_STREAMS,
    CXX_LOCALE,
};

/*
 * "*" at the end matches any rest. Internal functions are those that glibc 2.36 and libstdc++ 12
 * allocate in; where debug information is missing, the exported functions that call them match.
 */
static const struct {
    enum image_kind image;
    uint8_t kind;
    const char *function;
} rows[] = {
    {IMAGE_LOADER, LOADER, "*"},
    {IMAGE_C, STDIO, "_IO_file_doallocate"},
    {IMAGE_C, STDIO, "_IO_wfile_doallocate"},
    {IMAGE_C, LOCALE, "_nl_*"},
    {IMAGE_C, LOCALE, "setlocale"},
    {IMAGE_C, LOCALE, "new_composite_name"},
    {IMAGE_C, LOCALE, "read_alias_file"},
    {IMAGE_C, LOCALE, "extend_alias_table"},
    {IMAGE_C, LOCALE, "bindtextdomain"},
    {IMAGE_C, LOCALE, "textdomain"},
    {IMAGE_C, LOCALE, "__dcigettext"},
    {IMAGE_C, CHARSET, "__gconv_lookup_cache"},
    {IMAGE_C, CHARSET, "__gconv_find_shlib"},
    {IMAGE_C, CHARSET, "__gconv_load_*"},
    {IMAGE_C, CHARSET, "__gconv_read_conf"},
    {IMAGE_C, CHARSET, "__wcsmbs_load_conv"},
    {IMAGE_C, CHARSET, "mbrtowc"},
    {IMAGE_C, CHARSET, "mbsrtowcs"},
    {IMAGE_C, CHARSET, "mbsnrtowcs"},
    {IMAGE_C, CHARSET, "wcrtomb"},
    {IMAGE_C, CHARSET, "wcsrtombs"},
    {IMAGE_C, CHARSET, "wcsnrtombs"},
    {IMAGE_C, CHARSET, "btowc"},
    {IMAGE_C, CHARSET, "_IO_fwide"},
    {IMAGE_C, ZONE, "__tz*"},
    {IMAGE_C, ZONE, "tzset*"},
    {IMAGE_C, ZONE, "localtime*"},
    {IMAGE_C, ZONE, "mktime"},
    {IMAGE_C, ENVIRON, "__add_to_environ"},
    {IMAGE_C, ENVIRON, "setenv"},
    {IMAGE_C, ENVIRON, "putenv"},
    {IMAGE_C, NSS, "__nss_*"},
    {IMAGE_C, NSS, "nss_*"},
    {IMAGE_C, NSS, "global_state_allocate"},
    {IMAGE_C, NSS, "__check_pf"},
    {IMAGE_C, NSS, "__resolv_conf_*"},
    {IMAGE_C, NSS, "__res_vinit"},
    {IMAGE_C, STATIC, "getpwuid"},
    {IMAGE_C, STATIC, "getpwnam"},
    {IMAGE_C, STATIC, "getpwent"},
    {IMAGE_C, STATIC, "getgrgid"},
    {IMAGE_C, STATIC, "getgrnam"},
    {IMAGE_C, STATIC, "getgrent"},
    {IMAGE_C, STATIC, "gethostby*"},
    {IMAGE_C, STATIC, "getservby*"},
    {IMAGE_C, STATIC, "getprotoby*"},
    {IMAGE_C, STATIC, "ttyname"},
    {IMAGE_C, STATIC, "getmntent"},
    {IMAGE_C, ERRORS, "strerror"},
    {IMAGE_C, ERRORS, "strerror_l"},
    {IMAGE_C, ERRORS, "strsignal"},
    {IMAGE_C, ERRORS, "dlerror"},
    {IMAGE_C, ERRORS, "_dlerror_run"},
    {IMAGE_C, ERRORS, "dlopen"},
    {IMAGE_C, ERRORS, "dlsym"},
    {IMAGE_C, AT_EXIT, "atexit"},
    {IMAGE_C, AT_EXIT, "on_exit"},
    {IMAGE_C, AT_EXIT, "__cxa_atexit"},
    {IMAGE_C, AT_EXIT, "__cxa_at_quick_exit"},
    {IMAGE_C, AT_EXIT, "__cxa_thread_atexit_impl"},
    {IMAGE_C, AT_EXIT, "__register_atfork"},
    {IMAGE_C, KEYS, "pthread_setspecific"},
    {IMAGE_C, KEYS, "___pthread_setspecific"},
    {IMAGE_C, KEYS, "__pthread_setspecific"},
    {IMAGE_CXX, CXX_STREAMS, "std::ios_base::sync_with_stdio"},
    {IMAGE_CXX, CXX_STREAMS, "std::ios_base::Init::Init"},
    {IMAGE_CXX, CXX_LOCALE, "std::locale::*"},
};

const char *permanent_reason(unsigned kind)
{
    return reasons[kind - 1];
}

unsigned permanent_kinds(void)
{
    return sizeof reasons / sizeof *reasons;
}

static enum image_kind kind_of_image(struct view image)
{
    const char *slash = image.len ? memrchr(image.p, '/', image.len) : NULL;
    size_t at = slash ? (size_t)(slash - image.p) + 1 : 0;
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        size_t n = strlen(images[i].prefix);
        if (image.len - at >= n && memcmp(image.p + at, images[i].prefix, n) == 0)
            return images[i].kind;
    }
    return IMAGE_OTHER;
}

static unsigned kind_of_function(enum image_kind image, struct view function)
{
    char name[FUNCTION_NAME_SIZE];
    function_name(function, name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].function);
        bool any = rows[i].function[n - 1] == '*';
        if (rows[i].image == image && (any ? strncmp(name, rows[i].function, n - 1) == 0
                                           : strcmp(name, rows[i].function) == 0))
            return rows[i].kind;
    }
    return PERMANENT_NOT;
}

/* What a frame says of the call stacks in which it is innermost. */
enum { UNSEEN = 0xff, FRAME_OTHER = 0xfe /* an image of the program */ };

static uint8_t kind_of_frame(const struct trace *t, uint32_t frame)
{
    for (uint32_t i = 0; i < frame_depth(t, frame); i++) {
        struct frame_view f = frame_describe(t, frame, i);
        enum image_kind image = kind_of_image(f.image);
        if (image == IMAGE_OTHER)
            return FRAME_OTHER;
        unsigned kind = kind_of_function(image, f.function);
        if (kind != PERMANENT_NOT)
            return (uint8_t)kind;
    }
    return PERMANENT_NOT;
}

static uint8_t kind_of_callstack(struct program_frames *program, uint32_t id, uint8_t *of_frame)
{
    const struct callstacks *c = &program->trace->callstacks;
    uint32_t node = program_frames_start(program, id);
    for (; node; node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame;
        if (of_frame[frame] == UNSEEN)
            of_frame[frame] = kind_of_frame(program->trace, frame);
        if (of_frame[frame] != PERMANENT_NOT)
            return of_frame[frame] == FRAME_OTHER ? PERMANENT_NOT : of_frame[frame];
    }
    return PERMANENT_NOT;
}

uint8_t *permanent_of_callstacks(struct program_frames *program, struct err *e)
{
    const struct callstacks *c = &program->trace->callstacks;
    struct pageable *from = program->trace->memory.pageable;
    uint8_t *kinds = pageable_zeroed(from, c->list.len + 1);
    uint8_t *of_frame = pageable_zeroed(from, c->frames.len + 1);
    if (!kinds || !of_frame) {
        pageable_free(from, kinds, c->list.len + 1);
        pageable_free(from, of_frame, c->frames.len + 1);
        err_no_memory(e, "permanent blocks");
        return NULL;
    }
    memset(of_frame, UNSEEN, c->frames.len + 1);
    for (size_t id = 1; id <= c->list.len; id++)
        kinds[id] = kind_of_callstack(program, (uint32_t)id, of_frame);
    pageable_free(from, of_frame, c->frames.len + 1);
    return kinds;
}
