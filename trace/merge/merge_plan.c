/* Decides the new numbers of all inputs once every input was scanned. */

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "trace/merge/merge_internal.h"
#include "trace/store/callstacks.h"

/* ---- strings of client pointers */

static int plan_pointers(struct merge *m, struct err *e)
{
    bool zero_bound = false;
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        for (size_t k = 0; k < in->pointers.len; k++) {
            struct merge_pointer p = {in->pointers.at[k].key, (uint32_t)in->pointers.at[k].value};
            /* Captures bind pointer 0, which is every input's base frame set, to its name. */
            if (p.pointer == 0 && zero_bound)
                continue;
            zero_bound |= p.pointer == 0;
            if (merge_pointer(in, &p.pointer, e) != 0)
                return -1;
            if (!pageable_push(&m->pageable, &m->pointers, p))
                return err_no_memory(e, "names");
        }
    }
    return 0;
}

/* ---- offsets for the numbers of an input */

static int plan_bases(struct merge *m, struct err *e)
{
    uint64_t extras = 1, callstacks = 0;
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        in->extra_base = extras - 1;
        in->callstack_base = callstacks;
        extras += in->extras > 0 ? in->extras - 1 : 0;
        callstacks += in->callstacks;
    }
    if (callstacks > CALLSTACKS_MAX && m->n > 1)
        return err_set(e, ERR_INPUT,
                       "the inputs have %" PRIu64 " call stacks in all; a trace can have %u",
                       callstacks, CALLSTACKS_MAX);
    if (extras > UINT32_MAX)
        return err_set(e, ERR_INPUT,
                       "the inputs have %" PRIu64 " zones with texts, names or call "
                       "stacks in all; a trace can have %u",
                       extras, UINT32_MAX);
    return 0;
}

/* Every input needs at most one tag. */
#define TAGS 4096u

/* A free tag is found quickly, unless inputs are crafted to prevent it. */
#define LOOKS_MAX (UINT64_C(1) << 28)

/* Message keys carry no meaning: those of an input are changed in their top 16 bits. */
static bool keys_free(const struct merge_input *in, const uint64_t *used, unsigned tag)
{
    for (unsigned top = 0; top < 65536; top++) {
        unsigned other = top ^ tag;
        if ((in->key_tops[top / 64] >> top % 64 & 1) && (used[other / 64] >> other % 64 & 1))
            return false;
    }
    return true;
}

static int plan_keys(struct merge *m, struct err *e)
{
    uint64_t used[1024] = {0};
    for (size_t i = 0; i < m->n; i++) {
        struct merge_input *in = m->order[i];
        unsigned tag = 0;
        while (tag < TAGS && !keys_free(in, used, tag))
            tag++;
        if (tag == TAGS)
            return err_set(e, ERR_INPUT, "%s: the keys of its messages are those of other inputs",
                           in->name);
        in->key_tag = (uint64_t)tag << 48;
        for (unsigned top = 0; top < 65536; top++) {
            if (in->key_tops[top / 64] >> top % 64 & 1)
                used[(top ^ tag) / 64] |= UINT64_C(1) << (top ^ tag) % 64;
        }
    }
    return 0;
}

/*
 * One address means different code in different processes. If code of two inputs lies within the
 * same MiB, bits 48 to 59 of the second one's addresses are changed, which no processor's addresses
 * use. The four bits above stay, since readers identify the kernel by them and keep only 62 bits
 * (`PackPointer` in server/TracyWorker.hpp @ v0.14.0).
 */
static bool regions_free(const struct merge_input *in, const struct map *used, uint64_t tag,
                         uint64_t *looks)
{
    const struct map_slot *slot;
    size_t iter = 0;
    while ((slot = map_next(&in->regions, &iter))) {
        if ((*looks)++ == LOOKS_MAX)
            return false;
        if (map_find(used, slot->key ^ tag << (48 - MERGE_REGION_BITS)))
            return false;
    }
    return true;
}

static int plan_addresses(struct merge *m, struct err *e)
{
    struct map used = {.pageable = &m->pageable};
    uint64_t looks = 0;
    int status = 0;
    for (size_t i = 0; i < m->n && status == 0; i++) {
        struct merge_input *in = m->order[i];
        const struct map_slot *slot;
        size_t iter = 0;
        uint64_t tag = 0;
        while (tag < TAGS && looks < LOOKS_MAX && !regions_free(in, &used, tag, &looks))
            tag++;
        if (tag == TAGS || looks >= LOOKS_MAX)
            status = err_set(e, ERR_INPUT, "%s: its code lies where that of other inputs does",
                             in->name);
        in->address_tag = tag << 48;
        while (status == 0 && (slot = map_next(&in->regions, &iter))) {
            if (!map_add(&used, slot->key ^ tag << (48 - MERGE_REGION_BITS), NULL))
                status = err_no_memory(e, "addresses of code");
        }
    }
    map_release(&used);
    return status;
}

/*
 * In official readers only the base set has images (`frameRef`, server/TracyWorker.cpp @ v0.14.0),
 * so choose that of an input with images.
 */
static void choose_base(struct merge *m)
{
    m->base = m->order[0];
    for (size_t i = 0; i < m->n; i++) {
        if (m->order[i]->images > 0 && m->base->images == 0)
            m->base = m->order[i];
    }
}

static int check_strings(const struct merge *m, struct err *e)
{
    if (m->strings.list.len <= STRINGS_MAX)
        return 0;
    return err_set(e, ERR_INPUT,
                   "the inputs have %zu different strings in all; a trace can have %u",
                   m->strings.list.len, STRINGS_MAX);
}

int merge_plan(struct merge *m, struct err *e)
{
    if (merge_plan_times(m, e) != 0 || plan_bases(m, e) != 0 || plan_keys(m, e) != 0 ||
        plan_addresses(m, e) != 0)
        return -1;
    choose_base(m);
    if (merge_plan_images(m, e) != 0 || plan_pointers(m, e) != 0 || merge_plan_names(m, e) != 0 ||
        merge_plan_locations(m, e) != 0)
        return -1;
    return merge_plan_facts(m, e) != 0 ? -1 : check_strings(m, e);
}
