/* objects_call: see objects_call.h. A request is one transfer of an easy handle in a multi handle, so that it can be left at any time; connections
 * stay open from one to the next. Each try begins anew, but for content that has arrived. */
#include "checkpoint/objects_call.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "checkpoint/objects_address.h"
#include "checkpoint/objects_hint.h"
#include "checkpoint/objects_keys.h"
#include "checkpoint/objects_retry.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/mix.h"

#define SLICE_MS        50           /* between two looks at `cancel` */
#define BUFFER_BYTES    (512L << 10) /* the most for what is received */
#define STALL_RATE      1024L
#define PATIENT_STALL_S 600L /* completing an upload of many parts takes minutes, says AWS */
#define HASH_HEADER     "x-amz-meta-belay-xxh3-128"
#define NOTHING_SHA256  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct objects {
    CURLM *multi;
    CURL *easy;
    char *place;         /* "s3://bucket at https://…", for sentences */
    char *base, *signer; /* CURLOPT_AWS_SIGV4 */
    struct objects_limits limits;
    struct objects_watch *watch, unwatched;
    uint64_t random;
};

/* One try of a call. */
struct
try {
    struct objects *o;
    struct objects_call *call;
    struct curl_slist *headers;
    uint64_t *done, sent; /* content that has arrived, by all tries; body that was handed over, by this one */
    char *text;           /* of an answer that is no content */
    size_t len;
    CURLcode rc;
    char reason[CURL_ERROR_SIZE];
    struct err local; /* what went wrong on this side, "" = nothing */
};

struct objects *objects_open(const struct objects_place *place, const struct objects_limits *limits,
                             struct objects_watch *watch, struct err *err)
{
    struct objects_keys keys;
    int rc = objects_keys_load(&keys, err);
    objects_keys_clear(&keys);
    if (rc != 0)
        return NULL;
    struct objects *o = mem_zero(1, sizeof *o);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    o->multi = curl_multi_init();
    o->easy = curl_easy_init();
    if (!o->multi || !o->easy)
        abort(); /* out of memory, as mem_zero does */
    o->base = objects_base(place);
    o->place = str_printf("s3://%s at %s", place->bucket, place->endpoint ? place->endpoint : "AWS");
    o->signer = str_printf("aws:amz:%s:s3", place->region);
    o->limits = limits ? *limits : objects_usual_limits;
    o->watch = watch ? watch : &o->unwatched;
    if (getrandom(&o->random, sizeof o->random, 0) < 0)
        o->random = (uint64_t)clock_boot_ms() ^ ((uint64_t)getpid() << 32); /* only spreads retries */
    return o;
}

void objects_close(struct objects *o)
{
    if (!o)
        return;
    curl_easy_cleanup(o->easy);
    curl_multi_cleanup(o->multi);
    free(o->signer);
    free(o->place);
    free(o->base);
    free(o);
}

struct objects_watch *objects_watch_of(struct objects *o)
{
    return o->watch;
}

bool objects_said(const struct objects_call *call, const char *code)
{
    return call->answer.code && strcmp(call->answer.code, code) == 0;
}

/* ---- what goes out and comes in --------------------------------------------------------------------------------------- */

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    struct try *t = arg;
    const struct objects_source *s = t->call->body;
    uint64_t left = s->bytes - t->sent, want = size * n < left ? size * n : left;
    ssize_t got = (ssize_t)want;
    if (s->data)
        memcpy(out, (const char *)s->data + t->sent, want);
    else
        do
            got = pread(s->fd, out, want, (off_t)(s->from + t->sent));
        while (got < 0 && errno == EINTR);
    if (got < 0 || (got == 0 && want > 0)) {
        err_set(&t->local, "it cannot be read: %s", got < 0 ? strerror(errno) : "the file became shorter");
        return CURL_READFUNC_ABORT;
    }
    t->sent += (uint64_t)got;
    return (size_t)got;
}

