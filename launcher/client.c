/* client: see client.h. One curl multi handle; a reply is complete (and bounded) before anybody sees a part of it. */
#include "launcher/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/mem.h"

#define CONNECT_TIMEOUT_MS 5000L
#define REPLY_TIMEOUT_MS   60000L /* twice the longest wait that the server grants */

struct client {
    char *dir;
    char *socket; /* as handed to curl */
    int dir_fd;   /* for socket paths longer than sun_path; else -1 */
    CURLM *multi;
    struct client_request *running; /* list */
};

struct client_request {
    struct client_request *next;
    CURL *easy;
    struct curl_slist *headers;
    char *sent;
    char *data;
    size_t len;
    bool too_large, done;
    CURLcode result;
};

/* A long path is reached through the folder's descriptor, which fits any length. */
static char *socket_path(struct client *c)
{
    struct sockaddr_un address;
    char *plain = str_printf("%s/belayd.sock", c->dir);
    if (strlen(plain) < sizeof address.sun_path)
        return plain;
    c->dir_fd = open(c->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(plain);
    return str_printf("/proc/self/fd/%d/belayd.sock", c->dir_fd);
}

struct client *client_open(const char *dir)
{
    struct client *c = mem_zero(1, sizeof *c);
    c->dir = str_dup(dir);
    c->dir_fd = -1;
    c->socket = socket_path(c);
    curl_global_init(CURL_GLOBAL_NOTHING); /* no TLS on a unix socket: saves milliseconds at each start */
    c->multi = curl_multi_init();
    if (!c->multi)
        abort();
    return c;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    while (c->running)
        client_drop(c, c->running);
    curl_multi_cleanup(c->multi);
    if (c->dir_fd >= 0)
        close(c->dir_fd);
    free(c->socket);
    free(c->dir);
    free(c);
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    struct client_request *r = arg;
    size_t len = size * n;
    if (len > CLIENT_REPLY_MAX - r->len) {
        r->too_large = true;
        return 0;
    }
    r->data = mem_grow(r->data, r->len + len + 1, 1);
    memcpy(r->data + r->len, data, len);
    r->len += len;
    r->data[r->len] = '\0';
    return len;
}

static void set_body(struct client_request *r, json_t *body)
{
    r->sent = json_dumps(body, JSON_COMPACT);
    if (!r->sent)
        abort();
    r->headers = curl_slist_append(NULL, "Content-Type: application/json");
    r->headers = curl_slist_append(r->headers, "Expect:"); /* no extra round trip for large specs */
    curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, r->sent);
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(r->sent));
    json_decref(body);
}

static void set_options(struct client *c, struct client_request *r, const char *method, const char *path)
{
    char *url = str_printf("http://belayd%s", path);
    curl_easy_setopt(r->easy, CURLOPT_URL, url);
    curl_easy_setopt(r->easy, CURLOPT_UNIX_SOCKET_PATH, c->socket);
    curl_easy_setopt(r->easy, CURLOPT_PROXY, ""); /* http_proxy is not for us */
    curl_easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(r->easy, CURLOPT_TIMEOUT_MS, REPLY_TIMEOUT_MS);
    curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, method);
    free(url);
}

static struct client_request *start(struct client *c, const char *method, json_t *body, const char *path_fmt,
                                    va_list ap)
{
    struct client_request *r = mem_zero(1, sizeof *r);
    char *path = str_vprintf(path_fmt, ap);
    r->easy = curl_easy_init();
    if (!r->easy)
        abort();
    set_options(c, r, method, path);
    if (body)
        set_body(r, body);
    else if (strcmp(method, "POST") == 0)
        set_body(r, json_object());
    free(path);
    r->next = c->running;
    c->running = r;
    curl_multi_add_handle(c->multi, r->easy);
    return r;
}

struct client_request *client_start(struct client *c, const char *method, json_t *body, const char *path_fmt,
                                    ...)
{
    va_list ap;
    va_start(ap, path_fmt);
    struct client_request *r = start(c, method, body, path_fmt, ap);
    va_end(ap);
    return r;
}

bool client_done(const struct client_request *r)
{
    return r->done;
}

static void collect_finished(struct client *c)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(c->multi, &left))) {
        void *r = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode result = msg->data.result;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &r);
        ((struct client_request *)r)->done = true;
        ((struct client_request *)r)->result = result;
    }
}

static bool any_done(const struct client *c)
{
    for (const struct client_request *r = c->running; r; r = r->next)
        if (r->done)
            return true;
    return false;
}

bool client_wait(struct client *c, int extra_fd, int timeout_ms)
{
    struct curl_waitfd extra = {.fd = extra_fd, .events = CURL_WAIT_POLLIN};
    int running;
    curl_multi_perform(c->multi, &running);
    collect_finished(c);
    if (any_done(c))
        timeout_ms = 0;
    curl_multi_poll(c->multi, &extra, extra_fd >= 0 ? 1 : 0, timeout_ms, NULL);
    curl_multi_perform(c->multi, &running);
    collect_finished(c);
    return extra_fd >= 0 && (extra.revents & CURL_WAIT_POLLIN);
}

