#pragma once

#include "cli/selftest/selftest_run.h"

/*
 * Checks what this machine and this build support beside a capture, and prints a line on each, with
 * the reason where something is missing. `trace` is a valid trace. Call it before there are
 * threads.
 */
void selftest_machine(struct selftest_run *r, const char *trace);
