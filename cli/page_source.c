#include "cli/page_source.h"

#include "analysis/page_data.h"
#include "protocol/handshake.h"
#include "report/html.h"
#include "symbols/instructions.h"
#include "trace/load.h"

void page_source_init(struct page_source *p, struct trace *t)
{
    *p = (struct page_source){.trace = t};
    page_texts_init(&p->texts, t);
}

void page_source_release(struct page_source *p)
{
    page_texts_release(&p->texts);
}

int page_source_load(struct page_source *p, const char *path, struct err *e)
{
    const struct record_sink texts = {&p->texts, page_texts_put};
    bool wanted[REC_TYPE_COUNT];
    page_texts_wanted(wanted);
    const struct trace_load_options options = {.beside = &texts, .beside_wanted = wanted};
    return trace_load_with(p->trace, path, &options, NULL, NULL, e);
}

static int walk(void *ctx, uint64_t address, struct view code,
                int (*line)(void *to, uint64_t address, size_t size, const char *text,
                            struct err *e),
                void *to, struct err *e)
{
    return instructions_print(ctx, address, code, line, to, e);
}

/* NULL when the trace does not say which processor it is of, or there is no code to print. */
static struct instructions *disassembler_of(const struct trace *t)
{
    static const enum instruction_set sets[] = {[ARCH_X86] = CODE_X86,
                                                [ARCH_X64] = CODE_X64,
                                                [ARCH_ARM32] = CODE_ARM32,
                                                [ARCH_ARM64] = CODE_ARM64};
    uint8_t arch = t->facts.cpu_arch;
    bool known = arch != ARCH_UNKNOWN && arch < sizeof sets / sizeof sets[0];
    return known && t->symbol_codes.list.len ? instructions_new(sets[arch]) : NULL;
}

int page_source_write(struct page_source *p, const struct summary *s, const struct skiplist *skip,
                      FILE *out, struct err *e)
{
    struct page_data d;
    if (page_data_build(&d, p->trace, s, skip, e) != 0)
        return -1;
    struct instructions *in = disassembler_of(p->trace);
    const struct page_disassembler disassembler = {in, walk};
    int status = page_texts_build(&p->texts, &d, skip, in ? &disassembler : NULL, e);
    if (status == 0)
        status = html_write(&d, &p->texts, out, e);
    instructions_free(in);
    page_data_release(&d);
    return status;
}
