/* client, jobfile and find against a scripted server: exit codes, sentences, broken connections, one key over retries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/client.h"
#include "launcher/find.h"
#include "launcher/jobfile.h"
#include "tests/unit/launcher/fake_server.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void exit_codes(void **state)
{
    static const struct {
        struct fake_answer answer;
        int code;
        const char *sentence;
    } rows[] = {
        {{"GET /v1/x?y=1 HTTP", 200, "{}"}, CLI_DONE, ""},
        {{"GET", 400, "{\"error\":\"no good\"}"}, CLI_USAGE, "no good"},
        {{"GET", 403, "{\"error\":\"not yours\"}"}, CLI_REFUSED, "not yours"},
        {{"GET", 404, "{\"error\":\"no job 9\"}"}, CLI_NO_SUCH, "no job 9"},
        {{"GET", 409, "{\"error\":\"it is over\"}"}, CLI_REFUSED, "it is over"},
        {{"GET", 503, "{\"error\":\"shutting down\"}"}, CLI_UNREACHABLE, "shutting down"},
        {{"GET", 500, "oops"}, CLI_UNREACHABLE, "status 500"},
        {{"GET", 200, "<html>"}, CLI_UNREACHABLE, "is not belayd"},
        {{"GET", 0, NULL}, CLI_UNREACHABLE, "broke"},
        {{"GET", 200, NULL}, CLI_UNREACHABLE, "broke"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fake_server s;
        struct client_reply reply;
        fake_start(&s, &rows[i].answer, 1);
        struct client *c = client_open(s.dir);
        assert_int_equal(client_try(c, "GET", NULL, &reply, "/v1/x?y=%d", 1), rows[i].code);
        assert_non_null(strstr(reply.err.text, rows[i].sentence));
        assert_int_equal(reply.loss, i < 8 ? CLIENT_ANSWERED : CLIENT_LOST);
        client_reply_clear(&reply);
        client_close(c);
        assert_int_equal(fake_end(&s), 0);
    }
}

static void nobody_there(void **state)
{
    struct client_reply reply;
    struct client *c = client_open("/tmp/belay-no-such-folder");
    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    assert_int_equal(client_try(c, "GET", NULL, &reply, "/v1/jobs"), CLI_UNREACHABLE);
    assert_int_equal(reply.loss, CLIENT_NO_CONNECTION);
    assert_string_equal(reply.err.text,
                        "cannot reach belayd at /tmp/belay-no-such-folder: start it with `belay up --dir "
                        "/tmp/belay-no-such-folder`");
    client_reply_clear(&reply);
    client_close(c);
}

/* A folder whose socket path does not fit sun_path; and http_proxy must not matter. */
static void long_path(void **state)
{
    const struct fake_answer script[] = {{"GET /v1/cluster", 200, "{\"pid\":1}"}};
    struct fake_server s;
    struct client_reply reply;
    char link[300];
    (void)state;
    fake_start(&s, script, 1);
    char *longer = str_printf("%s/%0100d", s.dir, 7);
    assert_int_equal(mkdir(longer, 0700), 0);
    snprintf(link, sizeof link, "%s/belayd.sock", longer);
    assert_int_equal(symlink("../belayd.sock", link), 0);
    struct client *c = client_open(longer);
    assert_int_equal(client_try(c, "GET", NULL, &reply, "/v1/cluster"), CLI_DONE);
    client_reply_clear(&reply);
    client_close(c);
    assert_int_equal(fake_end(&s), 0);
    free(longer);
}

/* Two at once: the second is answered only after the first was taken by the server. */
static void side_by_side(void **state)
{
    const struct fake_answer script[] = {{"GET /v1/", 200, "{\"n\":1}"}, {"GET /v1/", 200, "{\"n\":2}"}};
    struct fake_server s;
    struct client_reply one, two;
    (void)state;
    fake_start(&s, script, 2);
    struct client *c = client_open(s.dir);
    struct client_request *a = client_start(c, "GET", NULL, "/v1/a"),
                          *b = client_start(c, "GET", NULL, "/v1/b");
    while (!client_done(a) || !client_done(b))
        client_wait(c, -1, 1000);
    client_take(c, a, &one);
    client_take(c, b, &two);
    assert_int_equal(jsonx_int_or(one.body, "n", 0) + jsonx_int_or(two.body, "n", 0), 3);
    client_reply_clear(&one);
    client_reply_clear(&two);
    client_close(c);
    assert_int_equal(fake_end(&s), 0);
}

