/* The leaf helpers: errors, durations, durable files, processes, sockets with long paths, proofs, JSON lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/fsutil.h"
#include "common/jsonline.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proof.h"
#include "common/unixsock.h"

static char *scratch(void)
{
    char *dir = str_dup("/tmp/belay-common-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void drop(char *dir)
{
    struct err err = {0};
    assert_int_equal(fs_remove_tree(dir, &err), 0);
    assert_int_equal(access(dir, F_OK), -1);
    free(dir);
}

static void err_cuts_long_sentences_visibly(void **state)
{
    (void)state;
    struct err err;
    char *longer = mem_zero(3000, 1);
    memset(longer, 'x', 2999);
    assert_int_equal(err_set(&err, "%s", longer), -1);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.text + strlen(err.text) - 3, "…");
    errno = ENOENT;
    assert_int_equal(err_sys(&err, "cannot open %s", "x"), -1);
    assert_string_equal(err.text, "cannot open x: No such file or directory");
    assert_int_equal(err_prefix(&err, "node %d", 3), -1);
    assert_string_equal(err.text, "node 3: cannot open x: No such file or directory");
    assert_int_equal(err_set(NULL, "nobody listens"), -1);
    free(longer);
}

static void durations_and_times_read_well(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {-1, "-"},         {0, "0ms"},         {950, "950ms"},       {12345, "12.3s"},
        {245000, "4m05s"}, {7800000, "2h10m"}, {273600000, "3d04h"},
    };
    char out[32], utc[CLOCK_UTC_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(clock_format_duration(rows[i].ms, out, sizeof out), rows[i].text);
    assert_string_equal(clock_format_utc(0, utc), "1970-01-01T00:00:00.000Z");
    assert_string_equal(clock_format_utc(1767225600123, utc), "2026-01-01T00:00:00.123Z");
    assert_string_equal(clock_format_utc(-1, utc), "1969-12-31T23:59:59.999Z");
}

static void durable_files_replace_whole_or_not(void **state)
{
    (void)state;
    struct err err = {0};
    char *dir = scratch(), *deep = str_printf("%s/a/b/c", dir), *file = str_printf("%s/f", deep);
    assert_int_equal(fs_mkdirs(deep, 0700, &err), 0);
    assert_int_equal(fs_mkdirs(deep, 0700, &err), 0);
    assert_int_equal(fs_write_durable(file, "one", 3, 0600, &err), 0);
    assert_int_equal(fs_write_durable(file, "twenty", 6, 0600, &err), 0);
    size_t len;
    char *text = fs_read(file, 6, &len, &err);
    assert_non_null(text);
    assert_int_equal(len, 6);
    assert_string_equal(text, "twenty");
    assert_null(fs_read(file, 5, &len, &err));
    assert_non_null(strstr(err.text, "larger than the 5 bytes"));
    char *below = str_printf("%s/sub", file);
    assert_int_equal(fs_mkdirs(below, 0700, &err), -1);
    assert_non_null(strstr(err.text, "Not a directory"));
    char *lost = str_printf("%s/none/f", dir);
    assert_int_equal(fs_write_durable(lost, "x", 1, 0600, &err), -1);
    assert_non_null(strstr(err.text, "none/f"));
    free(text);
    free(below);
    free(lost);
    free(deep);
    free(file);
    drop(dir);
}

static void remove_tree_does_not_follow_links(void **state)
{
    (void)state;
    struct err err = {0};
    char *dir = scratch(), *keep = scratch();
    char *file = str_printf("%s/kept", keep), *link = str_printf("%s/link", dir);
    assert_int_equal(fs_write_durable(file, "k", 1, 0600, &err), 0);
    assert_int_equal(symlink(keep, link), 0);
    drop(dir);
    assert_int_equal(access(file, F_OK), 0);
    free(file);
    free(link);
    drop(keep);
}

static void a_process_is_not_known_by_its_pid_alone(void **state)
{
    (void)state;
    struct procid me, other, back;
    assert_int_equal(procid_of(0, &me), 0);
    assert_true(procid_alive(&me));
    assert_int_equal(procid_kill(&me, 0), 0);
    other = me;
    other.start++;
    assert_false(procid_alive(&other));
    assert_int_equal(procid_kill(&other, SIGKILL), -1);
    other = me;
    other.boot[0] = other.boot[0] == 'f' ? '0' : 'f';
    assert_false(procid_alive(&other));
    json_t *obj = procid_to_json(&me);
    assert_int_equal(procid_from_json(obj, &back), 0);
    assert_int_equal(back.pid, me.pid);
    assert_true(back.start == me.start);
    assert_string_equal(back.boot, me.boot);
    json_decref(obj);
}

static void a_zombie_is_dead(void **state)
{
    (void)state;
    struct procid child;
    siginfo_t info;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        for (;;)
            pause();
    assert_int_equal(procid_of(pid, &child), 0);
    assert_true(procid_alive(&child));
    assert_int_equal(procid_kill(&child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(procid_alive(&child));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(procid_of(pid, &child), -1);
}

static void sockets_work_below_very_long_paths(void **state)
{
    (void)state;
    struct err err = {0};
    char *dir = scratch(), part[101];
    memset(part, 'd', 100);
    part[100] = '\0';
    char *deep = str_printf("%s/%s/%s", dir, part, part), *path = str_printf("%s/s.sock", deep);
    assert_int_equal(fs_mkdirs(deep, 0700, &err), 0);
    int listener = unixsock_listen(path, 0600, &err);
    assert_true(listener >= 0);
    int client = unixsock_connect(path, 1, &err);
    assert_true(client >= 0);
    close(client);
    close(listener);
    int again = unixsock_listen(path, 0600, &err); /* the old file is replaced */
    assert_true(again >= 0);
    close(again);
    assert_int_equal(unixsock_connect(path, 0, &err), -1);
    assert_non_null(strstr(err.text, "Connection refused"));
    free(deep);
    free(path);
    drop(dir);
}

