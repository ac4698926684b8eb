/*
 * Any bytes as machine code of each processor: instructions lie within the code, one behind the
 * other, and the receiver can end the walk.
 */

#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "symbols/instructions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD 10u /* processor, when to stop, address */

struct told {
    uint64_t address, next; /* of the code; where the next instruction may begin at least */
    size_t len, n, most;
    size_t instructions;
};

static int found(void *ctx, uint64_t address, struct err *e)
{
    struct told *t = ctx;
    uint64_t offset = address - t->address;
    if (t->n++ >= t->most)
        return err_set(e, ERR_INPUT, "enough");
    /* What is not the next instruction is where the one before leads. */
    if (offset < t->len && offset >= t->next) {
        t->next = offset + 1;
        t->instructions++;
    }
    return 0;
}

struct printed {
    uint64_t next;
    size_t len; /* bytes printed */
};

static int print(void *ctx, uint64_t address, size_t size, const char *text, bool known,
                 struct err *e)
{
    struct printed *p = ctx;
    (void)e;
    if (address != p->next || size == 0 || size > 15 || !text[0] || known != (text[0] != '.'))
        abort();
    p->next += size;
    p->len += size;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct instructions *sets[CODE_RISCV64 + 1];
    struct err e = {0};
    if (size < HEAD)
        return 0;
    unsigned set = data[0] % (CODE_RISCV64 + 1);
    if (!sets[set])
        sets[set] = instructions_new((enum instruction_set)set);
    if (!sets[set] && set == CODE_RISCV64)
        return 0; /* Capstone 4 */
    if (!sets[set])
        abort();
    struct view code = {(const char *)data + HEAD, size - HEAD};
    struct told t = {
        .address = load_u64(data + 2), .len = code.len, .most = data[1] == 0 ? SIZE_MAX : data[1]};
    int status = instructions_walk(sets[set], t.address, code, found, &t, &e);
    if ((status != 0) != (t.n > t.most) || (status != 0) != (e.code == ERR_INPUT))
        abort();
    if (t.n > 2 * code.len || (t.n > 0 && t.instructions == 0))
        abort();
    struct printed p = {.next = t.address};
    if (instructions_print(sets[set], t.address, code, print, &p, &e) != 0 || p.len > code.len)
        abort();
    return 0;
}
