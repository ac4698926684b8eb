#pragma once

/* Formats numbers as text for output of millions of lines, without the overhead of printf. */

#include <stdint.h>

#include "base/buf.h"

/* The most bytes that any of these numbers needs. */
#define DIGITS_ROOM 336

/* Decimal. Returns the end of the text; writes no NUL. */
char *digits_u64(char *to, uint64_t n);
char *digits_i64(char *to, int64_t n);

/* Hexadecimal, without "0x". */
char *digits_hex(char *to, uint64_t n);

/* Like printf's "%f" in the C locale: six decimals, correctly rounded. */
char *digits_f64(char *to, double x);

/* The same, appended to a buffer. */
void digits_put_u64(struct buf *b, uint64_t n);
void digits_put_i64(struct buf *b, int64_t n);
void digits_put_address(struct buf *b, uint64_t n); /* with "0x" */
