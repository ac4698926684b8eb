#include "run/recording/recording_images.h"

#include <inttypes.h>

#include "client/recording_format.h"
#include "trace/store/frame_name.h"

#define ADDRESS_MASK ((UINT64_C(1) << 48) - 1)
#define TAG(n) ((uint64_t)(n) << 48)
#define TAG_LAST 4095u /* bits 48 to 59: higher bits would make it a kernel address */

void image_places_init(struct image_places *p, struct trace *t)
{
    *p = (struct image_places){.trace = t};
}

void image_places_release(struct image_places *p)
{
    vec_release(&p->list);
    vec_release(&p->files);
}

void process_images_release(struct process_images *p)
{
    vec_release(&p->list);
    map_release(&p->frames);
}

/* ---- places in the trace */

static uint64_t hash_text(uint64_t hash, struct view text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = map_hash(hash ^ (uint8_t)text.p[i]);
    return map_hash(hash ^ text.len);
}

static bool is_free(const struct image_places *p, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < p->list.len; i++) {
        if (start < p->list.at[i].end && p->list.at[i].start < end)
            return false;
    }
    return true;
}

static int add_fact(struct trace *t, const struct image_place *place, uint64_t offset,
                    struct view path, struct view build_id, struct err *e)
{
    char id[2 * 64 + 1] = "-";
    size_t len = build_id.len < 64 ? build_id.len : 64;
    for (size_t i = 0; i < len; i++) {
        static const char digits[] = "0123456789abcdef";
        id[2 * i] = digits[(uint8_t)build_id.p[i] >> 4];
        id[2 * i + 1] = digits[(uint8_t)build_id.p[i] & 15];
    }
    id[len ? 2 * len : 1] = 0;
    return trace_add_fact(t, e, "module", "%" PRIx64 "-%" PRIx64 " %" PRIx64 " %s %.*s",
                          place->start, place->end, offset, id, (int)path.len, path.p);
}

int image_places_file(struct image_places *p, const struct image_file *file, struct view path,
                      struct err *e)
{
    uint64_t hash = hash_text(map_hash(file->device ^ map_hash(file->inode)), path);
    hash = map_hash(hash ^ map_hash(file->size ^ map_hash(file->mtime)));
    for (size_t i = 0; i < p->files.len; i++) {
        if (p->files.at[i] == hash)
            return 0;
    }
    if (!vec_push(&p->files, hash))
        return err_no_memory(e, "images");
    return trace_add_fact(
        p->trace, e, "module", "#file %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.*s",
        file->device, file->inode, file->size, file->mtime, (int)path.len, path.p);
}

/* Finds or assigns the place in the trace of a part of an image; *start. */
static int find_place(struct image_places *p, struct image_segment s, struct view path,
                      struct view build_id, uint64_t *start, struct err *e)
{
    uint64_t identity = hash_text(hash_text(s.offset, path), build_id);
    identity = map_hash(identity ^ (s.end - s.start));
    for (size_t i = 0; i < p->list.len; i++) {
        if (p->list.at[i].identity == identity) {
            *start = p->list.at[i].start;
            return 0;
        }
    }
    struct image_place place = {.identity = identity};
    for (unsigned tag = 0; tag <= TAG_LAST; tag++) {
        place.start = TAG(tag) | s.start;
        place.end = TAG(tag) + s.end;
        if (is_free(p, place.start, place.end))
            break;
        p->crowded += tag == TAG_LAST;
    }
    *start = place.start;
    if (!vec_push(&p->list, place))
        return err_no_memory(e, "images");
    return add_fact(p->trace, &place, s.offset, path, build_id, e);
}

/* ---- images of a process */

int process_images_load(struct process_images *p, uint32_t module, uint32_t epoch,
                        struct image_segment segment, struct view path, struct view build_id,
                        struct err *e)
{
    struct process_image image = {.start = segment.start,
                                  .end = segment.end,
                                  .number = module,
                                  .from = epoch,
                                  .until = UINT32_MAX};
    if (segment.start >= segment.end || segment.end > ADDRESS_MASK)
        return 0;
    if (find_place(p->places, segment, path, build_id, &image.place, e) != 0)
        return -1;
    return vec_push(&p->list, image) ? 0 : err_no_memory(e, "images");
}

void process_images_unload(struct process_images *p, uint32_t module, uint32_t epoch)
{
    for (size_t i = 0; i < p->list.len; i++) {
        if (p->list.at[i].number == module && p->list.at[i].until == UINT32_MAX)
            p->list.at[i].until = epoch;
    }
}

static const struct process_image *find(const struct process_images *p, uint64_t address,
                                        uint32_t epoch)
{
    for (size_t i = p->list.len; i-- > 0;) {
        const struct process_image *image = &p->list.at[i];
        if (address >= image->start && address <= image->end && epoch >= image->from &&
            epoch < image->until)
            return image;
    }
    return NULL;
}

/*
 * An address outside all known images must not look like one of an image: it gets a tag under which
 * no image is.
 */
static uint64_t place_of_stranger(const struct image_places *p, uint64_t address)
{
    for (unsigned tag = 0; tag < TAG_LAST; tag++) {
        if (is_free(p, TAG(tag) | address, (TAG(tag) | address) + 1))
            return TAG(tag) | address;
    }
    return TAG(TAG_LAST) | address;
}

int process_images_frame(struct process_images *p, uint64_t pc, uint64_t *frame, struct err *e)
{
    uint64_t address = pc & ADDRESS_MASK;
    if (address == REC_PC_CUT) {
        *frame = FRAME_CUT;
        return 0;
    }
    uint64_t *known = map_find(&p->frames, pc);
    if (known) {
        *frame = *known;
        return 0;
    }
    const struct process_image *image = find(p, address, (uint32_t)(pc >> 48));
    *frame =
        image ? image->place + (address - image->start) : place_of_stranger(p->places, address);
    known = map_add(&p->frames, pc, NULL);
    if (!known)
        return err_no_memory(e, "frames");
    *known = *frame;
    return 0;
}
