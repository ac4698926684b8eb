/* Frame sets, frame images and sections, from events to records. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "test/unit/ingest_test.h"
#include "trace/file/bc1.h"

static void mark(struct fixture *f, enum event_kind kind, uint64_t name, int64_t time)
{
    struct event ev = {.kind = kind, .time = time};
    ev.frame_mark.name = name;
    put(f, &ev);
}

static void image(struct fixture *f, uint32_t frame, const char *block)
{
    struct event ev = {.kind = EVENT_FRAME_IMAGE};
    ev.image.frame = frame;
    ev.image.w = ev.image.h = 4;
    ev.image.bytes = (struct view){block, 8};
    put(f, &ev);
}

static void enter(struct fixture *f, uint32_t id, uint16_t category, int64_t time)
{
    struct event ev = {.kind = EVENT_SECTION_ENTER, .time = time};
    ev.section.id = id;
    ev.section.category = category;
    ev.section.text = view_of("text");
    put(f, &ev);
}

static void leave(struct fixture *f, uint32_t id, int64_t time)
{
    struct event ev = {.kind = EVENT_SECTION_LEAVE, .time = time};
    ev.section.id = id;
    put(f, &ev);
}

/* ---- sets */

static void sets_are_listed_when_their_names_come(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    f.t.facts.init_end = 5;
    mark(&f, EVENT_FRAME_MARK, 0x10, 10);
    mark(&f, EVENT_FRAME_START, 0x20, 11);
    mark(&f, EVENT_FRAME_MARK, 0, 12);
    put_name(&f, EVENT_FRAME_NAME, 0x20, "two");
    mark(&f, EVENT_FRAME_VSYNC, 9, 13);
    put_name(&f, EVENT_FRAME_NAME, 0x10, "one");
    mark(&f, EVENT_FRAME_END, 0x20, 14);
    mark(&f, EVENT_FRAME_START, 0x20, 15); /* never ends */
    mark(&f, EVENT_FRAME_MARK, 0x30, 16);  /* never named */
    assert_string_equal(saved(&f, "sf"), "set 0 continuous 3\n"
                                         "frame 0 -1 -1\n"
                                         "frame 5 -1 -1\n"
                                         "frame 12 -1 -1\n"
                                         "set 20 discontinuous 2\n"
                                         "frame 11 14 -1\n"
                                         "frame 15 -1 -1\n"
                                         "set 8000000000000000 continuous 1\n"
                                         "frame 13 -1 -1\n"
                                         "set 10 continuous 1\n"
                                         "frame 10 -1 -1\n"
                                         "set 30 continuous 1\n"
                                         "frame 16 -1 -1\n");
    assert_true(f.t.facts.last_time == 16);
    fixture_release(&f);
}

static void sets_of_one_text_are_one(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    mark(&f, EVENT_FRAME_MARK, 0x10, 10);
    mark(&f, EVENT_FRAME_MARK, 0x20, 9); /* of another thread, so it comes late */
    mark(&f, EVENT_FRAME_MARK, 0x30, 7);
    put_name(&f, EVENT_FRAME_NAME, 0x10, "same");
    put_name(&f, EVENT_FRAME_NAME, 0x20, "same");
    put_name(&f, EVENT_FRAME_NAME, 0x30, "Frame"); /* what the base set is called */
    mark(&f, EVENT_FRAME_MARK, 0x20, 12);
    mark(&f, EVENT_FRAME_MARK, 0x30, 13);
    assert_string_equal(saved(&f, "sf"), "set 0 continuous 4\n"
                                         "frame 0 -1 -1\n"
                                         "frame 0 -1 -1\n"
                                         "frame 7 -1 -1\n"
                                         "frame 13 -1 -1\n"
                                         "set 10 continuous 3\n"
                                         "frame 9 -1 -1\n"
                                         "frame 10 -1 -1\n"
                                         "frame 12 -1 -1\n");
    fixture_release(&f);
}

