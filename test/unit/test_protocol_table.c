/*
 * The generated tables against queue-items.tsv, which is parsed here on its own: every row of every
 * protocol, every field's offset and type, and what the decoder reads where.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/decoder_state.h"
#include "protocol/wire_version.h"

#define TSV "protocol/queue-items.tsv"

static void check_type(const char *type, enum wire_type have, const char *where)
{
    static const struct {
        const char *name;
        enum wire_type type;
        unsigned size;
    } types[] = {
        {"u8", WIRE_U8, 1},
        {"i8", WIRE_I8, 1},
        {"u16", WIRE_U16, 2},
        {"u32", WIRE_U32, 4},
        {"i32", WIRE_I32, 4},
        {"u48", WIRE_U48, 6},
        {"u64", WIRE_U64, 8},
        {"i64", WIRE_I64, 8},
        {"f32", WIRE_F32, 4},
        {"f64", WIRE_F64, 8},
        {"u64tag", WIRE_U64_TAG_LOW, 8},
        {"u64htag", WIRE_U64_TAG_HIGH, 8},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, type) != 0)
            continue;
        if (types[i].type != have || wire_type_size(have) != types[i].size)
            fail_msg("%s: type is not %s", where, type);
        return;
    }
    fail_msg("%s: unknown type %s in the list", where, type);
}

/* The slot table has the field's offset, one more than in the list because of the id. */
static bool has_offset(const struct wire_item *it, unsigned offset)
{
    for (unsigned slot = 0; slot < WIRE_SLOTS; slot++)
        if (it->at[slot] == offset + 1)
            return true;
    return false;
}

/* Fields g and r of a colour are reached through b. */
static bool is_inner_color(const char *name)
{
    return strcmp(name, "g") == 0 || strcmp(name, "r") == 0;
}

struct tail_seen {
    char length[32];
    char data[32];
    unsigned length_at;
};

static void check_field(const struct wire_item *it, const struct wire_item_info *info, char *text,
                        unsigned *n, struct tail_seen *tail, const char *where)
{
    char name[64], type[32];
    unsigned offset;
    if (sscanf(text, "%63[^:]:%31[^@]@%u", name, type, &offset) != 3)
        fail_msg("%s: cannot parse field %s", where, text);
    if (strcmp(name, "+len") == 0) {
        snprintf(tail->length, sizeof tail->length, "%s", type);
        tail->length_at = offset;
        return;
    }
    if (strcmp(name, "+data") == 0) {
        snprintf(tail->data, sizeof tail->data, "%s", type);
        return;
    }
    assert_true(*n < info->field_count);
    const struct wire_field *f = &info->fields[(*n)++];
    assert_string_equal(f->name, name);
    assert_int_equal(f->at, offset);
    check_type(type, (enum wire_type)f->type, where);
    if (!is_inner_color(name) && !has_offset(it, offset))
        fail_msg("%s: field %s at %u is in no slot", where, name, offset);
}

static void check_tail(const struct wire_item *it, const struct tail_seen *seen, const char *where)
{
    static const struct {
        const char *length, *data;
        enum wire_tail tail;
        unsigned size;
    } tails[] = {
        {"", "", WIRE_TAIL_NONE, 0},
        {"u8", "bytes[len]", WIRE_TAIL_8, 1},
        {"u16", "bytes[len]", WIRE_TAIL_16, 2},
        {"u16", "bytes[len+256]", WIRE_TAIL_16_PLUS_256, 2},
        {"u32", "bytes[len]", WIRE_TAIL_32, 4},
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        if (strcmp(tails[i].length, seen->length) || strcmp(tails[i].data, seen->data))
            continue;
        assert_int_equal(it->tail, tails[i].tail);
        assert_int_equal(wire_tail_size((enum wire_tail)it->tail), tails[i].size);
        /* The decoder takes it for granted that the tail follows the fixed part. */
        if (tails[i].size)
            assert_int_equal(seen->length_at, it->size - 1u);
        return;
    }
    fail_msg("%s: unknown tail %s %s", where, seen->length, seen->data);
}

/* An item's distinct fields have distinct slots: as many slots as fields are taken. */
static void check_slots(const struct wire_item *it, const struct wire_item_info *info,
                        const char *where)
{
    unsigned want = 0, have = 0;
    for (unsigned i = 0; i < info->field_count; i++)
        want += !is_inner_color(info->fields[i].name);
    for (unsigned slot = 0; slot < WIRE_SLOTS; slot++)
        have += it->at[slot] != 0;
    if (want != have)
        fail_msg("%s: %u fields in %u slots", where, want, have);
}

