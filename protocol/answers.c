#include "protocol/answers.h"

#define TEXT_MAX ((size_t)UINT16_MAX)
#define FIXED_MAX ((size_t)256)

static struct view cut(struct view text)
{
    return (struct view){text.p, text.len < TEXT_MAX ? text.len : TEXT_MAX};
}

static int keyed(struct encoder *enc, const char *item, uint64_t key, struct view text,
                 struct err *e)
{
    const struct encoder_field fields[] = {ENC_INT("ptr", key)};
    return encoder_item(enc, item, fields, 1, cut(text), e);
}

int answer_text(struct encoder *enc, enum query_kind kind, uint64_t key, struct view text,
                struct err *e)
{
    static const char *const items[QUERY_KIND_COUNT] = {
        [QUERY_STRING] = "StringData",    [QUERY_THREAD] = "ThreadName",
        [QUERY_PLOT_NAME] = "PlotName",   [QUERY_FRAME_NAME] = "FrameName",
        [QUERY_FIBER_NAME] = "FiberName", [QUERY_EXTERNAL_NAME] = "ExternalName"};
    if (kind >= QUERY_KIND_COUNT || !items[kind])
        return answer_nothing(enc, kind, key, e);
    if (kind == QUERY_EXTERNAL_NAME && keyed(enc, "ExternalThreadName", key, text, e) != 0)
        return -1;
    return keyed(enc, items[kind], key, text, e);
}

int answer_frame(struct encoder *enc, uint64_t address, struct view image,
                 const struct answer_function *functions, size_t n, struct err *e)
{
    const struct encoder_field head[] = {ENC_INT("ptr", address), ENC_INT("size", n)};
    if (encoder_keep_together(enc, cut(image).len + FIXED_MAX, e) != 0 ||
        encoder_string(enc, false, cut(image), e) != 0 ||
        encoder_item(enc, "CallstackFrameSize", head, 2, (struct view){0}, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct answer_function *f = &functions[i];
        const struct encoder_field fields[] = {ENC_INT("line", f->line),
                                               ENC_INT("symAddr", f->symbol),
                                               ENC_INT("symLen", f->symbol_len)};
        if (encoder_keep_together(enc, cut(f->name).len + cut(f->file).len + FIXED_MAX, e) != 0 ||
            encoder_string(enc, false, cut(f->name), e) != 0 ||
            encoder_string(enc, true, cut(f->file), e) != 0 ||
            encoder_item(enc, "CallstackFrame", fields, 3, (struct view){0}, e) != 0)
            return -1;
    }
    return 0;
}

int answer_symbol(struct encoder *enc, uint64_t address, struct view file, uint32_t line,
                  struct err *e)
{
    const struct encoder_field fields[] = {ENC_INT("line", line), ENC_INT("symAddr", address)};
    if (encoder_keep_together(enc, cut(file).len + FIXED_MAX, e) != 0 ||
        encoder_string(enc, false, cut(file), e) != 0)
        return -1;
    return encoder_item(enc, "SymbolInformation", fields, 2, (struct view){0}, e);
}

int answer_code(struct encoder *enc, uint64_t address, struct view code, struct err *e)
{
    const struct encoder_field fields[] = {ENC_INT("ptr", address)};
    if (encoder_keep_together(enc, code.len + FIXED_MAX, e) != 0)
        return -1;
    return encoder_item(enc, "SymbolCode", fields, 1, code, e);
}

int answer_nothing(struct encoder *enc, enum query_kind kind, uint64_t key, struct err *e)
{
    const struct encoder_field id[] = {ENC_INT("id", (uint32_t)key)};
    switch (kind) {
    case QUERY_TERMINATE:
    case QUERY_DISCONNECT:
        return 0;
    case QUERY_SOURCE_LOCATION:
        return encoder_item(enc, "SourceLocation", NULL, 0, (struct view){0}, e);
    case QUERY_SYMBOL_CODE:
        return encoder_item(enc, "AckSymbolCodeNotAvailable", NULL, 0, (struct view){0}, e);
    case QUERY_SOURCE_CODE:
        return encoder_item(enc, "AckSourceCodeNotAvailable", id, 1, (struct view){0}, e);
    default:
        return encoder_item(enc, "AckServerQueryNoop", NULL, 0, (struct view){0}, e);
    }
}