/* libcurl begins again when a connection that was kept open turns out to be closed. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct try *t = arg;
    if (origin != SEEK_SET || offset < 0)
        return CURL_SEEKFUNC_CANTSEEK;
    t->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_content(struct try *t, const char *data, size_t len)
{
    struct objects_call *c = t->call;
    if (len > c->bytes - *t->done) {
        err_set(&t->local, "the server sends more than was asked for");
        return 0;
    }
    for (size_t at = 0; at < len;) {
        ssize_t n = pwrite(c->fd, data + at, len - at, (off_t)(c->at + *t->done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_sys(&t->local, "it cannot be written");
            return 0;
        }
        at += (size_t)n;
        *t->done += (uint64_t)n;
        t->o->watch->received += (unsigned long long)n;
    }
    return len;
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    struct try *t = arg;
    size_t len = size * n;
    long status = 0;
    curl_easy_getinfo(t->o->easy, CURLINFO_RESPONSE_CODE, &status);
    if (t->call->range && (status == 206 || (status == 200 && t->call->from + *t->done == 0)))
        return take_content(t, data, len);
    if (t->call->range && status == 200) {
        err_set(&t->local, "the server does not send parts of objects");
        return 0;
    }
    if (len > OBJECTS_XML_MAX - t->len)
        return 0;
    t->text = mem_grow(t->text, t->len + len + 1, 1);
    memcpy(t->text + t->len, data, len);
    t->len += len;
    return len;
}

/* ---- a request -------------------------------------------------------------------------------------------------------- */

static void add_header(struct try *t, const char *name, const char *value)
{
    char *line = str_printf("%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(t->headers, line);
    if (!longer)
        abort();
    t->headers = longer;
    explicit_bzero(line, strlen(line)); /* it may have been a token */
    free(line);
}

static void set_headers(struct try *t, const struct objects_keys *keys)
{
    const struct objects_call *c = t->call;
    add_header(t, "x-amz-content-sha256", c->sums ? c->sums->sha256 : NOTHING_SHA256);
    if (c->sums)
        add_header(t, "Content-MD5", c->sums->md5_base64);
    if (c->hash)
        add_header(t, HASH_HEADER, c->hash);
    if (keys->token[0])
        add_header(t, "x-amz-security-token", keys->token);
    if (strcmp(c->method, "POST") == 0 || strcmp(c->method, "PUT") == 0)
        add_header(t, "Content-Type", "application/octet-stream");
    curl_easy_setopt(t->o->easy, CURLOPT_HTTPHEADER, t->headers);
}

static void set_method(struct try *t)
{
    CURL *e = t->o->easy;
    const struct objects_call *c = t->call;
    if (strcmp(c->method, "PUT") == 0) {
        curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->body->bytes);
        curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(e, CURLOPT_READDATA, t);
        curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(e, CURLOPT_SEEKDATA, t);
    } else if (strcmp(c->method, "POST") == 0) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(c->body ? c->body->bytes : 0));
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->body ? c->body->data : "");
    } else if (strcmp(c->method, "HEAD") == 0) {
        curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    } else if (strcmp(c->method, "DELETE") == 0) {
        curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "DELETE");
    }
    if (c->range) {
        char *range = str_printf("%" PRIu64 "-%" PRIu64, c->from + *t->done, c->from + c->bytes - 1);
        curl_easy_setopt(e, CURLOPT_RANGE, range);
        free(range);
    }
}

static void set_address(struct try *t)
{
    const struct objects_call *c = t->call;
    char *path = objects_encode(c->key, true);
    char *url = str_printf("%s/%s%s", t->o->base, path, c->query ? c->query : "");
    curl_easy_setopt(t->o->easy, CURLOPT_URL, url);
    curl_easy_setopt(t->o->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(t->o->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->o->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    free(url);
    free(path);
}

static void set_limits(struct try *t)
{
    CURL *e = t->o->easy;
    long stall = t->call->patient ? PATIENT_STALL_S : (long)t->o->limits.stall_s;
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)t->o->limits.connect_ms);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, STALL_RATE);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, stall);
}

static int set_up(struct try *t)
{
    CURL *e = t->o->easy;
    struct objects_keys keys;
    int rc = objects_keys_load(&keys, &t->local);
    curl_easy_reset(e);
    if (rc == 0) {
        curl_easy_setopt(e, CURLOPT_AWS_SIGV4, t->o->signer);
        curl_easy_setopt(e, CURLOPT_USERNAME, keys.id);
        curl_easy_setopt(e, CURLOPT_PASSWORD, keys.secret);
        set_headers(t, &keys);
        set_method(t);
        set_address(t);
        set_limits(t);
        curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->reason);
        curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
        curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    }
    objects_keys_clear(&keys);
    return rc;
}

