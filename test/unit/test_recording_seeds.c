/*
 * The seeds of the fuzzer of recordings: checks that they are what is made here; with
 * TIDEMARK_WRITE_SEEDS=1 in the environment it writes them anew instead.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "recording_maker.h"
#include "test/recording_pack.h"

#define FOLDER "test/fuzz/seeds/fuzz_recording"

static void check_seed(const struct maker *m, const char *name, uint8_t flags)
{
    struct buf packed = {0};
    char path[256];
    uint8_t have[8192];
    pack_recording(&packed, flags, m->bytes);
    assert_false(packed.failed);
    assert_true(packed.len < sizeof have);
    snprintf(path, sizeof path, FOLDER "/%s", name);
    if (getenv("TIDEMARK_WRITE_SEEDS"))
        mkdir(FOLDER, 0777);
    FILE *f = fopen(path, getenv("TIDEMARK_WRITE_SEEDS") ? "wb" : "rb");
    assert_non_null(f);
    if (getenv("TIDEMARK_WRITE_SEEDS")) {
        assert_int_equal(fwrite(packed.data, 1, packed.len, f), packed.len);
    } else {
        assert_int_equal(fread(have, 1, sizeof have, f), packed.len);
        assert_memory_equal(have, packed.data, packed.len);
    }
    assert_int_equal(fclose(f), 0);
    buf_release(&packed);
}

static void two_threads(void **state)
{
    struct maker m;
    (void)state;
    maker_init(&m, 16);
    struct made_chunk a = maker_chunk(&m, REC_CHUNK_EVENTS, 1, 11, 0);
    struct made_chunk b = maker_chunk(&m, REC_CHUNK_EVENTS, 2, 12, 5);
    made_alloc(&a, 1, 0x1000, 100, 1);
    made_alloc(&b, 6, 0x2000, 300, 0);
    made_realloc(&a, 7, 0x1000);
    made_put_back(&a, 8, 0x1000);
    made_realloc(&a, 9, 0x2000);
    made_alloc(&b, 10, 0x2000, 9, 0);
    made_free(&b, 12, 0x1000);
    made_header(&b)->state = REC_CHUNK_OPEN;
    made_header(&b)->pending = 11;
    check_seed(&m, "two_threads", 0);
    check_seed(&m, "two_threads_live", PACK_LIVE);
    check_seed(&m, "two_threads_sampled", PACK_TSC | 0x20);
    maker_release(&m);
}

static void images_and_names(void **state)
{
    struct maker m;
    (void)state;
    maker_init(&m, 16);
    struct made_chunk nodes = maker_chunk(&m, REC_CHUNK_NODES, 1, 0, 0);
    struct made_chunk a = maker_chunk(&m, REC_CHUNK_EVENTS, 1, 11, 0);
    made_header(&nodes)->first_node = 1;
    made_node(&nodes, 0, 0x400100, 0);
    made_node(&nodes, 1, (UINT64_C(1) << 48) | 0x400200, 1 | REC_NODE_EXACT);
    made_module(&a, 1, 1, 0, 0x400000, 0x2000, "/lib/one.so");
    made_thread_name(&a, 1, "worker");
    made_alloc(&a, 2, 0x1000, 1, 2);
    made_module_gone(&a, 3, 1, 1);
    made_module(&a, 4, 2, 1, 0x400000, 0x3000, "");
    made_owner(&a, 5, 12);
    made_alloc(&a, 6, 0x3000, 1, 1);
    check_seed(&m, "images", 0);
    check_seed(&m, "images_part", PACK_LIVE | PACK_PART);
    maker_release(&m);
}

/* What programs send: pools, messages, plots, frames, zones. */
static void programs_words(void **state)
{
    static const uint8_t kinds[] = {REC_POOL,       REC_MESSAGE,  REC_PLOT,    REC_FRAME,
                                    REC_ZONE_BEGIN, REC_ZONE_END, REC_DISCARD, REC_CLOCK};
    struct maker m;
    (void)state;
    maker_init(&m, 16);
    struct made_chunk a = maker_chunk(&m, REC_CHUNK_EVENTS, 1, 11, 0);
    for (size_t i = 0; i < sizeof kinds; i++) {
        struct made_chunk body = made_body();
        if (kinds[i] == REC_PLOT) {
            for (size_t k = 0; k < 8; k++)
                made_byte(&body, 0x3f);
        } else if (kinds[i] != REC_ZONE_END) {
            made_varint(&body, 1);
            if (kinds[i] == REC_MESSAGE || kinds[i] == REC_ZONE_BEGIN)
                made_varint(&body, 0);
        }
        if (kinds[i] == REC_ZONE_BEGIN)
            made_varint(&body, 0);
        made_text(&body, "name");
        made_text(&body, "function");
        made_text(&body, "file");
        made_sized(&a, kinds[i], i + 1, &body);
        free(body.at);
    }
    check_seed(&m, "words", 0);
    maker_release(&m);
}

/* Frames of interpreted functions, one of them without its record. */
static void sources(void **state)
{
    struct maker m;
    (void)state;
    maker_init(&m, 16);
    struct made_chunk nodes = maker_chunk(&m, REC_CHUNK_NODES, 1, 0, 0);
    struct made_chunk a = maker_chunk(&m, REC_CHUNK_EVENTS, 1, 11, 0);
    made_header(&nodes)->first_node = 1;
    made_node(&nodes, 0, 1, REC_NODE_SOURCE);
    made_node(&nodes, 1, 2, 1 | REC_NODE_SOURCE);
    made_source(&a, 1, 1, 12, "f", "a.py");
    made_alloc(&a, 2, 0x1000, 1, 2);
    check_seed(&m, "sources", 0);
    maker_release(&m);
}

/* What was left out: losses, pauses. */
static void what_is_missing(void **state)
{
    struct maker m;
    (void)state;
    maker_init(&m, 16);
    struct made_chunk a = maker_chunk(&m, REC_CHUNK_EVENTS, 1, 11, 0);
    made_alloc(&a, 1, 0x1000, 1, 0);
    made_loss(&a, 2, REC_LOSS_FULL, 3, 400);
    made_pause(&a, 3, 1);
    made_free(&a, 4, 0x1000);
    made_pause(&a, 5, 0);
    check_seed(&m, "missing", 0);
    maker_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads),     cmocka_unit_test(images_and_names),
        cmocka_unit_test(programs_words),  cmocka_unit_test(sources),
        cmocka_unit_test(what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
