#include "import/torch_live.h"

void torch_live_release(struct torch_live *l)
{
    map_release(&l->by_address);
    vec_release(&l->list);
}

struct torch_block *torch_live_find(const struct torch_live *l, uint64_t address)
{
    const uint64_t *index = map_find(&l->by_address, address);
    return index ? &l->list.at[*index] : NULL;
}

int torch_live_add(struct torch_live *l, const struct torch_block *block, struct err *e)
{
    uint64_t *index = map_add(&l->by_address, block->address, NULL);
    if (!index)
        return err_no_memory(e, "live blocks");
    if (l->unused) {
        *index = l->unused - 1;
        l->unused = l->list.at[*index].next;
    } else {
        if (l->list.len == UINT32_MAX - 1)
            return err_set(e, ERR_INPUT, "too many live blocks");
        *index = l->list.len;
        if (!vec_push(&l->list, *block))
            return err_no_memory(e, "live blocks");
    }
    l->list.at[*index] = *block;
    l->list.at[*index].used = true;
    l->bytes += block->size;
    return 0;
}

void torch_live_remove(struct torch_live *l, struct torch_block *block)
{
    l->bytes -= block->size;
    map_remove(&l->by_address, block->address);
    block->used = false;
    block->next = l->unused;
    l->unused = (uint32_t)(block - l->list.at) + 1;
}
