#pragma once

/*
 * A filter that adds a zstd dictionary for the frame images to a trace. The file stores the images
 * uncompressed; readers compress them in memory, and the dictionary makes that smaller. The
 * dictionary precedes the images, so the trace is read twice, the first time to sample them.
 * Source: `Worker::Write` and the reading constructor in server/TracyWorker.cpp @ v0.9.1 … v0.14.0.
 *
 * Memory: at most IMAGE_DICT_SAMPLES for the samples, evenly spread over the images, and what
 * libzstd's training needs for them (about as much again and 16 MiB).
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "trace/file/record.h"

#define IMAGE_DICT_SAMPLES ((size_t)12 << 20)
#define IMAGE_DICT_MAX ((size_t)1 << 20)

struct image_dict;

int image_dict_open(struct image_dict **out, struct err *e);
void image_dict_free(struct image_dict *d);

/* First pass. */
struct record_sink image_dict_sample_sink(struct image_dict *d);

/* Sets in `wanted` (REC_TYPE_COUNT flags) the types that the first pass needs. */
void image_dict_wanted(bool *wanted);

/*
 * Between the passes. If the images are too few or too small for training, the dictionary is empty,
 * as in the official tool.
 */
int image_dict_train(struct image_dict *d, struct err *e);

/* Bytes of the dictionary. */
size_t image_dict_size(const struct image_dict *d);

/* Second pass. `next` is copied. */
struct record_sink image_dict_sink(struct image_dict *d, const struct record_sink *next);
