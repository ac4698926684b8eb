#include "symbols/instructions.h"

#include <capstone/capstone.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/library.h"
#include "symbols/x86_encoding.h"
#include "symbols/x86_misread.h"

#define TEXT_OF(X) #X
#define NUMBER_TEXT(X) TEXT_OF(X)
#define ARM_LENGTH 4u /* bytes of every instruction, except in Thumb code */
#define CAPSTONE "libcapstone.so." NUMBER_TEXT(CS_API_MAJOR)

/*
 * Capstone is loaded on first use: relocating its tables takes as long as loading the rest of the
 * program.
 */
struct capstone {
    void *handle;
    __typeof__(cs_open) *open;
    __typeof__(cs_close) *close;
    __typeof__(cs_option) *option;
    __typeof__(cs_malloc) *malloc;
    __typeof__(cs_free) *free;
    __typeof__(cs_disasm_iter) *disasm_iter;
};

struct instructions {
    struct capstone capstone;
    enum instruction_set set;
    csh handle;
    cs_insn *one; /* reused for each instruction */
};

static bool load(struct capstone *c)
{
    const struct library_function functions[] = {
        LIBRARY_FUNCTION(cs_open, &c->open),     LIBRARY_FUNCTION(cs_close, &c->close),
        LIBRARY_FUNCTION(cs_option, &c->option), LIBRARY_FUNCTION(cs_malloc, &c->malloc),
        LIBRARY_FUNCTION(cs_free, &c->free),     LIBRARY_FUNCTION(cs_disasm_iter, &c->disasm_iter),
    };
    c->handle = library_load(CAPSTONE, functions, sizeof functions / sizeof *functions);
    return c->handle != NULL;
}

void instructions_load(void)
{
    struct capstone c;
    (void)load(&c);
}

static cs_err open_handle(const struct capstone *c, enum instruction_set set, csh *handle)
{
    switch (set) {
    case CODE_X86:
        return c->open(CS_ARCH_X86, CS_MODE_32, handle);
    case CODE_X64:
        return c->open(CS_ARCH_X86, CS_MODE_64, handle);
    case CODE_ARM32:
        return c->open(CS_ARCH_ARM, CS_MODE_ARM, handle);
    case CODE_ARM64:
        return c->open(CS_ARCH_ARM64, CS_MODE_ARM, handle);
    case CODE_RISCV64:
#if CS_API_MAJOR >= 5
        return c->open(CS_ARCH_RISCV, CS_MODE_RISCV64 | CS_MODE_RISCVC, handle);
#endif
        break;
    }
    return CS_ERR_ARCH;
}

