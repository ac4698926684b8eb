#include "symbols/helper/helper_answers.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "symbols/place/helper_wire.h"

/* ---- putting */

#define SLOTS 65536u
/* Limit of used slots; the hash table never fills up. */
#define SLOTS_USED (SLOTS / 4 * 3)

void answers_begin(struct answers_out *out)
{
    bool fresh = !out->told || out->texts >= ANSWERS_TEXTS || out->text_bytes >= ANSWERS_TEXT_BYTES;
    out->body.len = 0;
    out->body.failed = false;
    out->count = 0;
    if (fresh) {
        out->texts = 0;
        out->text_bytes = 0;
        free(out->told);
        out->told = calloc(SLOTS, sizeof *out->told); /* NULL: every text counts as new */
        out->seed = map_hash((uintptr_t)out->told);   /* the address is unknown outside */
        answers_image_closed(out);
    }
    buf_u32(&out->body, 0);
    buf_u8(&out->body, fresh);
}

void answers_image_closed(struct answers_out *out)
{
    if (out->told_of_image.len > 0)
        memset(out->told_of_image.at, 0, out->told_of_image.len * sizeof *out->told_of_image.at);
}

void answers_release(struct answers_out *out)
{
    buf_release(&out->body);
    vec_release(&out->told_of_image);
    free(out->told);
    out->told = NULL;
}

/* The slot of a text, or the free slot for it. */
static struct told_text *find_text(const struct answers_out *out, struct view text)
{
    uint64_t hash = XXH3_64bits_withSeed(text.p, text.len, out->seed);
    size_t i = hash & (SLOTS - 1);
    while (out->told[i].number && out->told[i].hash != hash)
        i = (i + 1) & (SLOTS - 1);
    out->told[i].hash = hash;
    return &out->told[i];
}

/* Puts a non-empty text and returns its number. With `once` the text is known to be new. */
static uint32_t tell(struct answers_out *out, struct view text, bool once)
{
    struct told_text *t = out->told && !once ? find_text(out, text) : NULL;
    if (t && t->number) {
        buf_u32(&out->body, t->number);
        return t->number;
    }
    out->texts++;
    out->text_bytes += text.len;
    if (t && out->texts < SLOTS_USED)
        t->number = out->texts;
    buf_u32(&out->body, out->texts);
    buf_u32(&out->body, (uint32_t)text.len);
    buf_put(&out->body, text.p, text.len);
    return out->texts;
}

/* Puts a text. Its number in the image, if any, avoids hashing it. */
static void put_text(struct answers_out *out, struct view text, uint32_t of_image)
{
    if (text.len == 0) {
        buf_u32(&out->body, 0);
        return;
    }
    uint32_t *known = of_image < out->told_of_image.len ? &out->told_of_image.at[of_image] : NULL;
    if (known && *known) {
        buf_u32(&out->body, *known);
        return;
    }
    if (text.len > HELPER_TEXT_MAX)
        text.len = HELPER_TEXT_MAX;
    uint32_t number = tell(out, text, of_image > 0);
    if (known && of_image > 0)
        *known = number;
}

/* Makes room for the numbers of an answer. If memory is short, texts are hashed. */
static void expect_numbers(struct answers_out *out, const struct symbol_frame *frames, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        most = frames[i].function_number > most ? frames[i].function_number : most;
        most = frames[i].file_number > most ? frames[i].file_number : most;
    }
    if (most < out->told_of_image.len || !vec_reserve(&out->told_of_image, (size_t)most + 1))
        return;
    memset(out->told_of_image.at + out->told_of_image.len, 0,
           (out->told_of_image.cap - out->told_of_image.len) * sizeof *out->told_of_image.at);
    out->told_of_image.len = out->told_of_image.cap;
}

