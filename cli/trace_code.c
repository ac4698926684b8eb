#include "cli/trace_code.h"

#include "protocol/handshake.h"
#include "symbols/instructions.h"

static int walk(void *ctx, uint64_t address, struct view code,
                int (*line)(void *to, uint64_t address, size_t size, const char *text,
                            struct err *e),
                void *to, struct err *e)
{
    return instructions_print(ctx, address, code, line, to, e);
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
    *d = (struct disassembler){instructions_new(of[arch].set), walk, of[arch].unit};
    return d->ctx != NULL;
}

void trace_code_release(struct disassembler *d)
{
    instructions_free(d->ctx);
    *d = (struct disassembler){0};
}
