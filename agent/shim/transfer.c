/* transfer: every transfer is one struct with one event on its socket. What it does next is its phase:
 *
 *   asking  CONNECT → LINE_OUT (who I am, what I want) → LINE_IN (the answer) → BODY_OUT → LINE_IN → end      push
 *                                                                             → BODY_IN → end                fetch
 *   serving LINE_OUT (go on) → BODY_IN → LINE_OUT (held) → end                                               of a push
 *           LINE_OUT (here it is) → BODY_OUT → end                                                           of a fetch
 *
 * At most PIECE bytes are moved each time the socket is ready. */
#include "agent/shim/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "checkpoint/digest.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proof.h"

#define PIECE         (512u << 10) /* some 0.1 ms of copying and hashing */
#define LINE_LIMIT    2048
#define STILL_LIMIT_S 20  /* a transfer that moves no byte for so long is over */
#define TRANSFERS_MAX 128 /* that are served at once; whoever is turned away tries again */

enum phase { CONNECT, LINE_OUT, LINE_IN, BODY_OUT, BODY_IN };

struct transfer {
    struct transfers *all;
    struct transfer *next;
    bool serving, push, answered;
    enum phase phase;
    int fd;
    struct event *ready;
    char line[LINE_LIMIT];
    size_t line_len, line_at;
    struct memimage is;
    struct held *out; /* what is sent */
    int in;           /* what is received, a memory file; or -1 */
    int64_t at;       /* bytes of the body that are done */
    struct digest *digest;
    transfer_done *done;
    void *ctx;
};

struct transfers {
    struct event_base *base;
    struct transfer_id id;
    struct images *images;
    struct transfer *first;
    size_t n_served;
};

static void on_ready(evutil_socket_t fd, short what, void *arg);

void transfer_proof_text(int64_t job, int64_t attempt, int64_t node_rank, char out[TRANSFER_PROOF_TEXT])
{
    snprintf(out, TRANSFER_PROOF_TEXT, "memory|%lld|%lld|%lld", (long long)job, (long long)attempt,
             (long long)node_rank);
}

/* ---- one transfer: making and ending ---- */

static struct transfer *new_transfer(struct transfers *all, bool serving, bool push,
                                     const struct memimage *image)
{
    struct transfer *t = mem_zero(1, sizeof *t);
    *t = (struct transfer){
        .all = all, .next = all->first, .serving = serving, .push = push, .fd = -1, .in = -1, .is = *image};
    all->first = t;
    all->n_served += serving;
    return t;
}

static void end_digest(struct transfer *t)
{
    char unused[DIGEST_SIZE];
    if (t->digest)
        digest_end(t->digest, unused);
    t->digest = NULL;
}

static void free_transfer(struct transfer *t)
{
    end_digest(t);
    if (t->ready)
        event_free(t->ready);
    if (t->fd >= 0)
        close(t->fd);
    if (t->in >= 0)
        close(t->in);
    images_drop(t->out);
    free(t);
}

static void unlink_transfer(struct transfer *t)
{
    struct transfer **at = &t->all->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    t->all->n_served -= t->serving;
}

static void finish_with(struct transfer *t, const struct transfer_end *end)
{
    transfer_done *done = t->done;
    void *ctx = t->ctx;
    if (end->error && t->serving)
        log_warn("%s of step %lld %s another node: %s", t->is.name, (long long)t->is.step,
                 t->push ? "from" : "to", end->error);
    unlink_transfer(t);
    free_transfer(t);
    if (done)
        done(ctx, end);
}

/* error NULL: it went well. */
static void finish(struct transfer *t, const char *error)
{
    finish_with(t, &(struct transfer_end){.error = error});
}

/* Goes on with phase when the socket can take or give something. */
static void await(struct transfer *t, enum phase phase)
{
    static const struct timeval limit = {.tv_sec = STILL_LIMIT_S};
    short what = phase == LINE_IN || phase == BODY_IN ? EV_READ : EV_WRITE;
    t->phase = phase;
    if (t->ready)
        event_free(t->ready);
    t->ready = event_new(t->all->base, t->fd, what | EV_PERSIST, on_ready, t);
    event_add(t->ready, &limit);
}

/* ---- lines ---- */

static void send_line(struct transfer *t, json_t *msg)
{
    size_t len = json_dumpb(msg, t->line, sizeof t->line - 1, JSON_COMPACT);
    json_decref(msg);
    if (len >= sizeof t->line)
        abort(); /* names and texts are far shorter */
    t->line[len] = '\n';
    t->line_len = len + 1;
    t->line_at = 0;
    await(t, LINE_OUT);
}