void answers_put(struct answers_out *out, const struct place_answer *answer)
{
    struct buf *b = &out->body;
    size_t n = answer->n < PLACE_FRAMES_MAX ? answer->n : PLACE_FRAMES_MAX;
    expect_numbers(out, answer->frames, n);
    buf_u8(b, (uint8_t)answer->source);
    buf_u64(b, answer->address);
    buf_u8(b, (uint8_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct symbol_frame *f = &answer->frames[i];
        put_text(out, f->function, f->function_number);
        put_text(out, out->linkage ? f->linkage : (struct view){"", 0}, 0);
        put_text(out, f->file, f->file_number);
        uint8_t *p = buf_reserve(b, 17);
        if (!p)
            continue;
        store_u32(p, f->line);
        store_u32(p + 4, f->column);
        store_u64(p + 8, f->start);
        p[16] = f->inlined;
        b->len += 17;
    }
    out->count++;
    if (!b->failed)
        store_u32(b->data, out->count);
}

/* ---- getting */

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_CHECK, "it sent a message with a wrong %s", what);
}

/* No valid sender has more bytes of texts. */
#define BYTES_MAX (ANSWERS_TEXT_BYTES + HELPER_BODY_MAX)

int answers_open(struct answers_in *in, struct view body, uint32_t *n, struct err *e)
{
    in->rest = cursor_over(body.p ? body.p : "", body.len);
    *n = cursor_u32(&in->rest);
    if (cursor_u8(&in->rest)) {
        in->texts.len = in->bytes.len = 0;
        in->numbering++;
    }
    if (in->rest.short_read || *n > HELPER_PLACES_MAX || in->bytes.len + body.len > BYTES_MAX)
        return bad(e, "count of answers");
    /* Texts are views of these bytes, so they must not move while the message is read. */
    if (!buf_reserve(&in->bytes, body.len)) {
        in->bytes.failed = false;
        return err_no_memory(e, "answers of the symbol helper");
    }
    return 0;
}

void answers_close(struct answers_in *in)
{
    vec_release(&in->texts);
    buf_release(&in->bytes);
}

static int new_text(struct answers_in *in, struct err *e)
{
    struct view text;
    if (helper_get_text(&in->rest, &text, e) != 0)
        return -1;
    struct answer_text t = {.at = in->bytes.len, .len = (uint32_t)text.len};
    buf_put(&in->bytes, text.p, text.len);
    return vec_push(&in->texts, t) ? 0 : err_no_memory(e, "answers of the symbol helper");
}

static int get_text(struct answers_in *in, struct view *text, uint32_t *number, struct err *e)
{
    *number = cursor_u32(&in->rest);
    *text = (struct view){"", 0};
    if (*number == 0 && !in->rest.short_read)
        return 0;
    if (in->rest.short_read || *number - 1 > in->texts.len)
        return bad(e, "number of a text");
    if (*number - 1 == in->texts.len && new_text(in, e) != 0)
        return -1;
    const struct answer_text *t = &in->texts.at[*number - 1];
    *text = (struct view){(const char *)in->bytes.data + t->at, t->len};
    return 0;
}

static int get_frame(struct answers_in *in, struct symbol_frame *f, struct err *e)
{
    struct cursor *c = &in->rest;
    uint32_t unused;
    *f = (struct symbol_frame){0};
    if (get_text(in, &f->function, &f->function_number, e) != 0 ||
        get_text(in, &f->linkage, &unused, e) != 0 ||
        get_text(in, &f->file, &f->file_number, e) != 0)
        return -1;
    f->line = cursor_u32(c);
    f->column = cursor_u32(c);
    f->start = cursor_u64(c);
    uint8_t inlined = cursor_u8(c);
    f->inlined = inlined;
    return c->short_read || inlined > 1 ? bad(e, "function") : 0;
}

int answers_get(struct answers_in *in, struct place_answer *answer, struct symbol_frame *frames,
                struct err *e)
{
    struct cursor *c = &in->rest;
    uint8_t source = cursor_u8(c);
    *answer = (struct place_answer){
        .address = cursor_u64(c), .frames = frames, .numbering = in->numbering};
    answer->n = cursor_u8(c);
    if (c->short_read || source >= PLACE_SOURCES || answer->n > PLACE_FRAMES_MAX ||
        (source <= SOURCE_IMAGE) != (answer->n == 0))
        return bad(e, "answer");
    answer->source = source;
    for (size_t i = 0; i < answer->n; i++) {
        if (get_frame(in, &frames[i], e) != 0)
            return -1;
    }
    return 0;
}
