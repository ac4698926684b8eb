#pragma once

/*
 * The machine code of one function as far as the trace holds it: its instructions, the source of
 * each, and the allocations made through each call. Of a function whose frames have no addresses,
 * its source lines.
 *
 * The frame of a call stack is a return address, so the call is the instruction that ends there. An
 * allocation counts once for each instruction that its call stack passes through. The build needs
 * one sweep over the history; memory grows with distinct call stacks and the function's size. While
 * the trace is loaded, code and sources are set aside in compressed, file-backed memory
 * (keyed_blobs.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/code/disassembler.h"
#include "analysis/code/sample_profile.h"
#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/file/record.h"
#include "trace/store/store.h"

/* Code beyond this size is dropped; `size` is the whole size. */
#define ANNOTATE_CODE_MAX ((uint64_t)1 << 20)

/* The source of machine code that is not in the trace. */
struct annotate_origin {
    struct view path; /* of the image; empty: fetched from a server */
    bool checked;     /* its build id is that of the client's image */
};

struct annotate_code {
    uint64_t address;
    uint64_t size; /* bytes; the function never exceeds the address space */
    /* For code that is not in the trace, else empty; texts of the trace. */
    bool is_elsewhere;
    struct annotate_origin origin;
    struct view name, image;
};

/* Code and sources set aside. */
struct annotate_texts {
    struct trace *trace;
    VEC(struct annotate_code) codes; /* by place in trace.symbol_codes */
    VEC(size_t) paths;               /* lengths of the paths of sources, which are adjacent in */
    struct buf names;                /* … these bytes */
};

void annotate_texts_init(struct annotate_texts *a, struct trace *t);
void annotate_texts_release(struct annotate_texts *a);

/* Marks the records that annotate_texts_put takes: see trace_load_options.beside. */
void annotate_texts_wanted(bool wanted[REC_TYPE_COUNT]);
int annotate_texts_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e);

/*
 * Adds code that the trace does not have. Existing code of the address is kept. Texts are copied.
 */
int annotate_texts_add(struct annotate_texts *a, const struct annotate_code *code,
                       struct view bytes, struct err *e);

/* ---- choice of the function */

struct annotate_function {
    uint64_t address;
    uint64_t size;    /* bytes */
    uint32_t code;    /* index in annotate_texts.codes */
    struct view name; /* empty: unknown */
    struct view image, file;
    uint32_t line;     /* 0: unknown */
    bool is_elsewhere; /* its code is not in the trace, but in */
    struct annotate_origin origin;
    bool by_line; /* its frames have lines and no addresses, as of Python; address, size are 0 */
};

struct annotate_functions {
    VEC(struct annotate_function) list; /* by address; those by_line first, by file and name */
    bool is_part;                       /* the names match in part only */
};

/*
 * Finds the functions that match `wanted`: "0x…" is an address within; else a whole name, with or
 * without parameters, or FILE:NAME of a function by_line, with or without the file's folder; else a
 * part of a name; with `regex` a Perl-compatible regular expression for a name. ERR_USAGE if there
 * is none or the expression is invalid; ERR_CHECK if none of them is by_line or has machine code in
 * the trace, with a hint in the text. `f` need not be initialised.
 */
int annotate_find(struct annotate_functions *f, const struct annotate_texts *a, const char *wanted,
                  bool regex, struct err *e);
void annotate_functions_release(struct annotate_functions *f);

/* Frames of call stacks in matching functions, with or without code. */
struct annotate_frames {
    VEC(uint32_t) list; /* numbers of frames whose outermost function's name matches best */
    bool is_part;
    bool is_address; /* `wanted` is an address; the list is empty then */
    uint64_t address;
};

int annotate_find_frames(struct annotate_frames *f, const struct trace *t, const char *wanted,
                         bool regex, struct err *e);
void annotate_frames_release(struct annotate_frames *f);

/* ---- its code */

struct annotate_figures {
    uint64_t count, bytes;
    uint64_t live_count, live_bytes; /* at the end of the selection */
};

/* Call stack samples: see sample_profile.h for which. */
struct annotate_samples {
    uint64_t self;  /* taken at this instruction */
    uint64_t total; /* with it in the call stack, each counted once */
};

/* A source line; adjacent instructions of the same line share it. */
struct annotate_place {
    struct frame_view frame; /* the innermost function inlined there */
    bool has_text;
    size_t text, len; /* in annotation.bytes, without leading blanks but by_line */
};

#define ANNOTATE_NO_PLACE UINT32_MAX

struct annotate_line {
    uint64_t address;
    size_t text, len;                /* in annotation.bytes */
    uint32_t size;                   /* bytes */
    uint32_t place;                  /* index in places, ANNOTATE_NO_PLACE: unknown */
    bool is_code;                    /* else `text` shows bytes: no instruction, … */
    bool is_unknown;                 /* … or one that the disassembler does not know */
    bool is_call;                    /* call stacks of selected allocations return after it */
    struct annotate_figures figures; /* of those */
    struct annotate_samples samples;
};

struct annotation {
    const struct trace *trace;
    struct annotate_function function;
    uint64_t shown;                  /* bytes of the function that are in `lines` */
    struct annotate_figures through; /* allocations whose call stacks pass through the function */
    struct annotate_figures own;     /* of them, those whose site (sites.h) is in it */
    struct annotate_samples samples; /* of the function */
    VEC(struct annotate_line) lines; /* by address, without gaps; of a function by_line by line */
    VEC(struct annotate_place) places;
    struct buf bytes;
    bool has_source; /* of a function by_line: the trace has its file */
};

/* `d` is not used for functions by_line. `a` need not be initialised. It is valid as long as the
 * trace. */
int annotate_build(struct annotation *a, struct annotate_texts *texts,
                   const struct sample_input *samples, const struct annotate_function *function,
                   struct selection *s, const struct disassembler *d, struct err *e);
void annotation_release(struct annotation *a);
