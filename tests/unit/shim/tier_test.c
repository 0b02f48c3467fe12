/* tier: images are held, sent to buddies, fetched, and taken over by the shim of the next attempt. */
#include "tests/unit/shim/tier_lab.h"

static void test_held_here_and_at_the_buddy(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    struct memimage big = hold(m, "rank-00003.safetensors", 120, 9 << 20, true);
    struct memimage small = hold(m, "manifest.json", 120, 1, true);
    assert_true(holds(0, &big) && holds(0, &small));
    assert_true(holds(2, &big) && holds(2, &small));
    assert_int_equal(held_on(1, NULL, 0), 0);
    memory_close(m); /* the rank's end changes nothing */
    m = rank_on(0);
    struct err err = {""};
    check_bytes(memory_image(m, &big, MEMORY_HERE, WAIT_MS, &err), &big);
    check_bytes(memory_image(m, &big, 0, WAIT_MS, &err), &big);
    memory_close(m);
}

static void test_what_another_node_holds_is_fetched(void **state)
{
    (void)state;
    struct err err = {""};
    struct memory_tier *m = rank_on(0), *other = rank_on(1);
    struct memimage image = hold(m, "rank-00000.safetensors", 50, 3 << 20, true), no = image;
    check_bytes(memory_image(other, &image, 2, WAIT_MS, &err), &image);
    assert_true(holds(1, &image));
    no.step = 51;
    assert_int_equal(memory_image(other, &no, MEMORY_HERE, WAIT_MS, &err), -1);
    assert_non_null(strstr(err.text, "rank-00000.safetensors of step 51 is not held on this node"));
    assert_int_equal(memory_image(other, &no, 9, WAIT_MS, &err), -1);
    assert_non_null(strstr(err.text, "a node of this attempt"));
    memory_close(m);
    memory_close(other);
}

/* The rank writes into its memory file although nothing newer is held: the copy of the buddy is the true one. */
static void test_a_spoilt_image_is_fetched_from_the_buddy(void **state)
{
    (void)state;
    struct err err = {""};
    struct memimage image;
    struct memory_tier *m = rank_on(0);
    int fd = make("rank-00000.safetensors", 50, 4096, &image);
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    assert_true(next_word(m).buddy);
    assert_int_equal(pwrite(fd, "spoilt", 6, 0), 6);
    int here = memory_image(m, &image, MEMORY_HERE, WAIT_MS, &err);
    char text[7] = "";
    assert_int_equal(pread(here, text, 6, 0), 6);
    assert_string_equal(text, "spoilt");
    close(here);
    close(fd);
    check_bytes(memory_image(m, &image, 2, WAIT_MS, &err), &image);
    memory_close(m);
}

static void test_a_wrong_hash_does_not_reach_the_buddy(void **state)
{
    (void)state;
    struct err err = {""};
    struct memimage image;
    struct memory_tier *m = rank_on(0);
    int fd = make("a", 1, 4096, &image);
    image.hash[0] = image.hash[0] == 'a' ? 'b' : 'a';
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    assert_false(next_word(m).buddy);
    assert_true(holds(0, &image));
    assert_false(holds(2, &image));
    close(fd);
    hold(m, "a", 2, 4096, true); /* a newer one takes its place, and goes through */
    memory_close(m);
}

static void test_a_buddy_that_is_away(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    stop_loop();
    close_node(2);
    start_loop();
    struct memimage first = hold(m, "a", 1, 4096, false), second = hold(m, "a", 2, 4096, false);
    assert_true(holds(0, &first) && holds(0, &second));
    memory_close(m);
}

static void test_alone_there_is_no_buddy(void **state)
{
    (void)state;
    stop_loop();
    close_node(1);
    open_node(1, 1); /* no map: it has not gone yet, so it knows nobody */
    start_loop();
    struct memory_tier *m = rank_on(1);
    hold(m, "a", 1, 16, false);
    memory_close(m);
}

static void test_the_next_attempt_takes_over(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    struct memimage old = hold(m, "a", 10, 4096, true), new = hold(m, "a", 20, 8192, true);
    memory_close(m);
    struct node before = node[0];
    stop_loop();
    tier_end_ranks(before.tier);
    open_node(0, 2);
    start_loop();
    tier_take_over(
        node[0].tier,
        node[0].folder); /* from another thread than the loop: the old shim is another process, too */
    assert_int_equal(access(before.socket, F_OK), -1);
    m = rank_on(0);
    struct err err = {""};
    check_bytes(memory_image(m, &old, MEMORY_HERE, WAIT_MS, &err), &old);
    check_bytes(memory_image(m, &new, MEMORY_HERE, WAIT_MS, &err), &new);
    struct memimage list[4];
    assert_int_equal(held_on(0, list, 4), 2);
    assert_int_equal(list[0].attempt, 1);
    memory_close(m);
    stop_loop();
    overlay_free(before.overlay);
    tier_free(before.tier);
    free(before.folder);
    free(before.socket);
    start_loop();
    assert_int_equal(held_on(0, NULL, 0), 2); /* what was taken over does not need the old shim */
}

static void test_a_rank_that_vanishes_in_the_middle(void **state)
{
    (void)state;
    struct err err = {""};
    struct memimage image;
    struct memory_tier *m = rank_on(0);
    int fd = make("a", 1, 32 << 20, &image);
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    close(fd);
    memory_close(m);
    for (int64_t until = clock_boot_ms() + WAIT_MS; !holds(2, &image) && clock_boot_ms() < until;)
        (void)poll(NULL, 0, 1);
    assert_true(holds(0, &image) && holds(2, &image));
}

static void test_many_are_listed_in_pages(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(1);
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof name, "f-%d", i);
        hold(m, name, 1, 8, true);
    }
    assert_int_equal(held_on(1, NULL, 0), 150);
    assert_int_equal(held_on(0, NULL, 0), 150);
    memory_close(m);
}

int main(void)
{
    (void)evthread_use_pthreads();
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {TEST(test_held_here_and_at_the_buddy),
                                       TEST(test_what_another_node_holds_is_fetched),
                                       TEST(test_a_spoilt_image_is_fetched_from_the_buddy),
                                       TEST(test_a_wrong_hash_does_not_reach_the_buddy),
                                       TEST(test_a_buddy_that_is_away),
                                       TEST(test_alone_there_is_no_buddy),
                                       TEST(test_the_next_attempt_takes_over),
                                       TEST(test_a_rank_that_vanishes_in_the_middle),
                                       TEST(test_many_are_listed_in_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
