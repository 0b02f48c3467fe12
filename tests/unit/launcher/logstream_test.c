/* logstream and longpoll against a scripted server: order over attempts, tails, prefixes, nothing lost at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/logstream.h"
#include "launcher/longpoll.h"
#include "tests/unit/launcher/fake_server.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* base64: "aGVsbG8K" hello\n, "d29y" wor, "bGQK" ld\n, "YQpiCmMK" a\nb\nc\n, "ZW5k" end */
#define PIECE(offset, next, data)                                                                            \
    "{\"offset\":" #offset ",\"next\":" #next ",\"size\":" #next ",\"data\":\"" data "\"}"

struct printed {
    struct fake_server server;
    struct client *client;
    FILE *out;
    char *text;
    size_t len;
};

static void begin(struct printed *p, const struct fake_answer *script, size_t n)
{
    fake_start(&p->server, script, n);
    p->client = client_open(p->server.dir);
    p->out = open_memstream(&p->text, &p->len);
}

static void end(struct printed *p, const char *expected)
{
    fclose(p->out);
    assert_string_equal(p->text, expected);
    free(p->text);
    client_close(p->client);
    assert_int_equal(fake_end(&p->server), 0);
}

static void to_the_end(void **state)
{
    const struct fake_answer script[] = {{"rank=0&attempt=1&offset=0", 200, PIECE(0, 6, "aGVsbG8K")},
                                         {"attempt=1&offset=6", 200, PIECE(6, 9, "d29y")},
                                         {"attempt=1&offset=9", 200, PIECE(9, 9, "")},
                                         {"attempt=2&offset=0", 200, PIECE(0, 3, "bGQK")},
                                         {"attempt=2&offset=3", 200, PIECE(3, 3, "")}};
    struct printed p;
    (void)state;
    begin(&p, script, COUNT(script));
    struct logstream *ls = logstream_new(p.client, 7, p.out, false);
    logstream_add(ls, 0, 1, -1);
    logstream_job(ls, 2, false);
    assert_int_equal(logstream_finish(ls), CLI_DONE);
    assert_true(logstream_drained(ls));
    logstream_free(ls);
    end(&p, "hello\nworld\n");
}

static void prefixes_whole_lines(void **state)
{
    const struct fake_answer script[] = {{"offset=0", 200, PIECE(0, 3, "d29y")},
                                         {"offset=3", 200, PIECE(3, 6, "bGQK")},
                                         {"offset=6", 200, PIECE(6, 9, "ZW5k")},
                                         {"offset=9", 200, PIECE(9, 9, "")}};
    struct printed p;
    (void)state;
    begin(&p, script, COUNT(script));
    struct logstream *ls = logstream_new(p.client, 7, p.out, true);
    logstream_add(ls, 3, 1, -1);
    assert_int_equal(logstream_finish(ls), CLI_DONE);
    logstream_free(ls);
    end(&p, "[3] world\n[3] end\n");
}

static void tail_only(void **state)
{
    static const struct {
        int64_t tail;
        const char *text;
    } rows[] = {{0, ""}, {1, "c\n"}, {2, "b\nc\n"}, {9, "a\nb\nc\n"}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct fake_answer script[] = {{"offset=-1", 200, PIECE(0, 6, "YQpiCmMK")},
                                             {"offset=6", 200, PIECE(6, 6, "")}};
        struct printed p;
        begin(&p, script, COUNT(script));
        struct logstream *ls = logstream_new(p.client, 7, p.out, false);
        logstream_add(ls, 0, 1, rows[i].tail);
        assert_int_equal(logstream_finish(ls), CLI_DONE);
        logstream_free(ls);
        end(&p, rows[i].text);
    }
}

