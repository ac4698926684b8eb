#pragma once

/*
 * The range of time between two messages of a trace: from the first that matches one expression to
 * the first at or after it that matches another. An expression is a part of a message's text, byte
 * for byte; between slashes, as in "/^End/", it is a Perl-compatible regular expression.
 */

#include <stdint.h>

#include "base/err.h"

struct message_range {
    int64_t begin, end; /* ns: times of the two messages */
    uint64_t starts;    /* number of messages that match the first expression */
};

/*
 * Reads the file up to its messages; memory grows with its names. Returns 0, or -1 with `e`:
 * ERR_USAGE if no message matches (the text lists some of the existing ones) or an expression is
 * invalid; otherwise an error of reading.
 */
int message_range_find(const char *path, const char *from, const char *to,
                       struct message_range *range, struct err *e);
