#include "cli/trace_code.h"

#include <elf.h>

#include "protocol/handshake.h"
#include "symbols/instructions.h"

static int walk(void *ctx, uint64_t address, struct view code,
                int (*line)(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e),
                void *to, struct err *e)
{
    return instructions_print(ctx, address, code, line, to, e);
}

static bool begin(struct disassembler *d, enum instruction_set set, unsigned unit)
{
    *d = (struct disassembler){instructions_new(set), walk, unit};
    return d->ctx != NULL;
}

bool trace_code_disassembler(struct disassembler *d, const struct trace *t)
{
    static const struct {
        enum instruction_set set;
        unsigned unit;
    } of[] = {[ARCH_X86] = {CODE_X86, 1},
              [ARCH_X64] = {CODE_X64, 1},
              [ARCH_ARM32] = {CODE_ARM32, 4},
              [ARCH_ARM64] = {CODE_ARM64, 4}};
    uint8_t arch = t->facts.cpu_arch;
    *d = (struct disassembler){0};
    if (arch == ARCH_UNKNOWN || arch >= sizeof of / sizeof of[0])
        return false;
    return begin(d, of[arch].set, of[arch].unit);
}

bool image_code_disassembler(struct disassembler *d, uint16_t machine, bool is_64)
{
    *d = (struct disassembler){0};
    switch (machine) {
    case EM_386:
        return begin(d, CODE_X86, 1);
    case EM_X86_64:
        return begin(d, CODE_X64, 1);
    case EM_ARM:
        return begin(d, CODE_ARM32, 4);
    case EM_AARCH64:
        return begin(d, CODE_ARM64, 4);
    case EM_RISCV:
        return is_64 && begin(d, CODE_RISCV64, 2);
    default:
        return false;
    }
}

void trace_code_release(struct disassembler *d)
{
    instructions_free(d->ctx);
    *d = (struct disassembler){0};
}