static void the_open_frame_of_two_merged_sets_ends(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    mark(&f, EVENT_FRAME_START, 0x10, 10);
    mark(&f, EVENT_FRAME_END, 0x10, 11);
    mark(&f, EVENT_FRAME_START, 0x20, 12);
    put_name(&f, EVENT_FRAME_NAME, 0x10, "same");
    put_name(&f, EVENT_FRAME_NAME, 0x20, "same");
    mark(&f, EVENT_FRAME_END, 0x20, 14);
    assert_non_null(strstr(saved(&f, "sf"), "set 10 discontinuous 2\nframe 10 11 -1\n"
                                            "frame 12 14 -1\n"));
    fixture_release(&f);
}

static void lone_ends_are_faults_unless_on_demand(void **state)
{
    (void)state;
    for (int on_demand = 0; on_demand < 2; on_demand++) {
        struct fixture f;
        char room[32];
        fixture_init(&f, 0);
        f.t.facts.on_demand = on_demand;
        mark(&f, EVENT_FRAME_END, 0x10, 10);
        mark(&f, EVENT_FRAME_START, 0x20, 11);
        mark(&f, EVENT_FRAME_START, 0x20, 12); /* twice */
        mark(&f, EVENT_FRAME_END, 0, 13);      /* the base set has no ends */
        assert_true(f.t.facts.last_time == 12);
        assert_int_equal(ingest_finish(&f.in, &f.e), 0);
        assert_string_equal(fact(&f, "frame_faults", room), on_demand ? "1" : "3");
        fixture_release(&f);
    }
}

static void ends_reach_frames_that_are_packed_already(void **state)
{
    (void)state;
    enum { SETS = 40, FRAMES = 200000 };
    struct fixture f;
    fixture_init(&f, 1u << 20);
    for (uint64_t i = 0; i < SETS; i++) {
        mark(&f, EVENT_FRAME_START, 0x100 + i, (int64_t)i);
        char name[16];
        snprintf(name, sizeof name, "set %u", (unsigned)i);
        put_name(&f, EVENT_FRAME_NAME, 0x100 + i, name);
    }
    for (int64_t i = 0; i < FRAMES; i++)
        mark(&f, EVENT_FRAME_MARK, 0, 1000 + i);
    assert_null(column_raw(&f.t.frame_sets.marks, 0, sizeof(struct frame_mark)));
    for (uint64_t i = 0; i < SETS; i += 2)
        mark(&f, EVENT_FRAME_END, 0x100 + i, (int64_t)(500000 + i));
    const char *text = saved(&f, "sf");
    for (unsigned i = 0; i < SETS; i++) {
        char line[96];
        snprintf(line, sizeof line, "set %x discontinuous 1\nframe %u %d -1\n", 0x100 + i, i,
                 i % 2 ? -1 : (int)(500000 + i));
        assert_non_null(strstr(text, line));
    }
    char head[64];
    snprintf(head, sizeof head, "set 0 continuous %d\n", FRAMES + 2);
    assert_int_equal(strncmp(text, head, strlen(head)), 0);
    fixture_release(&f);
}

/* ---- images */

static void images_find_their_frames(void **state)
{
    (void)state;
    struct fixture f;
    char room[32];
    fixture_init(&f, 0);
    const char flat[] = "\xff\xff\xff\xff\0\0\0\0";
    image(&f, 2, flat); /* before its frame's mark */
    mark(&f, EVENT_FRAME_MARK, 0, 10);
    mark(&f, EVENT_FRAME_MARK, 0, 20);
    image(&f, 0, flat); /* long after */
    image(&f, 2, flat); /* has one */
    image(&f, 9, flat); /* a frame that never comes */
    assert_string_equal(saved(&f, "fi"), "frame 0 -1 -1\n"
                                         "frame 0 -1 1\n"
                                         "frame 10 -1 -1\n"
                                         "frame 20 -1 0\n"
                                         "image 4 4 0 ffffffff55555555\n"
                                         "image 4 4 0 ffffffff55555555\n"
                                         "image 4 4 0 ffffffff55555555\n");
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_string_equal(fact(&f, "frame_image_faults", room), "1");
    fixture_release(&f);
}