/* Ends early when it is cancelled. */
static void transfer(struct try *t)
{
    struct objects *o = t->o;
    CURLMsg *message;
    int running = 1, left;
    curl_multi_add_handle(o->multi, o->easy);
    while (curl_multi_perform(o->multi, &running) == CURLM_OK && running > 0 && !o->watch->cancel)
        curl_multi_poll(o->multi, NULL, 0, SLICE_MS, NULL);
    t->rc = CURLE_ABORTED_BY_CALLBACK;
    while ((message = curl_multi_info_read(o->multi, &left)))
        if (message->msg == CURLMSG_DONE)
            t->rc = message->data.result;
    if (running > 0)
        curl_easy_setopt(o->easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name server */
    curl_multi_remove_handle(o->multi, o->easy);
}

/* ---- what came of it -------------------------------------------------------------------------------------------------- */

/* A header of the answer, NULL when it is not there. */
static const char *header(const struct try *t, const char *name)
{
    struct curl_header *h;
    return curl_easy_header(t->o->easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value : NULL;
}

/* Copies a value that has no odd characters; else out is "". */
static void copy_header(const struct try *t, const char *name, char *out, size_t size)
{
    const char *value = header(t, name);
    size_t len = value ? strlen(value) : 0;
    out[0] = 0;
    if (len == 0 || len >= size || strpbrk(value, "<>&") || strspn(value, " \t") > 0)
        return;
    memcpy(out, value, len + 1);
}

static void take_headers(struct try *t)
{
    curl_off_t length = -1;
    struct objects_call *c = t->call;
    copy_header(t, "ETag", c->etag, sizeof c->etag);
    copy_header(t, HASH_HEADER, c->info.hash, sizeof c->info.hash);
    curl_easy_getinfo(t->o->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    c->info.bytes = length > 0 ? (uint64_t)length : 0;
}

enum verdict { FINE, AGAIN, NEVER, ABSENT };

static bool may_pass(CURLcode rc)
{
    switch (rc) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_NOT_BUILT_IN:
    case CURLE_UNKNOWN_OPTION:
        return false;
    default:
        return true;
    }
}

static enum verdict judge_broken(const struct try *t, struct err *err)
{
    if (t->local.text[0]) {
        err_set(err, "%s", t->local.text);
        return NEVER;
    }
    err_set(err, "%s", t->reason[0] ? t->reason : curl_easy_strerror(t->rc));
    return may_pass(t->rc) ? AGAIN : NEVER;
}

/* Printable, and short enough for a sentence. */
static void clean(const char *text, char out[201])
{
    size_t n = 0;
    for (; text && *text && n < 200; text++)
        out[n++] = (unsigned char)*text < ' ' || *text == 127 ? ' ' : *text;
    out[n] = 0;
}

static enum verdict judge_error(const struct try *t, struct err *err)
{
    const struct objects_call *c = t->call;
    char code[201], message[201], hint[256];
    clean(c->answer.code, code);
    clean(c->answer.message, message);
    const char *region = c->answer.region ? c->answer.region : header(t, "x-amz-bucket-region");
    err_set(err, "status %ld%s%s%s%s%s%s", c->status, code[0] ? " " : "", code, message[0] ? " (" : "",
            message, message[0] ? ")" : "", objects_hint(code, region, hint, sizeof hint));
    if (c->status == 404 && (!code[0] || strcmp(code, "NoSuchKey") == 0 || strcmp(code, "NoSuchUpload") == 0))
        return ABSENT;
    return objects_retry_status(c->status, code) ? AGAIN : NEVER;
}

static enum verdict judge_good(const struct try *t, struct err *err)
{
    const struct objects_call *c = t->call;
    if (c->range && *t->done < c->bytes) {
        err_set(err, "status %ld, and only %" PRIu64 " of %" PRIu64 " bytes came", c->status, *t->done,
                c->bytes);
        return AGAIN;
    }
    const char *root = c->answer.root ? c->answer.root : "";
    if (!c->expect || strcmp(root, c->expect) == 0)
        return FINE;
    err_set(err, "status %ld with <%.64s> instead of <%s>", c->status, root, c->expect);
    return AGAIN;
}

static enum verdict judge(struct try *t, struct err *err)
{
    struct objects_call *c = t->call;
    if (c->range && *t->done == c->bytes)
        return FINE; /* however the connection ended then */
    if (t->rc != CURLE_OK)
        return judge_broken(t, err);
    curl_easy_getinfo(t->o->easy, CURLINFO_RESPONSE_CODE, &c->status);
    take_headers(t);
    bool good = c->status >= 200 && c->status < 300;
    struct err why = {""};
    int read =
        t->len > 0 && (c->expect || !good) ? objects_answer_read(t->text, t->len, &c->answer, &why) : -1;
    if (good && c->expect && read != 0) {
        err_set(err, "status %ld, but %s", c->status, why.text[0] ? why.text : "the answer is empty");
        return AGAIN;
    }
    /* completing an upload may begin with status 200 and end with an error */
    bool error = !good || (c->answer.root && strcmp(c->answer.root, "Error") == 0);
    if (error && good)
        c->status = 500;
    return error ? judge_error(t, err) : judge_good(t, err);
}

/* ---- tries ------------------------------------------------------------------------------------------------------------ */

/* False when it was cancelled. */
static bool pause_ms(const struct objects *o, int64_t ms)
{
    int64_t end = clock_boot_ms() + ms;
    for (int64_t left; !o->watch->cancel && (left = end - clock_boot_ms()) > 0;)
        (void)poll(NULL, 0, left < SLICE_MS ? (int)left : SLICE_MS);
    return !o->watch->cancel;
}

static int64_t asked_pause(const struct try *t)
{
    const char *seconds = t->rc == CURLE_OK ? header(t, "Retry-After") : NULL;
    long n = seconds ? strtol(seconds, NULL, 10) : 0; /* a date counts as 0 or as a year: both are bounded */
    return n > 0 && n < 3600 ? n * 1000 : 0;
}

static enum verdict try_once(struct objects *o, struct objects_call *call, uint64_t *done, int64_t *asked_ms,
                             struct err *err)
{
    struct try t = {.o = o, .call = call, .done = done};
    enum verdict verdict = NEVER;
    objects_answer_clear(&call->answer);
    call->status = 0;
    if (set_up(&t) != 0) {
        err_set(err, "%s", t.local.text);
    } else {
        transfer(&t);
        verdict = judge(&t, err);
    }
    *asked_ms = asked_pause(&t);
    curl_slist_free_all(t.headers);
    free(t.text);
    return verdict;
}

static enum objects_result cancelled(struct err *err)
{
    err_set(err, "it was cancelled");
    return OBJECTS_CANCELLED;
}

static enum objects_result give_up(const struct objects *o, const struct objects_call *c, int tried,
                                   const struct err *why, struct err *err)
{
    char tries[32] = "";
    if (tried > 1)
        (void)snprintf(tries, sizeof tries, ", after %d tries", tried); /* always fits */
    err_set(err, "cannot %s %s%sin %s: %s%s", c->what, c->key, *c->key ? " " : "", o->place, why->text,
            tries);
    return OBJECTS_ERROR;
}

enum objects_result objects_call(struct objects *o, struct objects_call *call, struct err *err)
{
    uint64_t done = 0;
    int64_t asked = 0;
    struct err why = {""};
    for (int tried = 1;; tried++) {
        if (o->watch->cancel)
            return cancelled(err);
        enum verdict verdict = try_once(o, call, &done, &asked, &why);
        if (verdict == FINE)
            return OBJECTS_OK;
        if (o->watch->cancel)
            return cancelled(err);
        o->random = mix64(o->random + MIX_GOLDEN);
        int64_t wait =
            verdict == AGAIN && !call->once ? objects_retry_pause(&o->limits, tried, asked, o->random) : -1;
        if (wait < 0) {
            enum objects_result rc = give_up(o, call, tried, &why, err);
            return verdict == ABSENT ? OBJECTS_ABSENT : rc;
        }
        o->watch->retries++;
        if (!pause_ms(o, wait))
            return cancelled(err);
    }
}