struct instructions *instructions_new(enum instruction_set set)
{
    struct instructions *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->set = set;
    const struct capstone *c = &in->capstone;
    if (load(&in->capstone) && open_handle(c, set, &in->handle) == CS_ERR_OK &&
        c->option(in->handle, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK)
        in->one = c->malloc(in->handle);
    if (in->one)
        return in;
    instructions_free(in);
    return NULL;
}

void instructions_free(struct instructions *in)
{
    if (!in)
        return;
    if (in->one)
        in->capstone.free(in->one, 1);
    if (in->handle)
        in->capstone.close(&in->handle);
    library_unload(in->capstone.handle);
    free(in);
}

static bool leads_away(const cs_detail *detail)
{
    for (unsigned i = 0; i < detail->groups_count; i++) {
        if (detail->groups[i] == CS_GRP_JUMP || detail->groups[i] == CS_GRP_CALL)
            return true;
    }
    return false;
}

/* The address that a jump or call names, or 0. */
static uint64_t target(const struct instructions *in)
{
    const cs_detail *detail = in->one->detail;
    if (!leads_away(detail))
        return 0;
    switch (in->set) {
    case CODE_X86:
    case CODE_X64: {
        const cs_x86 *x86 = &detail->x86;
        bool named = x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM;
        return named ? (uint64_t)x86->operands[0].imm : 0;
    }
    case CODE_ARM32: {
        const cs_arm *arm = &detail->arm;
        bool named = arm->op_count == 1 && arm->operands[0].type == ARM_OP_IMM;
        return named ? (uint32_t)arm->operands[0].imm : 0;
    }
    case CODE_ARM64: {
        const cs_arm64 *arm64 = &detail->arm64;
        bool named = arm64->op_count == 1 && arm64->operands[0].type == ARM64_OP_IMM;
        return named ? (uint64_t)arm64->operands[0].imm : 0;
    }
    case CODE_RISCV64: {
#if CS_API_MAJOR >= 5
        /* The last operand is a distance, but for jalr: an offset to a register. */
        const cs_riscv *riscv = &detail->riscv;
        const cs_riscv_op *last = &riscv->operands[riscv->op_count ? riscv->op_count - 1 : 0];
        bool named = riscv->op_count && last->type == RISCV_OP_IMM && in->one->id != RISCV_INS_JALR;
        return named ? in->one->address + (uint64_t)last->imm : 0;
#endif
    }
    }
    return 0;
}

/*
 * The length in bytes of a RISC-V instruction by its first bits, or 0 if it is cut off or longer
 * than 8 bytes. Source: the instruction set manual, volume 1, "Expanded Instruction-Length
 * Encoding".
 */
static size_t riscv_length(struct view code)
{
    unsigned first = code.len < 2 ? 0x7f : load_u16(code.p);
    size_t length = (first & 0x03) != 0x03   ? 2
                    : (first & 0x1f) != 0x1f ? 4
                    : (first & 0x3f) != 0x3f ? 6
                    : (first & 0x7f) != 0x7f ? 8
                                             : 0;
    return length <= code.len ? length : 0;
}

enum found { NO_INSTRUCTION, UNKNOWN_INSTRUCTION, KNOWN_INSTRUCTION };

/*
 * The length in bytes of the instruction at the start of `code`, or 0 if there is none. Sets
 * `misread` if the disassembler would decode it as another instruction.
 */
static size_t measure(const struct instructions *in, struct view code, bool *misread)
{
    struct x86_encoding x;
    *misread = false;
    if (in->set == CODE_ARM32 || in->set == CODE_ARM64)
        return code.len < ARM_LENGTH ? 0 : ARM_LENGTH;
    if (in->set == CODE_RISCV64)
        return riscv_length(code);
    if (!x86_encoding_read(&x, code, in->set == CODE_X64))
        return 0;
    *misread = x86_is_misread(&x);
    return x.length;
}

/*
 * Reads the instruction at the start of `code` and advances `code` past it. The disassembler's
 * result is used only if both agree on the length.
 */
static enum found next(struct instructions *in, uint64_t *address, struct view *code, size_t *size)
{
    const uint8_t *p = (const uint8_t *)code->p;
    size_t left = code->len;
    uint64_t at = *address;
    bool misread;
    *size = measure(in, *code, &misread);
    if (*size == 0)
        return NO_INSTRUCTION;
    code->p += *size;
    code->len -= *size;
    *address += *size;
    if (misread || !in->capstone.disasm_iter(in->handle, &p, &left, &at, in->one))
        return UNKNOWN_INSTRUCTION;
    return in->one->size == *size ? KNOWN_INSTRUCTION : UNKNOWN_INSTRUCTION;
}

int instructions_walk(struct instructions *in, uint64_t address, struct view code,
                      int (*found)(void *ctx, uint64_t address, struct err *e), void *ctx,
                      struct err *e)
{
    enum found kind;
    size_t size;
    while ((kind = next(in, &address, &code, &size)) != NO_INSTRUCTION) {
        uint64_t to = kind == KNOWN_INSTRUCTION ? target(in) : 0;
        if (found(ctx, address - size, e) != 0 || (to && found(ctx, to, e) != 0))
            return -1;
    }
    return 0;
}

/* Formats the bytes of an instruction as assembler data; `room` fits the longest instruction. */
static void format_bytes(const struct instructions *in, const char *p, size_t size, char *text,
                         size_t room)
{
    if (in->set == CODE_ARM32 || in->set == CODE_ARM64) {
        snprintf(text, room, ".word 0x%08" PRIx32, load_u32(p));
        return;
    }
    size_t used = 0;
    for (size_t i = 0; i < size && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s0x%02x", i == 0 ? ".byte " : ",",
                                 (unsigned char)p[i]);
}

/* The disassembler's text; where it has the distance of a jump, its target. */
static void format_instruction(const struct instructions *in, char *text, size_t room)
{
    const char *operands = in->one->op_str;
    uint64_t to = in->set == CODE_RISCV64 ? target(in) : 0;
    const char *last = strrchr(operands, ' ');
    size_t kept = last ? (size_t)(last + 1 - operands) : 0;
    if (to)
        snprintf(text, room, "%s %.*s0x%" PRIx64, in->one->mnemonic, (int)kept, operands, to);
    else
        snprintf(text, room, "%s%s%s", in->one->mnemonic, operands[0] ? " " : "", operands);
}

int instructions_print(struct instructions *in, uint64_t address, struct view code,
                       int (*line)(void *ctx, uint64_t address, size_t size, const char *text,
                                   bool known, struct err *e),
                       void *ctx, struct err *e)
{
    char text[sizeof in->one->mnemonic + sizeof in->one->op_str + 20]; /* and a target */
    enum found kind;
    size_t size;
    while ((kind = next(in, &address, &code, &size)) != NO_INSTRUCTION) {
        bool known = kind == KNOWN_INSTRUCTION;
        if (!known)
            format_bytes(in, code.p - size, size, text, sizeof text);
        else
            format_instruction(in, text, sizeof text);
        if (line(ctx, address - size, size, text, known, e) != 0)
            return -1;
    }
    return 0;
}
