/*
 * Machine code of symbols and texts of source files: decides what to query.
 *
 * A query for a source file and its answer carry only a number. The official server's numbers
 * follow from the stream: it meets file names in a certain order and queries each once, unless it
 * has the file locally. The decoder delivers the names in the same order, so that a reader can
 * assign the answers in a recording of such a session. Numbers of Tidemark's queries have
 * EVENT_SOURCE_OURS added and do not collide with them. Source: server/TracyWorker.cpp CacheSource
 * and its callers, AddSymbolCode @ v0.14.0.
 */

#include "protocol/decoder_state.h"

#include <xxhash.h>

/* The code of larger functions is not queried: server/TracyWorker.cpp ProcessSymbolInformation. */
#define CODE_MAX ((uint32_t)128 << 10)

/* Longer names cannot be paths; they get a number but are not queried. */
#define PATH_MAX_BYTES 4096u

/* States of a file name, as bits of its value in `texts`. */
enum { TEXT_CHECKED = 1, TEXT_RECEIVED = 2, TEXT_ASKED = 4 };
/* States of a pointer to a file name, in `pointers`. */
enum { POINTER_PENDING = 1, POINTER_CHECKED = 2 };

void sources_release(struct decoder_sources *s)
{
    map_release(&s->texts);
    map_release(&s->pointers);
    vec_release(&s->hashes);
}

static int no_room(struct decoder *d)
{
    return err_no_memory(d->err, "the names of source files");
}

static uint64_t *text_state(struct decoder *d, struct view text)
{
    return map_add(&d->sources.texts, XXH3_64bits(text.p, text.len), NULL);
}

/* Assigns the next number, at the point where the official server would query this file. */
static int next_source(struct decoder *d, struct view file, struct view image)
{
    struct decoder_sources *s = &d->sources;
    uint64_t *state = text_state(d, file);
    if (!state)
        return no_room(d);
    if (*state & TEXT_RECEIVED || s->hashes.len >= SOURCES_MAX)
        return 0;
    struct event ev = {.kind = EVENT_SOURCE_NAME};
    ev.name.key = s->hashes.len;
    ev.name.text = file;
    if (!vec_push(&s->hashes, XXH3_64bits(file.p, file.len)))
        return no_room(d);
    bool ask = s->wanted && !(*state & TEXT_ASKED) && file.len && file.len < PATH_MAX_BYTES &&
               image.len < PATH_MAX_BYTES;
    *state |= ask ? TEXT_ASKED : 0;
    uint32_t id = (uint32_t)(EVENT_SOURCE_OURS | ev.name.key);
    if (ask && query_ask_source(d->query, id, image, file, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

int sources_text(struct decoder *d, struct view file, struct view image)
{
    if (d->sources.hashes.len >= SOURCES_MAX)
        return 0;
    uint64_t *state = text_state(d, file);
    if (!state)
        return no_room(d);
    if (*state & TEXT_CHECKED)
        return 0;
    *state |= TEXT_CHECKED;
    return next_source(d, file, image);
}

int sources_pointer(struct decoder *d, uint64_t file)
{
    if (file == 0 || d->sources.pointers.count >= SOURCES_MAX)
        return 0;
    uint64_t *state = map_add(&d->sources.pointers, file, NULL);
    if (!state)
        return no_room(d);
    if (!(*state & POINTER_CHECKED))
        *state |= POINTER_PENDING;
    return 0;
}

int sources_string(struct decoder *d, uint64_t pointer, struct view text)
{
    uint64_t *state = map_find(&d->sources.pointers, pointer);
    if (!state || *state != POINTER_PENDING)
        return 0;
    *state = POINTER_CHECKED;
    return next_source(d, text, (struct view){NULL, 0});
}

int sources_received(struct decoder *d, uint64_t id)
{
    const struct decoder_sources *s = &d->sources;
    uint64_t number = id & ~EVENT_SOURCE_OURS;
    if (number >= s->hashes.len)
        return 0;
    uint64_t *state = map_add(&d->sources.texts, s->hashes.at[number], NULL);
    if (!state)
        return no_room(d);
    *state |= TEXT_RECEIVED;
    return 0;
}

/* ---- machine code */

int code_note_size(struct decoder *d, uint64_t symbol, uint32_t size)
{
    bool fresh;
    if (!query_wants(d->query, QUERY_SYMBOL_CODE) || symbol == 0)
        return 0;
    uint64_t *at = map_add(&d->code_sizes, symbol, &fresh);
    if (!at)
        return err_no_memory(d->err, "the sizes of symbols");
    if (fresh)
        *at = size;
    return 0;
}

int code_ask(struct decoder *d, uint64_t symbol)
{
    const uint64_t *size = map_find(&d->code_sizes, symbol);
    bool wanted = size && *size > 0 && *size <= CODE_MAX;
    return wanted ? query_ask_code(d->query, symbol, (uint32_t)*size, d->err) : 0;
}

/* Receives an instruction's address or a jump's target. */
static int code_found(void *ctx, uint64_t address, struct err *e)
{
    struct decoder *d = ctx;
    if (d->code_lines >= CODE_LINES_MAX)
        return 0;
    d->code_lines++;
    return query_ask_patiently(d->query, QUERY_CALLSTACK_FRAME, address, e);
}

int code_received(struct decoder *d, uint64_t symbol, struct view code)
{
    if (!d->read_code.read || code.len > CODE_MAX)
        return 0;
    return d->read_code.read(d->read_code.ctx, symbol, code, code_found, d, d->err);
}