static struct jobfile a_file(void)
{
    return (struct jobfile){.name = "job.yaml", .text = (char *)(uintptr_t) "name: x\n", .len = 8};
}

static void submit_retries(void **state)
{
    const struct fake_answer script[] = {
        {"\"key\":\"", 0, NULL}, {"\"key\":\"", 201, NULL}, {"\"spec\":\"name: x\\n\"", 201, "{\"id\":7}"}};
    const struct args_list sets = {.items = NULL};
    struct fake_server s;
    struct jobfile f = a_file();
    int64_t id = 0;
    (void)state;
    fake_start(&s, script, COUNT(script));
    struct client *c = client_open(s.dir);
    assert_int_equal(jobfile_submit(c, &f, &sets, &id), CLI_DONE);
    assert_int_equal(id, 7);
    client_close(c);
    assert_int_equal(fake_end(&s), 0);
}

static void submit_refused(void **state)
{
    const struct fake_answer script[] = {
        {"\"set\":[\"a=1\"]", 400, "{\"error\":\"bad\",\"diagnostics\":[\"job.yaml:1:1: bad\"]}"}};
    const char *items[] = {"a=1"};
    const struct args_list sets = {.items = items, .count = 1};
    struct fake_server s;
    struct jobfile f = a_file();
    int64_t id = 0;
    (void)state;
    fake_start(&s, script, COUNT(script));
    struct client *c = client_open(s.dir);
    assert_int_equal(jobfile_submit(c, &f, &sets, &id), CLI_USAGE);
    client_close(c);
    assert_int_equal(fake_end(&s), 0);
}

static void finds_jobs(void **state)
{
    json_t *jobs = json_loads(
        "[{\"id\":1,\"name\":\"a\",\"state\":\"completed\"},{\"id\":2,\"name\":\"a\",\"state\":\"failed\"},"
        "{\"id\":3,\"name\":\"b\",\"state\":\"completed\"},{\"id\":4,\"name\":\"b\",\"state\":\"running\"},"
        "{\"id\":5,\"name\":\"c\",\"state\":\"running\"},{\"id\":6,\"name\":\"c\",\"state\":\"held\"}]",
        0, NULL);
    static const struct {
        const char *name;
        bool ended_too;
        size_t live;
        int64_t id;
    } rows[] = {{"a", true, 0, 2},  {"a", false, 0, 0}, {"b", true, 1, 4},
                {"b", false, 1, 4}, {"c", true, 2, 6},  {"d", true, 0, 0}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t id = -1;
        assert_int_equal(find_in(jobs, rows[i].name, rows[i].ended_too, &id), rows[i].live);
        assert_int_equal(id, rows[i].id);
    }
    json_decref(jobs);
}

static void finds_by_server(void **state)
{
    const struct fake_answer script[] = {
        {"GET /v1/jobs", 200, "[{\"id\":4,\"name\":\"shakespeare\",\"state\":\"running\"}]"},
        {"GET /v1/jobs", 200, "[{\"id\":4,\"name\":\"shakespeare\",\"state\":\"running\"}]"}};
    struct fake_server s;
    int64_t id = 0;
    (void)state;
    fake_start(&s, script, COUNT(script));
    struct client *c = client_open(s.dir);
    assert_int_equal(find_job(c, "12", false, &id), CLI_DONE); /* asks nobody */
    assert_int_equal(id, 12);
    assert_int_equal(find_job(c, "shakespeare", false, &id), CLI_DONE);
    assert_int_equal(id, 4);
    assert_int_equal(find_job(c, "shakespear", false, &id), CLI_NO_SUCH);
    client_close(c);
    assert_int_equal(fake_end(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exit_codes),     cmocka_unit_test(nobody_there),
                                       cmocka_unit_test(long_path),      cmocka_unit_test(side_by_side),
                                       cmocka_unit_test(submit_retries), cmocka_unit_test(submit_refused),
                                       cmocka_unit_test(finds_jobs),     cmocka_unit_test(finds_by_server)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