/* A read that was on its way when the job ended is not believed to be the last one. */
static void late_lines(void **state)
{
    const struct fake_answer script[] = {{"offset=0", 200, PIECE(0, 0, "")},
                                         {"offset=0", 200, PIECE(0, 6, "aGVsbG8K")},
                                         {"offset=6", 200, PIECE(6, 6, "")}};
    struct printed p;
    (void)state;
    begin(&p, script, COUNT(script));
    struct logstream *ls = logstream_new(p.client, 7, p.out, false);
    logstream_add(ls, 0, 1, -1);
    logstream_step(ls); /* the first read begins while the job runs */
    assert_int_equal(logstream_finish(ls), CLI_DONE);
    logstream_free(ls);
    end(&p, "hello\n");
}

/* An agent on its way back is waited for. */
static void back_after_a_refusal(void **state)
{
    const struct fake_answer script[] = {{"offset=0", 409, "{\"error\":\"node1 is not connected\"}"},
                                         {"offset=0", 200, PIECE(0, 6, "aGVsbG8K")},
                                         {"offset=6", 200, PIECE(6, 6, "")}};
    struct printed p;
    (void)state;
    begin(&p, script, COUNT(script));
    struct logstream *ls = logstream_new(p.client, 7, p.out, false);
    logstream_add(ls, 0, 1, -1);
    assert_int_equal(logstream_finish(ls), CLI_DONE);
    logstream_free(ls);
    end(&p, "hello\n");
}

static void unreadable(void **state)
{
    const struct fake_answer no = {"offset=0", 409, "{\"error\":\"node1 is down\"}"};
    const struct fake_answer script[] = {no, no, no, no, no, no, no, no, no, no};
    struct printed p;
    (void)state;
    begin(&p, script, COUNT(script));
    struct logstream *ls = logstream_new(p.client, 7, p.out, false);
    logstream_add(ls, 0, 1, -1);
    assert_int_equal(logstream_finish(ls), CLI_REFUSED);
    logstream_free(ls);
    end(&p, "");
}

/* What broke is asked again, what was never answered is not. */
static void poll_outlives_a_restart(void **state)
{
    const struct fake_answer script[] = {
        {"GET /v1/a", 200, "{}"}, {"GET /v1/b", 0, NULL}, {"GET /v1/b", 503, "{}"}, {"GET /v1/b", 200, "{}"}};
    struct printed p;
    struct client_reply reply;
    enum longpoll_result result;
    bool away = false;
    (void)state;
    begin(&p, script, COUNT(script));
    struct longpoll *lp = longpoll_new(p.client);
    for (const char *path = "/v1/a"; path; path = strcmp(path, "/v1/a") == 0 ? "/v1/b" : NULL) {
        longpoll_ask(lp, 0, "%s", path);
        while ((result = longpoll_step(lp, &reply)) == LONGPOLL_NOTHING) {
            int pause = longpoll_pause(lp);
            client_wait(p.client, -1, pause < 1000 ? pause : 1000);
            away |= longpoll_away(lp);
        }
        assert_int_equal(result, LONGPOLL_ANSWER);
        client_reply_clear(&reply);
    }
    assert_true(away);
    assert_false(longpoll_away(lp));
    longpoll_free(lp);
    end(&p, "");
}

static void poll_gives_up_at_first(void **state)
{
    struct client *c = client_open("/tmp/belay-no-such-folder");
    struct longpoll *lp = longpoll_new(c);
    struct client_reply reply;
    enum longpoll_result result;
    (void)state;
    longpoll_ask(lp, 0, "/v1/a");
    while ((result = longpoll_step(lp, &reply)) == LONGPOLL_NOTHING)
        client_wait(c, -1, 1000);
    assert_int_equal(result, LONGPOLL_FAILED);
    assert_int_equal(reply.exit_code, CLI_UNREACHABLE);
    client_reply_clear(&reply);
    longpoll_free(lp);
    client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(to_the_end),
                                       cmocka_unit_test(prefixes_whole_lines),
                                       cmocka_unit_test(tail_only),
                                       cmocka_unit_test(late_lines),
                                       cmocka_unit_test(back_after_a_refusal),
                                       cmocka_unit_test(unreadable),
                                       cmocka_unit_test(poll_outlives_a_restart),
                                       cmocka_unit_test(poll_gives_up_at_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
