#ifndef TIDEMARK_ANALYSIS_DUMP_DUMP_TABLES_H
#define TIDEMARK_ANALYSIS_DUMP_DUMP_TABLES_H

/*
 * The first pass of a dump: what the numbers of a file stand for. Lookups take any number, since
 * the file may have changed between the passes: what is out of bounds is nothing. For analysis/.
 */

#include "analysis/dump/dump.h"
#include "analysis/dump/dump_extras.h"
#include "base/map.h"
#include "base/vec.h"

/* A part of a buffer. */
struct slice {
    size_t at, len;
};

struct dump_gpu_context {
    struct slice fields; /* rendered */
    size_t number;       /* in the file */
};

struct dump_tables {
    const struct dump_format *format;
    const struct file_layout *layout; /* of the records: that of the trace or of --common */
    struct buf bytes;                 /* what slices are parts of */
    VEC(struct slice) strings;
    struct map string_keys; /* key → number in strings */
    struct map pointers;    /* client pointer → rank << 32 | number in strings */
    VEC(uint64_t) local_threads;
    VEC(uint64_t) external_threads;
    struct map location_numbers;    /* client pointer → number in locations */
    VEC(struct slice) locations;    /* rendered fields */
    VEC(uint64_t) location_expands; /* client pointers */
    VEC(struct slice) payloads;     /* rendered fields */
    struct dump_extras extras;
    VEC(uint64_t) callstacks; /* hashes of their frames */
    VEC(uint64_t) frames;     /* of the call stack at hand */
    struct map custom_frames; /* frame id → hash of what it stands for */
    bool custom_stacks;       /* some call stack has such a frame */
    VEC(uint64_t) images;     /* hashes */
    VEC(struct dump_gpu_context) gpu_contexts;
    VEC(uint32_t) gpu_ranks; /* by number in the file */
};

void dump_tables_init(struct dump_tables *t, const struct dump_options *options);

/* Reads them. `images`: those of frame images, too. */
int dump_tables_read(struct dump_tables *t, const struct dump_source *source, bool images,
                     struct err *e);
void dump_tables_release(struct dump_tables *t);

/* Texts: false when there is none. */
bool dump_string(const struct dump_tables *t, uint64_t number, struct view *text); /* from 0 */
bool dump_text_of_key(const struct dump_tables *t, uint64_t key, struct view *text);
bool dump_text_at(const struct dump_tables *t, uint64_t pointer, struct view *text);

/* Where the text at a pointer stands among all of them, from 1; 0: it has none. */
uint32_t dump_rank(const struct dump_tables *t, uint64_t pointer);

/* Rendered fields of a source location, empty when there is none. */
struct view dump_location(const struct dump_tables *t, int16_t srcloc);

/*
 * The hash of a frame of a call stack that the client described itself (FRAME_ID_CUSTOM); the frame
 * itself when its description is missing.
 */
uint64_t dump_custom_frame(const struct dump_tables *t, uint64_t frame);

uint64_t dump_hash(struct view bytes);
uint64_t dump_image_hash(const struct rec_frame_image *r);

#define DUMP_HASH_SIZE 17
/* Writes 16 hexadecimal digits to `out` and returns it. */
const char *dump_hash_text(uint64_t hash, char out[DUMP_HASH_SIZE]);

/* Fields, as dump_format has them, of what records refer to. All leave out what is not there. */
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

#endif
