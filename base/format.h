#pragma once

/*
 * Formats numbers and untrusted text for people, and parses numbers that people write. Text from a
 * trace is untrusted: it reaches a terminal or a JSON document only through these functions.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"

#define FORMAT_SIZE 48

/* "17,808". All format functions write to `out` and return it. */
const char *format_count(char out[FORMAT_SIZE], uint64_t n);

/* "1 allocation", "17,808 allocations"; `noun` is a singular whose plural adds an s. */
const char *format_counted(char out[FORMAT_SIZE], uint64_t n, const char *noun);

/* Bytes with a binary unit: "512 B", "7.87 KiB", "16.0 EiB". At most four digits. */
const char *format_bytes(char out[FORMAT_SIZE], uint64_t bytes);

/* "7.87 KiB (8,063)", or "512 bytes" below 1 KiB. */
const char *format_bytes_exact(char out[FORMAT_SIZE], uint64_t bytes);

/* Nanoseconds: "318 ns", "4.21 ms", "1.250 s", "2 min 05.1 s", "3 h 12 min". */
const char *format_duration(char out[FORMAT_SIZE], int64_t ns);

/* As format_duration; with more digits, "1.02805 s", if times `step` ns apart would look alike. */
const char *format_time_near(char out[FORMAT_SIZE], int64_t ns, uint64_t step);

/*
 * Seconds since 1970 in UTC: "2026-08-04T10:12:33Z"; "unknown" for 0 and for values out of range.
 */
const char *format_date(char out[FORMAT_SIZE], uint64_t unix_seconds);

/* `part` of `whole` as "97.3 %"; "-" when `whole` is 0. Never rounds up to 100 or down to 0. */
const char *format_percent(char out[FORMAT_SIZE], uint64_t part, uint64_t whole);

/*
 * Appends text for a terminal. Well-formed printable UTF-8 stays; control characters, stray bytes
 * and characters that reorder or hide text (C1, bidirectional controls, zero-width) become \xNN or
 * \u{NNNN}. Backslashes are not escaped.
 */
void format_terminal(struct buf *out, struct view text);

/* Appends text as well-formed UTF-8 with each stray byte replaced by U+FFFD, for JSON. */
void format_utf8(struct buf *out, struct view text);

/* The width of well-formed UTF-8 in columns, one per character. */
size_t format_width(struct view text);

/*
 * Parses a size such as "4096", "64K", "1.5 MiB", "2G" (units of 1024; K, KB and KiB are the same).
 * Invalid text is ERR_USAGE; `what` names the option.
 */
int format_parse_bytes(const char *what, const char *text, uint64_t *bytes, struct err *e);

/* Parses a decimal number, with or without "," between thousands. */
int format_parse_count(const char *what, const char *text, uint64_t *n, struct err *e);
