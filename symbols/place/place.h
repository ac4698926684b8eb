#pragma once

/* A place in an image, and the functions there. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/view.h"
#include "symbols/elf/symbol_frame.h"

enum place_kind {
    PLACE_ADDRESS, /* as in the ELF file's headers */
    PLACE_FILE,    /* an offset in the file */
    PLACE_OFFSET,  /* offset from where the file's first byte was mapped */
    PLACE_KINDS,
};

struct place {
    uint8_t kind; /* enum place_kind */
    uint64_t value;
};

/* The source of an answer. */
enum place_source {
    SOURCE_NONE,  /* no segment of the image contains the place */
    SOURCE_IMAGE, /* the place is in the image; nothing more is known */
    /*
     * It is in a function without a name. The only function's name is "near NAME+0xHEX": the symbol
     * before it, and the distance from there to the function.
     */
    SOURCE_NEIGHBOUR,
    /* A symbol table, in the order of enum elf_symbol_source. */
    SOURCE_DYNSYM,
    SOURCE_DEBUGDATA,
    SOURCE_SYMTAB,
    SOURCE_PUBLIC,
    SOURCE_DEBUG, /* debug information */
    PLACE_SOURCES,
};

struct place_answer {
    enum place_source source;
    uint64_t address; /* of the place in the image; 0 with SOURCE_NONE */
    size_t n;         /* number of functions, innermost first */
    const struct symbol_frame *frames;
    uint64_t numbering; /* numbering of the texts; 0: none */
};

/* The machine code of the function around a place. */
struct place_code {
    uint64_t address;  /* of the place in the image */
    uint64_t start;    /* of the function */
    uint64_t size;     /* bytes */
    bool by_unwind;    /* bounds come from an unwind entry: no name */
    struct view name;  /* demangled; may be empty */
    struct view bytes; /* of a longer function the first PLACE_CODE_MAX */
};

#define PLACE_CODE_MAX ((uint32_t)1 << 20)

/* The most functions that a trace's frame can hold. */
#define PLACE_FRAMES_MAX 255u

/* Properties of an image. */
struct image_facts {
    uint16_t machine;       /* EM_… */
    bool is_64;             /* of 64 bits */
    bool has_symbols;       /* any symbol table */
    bool has_debug;         /* debug information was found */
    bool from_cache;        /* debug information comes from the cache */
    uint64_t base;          /* lowest segment address, rounded down to a page */
    struct view path;       /* the opened path; empty: fetched */
    struct view debug_path; /* of separate debug information; empty: fetched, or in the image */
    bool debug_separate;
};

/* What a symbolizer cannot do itself and requests from its client. */
enum file_need {
    NEED_PATH,  /* a file at the path `name` */
    NEED_FETCH, /* an image (`flag`) or debug file by build id `id` from a server */
    NEED_CACHE, /* the image's cache entry, to read; `id` is the key */
    NEED_STORE, /* a cache entry to write; `id` is the key; `flag`: complete */
    FILE_NEEDS,
};

struct file_wish {
    uint8_t need; /* enum file_need */
    bool flag;
    struct view name; /* untrusted text */
    struct view id;   /* bytes */
};

#define FILE_ID_MAX 64u
