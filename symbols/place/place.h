#ifndef TIDEMARK_SYMBOLS_PLACE_PLACE_H
#define TIDEMARK_SYMBOLS_PLACE_PLACE_H

/* A place in an image, and what stands there. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/view.h"

enum place_kind {
    PLACE_ADDRESS, /* an address as in the ELF file's own headers */
    PLACE_FILE,    /* an offset in the file */
    PLACE_OFFSET,  /* distance from where the file's first byte was mapped */
    PLACE_KINDS,
};

struct place {
    uint8_t kind; /* enum place_kind */
    uint64_t value;
};

/* Who knew it. */
enum place_source {
    SOURCE_NONE,   /* the place is in no segment of the image */
    SOURCE_IMAGE,  /* only that the place is in the image */
    SOURCE_SYMBOL, /* a symbol table */
    SOURCE_DEBUG,  /* debug information */
    PLACE_SOURCES,
};

struct place_frame {
    struct view function; /* for people; empty: unknown */
    struct view linkage;  /* as the linker has it; empty: none */
    struct view file;     /* empty: unknown */
    uint32_t line, column;
    uint64_t start; /* address of the function's first byte, in the image's terms; 0 unknown */
    bool inlined;   /* into the next one */
    /*
     * Texts of one numbering with equal numbers are equal. In an answer from the helper it is the
     * answer's, and all but the empty text have one; who reads the image has one for as long as it
     * is open, and 0 for texts that have no number in it.
     */
    uint32_t function_number, file_number;
};

struct place_answer {
    enum place_source source;
    uint64_t address; /* of the place in the image's terms; 0 with SOURCE_NONE */
    size_t n;         /* functions there, innermost first */
    const struct place_frame *frames;
    uint64_t numbering; /* of texts; 0: they have no numbers */
};

/* The machine code of the function around a place. */
struct place_code {
    uint64_t address;  /* of the place, in the image's terms */
    uint64_t start;    /* of the function */
    uint64_t size;     /* bytes */
    bool by_unwind;    /* its bounds are those of an unwind entry: it has no name */
    struct view name;  /* for people; may be empty */
    struct view bytes; /* the first PLACE_CODE_MAX of a longer function */
};

#define PLACE_CODE_MAX ((uint32_t)1 << 20)

/* As many functions as a frame of a trace can hold. */
#define PLACE_FRAMES_MAX 255u

/* What is known about an image as a whole. */
struct image_facts {
    uint16_t machine;       /* EM_… */
    bool has_symbols;       /* a symbol table of some kind */
    bool has_debug;         /* debug information was found */
    bool from_cache;        /* and what it says, in the cache */
    uint64_t base;          /* lowest address of a segment, rounded down to a page */
    struct view path;       /* that was opened; empty: it was fetched */
    struct view debug_path; /* of separate debug information; empty: fetched, or in the image */
    bool debug_separate;
};

/* What who reads an image cannot do itself, but who asks can. */
enum file_need {
    NEED_PATH,  /* a file at a path: name */
    NEED_FETCH, /* an image (`flag`) or debug file from a server: id is its build id */
    NEED_CACHE, /* what was kept of the image, to be read: id is the key */
    NEED_STORE, /* a file to keep it in: key; with `flag` it is whole now */
    FILE_NEEDS,
};

struct file_wish {
    uint8_t need; /* enum file_need */
    bool flag;
    struct view name; /* a stranger's text */
    struct view id;   /* bytes */
};

#define FILE_ID_MAX 64u

#endif
