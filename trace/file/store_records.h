#pragma once

/*
 * Records that the store takes and gives as they are. They are apart from record.h, whose names
 * client/recording_format.h has for others.
 */

#include <stdint.h>

/* Bytes of a memory event in files of any version: x_memory_event in codec.c. */
#define MEMORY_EVENT_SIZE 42u

struct rec_memory_event {
    uint64_t ptr;
    uint64_t size;
    int64_t time_alloc;
    int64_t time_free; /* NEVER_FREED: still active */
    uint32_t callstack_alloc;
    uint32_t callstack_free;
    uint16_t thread_alloc; /* local thread index */
    uint16_t thread_free;
};

struct rec_inline_frame {
    uint32_t function; /* sidx, in the store a string number */
    uint32_t file;     /* as well */
    uint32_t line;
    uint64_t symbol; /* address of the function's symbol; 0: unknown */
};
