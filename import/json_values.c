#include "import/json_values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "import/json_stream.h"

#define DEPTH_MAX 64u

/* Values of containers that are not complete. */
#define STACK_MAX ((size_t)1 << 26)

struct json_reader {
    struct json_stream stream;
    struct value_arena *arena;
    VEC(struct value_slot) stack;
    uint32_t begins[DEPTH_MAX]; /* lengths of the stack when the open containers began */
    unsigned depth;
    struct err *e;
};

static int push(struct json_reader *r, uint64_t value)
{
    const struct value_slot slot = {.value = value};
    r->stream.mark = r->stream.fed;
    if (r->stack.len == STACK_MAX)
        return err_set(r->e, ERR_INPUT, "too many values in one list");
    return vec_push(&r->stack, slot) ? 0 : err_no_memory(r->e, "the text's values");
}

static int on_null(void *ctx)
{
    return push(ctx, VALUE_NONE) == 0;
}

static int push_integer(struct json_reader *r, int64_t number)
{
    uint64_t value;
    return value_integer(r->arena, number, &value, r->e) == 0 ? push(r, value) : -1;
}

static int on_boolean(void *ctx, int value)
{
    return push_integer(ctx, value != 0) == 0;
}

static int on_number(void *ctx, const char *text, size_t len)
{
    struct json_reader *r = ctx;
    char room[64], *end;
    if (len >= sizeof room)
        return push(r, VALUE_NONE) == 0;
    memcpy(room, text, len);
    room[len] = 0;
    errno = 0;
    long long whole = strtoll(room, &end, 10);
    if (*end == 0 && errno == 0)
        return push_integer(r, whole) == 0;
    double number = strtod(room, &end);
    if (number == trunc(number) && fabs(number) < 0x1p53)
        return push_integer(r, (int64_t)number) == 0;
    return push(r, VALUE_NONE) == 0;
}

static int on_text(void *ctx, const unsigned char *text, size_t len)
{
    struct json_reader *r = ctx;
    uint64_t value;
    return value_text(r->arena, (struct view){(const char *)text, len}, &value, r->e) == 0 &&
           push(r, value) == 0;
}

static int on_open(void *ctx)
{
    struct json_reader *r = ctx;
    r->stream.mark = r->stream.fed;
    if (r->depth == DEPTH_MAX) {
        err_set(r->e, ERR_INPUT, "objects and arrays nest deeper than %u", DEPTH_MAX);
        return 0;
    }
    r->begins[r->depth++] = (uint32_t)r->stack.len;
    return 1;
}

static int close_container(struct json_reader *r, enum value_kind kind)
{
    uint64_t value;
    size_t begin = r->begins[--r->depth], n = r->stack.len - begin;
    const struct value_slot *first = n ? &r->stack.at[begin] : NULL;
    int status = kind == VALUE_DICT ? value_dict(r->arena, VALUE_DICT, first, n / 2, &value, r->e)
                                    : value_list(r->arena, VALUE_LIST, first, n, &value, r->e);
    if (status != 0)
        return -1;
    r->stack.len = begin;
    return push(r, value);
}

static int on_close_object(void *ctx)
{
    return close_container(ctx, VALUE_DICT) == 0;
}

static int on_close_array(void *ctx)
{
    return close_container(ctx, VALUE_LIST) == 0;
}

int json_values_read(struct import_source *s, struct value_arena *a, struct json_values *j,
                     struct err *e)
{
    static const yajl_callbacks calls = {.yajl_null = on_null,
                                         .yajl_boolean = on_boolean,
                                         .yajl_number = on_number,
                                         .yajl_string = on_text,
                                         .yajl_start_map = on_open,
                                         .yajl_map_key = on_text,
                                         .yajl_end_map = on_close_object,
                                         .yajl_start_array = on_open,
                                         .yajl_end_array = on_close_array};
    struct json_reader r = {.arena = a, .e = e};
    int status = json_stream_read(&r.stream, s, &calls, &r, NULL, e);
    *j = (struct json_values){.root = status == 0 && r.stack.len ? r.stack.at[0].value : VALUE_NONE,
                              .bytes = r.stream.fed,
                              .trailing = r.stream.trailing};
    vec_release(&r.stack);
    return status;
}