static void on_demand_images_count_from_the_connection(void **state)
{
    (void)state;
    struct fixture f;
    char room[32];
    fixture_init(&f, 0);
    f.t.facts.on_demand = true;
    f.t.facts.frame_offset = 100;
    const char flat[] = "\xff\xff\xff\xff\0\0\0\0";
    image(&f, 100, flat); /* began before */
    image(&f, 7, flat);
    image(&f, 102, flat);
    mark(&f, EVENT_FRAME_MARK, 0, 10);
    assert_string_equal(saved(&f, "f"), "frame 0 -1 -1\n"
                                        "frame 0 -1 -1\n"
                                        "frame 0 -1 -1\n"
                                        "frame 10 -1 0\n");
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_string_equal(fact(&f, "frame_image_faults", room), "");
    fixture_release(&f);
}

static void many_images_go_to_disk_and_come_back(void **state)
{
    (void)state;
    enum { N = 300 };
    struct fixture f;
    fixture_init(&f, 1u << 20);
    uint64_t seed = 3;
    struct buf blocks = {0};
    for (uint32_t i = 0; i < N; i++) {
        struct event ev = {.kind = EVENT_FRAME_IMAGE};
        blocks.len = 0;
        for (int k = 0; k < 4096; k++)
            buf_u16(&blocks, (uint16_t)next_random(&seed));
        ev.image.frame = i ^ 1; /* out of order */
        ev.image.w = ev.image.h = 128;
        ev.image.bytes = (struct view){(const char *)blocks.data, blocks.len};
        put(&f, &ev);
        mark(&f, EVENT_FRAME_MARK, 0, i);
    }
    assert_true(f.t.frame_images.pixels.flushed > 1u << 20);
    struct column_reader r;
    column_reader_init(&r, &f.t.frame_images.list);
    size_t n;
    const struct frame_image *list = column_reader_next(&r, &n, &f.e);
    assert_int_equal(n, N);
    seed = 3;
    uint8_t pixels[8192];
    for (uint32_t i = 0; i < N; i++) {
        blocks.len = 0;
        for (int k = 0; k < 4096; k++)
            buf_u16(&blocks, (uint16_t)next_random(&seed));
        bc1_from_client(blocks.data, blocks.len / 8);
        assert_int_equal(list[i].frame, (i ^ 1) + 1);
        assert_int_equal(frame_images_pixels(&f.t.frame_images, &list[i], pixels, &f.e), 0);
        assert_memory_equal(pixels, blocks.data, sizeof pixels);
    }
    column_reader_release(&r);
    buf_release(&blocks);
    fixture_release(&f);
}

/*
 * Blocks as clients send them and as the official servers of all releases save them: made with
 * server/TracyTextureCompression.cpp, one for each way a block can go.
 */
static void blocks_become_what_official_traces_hold(void **state)
{
    (void)state;
    static const struct {
        uint8_t sent[8], kept[8];
    } blocks[] = {
        {{0x7f, 0x0f, 0xc6, 0x5e, 0x00, 0x00, 0x00, 0x00},
         {0x7f, 0x0f, 0xc6, 0x5e, 0x55, 0x55, 0x55, 0x55}},
        {{0x04, 0x10, 0x8d, 0xda, 0xb8, 0xae, 0x6b, 0xec},
         {0x04, 0x10, 0x8d, 0xda, 0x89, 0xa2, 0xe8, 0x21}},
        {{0xce, 0x9e, 0xce, 0x9e, 0xf3, 0xfb, 0xb6, 0x89},
         {0xce, 0x9e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}},
        {{0xbb, 0xe8, 0xba, 0xe8, 0x41, 0xb6, 0x68, 0x25},
         {0xbb, 0xe8, 0xba, 0xe8, 0x55, 0x04, 0x41, 0x45}},
        {{0x05, 0x28, 0x04, 0x20, 0x9a, 0xd7, 0x4d, 0x10},
         {0x05, 0x28, 0x04, 0x20, 0x10, 0x14, 0x51, 0x55}},
        {{0xe4, 0xfa, 0x03, 0xfb, 0x2f, 0x3c, 0x99, 0xc9},
         {0x03, 0xfb, 0xe4, 0xfa, 0x25, 0x14, 0xaa, 0x4a}},
        {{0x51, 0x7e, 0x6f, 0x6e, 0x1f, 0xb5, 0x4c, 0x52},
         {0x6f, 0x6e, 0x51, 0x7e, 0x25, 0x9a, 0x84, 0xa2}},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        uint8_t block[8];
        memcpy(block, blocks[i].sent, 8);
        bc1_from_client(block, 1);
        assert_memory_equal(block, blocks[i].kept, 8);
    }
}

