#pragma once

/*
 * The line formats of a dump. Text: the section's name and NAME=VALUE pairs, texts in double quotes
 * with escapes. JSON: one object per line, "section" first. Both are exact: different values give
 * different lines.
 */

#include "analysis/dump/dump.h"

extern const struct dump_format dump_format_text;
extern const struct dump_format dump_format_jsonl;