static void proofs_match_only_the_same_secret_and_text(void **state)
{
    (void)state;
    /* RFC 4231, test case 2 */
    static const char expected[] = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    char proof[PROOF_SIZE], a[PROOF_NONCE_SIZE], b[PROOF_NONCE_SIZE];
    proof_make("Jefe", "what do ya want for nothing?", proof);
    assert_string_equal(proof, expected);
    assert_true(proof_check("Jefe", "what do ya want for nothing?", expected));
    assert_false(proof_check("jefe", "what do ya want for nothing?", expected));
    assert_false(proof_check("Jefe", "what do ya want for nothing?", "5bdc"));
    proof_nonce(a);
    proof_nonce(b);
    assert_int_equal(strlen(a), 32);
    assert_string_not_equal(a, b);
}

static void base64_round_trips_every_length(void **state)
{
    (void)state;
    unsigned char data[256];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    for (size_t n = 0; n <= sizeof data; n++) {
        size_t len;
        char *text = base64_encode(data, n);
        unsigned char *back = base64_decode(text, &len);
        assert_non_null(back);
        assert_int_equal(len, n);
        assert_memory_equal(back, data, n);
        free(text);
        free(back);
    }
    size_t len;
    assert_null(base64_decode("abc", &len));
    assert_null(base64_decode("a!c=", &len));
}

struct seen {
    int count;
    char last[64];
};

static int note(void *ctx, const json_t *msg, struct err *err)
{
    struct seen *seen = ctx;
    const char *text;
    if (jsonx_str(msg, "t", &text, err) < 0)
        return -1;
    seen->count++;
    snprintf(seen->last, sizeof seen->last, "%s", text);
    return 0;
}

