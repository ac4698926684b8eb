#include "naming/frame_places.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "symbols/place/module_table.h"
#include "trace/store/frame_name.h"

/* A longer file is rejected as a module table. */
#define MODULES_FILE_MAX ((size_t)64 << 20)

static int read_modules_file(struct module_table *t, const char *path, struct err *e)
{
    struct buf text = {0};
    FILE *f = fopen(path, "re");
    if (!f)
        return err_errno(e, ERR_INPUT, "cannot open %s", path);
    while (text.len <= MODULES_FILE_MAX) {
        uint8_t *room = buf_reserve(&text, 65536);
        size_t got = room ? fread(room, 1, 65536, f) : 0;
        if (got == 0)
            break;
        text.len += got;
    }
    int status = 0;
    if (ferror(f))
        status = err_errno(e, ERR_INPUT, "cannot read %s", path);
    else if (text.failed)
        status = err_no_memory(e, "a module table");
    else if (text.len > MODULES_FILE_MAX)
        status = err_set(e, ERR_INPUT, "%s is too long for a module table", path);
    else
        status = module_table_add_text(t, (struct view){buf_str(&text), text.len}, path, e);
    fclose(f);
    buf_release(&text);
    return status;
}

int frame_places_init(struct frame_places *p, const struct resolve_options *options,
                      struct frame_book *book, struct err *e)
{
    *p = (struct frame_places){.options = options, .book = book};
    for (size_t i = 0; i < book->modules.len; i++) {
        struct err bad = {0};
        if (module_table_add_line(&p->facts, book->modules.at[i], &bad) == 0)
            continue;
        if (bad.code == ERR_MEMORY)
            return err_no_memory(e, "the module table");
        p->bad_modules++;
    }
    for (size_t i = 0; i < options->modules.len; i++) {
        if (read_modules_file(&p->file, options->modules.at[i], e) != 0)
            return -1;
    }
    return module_table_sort(&p->facts, e) == 0 ? module_table_sort(&p->file, e) : -1;
}

void frame_places_release(struct frame_places *p)
{
    locate_release(&p->locate);
    module_table_release(&p->facts);
    module_table_release(&p->file);
    vec_release(&p->frames);
}

static struct view text_of(const struct frame_places *p, uint32_t number)
{
    return strings_get(p->book->strings, number);
}

int frame_places_add_other(struct frame_places *p, const struct locate_frame *other, struct err *e)
{
    struct locate_frame at = *other;
    if (frame_image_is_special(at.image))
        at.image = (struct view){"", 0};
    return vec_push(&p->frames, at) ? 0 : err_no_memory(e, "the frames of a trace");
}

int frame_places_add(struct frame_places *p, size_t frame, struct err *e)
{
    const struct callstacks *c = p->book->callstacks;
    const struct frame *f = &c->frames.at[frame];
    struct locate_frame at = {.address = frame_address(f->id),
                              .image = text_of(p, f->image),
                              .exact = frame_book_is_exact(p->book, frame)};
    if (frame_image_is_special(at.image))
        at.image = (struct view){"", 0};
    if (f->n > 0) {
        const struct rec_inline_frame *in = &c->inlines.at[f->first + f->n - 1];
        struct frame_name name = frame_name_parse(text_of(p, in->function), at.image);
        at.symbol = in->symbol;
        at.unresolved = name.kind == FRAME_NAME_UNRESOLVED;
        at.name = name.name;
        at.start = name.kind == FRAME_NAME_NEAR ? at.address - name.offset : in->symbol;
    }
    return vec_push(&p->frames, at) ? 0 : err_no_memory(e, "the frames of a trace");
}

int frame_places_locate(struct frame_places *p, struct err *e)
{
    const struct locate_options options = {.facts = &p->facts,
                                           .file = &p->file,
                                           .bases = p->options->bases.at,
                                           .base_count = p->options->bases.len};
    locate_init(&p->locate, &options);
    return locate_frames(&p->locate, p->frames.at, p->frames.len, e);
}

struct image_proof frame_places_proof(const struct frame_places *p,
                                      const struct locate_image *image)
{
    return (struct image_proof){
        .trusted = p->options->images_from_trace || image->named_by_user,
        .file = image->build_id.len ? NULL : module_table_file(&p->facts, image->path)};
}

int frame_places_infer(struct frame_places *p, size_t number, struct helper *helper,
                       struct helper_bias *bias, struct err *e)
{
    struct locate_image *li = &p->locate.images.at[number];
    if (li->frames[LOCATED_NOT] == 0 || li->hints.len == 0)
        return 0;
    struct helper_hint *hints = malloc(li->hints.len * sizeof *hints);
    if (!hints)
        return err_no_memory(e, "names of an image");
    for (size_t i = 0; i < li->hints.len; i++)
        hints[i] = (struct helper_hint){li->hints.at[i].address, li->hints.at[i].name};
    int status = helper_infer_bias(helper, hints, li->hints.len, bias, e);
    free(hints);
    if (status == 0 && bias->found)
        locate_set_bias(&p->locate, number, bias->bias);
    return status;
}
