/* memory: every question has a number that its answer repeats, so that the late answer to a question that was given up is told from the one
 * that is waited for. Words on holds that come meanwhile are kept for memory_poll. */
#include "common/memory.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/packet.h"
#include "common/unixsock.h"

#define SEND_LIMIT_S 10 /* a shim that has not read by then is stuck */

struct memory_tier {
    int fd;
    int64_t last_id;
    struct memory_held *words; /* not told yet */
    size_t n_words, words_room;
};

struct memory_tier *memory_open(const char *path, struct err *err)
{
    const struct timeval limit = {.tv_sec = SEND_LIMIT_S};
    int fd = unixsock_connect_packets(path, err);
    if (fd < 0)
        return NULL;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    struct memory_tier *m = mem_zero(1, sizeof *m);
    m->fd = fd;
    return m;
}

void memory_close(struct memory_tier *m)
{
    if (!m)
        return;
    close(m->fd);
    free(m->words);
    free(m);
}

/* Sends msg and lets go of it. */
static int say(struct memory_tier *m, json_t *msg, int passed, struct err *err)
{
    int rc = packet_send(m->fd, msg, passed, 0, err);
    json_decref(msg);
    return rc == 0 ? 0 : err_prefix(err, "the shim's memory tier");
}

int memory_hold(struct memory_tier *m, const struct memimage *image, int fd, struct err *err)
{
    if (memimage_seal(fd, err) != 0)
        return -1;
    json_t *msg = json_pack("{s:s}", "t", "hold");
    memimage_put(msg, image);
    return say(m, msg, fd, err);
}

/* ---- what the shim says ---- */

static void keep_word(struct memory_tier *m, const json_t *msg)
{
    m->words = mem_one_more(m->words, m->n_words, &m->words_room, sizeof *m->words);
    struct memory_held *word = &m->words[m->n_words++];
    *word = (struct memory_held){.step = jsonx_int_or(msg, "step", -1),
                                 .buddy = jsonx_bool_or(msg, "buddy", false)};
    snprintf(word->name, sizeof word->name, "%s", jsonx_str_or(msg, "name", ""));
    snprintf(word->error, sizeof word->error, "%s", jsonx_str_or(msg, "error", ""));
}

/* Takes one packet: words on holds are kept, anything else is *msg. 1 for such another, 0 for none now (or only a word), -1. */
static int take(struct memory_tier *m, json_t **msg, int *passed, struct err *err)
{
    int rc = packet_receive(m->fd, MSG_DONTWAIT, msg, passed, err);
    if (rc < 0)
        return err_prefix(err, "the shim's memory tier");
    if (rc == 0 || strcmp(jsonx_str_or(*msg, "t", ""), "held") != 0)
        return rc;
    keep_word(m, *msg);
    json_decref(*msg);
    if (*passed >= 0)
        close(*passed);
    *passed = -1;
    return 0;
}

static bool readable(const struct memory_tier *m, int64_t left_ms)
{
    struct pollfd p = {.fd = m->fd, .events = POLLIN};
    return poll(&p, 1, left_ms > 0 ? (int)left_ms : 0) > 0;
}

int memory_poll(struct memory_tier *m, struct memory_held *out, size_t max, struct err *err)
{
    int rc = 0;
    while (m->n_words < max && rc == 0 && readable(m, 0)) {
        json_t *msg;
        int passed;
        rc = take(m, &msg, &passed, err);
        if (rc <= 0)
            continue;
        json_decref(msg); /* the late answer to something that was given up */
        if (passed >= 0)
            close(passed);
        rc = 0;
    }
    size_t n = m->n_words < max ? m->n_words : max;
    if (n == 0)
        return rc < 0 ? -1 : 0;
    memcpy(out, m->words, n * sizeof *out);
    m->n_words -= n;
    memmove(m->words, m->words + n, m->n_words * sizeof *out);
    return (int)n;
}

/* The answer of type t to question id, as a new reference; NULL with a sentence. */
static json_t *await(struct memory_tier *m, const char *t, int64_t id, int64_t until_ms, int *passed,
                     struct err *err)
{
    for (int64_t left_ms; (left_ms = until_ms - clock_boot_ms()) > 0;) {
        json_t *msg;
        int rc = readable(m, left_ms) ? take(m, &msg, passed, err) : 0;
        if (rc < 0)
            return NULL;
        if (rc == 0)
            continue;
        if (jsonx_int_or(msg, "id", -1) == id && strcmp(jsonx_str_or(msg, "t", ""), t) == 0)
            return msg;
        json_decref(msg);
        if (*passed >= 0)
            close(*passed);
        *passed = -1;
    }
    err_set(err, "the shim's memory tier did not answer in time");
    return NULL;
}

/* ---- questions ---- */

static int add_images(const json_t *msg, struct memimage **images, size_t *n, struct err *err)
{
    json_t *array;
    if (jsonx_array(msg, "images", &array, err) != 0)
        return -1;
    *images = mem_grow(*images, *n + json_array_size(array) + 1, sizeof **images);
    for (size_t i = 0; i < json_array_size(array); i++)
        if (memimage_get(json_array_get(array, i), &(*images)[(*n)++], err) != 0)
            return -1;
    return 0;
}

int memory_list(struct memory_tier *m, int timeout_ms, struct memimage **images, size_t *n, struct err *err)
{
    int64_t until_ms = clock_boot_ms() + timeout_ms, id = ++m->last_id;
    bool more = true;
    *images = NULL;
    *n = 0;
    int rc = say(m, json_pack("{s:s,s:I}", "t", "list", "id", (json_int_t)id), -1, err);
    while (rc == 0 && more) {
        int passed = -1;
        json_t *msg = await(m, "images", id, until_ms, &passed, err);
        if (passed >= 0) /* nobody asked for it */
            close(passed);
        rc = msg ? add_images(msg, images, n, err) : -1;
        more = jsonx_bool_or(msg, "more", false);
        json_decref(msg);
    }
    if (rc == 0)
        return 0;
    free(*images);
    *images = NULL;
    *n = 0;
    return -1;
}

/* The descriptor, when the answer is what was asked for; else it is closed. */
static int take_image(const json_t *msg, int passed, const struct memimage *want, struct err *err)
{
    const char *error = jsonx_str_or(msg, "error", NULL);
    struct memimage got;
    int rc;
    if (error)
        rc = err_set(err, "%s", error);
    else if (memimage_get(msg, &got, err) != 0)
        rc = -1;
    else if (!memimage_same(&got, want))
        rc = err_set(err, "the shim gave another image than %s of step %lld", want->name,
                     (long long)want->step);
    else
        rc = memimage_check(passed, want->bytes, err);
    if (rc != 0 && passed >= 0)
        close(passed);
    return rc == 0 ? passed : -1;
}

int memory_image(struct memory_tier *m, const struct memimage *want, int64_t node, int timeout_ms,
                 struct err *err)
{
    int64_t until_ms = clock_boot_ms() + timeout_ms, id = ++m->last_id;
    json_t *ask = json_pack("{s:s,s:I}", "t", "open", "id", (json_int_t)id);
    int passed = -1;
    memimage_put(ask, want);
    if (node >= 0)
        jsonx_set(ask, "node", json_integer(node));
    if (say(m, ask, -1, err) != 0)
        return -1;
    json_t *msg = await(m, "image", id, until_ms, &passed, err);
    int fd = msg ? take_image(msg, passed, want, err) : -1;
    json_decref(msg);
    return fd;
}
