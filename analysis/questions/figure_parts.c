#include "analysis/questions/figure_parts.h"

#include "analysis/figures/figures_only.h"
#include "analysis/questions/histograms.h"
#include "analysis/questions/patterns.h"
#include "analysis/questions/stack_steps.h"
#include "analysis/questions/step_curve.h"

int figure_parts_begin(struct trace *t, struct err *e)
{
    static const struct figures_part *const parts[PART_COUNT] = {[PART_CURVE] = &step_curve_part,
                                                                 [PART_SIZES] = &histograms_part,
                                                                 [PART_STACKS] = &stack_steps_part,
                                                                 [PART_PATTERNS] = &patterns_part};
    return figures_only_begin(t, parts, PART_COUNT, e);
}