/* ---- sections */

static void sections_nest_in_categories(void **state)
{
    (void)state;
    struct fixture f;
    char room[32];
    fixture_init(&f, 0);
    struct event setup = {.kind = EVENT_SECTION_SETUP};
    setup.section.category = 9;
    put(&f, &setup); /* without its text */
    setup.section.category = 3;
    setup.section.text = view_of("three");
    put(&f, &setup);
    enter(&f, 1, 3, 10);
    leave(&f, 2, 12); /* before the news of its beginning */
    enter(&f, 3, 0, 11);
    enter(&f, 2, 3, 9);
    leave(&f, 1, 13);
    enter(&f, 3, 0, 14); /* is open */
    leave(&f, 7, 15);
    leave(&f, 7, 16); /* twice, and never entered */
    assert_string_equal(saved(&f, "S"), "Sections of 0: 1\n"
                                        "Section 11 -3 text\n"
                                        "Sections of 3: 2\n"
                                        "Section 10 13 text\n"
                                        "Section 9 12 text\n"
                                        "Section category 0 -\n"
                                        "Section category 3 text\n"
                                        "Section category 9 -\n");
    assert_true(f.t.facts.last_time == 16);
    assert_int_equal(ingest_finish(&f.in, &f.e), 0);
    assert_string_equal(fact(&f, "section_faults", room), "2");
    fixture_release(&f);
}

static void what_is_open_goes_on_in_the_next_part(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    f.in.part_full = part_is_full;
    f.in.time_limit = 1000;
    const char flat[] = "\xff\xff\xff\xff\0\0\0\0";
    enter(&f, 1, 2, 10);
    enter(&f, 2, 2, 20);
    leave(&f, 1, 30);
    mark(&f, EVENT_FRAME_START, 0x10, 40);
    mark(&f, EVENT_FRAME_START, 0x20, 50);
    put_name(&f, EVENT_FRAME_NAME, 0x10, "one");
    put_name(&f, EVENT_FRAME_NAME, 0x20, "two");
    mark(&f, EVENT_FRAME_END, 0x10, 60);
    image(&f, 1, flat);
    mark(&f, EVENT_FRAME_MARK, 0, 70);   /* number 1 */
    mark(&f, EVENT_FRAME_MARK, 0, 2000); /* number 2, in another part */
    image(&f, 2, flat);
    mark(&f, EVENT_FRAME_END, 0x20, 2100);
    leave(&f, 2, 2200);
    assert_int_equal(f.in.parts, 1);
    assert_string_equal(saved(&f, "sfS"), "set 0 continuous 3\n"
                                          "frame 0 -1 -1\n"
                                          "frame 0 -1 -1\n"
                                          "frame 0 -1 0\n"
                                          "set 10 discontinuous 0\n"
                                          "set 20 discontinuous 1\n"
                                          "frame 0 100 -1\n"
                                          "Sections of 2: 1\n"
                                          "Section 0 200 text\n"
                                          "Section category 2 -\n");
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_listed_when_their_names_come),
        cmocka_unit_test(sets_of_one_text_are_one),
        cmocka_unit_test(the_open_frame_of_two_merged_sets_ends),
        cmocka_unit_test(lone_ends_are_faults_unless_on_demand),
        cmocka_unit_test(ends_reach_frames_that_are_packed_already),
        cmocka_unit_test(images_find_their_frames),
        cmocka_unit_test(on_demand_images_count_from_the_connection),
        cmocka_unit_test(many_images_go_to_disk_and_come_back),
        cmocka_unit_test(blocks_become_what_official_traces_hold),
        cmocka_unit_test(sections_nest_in_categories),
        cmocka_unit_test(what_is_open_goes_on_in_the_next_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
