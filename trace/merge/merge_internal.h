#pragma once

/* Shared by the files of the merge: the tables of the inputs and the mapping of their numbers. */

#include "base/map.h"
#include "base/pageable.h"
#include "base/vec.h"
#include "trace/filter/convert.h"
#include "trace/merge/merge.h"
#include "trace/merge/merge_step.h"
#include "trace/store/spill.h"
#include "trace/store/strings.h"

/* Times have 48 bits (server/TracyEvent.hpp Int48 @ v0.14.0). */
#define MERGE_TIME_MAX ((INT64_C(1) << 47) - 1)
#define MERGE_TIME_MIN (-(INT64_C(1) << 47))

/* Named things of which each input has a list. */
enum merge_kind {
    KIND_FRAME_SET,
    KIND_PLOT,
    KIND_POOL,
    KIND_LOCK,
    KIND_CATEGORY,
    KIND_CONTEXT,
    KIND_COUNT
};

struct merge_named {
    uint64_t key;     /* in the input: pointer, lock id or category; 0 for GPU contexts */
    uint64_t n;       /* events of a pool */
    uint32_t name;    /* merged string number; 0: none */
    uint64_t new_key; /* decided: the key in the output */
    uint32_t new_name;
    bool dropped;
};

typedef VEC(struct merge_named) merge_named_list;
typedef VEC(uint64_t) merge_id_list;
typedef VEC(struct rec_pair) merge_pair_list;
typedef VEC(uint16_t) merge_number_list;

/* A source file of an input, identified by path (a number in `aside`) and a hash of its content. */
struct merge_file {
    uint32_t path;
    uint64_t content;
    uint32_t new_path; /* decided: 0: left out, because the output has an equal file */
};

struct merge_input {
    struct merge *m;
    size_t number; /* index in the options */
    size_t index;  /* index in order of time */
    const char *name;
    struct trace_info info;

    /* Results of the first reading. Texts are numbers of merge.strings. */
    struct rec_header header; /* texts are in merge.aside */
    struct rec_crash crash;
    VEC(uint32_t) strings; /* by string of the input */
    struct map keys;       /* string key → number */
    struct map texts;      /* client pointer → number */
    merge_pair_list pointers;
    merge_pair_list thread_names; /* thread id, number */
    struct map named_threads;
    VEC(struct rec_external_name) external_names; /* with numbers as keys */
    merge_id_list local_threads;
    merge_id_list external_threads;
    VEC(struct rec_source_location) locations;
    VEC(struct rec_source_location) payloads;
    VEC(uint64_t) expands;
    merge_named_list named[KIND_COUNT];
    struct map categories; /* section category → 1 + its index in the list */
    struct map pools;      /* key → 1 + its index in the list, the first of equal ones */
    VEC(struct rec_string_ref) app_info;
    VEC(struct merge_file) files;
    uint64_t extras, callstacks, images;
    uint64_t key_tops[1024]; /* bit i: a message's key has i in its top 16 bits */
    struct map regions;      /* address >> MERGE_REGION_BITS of all data keyed by address */
    uint64_t last_region;

    /* Decisions. */
    int64_t position; /* ns from the start of the first input given to the start of this one */
    int64_t shift;    /* ns to add to its times */
    uint32_t label;   /* its program, in merge.aside */
    uint64_t key_tag, address_tag;
    uint64_t extra_base, callstack_base;
    struct map threads, pointer_map, location_map;
    merge_number_list local_map;
    merge_number_list external_map;
    VEC(int16_t) expand_map;
    VEC(int16_t) payload_map;

    /* State while writing. */
    struct step step;
    struct convert *convert;
    enum record_type at; /* the record before which it waits; REC_TYPE_COUNT: at its end */
    const void *rec;
    bool drop;               /* do not write the records of the current list */
    size_t next[KIND_COUNT]; /* things of each kind so far */
    size_t next_file;
    uint64_t next_image;
    const struct merge_named *pool;
    uint64_t extras_seen;
};

#define MERGE_REGION_BITS 20

/* Numbers taken in the output. */
struct merge_ids {
    struct map used;
    uint64_t made_up; /* numbers generated so far */
};

struct merge_pointer {
    uint64_t pointer;
    uint32_t text;
};

/* A frame image of an input, and its frame of the base set. */
struct merge_image {
    int64_t time; /* start of its frame, if that is not of the base set */
    uint64_t frame;
    uint32_t image; /* number in the input */
    uint32_t input; /* index in order of time */
};

struct merge_timed_message {
    int64_t time;
    struct rec_message message;
};

struct merge {
    const struct merge_options *options;
    const struct merge_source *source;
    struct merge_outcome *outcome;
    struct merge_input *inputs;
    struct merge_input **order; /* by start time */
    size_t n;
    struct merge_input *base; /* the input that provides the base set */