static void check_row(unsigned protocol, unsigned id, const char *name, unsigned size, char *fields)
{
    char where[96];
    snprintf(where, sizeof where, "protocol %u, id %u (%s)", protocol, id, name);
    const struct wire_version *v = wire_version_find(protocol);
    assert_non_null(v);
    assert_true(id < v->item_count);
    const struct wire_item *it = &v->items[id];
    const struct wire_item_info *info = &v->info[id];
    assert_string_equal(info->name, name);
    assert_int_equal(it->size, size);
    assert_int_equal(wire_version_item(v, name), id);
    if ((it->kind == WIRE_NONE) != (strcmp(fields, "!never-on-wire") == 0))
        fail_msg("%s: never-on-wire is wrong", where);
    struct tail_seen tail = {0};
    unsigned n = 0;
    if (fields[0] != '-' && fields[0] != '!')
        for (char *save, *f = strtok_r(fields, ",", &save); f; f = strtok_r(NULL, ",", &save))
            check_field(it, info, f, &n, &tail, where);
    assert_int_equal(n, info->field_count);
    check_tail(it, &tail, where);
    check_slots(it, info, where);
}

/* The items of one protocol number, as the list describes them. */
struct item_list {
    unsigned protocol, count;
    struct listed {
        char name[64], fields[400];
        unsigned size;
    } items[256];
};

/* Where a row's item goes; everything behind it moves when it is an insertion. */
static struct listed *place_item(struct item_list *l, const char *place, const char *name)
{
    const char *wanted = strcmp(place, "=") == 0 ? name : place;
    unsigned at = 0;
    assert_true(l->count < 256);
    if (strcmp(place, "+") == 0)
        return &l->items[l->count++];
    while (at < l->count && strcmp(l->items[at].name, wanted) != 0)
        at++;
    assert_true(at < l->count);
    if (strcmp(place, "=") == 0)
        return &l->items[at];
    memmove(&l->items[at + 2], &l->items[at + 1], (l->count - at - 1) * sizeof *l->items);
    l->count++;
    return &l->items[at + 1];
}

/* Returns the number of its items. */
static unsigned check_protocol(const struct item_list *l)
{
    if (l->count)
        assert_int_equal(wire_version_find(l->protocol)->item_count, l->count);
    for (unsigned id = 0; id < l->count; id++) {
        struct listed row = l->items[id];
        check_row(l->protocol, id, row.name, row.size, row.fields);
    }
    return l->count;
}

