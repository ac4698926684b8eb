#include "symbols/place/locate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define PAGE UINT64_C(4096)

/* Lowest kernel address on x86-64 and AArch64. */
#define KERNEL_BASE (UINT64_C(1) << 63)

/* Programs that are not position-independent are below this. */
#define LOW_END (UINT64_C(1) << 32)

/* Limit of names of one image used as hints. */
#define HINTS_MAX 4096u

/* Statistics of an image's frames that show what their symbol addresses mean. */
struct image_signs {
    struct view name;
    uint64_t unresolved, unresolved_aligned; /* frames marked as unresolved */
    uint64_t others, others_aligned;         /* whose symbol address is far before the frame's */
    uint32_t image;                          /* where its last frame was located, + 1 */
};

struct locating {
    struct locate *l;
    const struct locate_frame *frames;
    size_t n;
    VEC(struct image_signs) signs;
    struct map by_image; /* hash of an image's path → index in signs + 1 */
};

void locate_init(struct locate *l, const struct locate_options *options)
{
    *l = (struct locate){.options = *options};
}

void locate_release(struct locate *l)
{
    for (size_t i = 0; i < l->images.len; i++) {
        vec_release(&l->images.at[i].hints);
        map_release(&l->images.at[i].hint_addresses);
    }
    vec_release(&l->frames);
    vec_release(&l->images);
    vec_release(&l->pending);
    map_release(&l->by_key);
    free(l->by_image);
    free(l->firsts);
    l->by_image = NULL;
    l->firsts = NULL;
}

const char *locate_step_text(enum locate_step step)
{
    static const char *const texts[LOCATE_STEPS] = {
        [LOCATED_NOT] = "not located",
        [LOCATED_OFFSET] = "offset sent by the client",
        [LOCATED_MODULE] = "module table of the capture",
        [LOCATED_BASE] = "--base",
        [LOCATED_FILE] = "--modules",
        [LOCATED_INFERRED] = "base inferred from symbols that the client named",
    };
    return step < LOCATE_STEPS ? texts[step] : "";
}

int locate_base_parse(const char *text, struct locate_base *out, char **room, struct err *e)
{
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    errno = 0;
    out->address = equals ? strtoull(equals + 1, &end, 16) : 0;
    if (!equals || equals == text || end == equals + 1 || *end || errno == ERANGE ||
        equals[1] == '-' || equals[1] == '+')
        return err_set(e, ERR_USAGE, "--base is IMAGE=ADDRESS, not '%s'", text);
    *room = strndup(text, (size_t)(equals - text));
    out->image = *room;
    return *room ? 0 : err_no_memory(e, "options");
}

/* ---- the meaning of symbol addresses */

static uint64_t hash_text(uint64_t hash, struct view text)
{
    return XXH3_64bits_withSeed(text.p, text.len, map_hash(hash));
}

static int add_signs(struct locating *w, const struct locate_frame *f, struct err *e)
{
    bool fresh;
    uint64_t *position = map_add(&w->by_image, hash_text(1, f->image), &fresh);
    if (position && fresh) {
        *position = w->signs.len + 1;
        if (!vec_push(&w->signs, (struct image_signs){.name = f->image}))
            position = NULL;
    }
    if (!position)
        return err_no_memory(e, "images of a trace");
    struct image_signs *s = &w->signs.at[*position - 1];
    uint64_t distance = f->address - f->symbol;
    bool aligned = distance % PAGE == 0;
    if (f->unresolved) {
        s->unresolved++;
        /* With distance 0, only a program at a fixed address can be meant. */
        s->unresolved_aligned += aligned && (distance != 0 || f->address < LOW_END);
    } else {
        s->others++;
        s->others_aligned += aligned && distance >= 16 * PAGE;
    }
    return 0;
}

/*
 * Whether the symbol addresses of an image are offsets in it: then all differ from their frames by
 * whole pages. A resolved trace still has offsets. In a trace reset by update -R, frames are
 * unresolved but their symbol addresses are client addresses.
 */
static struct image_signs *signs_of_offsets(const struct locating *w, const struct locate_frame *f)
{
    const uint64_t *position = map_find(&w->by_image, hash_text(1, f->image));
    if (!position || !w->signs.at || f->symbol == 0)
        return NULL;
    struct image_signs *s = &w->signs.at[*position - 1];
    bool has = s->others > 0 && s->others_aligned == s->others;
    if (s->unresolved > 0)
        has = s->unresolved_aligned == s->unresolved &&
              (f->unresolved || (f->address - f->symbol) % PAGE == 0);
    return has ? s : NULL;
}