static void json_lines_arrive_whole_and_bad_ones_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int rc, count;
        const char *why;
    } rows[] = {
        {"{\"t\":\"a\"}\n{\"t\":\"b\"}\n{\"t\":", 0, 2, NULL},
        {"\n\n{\"t\":\"a\"}\n", 0, 1, NULL},
        {"[1]\n", -1, 0, "not a JSON object"},
        {"{\"t\":1}\n", -1, 0, "\"t\" must be a string"},
        {"{\"t\":\"a\",\"t\":\"b\"}\n", -1, 0, "duplicate"},
        {"nonsense\n", -1, 0, "not JSON"},
    };
    struct event_base *base = event_base_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bufferevent *pair[2];
        struct seen seen = {0};
        struct err err = {0};
        assert_int_equal(bufferevent_pair_new(base, 0, pair), 0);
        bufferevent_enable(pair[1], EV_READ);
        bufferevent_write(pair[0], rows[i].bytes, strlen(rows[i].bytes));
        event_base_loop(base, EVLOOP_NONBLOCK);
        assert_int_equal(jsonline_receive(pair[1], note, &seen, &err), rows[i].rc);
        assert_int_equal(seen.count, rows[i].count);
        if (rows[i].why)
            assert_non_null(strstr(err.text, rows[i].why));
        bufferevent_free(pair[0]);
        bufferevent_free(pair[1]);
    }
    event_base_free(base);
}

static void json_line_without_end_is_refused_at_the_limit(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    struct seen seen = {0};
    struct err err = {0};
    assert_int_equal(bufferevent_pair_new(base, 0, pair), 0);
    char *huge = mem_zero(LINK_LINE_MAX + 2, 1);
    memset(huge, 'x', LINK_LINE_MAX + 1);
    evbuffer_unfreeze(bufferevent_get_input(pair[1]), 0);
    assert_int_equal(evbuffer_add(bufferevent_get_input(pair[1]), huge, LINK_LINE_MAX + 1), 0);
    assert_int_equal(jsonline_receive(pair[1], note, &seen, &err), -1);
    assert_non_null(strstr(err.text, "longer than"));
    free(huge);
    bufferevent_free(pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
}

static void json_numbers_are_range_checked(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t n = 77;
    json_t *obj = json_pack("{s:i,s:f,s:s}", "n", 5, "f", 1.5, "s", "5");
    assert_int_equal(jsonx_int(obj, "n", 0, 10, &n, &err), 0);
    assert_int_equal(n, 5);
    assert_int_equal(jsonx_int(obj, "n", 6, 10, &n, &err), -1);
    assert_string_equal(err.text, "\"n\" is 5; allowed are 6 to 10");
    assert_int_equal(jsonx_int(obj, "f", 0, 10, &n, &err), -1);
    assert_int_equal(jsonx_int(obj, "s", 0, 10, &n, &err), -1);
    assert_int_equal(jsonx_int(obj, "none", 0, 10, &n, &err), -1);
    assert_int_equal(n, 5);
    jsonx_set_str(obj, "bad", "\xff\xfe");
    assert_string_equal(jsonx_str_or(obj, "bad", ""), "(not valid UTF-8)");
    json_decref(obj);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_cuts_long_sentences_visibly),
        cmocka_unit_test(durations_and_times_read_well),
        cmocka_unit_test(durable_files_replace_whole_or_not),
        cmocka_unit_test(remove_tree_does_not_follow_links),
        cmocka_unit_test(a_process_is_not_known_by_its_pid_alone),
        cmocka_unit_test(a_zombie_is_dead),
        cmocka_unit_test(sockets_work_below_very_long_paths),
        cmocka_unit_test(proofs_match_only_the_same_secret_and_text),
        cmocka_unit_test(base64_round_trips_every_length),
        cmocka_unit_test(json_lines_arrive_whole_and_bad_ones_are_refused),
        cmocka_unit_test(json_line_without_end_is_refused_at_the_limit),
        cmocka_unit_test(json_numbers_are_range_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
