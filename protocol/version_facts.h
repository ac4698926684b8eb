#pragma once

/*
 * Facts about each protocol number that are not in queue-items.tsv; only the generated table
 * includes this file. The file version is the lowest that the GUI family of that client reads.
 * Source: TracyProtocol.hpp, TracyVersion.hpp and TracyWorker.cpp of the trees with each number.
 */

#include "protocol/wire_version.h"

/* Codes of TracyProtocol.hpp ServerQuery; 66 permuted 8 to 10. */
#define QUERY_CODES(EXTERNAL_NAME, DISCONNECT, CALLSTACK_FRAME)                                    \
    {                                                                                              \
        [QUERY_TERMINATE] = 0, [QUERY_STRING] = 1, [QUERY_THREAD] = 2,                             \
        [QUERY_SOURCE_LOCATION] = 3, [QUERY_PLOT_NAME] = 4, [QUERY_FRAME_NAME] = 5,                \
        [QUERY_PARAMETER] = 6, [QUERY_FIBER_NAME] = 7, [QUERY_EXTERNAL_NAME] = (EXTERNAL_NAME),    \
        [QUERY_DISCONNECT] = (DISCONNECT), [QUERY_CALLSTACK_FRAME] = (CALLSTACK_FRAME),            \
        [QUERY_SYMBOL] = 11, [QUERY_SYMBOL_CODE] = 12, [QUERY_SOURCE_CODE] = 13,                   \
        [QUERY_DATA_TRANSFER] = 14, [QUERY_DATA_TRANSFER_PART] = 15                                \
    }
#define CODES_63 QUERY_CODES(10, 8, 9)
#define CODES_66 QUERY_CODES(8, 9, 10)

#define DELAY true
#define NO_DELAY false
#define PRIO true
#define NO_PRIO false
/* How servers print a zone's value: changed within 72, by commit 8f25eaf5. */
#define DECIMAL false
#define HEX true
/* Up to 65, samples do not extend a trace, and the client reads code without a check. */
#define BEFORE_66 true, false, false, false, false
#define SINCE_66 false, true, false, false, false
/*
 * Clients without code transfer have no source texts either: commit 5d2c3533. The last two facts
 * describe the server after v0.14.0 (ProcessMemAllocImpl, ProcessPlotConfig), which kept the
 * number.
 */
#define SINCE_82 false, true, true, true, true
#define RELEASE(TEXT) TEXT, false
#define BETWEEN(TEXT) TEXT, true

/* clang-format off */
#define WIRE_FACTS_63 {RELEASE("v0.9, v0.9.1"), DELAY, NO_PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_63, {0, 9, 0}, BEFORE_66}
#define WIRE_FACTS_64 {RELEASE("v0.10"), DELAY, NO_PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_63, {0, 10, 0}, BEFORE_66}
#define WIRE_FACTS_65 {BETWEEN("development, October 2023 to February 2024"), DELAY, NO_PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_63, {0, 10, 0}, BEFORE_66}
#define WIRE_FACTS_66 {RELEASE("v0.11.0"), DELAY, PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_66, {0, 11, 0}, SINCE_66}
#define WIRE_FACTS_67 {BETWEEN("development, August 2024"), DELAY, PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_66, {0, 11, 1}, SINCE_66}
#define WIRE_FACTS_68 {BETWEEN("development, August 2024"), DELAY, PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_66, {0, 11, 1}, SINCE_66}
#define WIRE_FACTS_69 {RELEASE("v0.11.1"), DELAY, PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_66, {0, 11, 1}, SINCE_66}
#define WIRE_FACTS_70 {BETWEEN("development, September 2024"), DELAY, PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_66, {0, 11, 2}, SINCE_66}
#define WIRE_FACTS_71 {BETWEEN("development, October 2024"), DELAY, PRIO, \
                       DECIMAL, LITERAL_PLAIN, CODES_66, {0, 11, 2}, SINCE_66}
#define WIRE_FACTS_72 {BETWEEN("development, October 2024 to May 2025; IREE"), DELAY, PRIO, \
                       HEX, LITERAL_PLAIN, CODES_66, {0, 11, 2}, SINCE_66}
#define WIRE_FACTS_73 {BETWEEN("development, May 2025"), DELAY, PRIO, \
                       HEX, LITERAL_PLAIN, CODES_66, {0, 11, 3}, SINCE_66}
#define WIRE_FACTS_74 {RELEASE("v0.12.0 to v0.12.2"), DELAY, PRIO, \
                       HEX, LITERAL_PLAIN, CODES_66, {0, 12, 0}, SINCE_66}
#define WIRE_FACTS_75 {BETWEEN("development, July 2025"), NO_DELAY, PRIO, \
                       HEX, LITERAL_PLAIN, CODES_66, {0, 12, 3}, SINCE_66}
#define WIRE_FACTS_76 {RELEASE("v0.13.0, v0.13.1"), NO_DELAY, PRIO, \
                       HEX, LITERAL_PLAIN, CODES_66, {0, 13, 0}, SINCE_66}
#define WIRE_FACTS_77 {BETWEEN("development, December 2025 to May 2026"), NO_DELAY, PRIO, \
                       HEX, LITERAL_TAG_HIGH, CODES_66, {0, 13, 2}, SINCE_66}
#define WIRE_FACTS_78 {BETWEEN("development, May to June 2026"), NO_DELAY, PRIO, \
                       HEX, LITERAL_TAG_HIGH, CODES_66, {0, 13, 3}, SINCE_66}
#define WIRE_FACTS_79 {BETWEEN("development, June 2026"), NO_DELAY, PRIO, \
                       HEX, LITERAL_TAG_LOW, CODES_66, {0, 13, 3}, SINCE_66}
#define WIRE_FACTS_80 {BETWEEN("development, June 2026"), NO_DELAY, PRIO, \
                       HEX, LITERAL_TAG_LOW, CODES_66, {0, 13, 3}, SINCE_66}
#define WIRE_FACTS_81 {BETWEEN("development, June to July 2026"), NO_DELAY, PRIO, \
                       HEX, LITERAL_TAG_LOW, CODES_66, {0, 13, 4}, SINCE_66}
#define WIRE_FACTS_82 {RELEASE("v0.14.0"), NO_DELAY, PRIO, \
                       HEX, LITERAL_TAG_LOW, CODES_66, {0, 14, 0}, SINCE_82}
/* clang-format on */