    struct pageable pageable; /* of all tables, the inputs' included */
    struct strings strings;   /* of the output */
    struct strings aside;     /* other texts to keep */
    struct merge_ids thread_ids, pointer_ids, location_ids;
    VEC(struct merge_pointer) pointers;
    VEC(struct rec_pair) thread_names;
    VEC(struct rec_external_name) external_names;
    merge_id_list local_threads;
    merge_id_list external_threads;
    VEC(struct rec_source_location) locations;
    VEC(struct rec_source_location) payloads;
    VEC(uint64_t) expands;
    VEC(struct rec_string_ref) app_info;
    struct rec_pools pools;
    uint64_t files;

    /* If more than one input has frame images: the kept ones, in order. */
    VEC(struct merge_image) images;
    VEC(int32_t) base_images; /* for the base set's input: image number → index in `images` */
    VEC(struct rec_pair) placed_images; /* frame of the base set, index in `images` */
    uint64_t base_frame;                /* frames of the base set written so far */
    size_t next_placed;

    struct record_sink out;
    struct convert *convert;
    void *scratch;
    size_t scratch_size;
    void *scratch_items; /* room for the data that a record refers to */
    size_t scratch_items_size;
    VEC(struct rec_zone_stat) stats; /* collected from all inputs */
    struct map stats_at;             /* source location → index there + 1 */
    struct spill messages, switches;
};

/* ---- merge_scan.c */

/* Reads the tables of an input. */
int merge_scan(struct merge *m, struct merge_input *in, struct err *e);

/* ---- merge_plan.c and its parts: decide the new numbers once all inputs were scanned */

int merge_plan(struct merge *m, struct err *e);
int merge_plan_times(struct merge *m, struct err *e);     /* merge_time.c: order, shifts, labels */
int merge_plan_locations(struct merge *m, struct err *e); /* merge_locations.c */
int merge_plan_names(struct merge *m, struct err *e);     /* merge_names.c: named things */
int merge_plan_facts(struct merge *m, struct err *e);     /* merge_facts.c: application info */

int merge_plan_images(struct merge *m, struct err *e); /* merge_images.c */

/* The string number of "TEXT (PROGRAM)". 0 with `e` on an error. */
uint32_t merge_labelled(struct merge *m, const struct merge_input *in, struct view text,
                        struct err *e);

/* A pointer that no input uses, bound to a text. 0 with `e` on an error. */
uint64_t merge_new_pointer(struct merge *m, uint32_t text, struct err *e);

/* Translates a thread id or client pointer of the input to the output. Returns 0 or -1. */
int merge_thread(struct merge_input *in, uint64_t *id, struct err *e);
int merge_pointer(struct merge_input *in, uint64_t *pointer, struct err *e);

/* Translates a string reference of the input to the output. */
int merge_ref(struct merge_input *in, struct rec_string_ref *ref, struct err *e);

/* Translates a string index (0: none) of the input to the output. */
static inline uint32_t merge_sidx(const struct merge_input *in, uint32_t index)
{
    return index == 0 || index > in->strings.len ? 0 : in->strings.at[index - 1];
}

/*
 * The value of `key` in `map`. A missing key gets `key` itself as its value. If that is taken, the
 * value gets other bits from `shift` on, or is any free number. Both `map` and `ids` record it.
 */
int merge_unused(struct map *map, struct merge_ids *ids, uint64_t key, unsigned shift,
                 uint64_t *out, struct err *e);

/* ---- merge_map.c */

/* Translates a batch of records of the input to the output and puts them. */
int merge_put_records(struct merge_input *in, enum record_type type, const void *recs, size_t n,
                      struct err *e);

/* ---- merge_lists.c: lists assembled from the tables of all inputs */

/* Puts the list of the root record `type`; *done is false for other lists. */
int merge_put_table(struct merge *m, enum record_type type, bool *done, struct err *e);

/* Puts a count record. */
int merge_put_count(struct merge *m, enum record_type type, uint64_t n, struct err *e);

/* ---- merge_images.c: frame images, when more than one input has some */

/* The output's number of the image of the input's next frame; -1: none. */
int32_t merge_frame_image(struct merge_input *in, int32_t image);

/* Puts the whole list. All inputs wait before their own list, and then before the list after it. */
int merge_put_images(struct merge *m, struct err *e);

static inline bool merge_has_crash(const struct merge_input *in)
{
    const struct rec_crash *c = &in->crash;
    return c->thread != 0 || c->time != 0 || c->message != 0 || c->callstack != 0;
}

/* ---- merge_write.c */

int merge_write(struct merge *m, struct trace_writer *writer, struct err *e);
