/* Any text as an expression for budgets: it is refused, or its evaluation ends. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/questions/budget.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double figure(void *ctx, const struct budget_term *t, enum budget_side side)
{
    const struct budget_names names = {.pool = view_of("default"),
                                       .site = view_of("parse(int)"),
                                       .file = view_of("a.cpp"),
                                       .image = {"", 0}};
    ++*(unsigned *)ctx;
    return budget_term_takes(t, &names, UINT32_MAX) ? (side == BUDGET_BASE ? 1000 : 1050) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct budget b;
    struct err e = {0};
    struct buf why = {0};
    unsigned asked = 0;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    if (budget_parse(&b, text, &e) == 0) {
        bool first = budget_holds(&b, figure, &asked, &why);
        if (asked == 0 || first != budget_holds(&b, figure, &asked, &why))
            abort();
        budget_release(&b);
    } else if (e.code != ERR_USAGE || e.text[0] == 0) {
        abort();
    }
    buf_release(&why);
    free(text);
    return 0;
}
