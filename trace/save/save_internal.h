#pragma once

/*
 * Shared by the files of the save. Each listed function puts the records of one part of the file,
 * with the counts that precede them; save.c calls them in file order.
 */

#include "trace/file/record.h"
#include "trace/store/store.h"

struct saver {
    struct trace *t;
    const struct record_sink *sink;
    struct err *e;
    uint16_t *thread_places;  /* thread number → position in the file's table of local threads */
    uint16_t *places_threads; /* position → thread number */
    /*
     * The samples of a thread are stored together, usually after those of the previously saved
     * thread.
     */
    struct column_reader samples;
    const struct sample *sample; /* the next sample; samples_left - 1 follow it */
    size_t samples_left;
};

static inline int put(struct saver *s, enum record_type type, const void *rec)
{
    return record_put(s->sink, type, rec, 1, s->e);
}

static inline int put_count(struct saver *s, enum record_type type, uint64_t n)
{
    struct rec_count count = {n};
    return put(s, type, &count);
}

/* A string by its number; 0: none. */
static inline struct rec_string_ref ref_of(uint32_t number)
{
    return number ? (struct rec_string_ref){number - 1, STRING_REF_INDEX}
                  : (struct rec_string_ref){0};
}

/* A string by the client's pointer to it; 0: none. */
static inline struct rec_string_ref ref_at(uint64_t pointer)
{
    return pointer ? (struct rec_string_ref){pointer, STRING_REF_POINTER}
                   : (struct rec_string_ref){0};
}

/* Puts a map as a list of pairs ordered by key, so that equal captures give equal files. */
int save_map(struct saver *s, enum record_type list, enum record_type one, const struct map *m);

/* Puts the `n` elements that `pairs` refers to, in scattered order of their keys. Frees `pairs`. */
int save_scattered(struct saver *s, struct rec_pair *pairs, size_t n,
                   int (*put_one)(struct saver *s, size_t number));

/* In file order. */
int save_topology(struct saver *s);                        /* PACKAGES */
int save_crash(struct saver *s);                           /* CRASH */
int save_frame_sets(struct saver *s);                      /* FRAME_SETS */
int save_sections(struct saver *s);                        /* SECTION_LISTS, SECTION_CATEGORIES */
int save_external_names(struct saver *s);                  /* EXTERNAL_NAMES */
int save_external_threads(struct saver *s);                /* EXTERNAL_THREADS */
int save_zone_stats(struct saver *s);                      /* ZONE_STATS */
int save_gpu_zone_stats(struct saver *s);                  /* GPU_ZONE_STATS */
int save_locks(struct saver *s);                           /* LOCKS */
int save_messages(struct saver *s);                        /* MESSAGES */
int save_zone_extras(struct saver *s);                     /* ZONE_EXTRAS */
int save_threads(struct saver *s);                         /* THREADS */
int save_thread_zones(struct saver *s, uint16_t thread);   /* ZONE_BEGIN, ZONE_END */
int save_thread_samples(struct saver *s, uint16_t thread); /* SWITCH_SAMPLES, SAMPLES */
int save_gpu(struct saver *s);                             /* GPU_CONTEXTS */
int save_plots(struct saver *s);                           /* PLOTS */
int save_frame_images(struct saver *s);                    /* FRAME_IMAGE_DICT, FRAME_IMAGES */
int save_context_switches(struct saver *s); /* CONTEXT_SWITCH_THREADS to CPU_THREADS */
int save_symbol_codes(struct saver *s);     /* SYMBOL_CODES */
int save_hw_samples(struct saver *s);       /* HW_SAMPLES */
int save_source_files(struct saver *s);     /* SOURCE_FILES */