/* The last line of this side: what was asked for was done (error NULL), or why not, and whether it may be asked again. */
static void answer(struct transfer *t, const char *type, const char *error, bool again)
{
    json_t *msg = json_pack("{s:s}", "t", type);
    if (error) {
        jsonx_set_str(msg, "error", error);
        jsonx_set(msg, "again", json_boolean(again));
    }
    t->answered = true;
    send_line(t, msg);
}

static json_t *say_who(const struct transfer *t)
{
    const struct transfer_id *id = &t->all->id;
    char text[TRANSFER_PROOF_TEXT], proof[PROOF_SIZE];
    transfer_proof_text(id->job, id->attempt, id->node_rank, text);
    proof_make(id->token, text, proof);
    json_t *msg = json_pack("{s:s,s:s}", "t", "memory", "ask", t->push ? "hold" : "open");
    jsonx_set(msg, "job", json_integer(id->job));
    jsonx_set(msg, "by", json_integer(id->attempt));
    jsonx_set(msg, "node_rank", json_integer(id->node_rank));
    jsonx_set_str(msg, "proof", proof);
    memimage_put(msg, &t->is);
    return msg;
}

static void begin_body_in(struct transfer *t)
{
    struct err err = {""};
    if (t->push)
        images_make_room(t->all->images, &t->is);
    t->in = memimage_new(t->is.name, t->is.bytes, &err);
    t->digest = digest_new();
    if (t->in < 0)
        finish(t, err.text);
    else
        await(t, BODY_IN);
}

/* The other side's answer to what was asked, or its word that it holds what was sent. */
static void take_answer(struct transfer *t, const json_t *msg)
{
    const char *error = jsonx_str_or(msg, "error", NULL);
    bool last = t->push && t->answered;
    t->answered = true;
    if (!msg || strcmp(jsonx_str_or(msg, "t", ""), last ? "held" : "go") != 0)
        finish(t, "the other node's shim answered with something else than was expected");
    else if (error || last)
        finish_with(t, &(struct transfer_end){.error = error,
                                              .hopeless = error && !jsonx_bool_or(msg, "again", false)});
    else if (t->push)
        await(t, BODY_OUT);
    else
        begin_body_in(t);
}

static void line_out(struct transfer *t)
{
    ssize_t n = send(t->fd, t->line + t->line_at, t->line_len - t->line_at, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        finish(t, strerror(errno));
        return;
    }
    t->line_at += n > 0 ? (size_t)n : 0;
    if (t->line_at < t->line_len)
        return;
    t->line_len = 0;
    if (!t->serving)
        await(t, LINE_IN);
    else if (t->answered)
        finish(t, NULL); /* said that it is held, or why nothing comes */
    else if (t->push)
        begin_body_in(t);
    else
        await(t, BODY_OUT);
}

/* Only up to the line's end: what follows it is the body. */
static void line_in(struct transfer *t)
{
    while (t->line_len < sizeof t->line) {
        ssize_t n = recv(t->fd, t->line + t->line_len, sizeof t->line - t->line_len, MSG_PEEK);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            finish(t, n == 0 ? "the other node's shim closed the connection" : strerror(errno));
            return;
        }
        const char *end = memchr(t->line + t->line_len, '\n', (size_t)n);
        size_t take = end ? (size_t)(end - t->line) + 1 - t->line_len : (size_t)n;
        if (recv(t->fd, t->line + t->line_len, take, 0) != (ssize_t)take)
            return;
        t->line_len += take;
        if (!end)
            continue;
        json_t *msg = json_loadb(t->line, t->line_len - 1, 0, NULL);
        t->line_len = 0;
        take_answer(t, msg);
        json_decref(msg);
        return;
    }
    finish(t, "the other node's shim sent a line that is too long");
}

/* ---- bodies ---- */

static void body_out(struct transfer *t)
{
    off_t at = t->at;
    int64_t left = t->is.bytes - t->at;
    ssize_t n = sendfile(t->fd, t->out->fd, &at, left < PIECE ? (size_t)left : PIECE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        finish(t, n == 0 ? "the image is shorter than was said" : strerror(errno));
        return;
    }
    t->at += n;
    if (t->at < t->is.bytes)
        return;
    if (t->serving)
        finish(t, NULL);
    else
        await(t, LINE_IN);
}