/* ---- images */

static int image_of(struct locate *l, struct view path, const struct build_id *id,
                    uint32_t *position, struct err *e)
{
    uint64_t key = hash_text(2, path);
    bool fresh;
    if (id)
        key = hash_text(key, (struct view){(const char *)id->bytes, id->len});
    uint64_t *at = map_add(&l->by_key, key, &fresh);
    struct locate_image image = {.path = path};
    if (id)
        image.build_id = *id;
    if (!at || (fresh && !vec_push(&l->images, image)))
        return err_no_memory(e, "images of a trace");
    if (fresh)
        *at = l->images.len;
    *position = (uint32_t)(*at - 1);
    return 0;
}

/*
 * The base that the user gave for a frame's image. If the client could not name the image (some
 * clients, programs at fixed addresses), the highest base below the frame whose image is given as a
 * path.
 */
static const struct locate_base *find_base(const struct locate *l, const struct locate_frame *f)
{
    const struct locate_base *below = NULL;
    for (size_t i = 0; i < l->options.base_count; i++) {
        const struct locate_base *base = &l->options.bases[i];
        struct view image = view_of(base->image);
        if (f->image.len > 0 &&
            (view_equal(image, f->image) || view_equal(image, view_base_name(f->image))))
            return base;
        if (f->image.len == 0 && strchr(base->image, '/') && base->address <= f->address &&
            (!below || below->address < base->address))
            below = base;
    }
    return below;
}

/* A library's name up to ".so"; any other name unchanged. */
static struct view stem(struct view path)
{
    struct view name = view_base_name(path);
    const char *so = name.len ? memmem(name.p, name.len, ".so", 3) : NULL;
    return so ? (struct view){name.p, (size_t)(so - name.p)} : name;
}

/*
 * Whether a mapping can be the frame's. In a capture through a tunnel the table is the tunnel's.
 * Without ASLR its libraries may be where the client had others.
 */
static bool can_be(const struct module *m, struct view image)
{
    struct view path = view_of(m->path);
    bool libraries =
        memmem(path.p, path.len, ".so", 3) && image.len > 0 && memmem(image.p, image.len, ".so", 3);
    return !libraries || view_equal(stem(path), stem(image));
}

/* The mapping of an address in either table. */
static const struct module *find_module(const struct locate *l, const struct locate_frame *f,
                                        bool *of_user)
{
    const struct module *m = module_table_find(l->options.facts, f->address, f->image.p);
    *of_user = false;
    if (m && can_be(m, f->image))
        return m;
    m = module_table_find(l->options.file, f->address, f->image.p);
    *of_user = m != NULL;
    return m;
}

/* ---- the steps */

static int put(struct locate *l, struct located *at, enum locate_step step, enum place_kind kind,
               uint64_t value)
{
    at->step = (uint8_t)step;
    at->kind = (uint8_t)kind;
    at->value = value;
    l->images.at[at->image].frames[step] += !at->listed;
    return 0;
}

static int add_hint(struct locate_image *image, const struct locate_frame *f, struct err *e)
{
    bool fresh;
    if (f->name.len == 0 || f->start == 0 || image->hints.len >= HINTS_MAX)
        return 0;
    uint64_t *seen = map_add(&image->hint_addresses, f->start, &fresh);
    if (!seen || (fresh && !vec_push(&image->hints, (struct locate_hint){f->start, f->name})))
        return err_no_memory(e, "names of an image");
    return 0;
}

static int locate_by_module(struct locate *l, const struct locate_frame *f, const struct module *m,
                            bool of_user, struct located *at, struct err *e)
{
    if (image_of(l, view_of(m->path), &m->build_id, &at->image, e) != 0)
        return -1;
    l->images.at[at->image].named_by_user |= of_user;
    return put(l, at, of_user ? LOCATED_FILE : LOCATED_MODULE, PLACE_FILE,
               f->address - !f->exact - m->start + m->offset);
}

static int locate_by_offset(const struct locating *w, const struct locate_frame *f,
                            struct image_signs *signs, const struct module *m, bool named_by_user,
                            struct located *at, struct err *e)
{
    struct locate *l = w->l;
    /* No module table has the address of a listed symbol, so it gets the image of the frames. */
    if (f->listed && signs->image)
        at->image = signs->image - 1;
    else if (image_of(l, f->image, m ? &m->build_id : NULL, &at->image, e) != 0)
        return -1;
    signs->image = at->image + 1;
    l->images.at[at->image].named_by_user |= named_by_user;
    /* If the loader moved nothing, offsets are addresses. */
    bool moved = f->listed || f->symbol != f->address;
    return put(l, at, LOCATED_OFFSET, moved ? PLACE_OFFSET : PLACE_ADDRESS, f->symbol - !f->exact);
}

