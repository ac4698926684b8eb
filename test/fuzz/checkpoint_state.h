#ifndef TIDEMARK_TEST_FUZZ_CHECKPOINT_STATE_H
#define TIDEMARK_TEST_FUZZ_CHECKPOINT_STATE_H

/*
 * Inputs of fuzz_checkpoint: the plain bytes of a state, which a checkpoint has compressed behind a
 * check: behind a wrong check nothing would be reached. Client and questions are always these.
 */

#include <stdio.h>

#include "server/capture/intake.h"

#define CHECKPOINT_PROTOCOL 82u

static inline struct intake_start checkpoint_start(void)
{
    struct intake_start start = {.version = wire_version_find(CHECKPOINT_PROTOCOL),
                                 .ask = (1u << QUERY_KIND_COUNT) - 1,
                                 .space = 50,
                                 .welcome = {.timer_mul = 1, .pid = 42, .epoch = 1}};
    snprintf(start.welcome.program_name, sizeof start.welcome.program_name, "a program");
    return start;
}

#endif