static void received(struct transfer *t)
{
    char hash[DIGEST_SIZE];
    int fd = t->in;
    digest_end(t->digest, hash);
    t->digest = NULL;
    if (strcmp(hash, t->is.hash) != 0) {
        static const char why[] =
            "the bytes that came are not those that were announced: their hash is another";
        if (t->push)
            answer(t, "held", why, false); /* the rank wrote into it again */
        else
            finish(t, why);
        return;
    }
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE); /* it was verified: nobody changes it any more */
    t->in = -1;
    if (t->push) {
        images_hold(t->all->images, &t->is, fd);
        answer(t, "held", NULL, false);
    } else {
        struct held *image = images_adopt(t->all->images, &t->is, fd);
        finish_with(t, &(struct transfer_end){.image = image});
        images_drop(image);
    }
}

static void body_in(struct transfer *t)
{
    static char piece[PIECE];
    int64_t left = t->is.bytes - t->at;
    ssize_t n = recv(t->fd, piece, left < PIECE ? (size_t)left : PIECE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        finish(t, n == 0 ? "it broke off" : strerror(errno));
        return;
    }
    digest_add(t->digest, piece, (size_t)n);
    if (pwrite(t->in, piece, (size_t)n, t->at) != n) {
        finish(t, "there is no memory for it on this node");
        return;
    }
    t->at += n;
    if (t->at == t->is.bytes)
        received(t);
}

static void connected(struct transfer *t)
{
    int why = 0;
    socklen_t len = sizeof why;
    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        why = errno;
    if (why != 0)
        finish(t, strerror(why));
    else
        send_line(t, say_who(t));
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    static void (*const steps[])(struct transfer * t) = {[CONNECT] = connected,
                                                         [LINE_OUT] = line_out,
                                                         [LINE_IN] = line_in,
                                                         [BODY_OUT] = body_out,
                                                         [BODY_IN] = body_in};
    (void)fd;
    struct transfer *t = arg;
    if (what & EV_TIMEOUT)
        finish(t, "the other node's shim does not go on");
    else
        steps[t->phase](t);
}

/* ---- asking ---- */

static int start_connect(struct transfer *t, const struct transfer_peer *peer)
{
    char port[16];
    snprintf(port, sizeof port, "%lld", (long long)peer->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(peer->addr, port, &hints, &found) != 0)
        return -1;
    t->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = t->fd < 0 ? -1 : connect(t->fd, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return rc == 0 || errno == EINPROGRESS ? 0 : -1;
}

static void failed_to_start(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    finish(arg, "cannot connect to the other node's shim");
}

static void begin(struct transfer *t, const struct transfer_peer *peer, transfer_done *done, void *ctx)
{
    t->done = done;
    t->ctx = ctx;
    if (start_connect(t, peer) == 0) {
        await(t, CONNECT);
        return;
    }
    t->ready = evtimer_new(t->all->base, failed_to_start, t); /* the caller hears of it from the loop only */
    evtimer_add(t->ready, &(struct timeval){0});
}

void transfer_push(struct transfers *all, const struct transfer_peer *peer, struct held *image,
                   transfer_done *done, void *ctx)
{
    struct transfer *t = new_transfer(all, false, true, &image->is);
    t->out = images_use(image);
    begin(t, peer, done, ctx);
}

void transfer_fetch(struct transfers *all, const struct transfer_peer *peer, const struct memimage *want,
                    transfer_done *done, void *ctx)
{
    begin(new_transfer(all, false, false, want), peer, done, ctx);
}

/* ---- serving ---- */

void transfer_serve(struct transfers *all, int fd, const json_t *line)
{
    struct err err = {""};
    struct memimage image = {0};
    const char *ask = jsonx_str_or(line, "ask", "");
    bool push = strcmp(ask, "hold") == 0, known = push || strcmp(ask, "open") == 0,
         busy = all->n_served >= TRANSFERS_MAX;
    int bad = memimage_get(line, &image, &err);
    image.attempt = push ? all->id.attempt : image.attempt;
    struct transfer *t = new_transfer(all, true, push, &image);
    t->fd = fd;
    if (!known || bad)
        answer(t, "go", known ? err.text : "this version of belay-shim does not know what is asked for",
               false);
    else if (busy)
        answer(t, "go", "that node is busy with other images", true);
    else if (!push && images_find(all->images, &image))
        t->out = images_use(images_find(all->images, &image));
    else if (!push)
        answer(t, "go", "that node does not hold this image", false);
    if (!t->answered)
        send_line(t, json_pack("{s:s}", "t", "go"));
}

/* ---- all of them ---- */

struct transfers *transfers_new(struct event_base *base, const struct transfer_id *id, struct images *images)
{
    struct transfers *t = mem_zero(1, sizeof *t);
    *t = (struct transfers){.base = base, .id = *id, .images = images};
    return t;
}

void transfers_free(struct transfers *t)
{
    if (!t)
        return;
    for (struct transfer *one = t->first, *next; one; one = next) {
        next = one->next;
        free_transfer(one);
    }
    free(t);
}
