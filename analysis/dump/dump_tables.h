#pragma once

/*
 * The first pass of a dump: resolves the references of a file. Lookups accept any number, since the
 * file may have changed between the passes: out of bounds means absent. For analysis/.
 */

#include "analysis/dump/dump.h"
#include "analysis/dump/dump_extras.h"
#include "base/line_sort.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/vec.h"
#include "trace/store/strings.h"

/*
 * No client sends a longer text. A dump has length and hash of longer ones, so that a line does not
 * take hundreds of MiB.
 */
#define DUMP_TEXT_MAX ((size_t)64 << 10)

struct dump_tables {
    const struct dump_format *format;
    const struct file_layout *layout; /* of the records: that of the trace or of --common */
    struct pageable pageable;         /* of tables that grow with the file */
    struct strings strings;
    struct map string_keys; /* key → string number */
    struct map long_texts;  /* string number → hash, of those above DUMP_TEXT_MAX */
    struct map pointers;    /* client pointer → rank << 32 | string number */
    VEC(uint64_t) local_threads;
    VEC(uint64_t) external_threads;
    struct map location_numbers; /* client pointer → number in locations */
    VEC(struct rec_source_location) locations;
    VEC(uint64_t) location_expands; /* client pointers */
    VEC(struct rec_source_location) payloads;
    struct dump_extras extras;
    VEC(uint64_t) callstacks;  /* hashes of their frames */
    VEC(uint64_t) frames;      /* of the current call stack */
    struct map custom_frames;  /* frame id → hash of its description */
    bool custom_stacks;        /* some call stack has such a frame */
    VEC(uint64_t) images;      /* hashes */
    struct line_sort gpu_sort; /* rendered contexts, each with its number in the file */
    uint64_t gpu_contexts;
    VEC(uint32_t) gpu_ranks; /* by number in the file */
};

/* `t` must not be moved. */
void dump_tables_init(struct dump_tables *t, const struct dump_options *options);

/* Reads the tables. `images`: also those of frame images. */
int dump_tables_read(struct dump_tables *t, const struct dump_source *source, bool images,
                     struct err *e);
void dump_tables_release(struct dump_tables *t);

/* String numbers, 0 if there is none: of a key, of a reference. */
uint32_t dump_string_of_key(const struct dump_tables *t, uint64_t key);
uint32_t dump_string_of(const struct dump_tables *t, const struct rec_string_ref *ref);

/* The rank of the text at a pointer among all texts, from 1; 0: it has none. */
uint32_t dump_rank(const struct dump_tables *t, uint64_t pointer);

/* NULL if there is none. */
const struct rec_source_location *dump_location(const struct dump_tables *t, int16_t srcloc);

/*
 * The hash of a frame described by the client (FRAME_ID_CUSTOM); the frame itself if its
 * description is missing.
 */
uint64_t dump_custom_frame(const struct dump_tables *t, uint64_t frame);

uint64_t dump_hash(struct view bytes);
uint64_t dump_image_hash(const struct rec_frame_image *r);

#define DUMP_HASH_SIZE 17
/* Writes 16 hexadecimal digits to `out` and returns it. */
const char *dump_hash_text(uint64_t hash, char out[DUMP_HASH_SIZE]);

/* A text as a field; for one above DUMP_TEXT_MAX the fields NAME_bytes and NAME_hash. */
void dump_field_text(const struct dump_tables *t, struct buf *out, const char *name,
                     struct view text);

/* Appends fields in dump_format for the targets of references. Missing values are left out. */
void dump_field_string(const struct dump_tables *t, struct buf *out, const char *name,
                       uint32_t sidx);
void dump_field_pointer(const struct dump_tables *t, struct buf *out, const char *name,
                        uint64_t pointer);
void dump_field_ref(const struct dump_tables *t, struct buf *out, const char *name,
                    const struct rec_string_ref *ref);
void dump_field_callstack(const struct dump_tables *t, struct buf *out, const char *name,
                          uint32_t callstack);
void dump_field_hash(const struct dump_tables *t, struct buf *out, const char *name, uint64_t hash);
/* name, function, file, line, color */
void dump_fields_location(const struct dump_tables *t, struct buf *out,
                          const struct rec_source_location *r);
void dump_fields_gpu_context(const struct dump_tables *t, struct buf *out,
                             const struct rec_gpu_context *r);
