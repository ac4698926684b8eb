#ifndef TIDEMARK_TRACE_STORE_FRAME_NAME_H
#define TIDEMARK_TRACE_STORE_FRAME_NAME_H

/*
 * What the text of a function in a trace says. Clients put words in place of a name that they do
 * not know, and `tidemark symbols` some of its own:
 *
 *     [unknown]  [error]  ???            nothing is known        (client)
 *     [unresolved]                       to be resolved later    (client, or update -R)
 *     [unknown] + 140737352              nothing but the address (client, update -r)
 *     the image's own text               nothing but the image   (client, on Windows)
 *     NAME + 12                          the nearest dynamic symbol, so many bytes before (client)
 *     libfoo.so+0x1234                   nothing but the place in the image (ours)
 *     libfoo.so (base unknown)           nothing but the image (ours)
 *     [cut at 64 frames]                 no function: the callers that were not recorded (ours)
 *
 * Source of the client's: public/client/TracyCallstack.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"

enum frame_name_kind {
    FRAME_NAME_NONE,       /* no name, or words in place of one */
    FRAME_NAME_UNRESOLVED, /* none yet: what the frame's symbol address means is open, too */
    FRAME_NAME_NEAR,       /* a symbol with an offset: maybe not the function */
    FRAME_NAME_FULL,
};

struct frame_name {
    enum frame_name_kind kind;
    struct view name; /* without the offset; empty where there is none */
    uint64_t offset;  /* of NEAR */
};

/* `image` is the path of the frame's image, or empty. */
struct frame_name frame_name_parse(struct view text, struct view image);

/* Whether a text is "IMAGE+0x…", or "IMAGE (base unknown)". */
bool frame_name_is_at(struct view text);
bool frame_name_is_baseless(struct view text);

/*
 * The frame that stands for the callers beyond the depth of a recording's call stacks: its id, the
 * text that it has as its function, and whether a text is such a one. A merge may change the id.
 */
#define FRAME_CUT UINT64_C(1)
#define FRAME_CUT_SIZE 32
void frame_name_cut(char out[FRAME_CUT_SIZE], unsigned depth);
bool frame_name_is_cut(struct view text);

/* True when a file's text says that it is not known. */
bool frame_file_is_unknown(struct view file, struct view image);

/* Whether what a frame has as its image is none: nothing, or words in brackets. */
bool frame_image_is_special(struct view image);

/* What is behind the last slash of an image's path. */
struct view frame_image_name(struct view image);

#endif
