#pragma once

/*
 * Interprets the text of a function in a trace. Clients use placeholders for unknown names, and so
 * does `tidemark symbols`:
 *
 *     [unknown]  [error]  ???            nothing is known        (client)
 *     [unresolved]                       to be resolved later    (client, or update -R)
 *     [unknown] + 140737352              nothing but the address (client, update -r)
 *     the image's own text               nothing but the image   (client, on Windows)
 *     NAME + 12                          the nearest dynamic symbol, so many bytes before (client)
 *     libfoo.so+0x1234                   only the location in the image (Tidemark)
 *     libfoo.so (base unknown)           nothing but the image (Tidemark)
 *     [cut at 64 frames]                 no function: the callers that were not recorded (Tidemark)
 *
 * Source of the client's: public/client/TracyCallstack.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"

enum frame_name_kind {
    FRAME_NAME_NONE,       /* no name, or a placeholder */
    FRAME_NAME_UNRESOLVED, /* not resolved yet: the meaning of the symbol address is open, too */
    FRAME_NAME_NEAR,       /* a symbol with an offset: possibly another function */
    FRAME_NAME_FULL,
};

struct frame_name {
    enum frame_name_kind kind;
    struct view name; /* without the offset; empty when there is none */
    uint64_t offset;  /* for NEAR */
};

/* `image` is the path of the frame's image, or empty. */
struct frame_name frame_name_parse(struct view text, struct view image);

/* Whether a text is "IMAGE+0x…" or "IMAGE (base unknown)". */
bool frame_name_is_at(struct view text);
bool frame_name_is_baseless(struct view text);

/*
 * The frame that represents the callers beyond a recording's maximum call stack depth: its id, its
 * function text, and whether a text is one. A merge may change the id.
 */
#define FRAME_CUT UINT64_C(1)
#define FRAME_CUT_SIZE 32
void frame_name_cut(char out[FRAME_CUT_SIZE], unsigned depth);
bool frame_name_is_cut(struct view text);

/* The image of code that the program generated while it ran. */
#define FRAME_IMAGE_GENERATED "[generated code]"

/*
 * A name that is not from debug information has no source file. Tidemark writes in the file's place
 * where the name is from: a symbol table, PDB's public symbols, or the symbol before the function.
 *
 *     [.symtab]  [.gnu_debugdata]  [.dynsym]  [public symbols]  [neighbour]
 */
enum name_origin {
    NAME_FROM_ELSEWHERE, /* debug information, the client, …: the file's text says nothing */
    NAME_FROM_NEIGHBOUR,
    NAME_FROM_DYNSYM,
    NAME_FROM_DEBUGDATA,
    NAME_FROM_SYMTAB,
    NAME_FROM_PUBLIC,
    NAME_ORIGINS,
};

enum name_origin frame_file_origin(struct view file);

/* ".dynsym" and so on; "unknown" from elsewhere. */
const char *name_origin_text(enum name_origin origin);

/* Whether a file's text is a placeholder for an unknown file. */
bool frame_file_is_unknown(struct view file, struct view image);

/* Whether the image of a frame is missing: empty, or a placeholder in brackets. */
bool frame_image_is_special(struct view image);

/* The part of an image's path after the last slash. */
struct view frame_image_name(struct view image);