static void unlink_request(struct client *c, struct client_request *r)
{
    for (struct client_request **at = &c->running; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            return;
        }
}

void client_drop(struct client *c, struct client_request *r)
{
    if (!r)
        return;
    unlink_request(c, r);
    curl_multi_remove_handle(c->multi, r->easy);
    curl_easy_cleanup(r->easy);
    curl_slist_free_all(r->headers);
    free(r->sent);
    free(r->data);
    free(r);
}

int client_exit_code(long status)
{
    if (status >= 200 && status < 300)
        return CLI_DONE;
    switch (status) {
    case 403:
    case 409:
        return CLI_REFUSED;
    case 404:
        return CLI_NO_SUCH;
    case 503:
        return CLI_UNREACHABLE;
    default:
        return status >= 400 && status < 500 ? CLI_USAGE : CLI_UNREACHABLE;
    }
}

static void explain_no_connection(const struct client *c, long error, struct client_reply *reply)
{
    reply->loss = CLIENT_NO_CONNECTION;
    if (error == EACCES || error == EPERM)
        err_set(&reply->err, "cannot reach belayd at %s: this user may not open its socket", c->dir);
    else
        err_set(&reply->err, "cannot reach belayd at %s: start it with `belay up --dir %s`", c->dir, c->dir);
}

static void explain_loss(const struct client *c, const struct client_request *r, struct client_reply *reply)
{
    long error = 0;
    reply->exit_code = CLI_UNREACHABLE;
    curl_easy_getinfo(r->easy, CURLINFO_OS_ERRNO, &error);
    if (r->too_large) {
        err_set(&reply->err, "belayd's answer is larger than %u MiB: ask for less", CLIENT_REPLY_MAX >> 20);
    } else if (r->done && r->result == CURLE_COULDNT_CONNECT) {
        explain_no_connection(c, error, reply);
    } else if (r->done && r->result == CURLE_OPERATION_TIMEDOUT) {
        reply->loss = CLIENT_LOST;
        err_set(&reply->err, "belayd at %s does not answer: look into %s/belayd.log", c->dir, c->dir);
    } else {
        reply->loss = CLIENT_LOST;
        err_set(&reply->err,
                "the connection to belayd at %s broke (%s): see whether it runs with `belay status`", c->dir,
                curl_easy_strerror(r->result));
    }
}

static void read_answer(const struct client *c, const struct client_request *r, struct client_reply *reply)
{
    json_error_t where;
    reply->exit_code = client_exit_code(reply->status);
    reply->body = json_loadb(r->data ? r->data : "", r->len, 0, &where);
    const char *sentence = jsonx_str_or(reply->body, "error", NULL);
    if (reply->exit_code != CLI_DONE && sentence)
        err_set(&reply->err, "%s", sentence);
    else if (reply->exit_code != CLI_DONE)
        err_set(&reply->err,
                "belayd at %s answered with status %ld and no explanation: look into %s/belayd.log", c->dir,
                reply->status, c->dir);
    else if (!reply->body) {
        reply->exit_code = CLI_UNREACHABLE;
        err_set(&reply->err, "what answers at %s/belayd.sock is not belayd: its answer is not JSON (%s)",
                c->dir, where.text);
    }
}

void client_take(struct client *c, struct client_request *r, struct client_reply *reply)
{
    *reply = (struct client_reply){.loss = CLIENT_ANSWERED};
    if (!r)
        return;
    if (!r->done || r->result != CURLE_OK) {
        explain_loss(c, r, reply);
    } else {
        curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &reply->status);
        read_answer(c, r, reply);
    }
    client_drop(c, r);
}

void client_reply_clear(struct client_reply *reply)
{
    json_decref(reply->body);
    *reply = (struct client_reply){.body = NULL};
}

static void finish(struct client *c, struct client_request *r, struct client_reply *reply)
{
    while (!r->done)
        client_wait(c, -1, 1000);
    client_take(c, r, reply);
}

int client_try(struct client *c, const char *method, json_t *body, struct client_reply *reply,
               const char *path_fmt, ...)
{
    va_list ap;
    va_start(ap, path_fmt);
    struct client_request *r = start(c, method, body, path_fmt, ap);
    va_end(ap);
    finish(c, r, reply);
    return reply->exit_code;
}

int client_call(struct client *c, const char *method, json_t *body, json_t **out, const char *path_fmt, ...)
{
    struct client_reply reply;
    va_list ap;
    va_start(ap, path_fmt);
    struct client_request *r = start(c, method, body, path_fmt, ap);
    va_end(ap);
    finish(c, r, &reply);
    int rc = reply.exit_code;
    if (rc != CLI_DONE)
        cli_fail(rc, "%s", reply.err.text);
    else if (out)
        *out = json_incref(reply.body);
    client_reply_clear(&reply);
    return rc;
}

char *client_escape(const char *word)
{
    char *quoted = curl_easy_escape(NULL, word, 0);
    char *copy = str_dup(quoted ? quoted : "");
    curl_free(quoted);
    return copy;
}