static void test_every_row(void **state)
{
    (void)state;
    static struct item_list list;
    char line[512];
    unsigned rows = 0;
    FILE *f = fopen(TSV, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* heading */
    while (fgets(line, sizeof line, f)) {
        unsigned protocol;
        char place[64], name[64], size[8], fields[400];
        assert_int_equal(sscanf(line, "%u\t%63[^\t]\t%63[^\t]\t%7[^\t]\t%399[^\n]", &protocol,
                                place, name, size, fields),
                         5);
        rows += protocol != list.protocol ? check_protocol(&list) : 0;
        list.protocol = protocol;
        if (strcmp(name, "-") == 0)
            continue;
        struct listed *item = place_item(&list, place, name);
        item->size = (unsigned)strtoul(size, NULL, 10);
        snprintf(item->name, sizeof item->name, "%s", name);
        snprintf(item->fields, sizeof item->fields, "%s", fields);
    }
    fclose(f);
    rows += check_protocol(&list);
    assert_int_equal(rows, 2350);
    assert_int_equal(wire_version_count, 20);
}

/* Which items have a compact time, and that their 64-bit form is biased there and only there. */
static void test_time_forms(void **state)
{
    (void)state;
    static const char *const compact[] = {"ZoneBegin", "ZoneBeginCallstack", "ZoneEnd",
                                          "CallstackSample", "CallstackSampleContextSwitch"};
    for (uint32_t protocol = PROTOCOL_MIN; protocol <= PROTOCOL_MAX; protocol++) {
        const struct wire_version *v = wire_version_find(protocol);
        unsigned odd = 0;
        for (unsigned id = 0; id < v->item_count; id++)
            odd += v->items[id].time != WIRE_TIME_PLAIN;
        assert_int_equal(odd, protocol >= 78 ? 15 : 0);
        for (size_t i = 0; protocol >= 78 && i < sizeof compact / sizeof *compact; i++) {
            int id = wire_version_item(v, compact[i]);
            assert_int_equal(v->items[id].time, WIRE_TIME_BIASED);
            assert_int_equal(v->items[id + 1].time, WIRE_TIME_32);
            assert_int_equal(v->items[id + 2].time, WIRE_TIME_16);
            assert_int_equal(v->items[id + 1].kind, v->items[id].kind);
            assert_int_equal(v->items[id + 2].kind, v->items[id].kind);
            assert_int_equal(v->items[id + 2].flags, v->items[id].flags);
        }
    }
}

/* Facts that are not in the list: the table of the wire fact sheet, section 8.1 and 11. */
static void test_facts(void **state)
{
    (void)state;
    static const char stamps[][8] = {"0.9.0",  "0.10.0", "0.10.0", "0.11.0", "0.11.1",
                                     "0.11.1", "0.11.1", "0.11.2", "0.11.2", "0.11.2",
                                     "0.11.3", "0.12.0", "0.12.3", "0.13.0", "0.13.2",
                                     "0.13.3", "0.13.3", "0.13.3", "0.13.4", "0.14.0"};
    for (uint32_t protocol = PROTOCOL_MIN; protocol <= PROTOCOL_MAX; protocol++) {
        const struct wire_version *v = wire_version_find(protocol);
        const struct wire_facts *f = &v->facts;
        char stamp[16];
        assert_int_equal(v->protocol, protocol);
        assert_int_equal(wire_version_welcome_size(v), protocol <= 74 ? 1178 : 1170);
        assert_int_equal(f->query_code[QUERY_EXTERNAL_NAME], protocol <= 65 ? 10 : 8);
        assert_int_equal(f->query_code[QUERY_DISCONNECT], protocol <= 65 ? 8 : 9);
        assert_int_equal(f->query_code[QUERY_CALLSTACK_FRAME], protocol <= 65 ? 9 : 10);
        assert_int_equal(f->external_name_prio, protocol >= 66);
        assert_int_equal(f->code_checked, protocol >= 66);
        assert_int_equal(f->sources_with_code, protocol >= 82);
        assert_int_equal(f->literal_tag, protocol <= 76   ? LITERAL_PLAIN
                                         : protocol <= 78 ? LITERAL_TAG_HIGH
                                                          : LITERAL_TAG_LOW);
        snprintf(stamp, sizeof stamp, "%u.%u.%u", f->file_version[0], f->file_version[1],
                 f->file_version[2]);
        assert_string_equal(stamp, stamps[protocol - PROTOCOL_MIN]);
        bool released = strchr("\x3f\x40\x42\x45\x4a\x4c\x52", (int)protocol) != NULL;
        assert_int_equal(f->development, !released);
        assert_int_equal(strncmp(f->releases, "development", 11) == 0, !released);
        uint32_t codes = 0; /* each of 0 … 15 once */
        for (int kind = 0; kind < QUERY_KIND_COUNT; kind++)
            codes |= 1u << f->query_code[kind];
        assert_int_equal(codes, 0xffff);
    }
    assert_null(wire_version_find(62));
    assert_null(wire_version_find(83));
    assert_null(wire_version_find(0));
}

static void test_probe_order(void **state)
{
    (void)state;
    unsigned n;
    const uint32_t *order = wire_version_probe_order(&n);
    uint32_t seen = 0;
    assert_int_equal(n, 20);
    for (unsigned i = 0; i < n; i++) {
        assert_true(order[i] >= PROTOCOL_MIN && order[i] <= PROTOCOL_MAX);
        seen |= 1u << (order[i] - PROTOCOL_MIN);
    }
    assert_int_equal(seen, 0xfffff);
    assert_int_equal(order[0], 82);
}

/* What the hot path of the decoder takes for granted. */
static void test_memory_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        unsigned met[WIRE_KIND_COUNT] = {0};
        for (unsigned id = 0; id < v->item_count; id++) {
            const struct wire_item *it = &v->items[id];
            met[it->kind]++;
            if (it->kind == WIRE_MEM_ALLOC || it->kind == WIRE_MEM_FREE) {
                bool is_alloc = it->kind == WIRE_MEM_ALLOC;
                assert_int_equal(it->size, is_alloc ? ALLOC_BYTES : FREE_BYTES);
                assert_int_equal(it->tail, WIRE_TAIL_NONE);
                assert_int_equal(it->time, WIRE_TIME_PLAIN);
                assert_int_equal(it->at[AT_TIME], EVENT_TIME_AT);
                assert_int_equal(it->at[AT_THREAD], EVENT_THREAD_AT);
                assert_int_equal(it->at[AT_MEM_PTR], EVENT_PTR_AT);
                assert_int_equal(it->at[AT_MEM_SIZE], is_alloc ? EVENT_SIZE_AT : 0);
            } else if (it->kind == WIRE_CALLSTACK_PAYLOAD) {
                assert_int_equal(it->size, PAYLOAD_LEN_AT);
                assert_int_equal(it->tail, WIRE_TAIL_16);
                assert_int_equal(it->size + 2, PAYLOAD_HEAD);
            } else if (it->kind == WIRE_CALLSTACK_SERIAL) {
                assert_int_equal(it->size, 1);
                assert_int_equal(it->tail, WIRE_TAIL_NONE);
            } else if (it->kind == WIRE_MEM_NAME) {
                assert_int_equal(it->size, POOL_BYTES);
                assert_int_equal(it->tail, WIRE_TAIL_NONE);
                assert_int_equal(it->at[AT_MEM_POOL], POOL_AT);
            }
        }
        assert_int_equal(met[WIRE_MEM_ALLOC], 4);
        assert_int_equal(met[WIRE_MEM_FREE], 4);
        assert_int_equal(met[WIRE_CALLSTACK_PAYLOAD], 1);
        assert_int_equal(met[WIRE_CALLSTACK_SERIAL], 1);
        assert_int_equal(met[WIRE_MEM_NAME], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),   cmocka_unit_test(test_time_forms),
        cmocka_unit_test(test_facts),       cmocka_unit_test(test_memory_runs),
        cmocka_unit_test(test_probe_order),
    };
    return cmocka_run_group_tests_name("protocol table", tests, NULL, NULL);
}
