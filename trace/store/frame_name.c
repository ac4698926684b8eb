#include "trace/store/frame_name.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static bool is_one_of(struct view text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (view_equal(text, view_of(words[i])))
            return true;
    }
    return false;
}

bool frame_image_is_special(struct view image)
{
    return image.len == 0 || *image.p == '[' || *image.p == '<';
}

struct view frame_image_name(struct view image)
{
    return view_base_name(image);
}

/* Removes " + DECIMAL"; false when there is none. */
static bool cut_offset(struct view *text, uint64_t *offset)
{
    uint64_t value = 0, unit = 1;
    size_t n = text->len;
    while (n && text->p[n - 1] >= '0' && text->p[n - 1] <= '9' && text->len - n < 19) {
        value += unit * (uint64_t)(text->p[--n] - '0');
        unit *= 10;
    }
    if (n == text->len || n < 4 || memcmp(text->p + n - 3, " + ", 3) != 0)
        return false;
    *offset = value;
    text->len = n - 3;
    return true;
}

bool frame_name_is_at(struct view text)
{
    size_t digits = 0;
    while (digits < text.len && digits < 16) {
        char c = text.p[text.len - 1 - digits];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            break;
        digits++;
    }
    return digits > 0 && text.len > digits + 3 &&
           memcmp(text.p + text.len - digits - 3, "+0x", 3) == 0;
}

bool frame_name_is_baseless(struct view text)
{
    static const char unknown[] = " (base unknown)";
    size_t n = sizeof unknown - 1;
    return text.len > n && memcmp(text.p + text.len - n, unknown, n) == 0;
}

#define CUT_BEFORE "[cut at "
#define CUT_BEHIND " frames]"

void frame_name_cut(char out[FRAME_CUT_SIZE], unsigned depth)
{
    snprintf(out, FRAME_CUT_SIZE, CUT_BEFORE "%u" CUT_BEHIND, depth);
}

bool frame_name_is_cut(struct view text)
{
    size_t before = sizeof CUT_BEFORE - 1, behind = sizeof CUT_BEHIND - 1;
    return text.len > before + behind && memcmp(text.p, CUT_BEFORE, before) == 0 &&
           memcmp(text.p + text.len - behind, CUT_BEHIND, behind) == 0;
}

struct frame_name frame_name_parse(struct view text, struct view image)
{
    static const char *const words[] = {"", "[unknown]", "[error]", "???", "??"};
    static const char unresolved[] = "[unresolved]";
    struct frame_name f = {.kind = FRAME_NAME_FULL, .name = text};
    if (text.len >= sizeof unresolved - 1 && memcmp(text.p, unresolved, sizeof unresolved - 1) == 0)
        return (struct frame_name){.kind = FRAME_NAME_UNRESOLVED};
    if (cut_offset(&f.name, &f.offset))
        f.kind = FRAME_NAME_NEAR;
    if (is_one_of(f.name, words, sizeof words / sizeof *words) || frame_name_is_at(text) ||
        frame_name_is_baseless(text) || (image.len > 0 && view_equal(text, image)))
        return (struct frame_name){.kind = FRAME_NAME_NONE};
    return f;
}

const char *name_origin_text(enum name_origin origin)
{
    static const char *const texts[NAME_ORIGINS] = {
        [NAME_FROM_ELSEWHERE] = "unknown", [NAME_FROM_NEIGHBOUR] = "neighbour",
        [NAME_FROM_DYNSYM] = ".dynsym",    [NAME_FROM_DEBUGDATA] = ".gnu_debugdata",
        [NAME_FROM_SYMTAB] = ".symtab",    [NAME_FROM_PUBLIC] = "public symbols",
    };
    return texts[origin];
}

enum name_origin frame_file_origin(struct view file)
{
    if (file.len < 2 || file.p[0] != '[' || file.p[file.len - 1] != ']')
        return NAME_FROM_ELSEWHERE;
    struct view text = {file.p + 1, file.len - 2};
    unsigned origin = NAME_ORIGINS - 1;
    while (origin > NAME_FROM_ELSEWHERE &&
           !view_equal(text, view_of(name_origin_text((enum name_origin)origin))))
        origin--;
    return (enum name_origin)origin;
}

bool frame_file_is_unknown(struct view file, struct view image)
{
    static const char *const words[] = {"", "[unknown]", "[error]", "???", "??", "<kernel>"};
    return is_one_of(file, words, sizeof words / sizeof *words) || frame_file_origin(file) ||
           view_equal(file, image);
}