static int locate_one(const struct locating *w, const struct locate_frame *f, struct located *at,
                      struct err *e)
{
    struct locate *l = w->l;
    bool of_user;
    if (f->address == 0 || f->address >= KERNEL_BASE)
        return 0;
    const struct module *m = find_module(l, f, &of_user);
    const struct locate_base *base = find_base(l, f);
    struct image_signs *signs = f->image.len > 0 ? signs_of_offsets(w, f) : NULL;
    if (signs)
        return locate_by_offset(w, f, signs, m, of_user || base, at, e);
    if (m && !of_user)
        return locate_by_module(l, f, m, of_user, at, e);
    if (base && f->address >= base->address) {
        struct view path = f->image.len ? f->image : view_of(base->image);
        if (image_of(l, path, NULL, &at->image, e) != 0)
            return -1;
        l->images.at[at->image].named_by_user = true;
        return put(l, at, LOCATED_BASE, PLACE_OFFSET, f->address - !f->exact - base->address);
    }
    if (m)
        return locate_by_module(l, f, m, of_user, at, e);
    if (f->image.len == 0)
        return 0;
    if (image_of(l, f->image, NULL, &at->image, e) != 0)
        return -1;
    l->images.at[at->image].frames[LOCATED_NOT] += !f->listed;
    return add_hint(&l->images.at[at->image], f, e);
}

/* Groups the frames by image with a counting sort. */
static int group(struct locate *l, struct err *e)
{
    size_t images = l->images.len;
    l->by_image = malloc((l->frames.len + 1) * sizeof *l->by_image);
    l->firsts = calloc(images + 2, sizeof *l->firsts);
    if (!l->by_image || !l->firsts)
        return err_no_memory(e, "frames of a trace");
    for (size_t i = 0; i < l->frames.len; i++) {
        if (l->frames.at[i].image != LOCATE_NONE)
            l->firsts[l->frames.at[i].image + 2]++;
    }
    for (size_t i = 2; i < images + 2; i++)
        l->firsts[i] += l->firsts[i - 1];
    for (size_t i = 0; i < l->frames.len; i++) {
        if (l->frames.at[i].image != LOCATE_NONE)
            l->by_image[l->firsts[l->frames.at[i].image + 1]++] = (uint32_t)i;
    }
    return 0;
}

const uint32_t *locate_frames_of(const struct locate *l, size_t image, size_t *n)
{
    *n = l->firsts[image + 1] - l->firsts[image];
    return l->by_image + l->firsts[image];
}

int locate_frames(struct locate *l, const struct locate_frame *frames, size_t n, struct err *e)
{
    struct locating w = {.l = l, .frames = frames, .n = n};
    int status = 0;
    if (!vec_reserve(&l->frames, n) || !vec_reserve(&l->pending, n))
        return err_no_memory(e, "frames of a trace");
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct locate_frame *f = &frames[i];
        if (!f->listed && f->image.len > 0 && f->symbol != 0 && f->address < KERNEL_BASE)
            status = add_signs(&w, f, e);
    }
    for (size_t i = 0; i < n && status == 0; i++) {
        struct located at = {.image = LOCATE_NONE, .listed = frames[i].listed};
        status = locate_one(&w, &frames[i], &at, e);
        l->frames.at[l->frames.len++] = at;
        l->pending.at[l->pending.len++] = frames[i].address - !frames[i].exact;
    }
    vec_release(&w.signs);
    map_release(&w.by_image);
    return status == 0 ? group(l, e) : -1;
}

void locate_set_bias(struct locate *l, size_t image, uint64_t bias)
{
    struct locate_image *of = &l->images.at[image];
    of->has_bias = true;
    of->bias = bias;
    size_t n;
    const uint32_t *frames = locate_frames_of(l, image, &n);
    for (size_t i = 0; i < n; i++) {
        struct located *at = &l->frames.at[frames[i]];
        uint64_t address = l->pending.at[frames[i]];
        if (at->step != LOCATED_NOT || address < bias)
            continue;
        of->frames[LOCATED_NOT] -= !at->listed;
        put(l, at, LOCATED_INFERRED, PLACE_ADDRESS, address - bias);
    }
}
