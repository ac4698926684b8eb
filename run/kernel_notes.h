#pragma once

/*
 * What the kernel counted of a recorded process, looks at its pages, and its cgroups, on disk
 * beside its recording while it runs: a trace recovered after a kill of `tidemark run` has them.
 * The name is that of the recording and KERNEL_NOTES_ENDING. Times are of CLOCK_MONOTONIC.
 *
 * The file is a list of notes: u32 kind, u32 bytes, and so many bytes, all little-endian. A
 * reading: i64 time, u32 known (process_memory.h), and an f64 for each bit of it, the lowest first.
 * A look: as page_looks_encode writes a list of one. A cgroup: as process_memory_note writes it.
 */

#include "proc/process_memory.h"
#include "trace/store/page_look.h"

#define KERNEL_NOTES_ENDING ".kernel"

/* The writer. */
struct kernel_notes {
    int fd; /* -1: none; also after an error, from which on nothing is written */
    uint64_t size;
};

#define KERNEL_NOTES_NONE ((struct kernel_notes){.fd = -1})

/* ERR_OUTPUT. */
int kernel_notes_open(struct kernel_notes *n, const char *recording, struct err *e);
void kernel_notes_close(struct kernel_notes *n);

/* Without an open file they do nothing. ERR_OUTPUT: the file has only what was written before. */
int kernel_notes_add_reading(struct kernel_notes *n, const struct memory_reading *r, struct err *e);
int kernel_notes_add_look(struct kernel_notes *n, const struct page_look *look, struct err *e);
int kernel_notes_add_cgroup(struct kernel_notes *n, const struct process_memory *of, struct err *e);

/* One of them: `kind` says which. */
struct kernel_note {
    enum kernel_note_kind { NOTE_READING, NOTE_LOOK, NOTE_CGROUP } kind;
    struct memory_reading reading;
    struct page_look look; /* which a taker may move elsewhere and leave empty */
    struct view cgroup;    /* process_memory_from_note; valid during the call only */
};

typedef int kernel_notes_taker(void *ctx, struct kernel_note *note, struct err *e);

/*
 * Reads all notes of a file. The last one may be torn: it is what the writer was killed at.
 * ERR_INPUT, with the offset, for other malformed bytes.
 */
int kernel_notes_read(int fd, kernel_notes_taker *take, void *ctx, struct err *e);
