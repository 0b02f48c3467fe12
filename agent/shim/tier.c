/* tier: what is said and asked, over the store (images), those who say it (callers), what goes to the buddy (outbox) and what comes from other nodes
 * (fetches). */
#include "agent/shim/tier.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/shim/buddy.h"
#include "agent/shim/callers.h"
#include "agent/shim/fetches.h"
#include "agent/shim/images.h"
#include "agent/shim/inherit.h"
#include "agent/shim/outbox.h"
#include "agent/shim/transfer.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"

#define CALLERS_A_RANK 4    /* its processes may each have one */
#define LIST_PAGE      64   /* images in a packet: 64 * 300 bytes fit */
#define IMAGES_MAX     4096 /* a rank that invents names must not use up all descriptors */

struct tier {
    struct transfer_id id;
    char *token, *rank_socket;
    bool wants_buddy;
    struct images *images;
    struct transfers *transfers;
    struct callers *callers;
    struct outbox *outbox;
    struct fetches *fetches;
    char **addrs; /* (n_nodes), from go on */
    int64_t *ports;
    size_t n_nodes;
};

/* ---- hold ---- */

static void say_held(struct tier *t, int64_t caller, const struct memimage *image, bool buddy,
                     const char *error)
{
    json_t *msg = json_pack("{s:s,s:b}", "t", "held", "buddy", (int)buddy);
    jsonx_set(msg, "step", json_integer(image->step));
    jsonx_set_str(msg, "name", image->name);
    if (error)
        jsonx_set_str(msg, "error", error);
    callers_answer(t->callers, caller, msg, NULL);
}

static void on_sent(void *ctx, int64_t caller, const struct memimage *image, bool buddy)
{
    say_held(ctx, caller, image, buddy, NULL);
}

static int check_hold(const struct tier *t, const json_t *msg, int passed, struct memimage *image,
                      struct err *err)
{
    if (memimage_get(msg, image, err) != 0)
        return -1;
    image->attempt = t->id.attempt;
    if (passed < 0)
        return err_set(err, "it came without a descriptor");
    if (images_count(t->images) >= IMAGES_MAX)
        return err_set(err, "this node holds %d images already", IMAGES_MAX);
    return memimage_check(passed, image->bytes, err);
}

static void on_hold(struct tier *t, int64_t caller, const json_t *msg, int passed)
{
    struct memimage image = {.step = jsonx_int_or(msg, "step", -1)};
    struct err err = {""};
    if (check_hold(t, msg, passed, &image, &err) == 0) {
        outbox_put(t->outbox, images_hold(t->images, &image, passed), caller);
        return;
    }
    snprintf(image.name, sizeof image.name, "%.*s", MEMIMAGE_NAME_MAX, jsonx_str_or(msg, "name", ""));
    say_held(t, caller, &image, false, err.text);
    if (passed >= 0)
        close(passed);
}

/* ---- list and open ---- */

static void on_list(struct tier *t, int64_t caller, const json_t *msg)
{
    size_t n = images_count(t->images), i = 0;
    do {
        json_t *page = json_array(), *answer = json_pack("{s:s,s:o}", "t", "images", "images", page);
        for (size_t end = i + LIST_PAGE; i < n && i < end; i++) {
            json_t *image = json_object();
            memimage_put(image, &images_at(t->images, i)->is);
            (void)json_array_append_new(page, image);
        }
        jsonx_set(answer, "id", json_integer(jsonx_int_or(msg, "id", -1)));
        jsonx_set(answer, "more", json_boolean(i < n));
        callers_answer(t->callers, caller, answer, NULL);
    } while (i < n);
}

static void give(void *ctx, struct waiter to, const struct memimage *want, struct held *image,
                 const char *error)
{
    struct tier *t = ctx;
    json_t *msg = json_pack("{s:s}", "t", "image");
    jsonx_set(msg, "id", json_integer(to.question));
    if (want)
        memimage_put(msg, want);
    if (error)
        jsonx_set_str(msg, "error", error);
    callers_answer(t->callers, to.caller, msg, image);
}

/* One that another shim sent and that was verified then: nobody can have written into it since. */
static bool is_sealed(const struct held *image)
{
    return fcntl(image->fd, F_GET_SEALS) & F_SEAL_WRITE;
}

static void fetch(struct tier *t, struct waiter to, const struct memimage *want, int64_t node)
{
    struct transfer_peer peer = {t->addrs[node], t->ports[node]};
    fetches_add(t->fetches, &peer, want, to);
}

static void on_open(struct tier *t, int64_t caller, const json_t *msg)
{
    struct memimage want;
    struct err err = {""};
    struct waiter to = {.caller = caller, .question = jsonx_int_or(msg, "id", -1)};
    int64_t node = jsonx_int_or(msg, "node", t->id.node_rank);
    bool local = node == t->id.node_rank;
    if (memimage_get(msg, &want, &err) != 0) {
        give(t, to, NULL, NULL, err.text);
        return;
    }
    struct held *here = images_find(t->images, &want);
    if (here && (local || is_sealed(here))) {
        give(t, to, &want, here, NULL);
    } else if (!local && node >= 0 && (size_t)node < t->n_nodes) {
        fetch(t, to, &want, node);
    } else {
        err_set(&err, "%s of step %lld is not held on %s", want.name, (long long)want.step,
                local ? "this node" : "a node of this attempt");
        give(t, to, &want, NULL, err.text);
    }
}

static void on_said(void *ctx, int64_t caller, const json_t *msg, int passed)
{
    struct tier *t = ctx;
    const char *type = jsonx_str_or(msg, "t", "");
    if (strcmp(type, "hold") == 0) {
        on_hold(t, caller, msg, passed);
        return;
    }
    if (passed >= 0)
        close(passed);
    if (strcmp(type, "list") == 0)
        on_list(t, caller, msg);
    else if (strcmp(type, "open") == 0)
        on_open(t, caller, msg);
}

/* ---- its life ---- */

static int listen_at(struct tier *t, const char *dir, struct err *err)
{
    char *heirs = str_printf("%s/" INHERIT_SOCKET, dir);
    int rc = callers_listen(t->callers, t->rank_socket, 0666, err);
    if (rc == 0)
        rc = callers_listen(t->callers, heirs, 0600, err);
    free(heirs);
    return rc;
}

struct tier *tier_open(struct event_base *base, const struct link_order *order, uid_t uid,
                       const char *rank_socket, const char *dir, struct err *err)
{
    struct tier *t = mem_zero(1, sizeof *t);
    t->token = str_dup(order->token);
    t->rank_socket = str_dup(rank_socket);
    t->wants_buddy = order->buddy;
    t->id = (struct transfer_id){
        .job = order->job, .attempt = order->attempt, .node_rank = order->node_rank, .token = t->token};
    t->images = images_new();
    t->transfers = transfers_new(base, &t->id, t->images);
    t->callers = callers_new(base, uid, CALLERS_A_RANK * (order->n_ranks + 1), on_said, t);
    t->outbox = outbox_new(base, t->transfers, on_sent, t);
    t->fetches = fetches_new(base, t->transfers, give, t);
    if (listen_at(t, dir, err) == 0)
        return t;
    tier_free(t);
    return NULL;
}

void tier_take_over(struct tier *t, const char *dir)
{
    inherit(t->images, dir);
}

static void find_buddy(struct tier *t, const struct link_order *order)
{
    const char **domains = mem_zero(order->n_map + 1, sizeof *domains);
    for (size_t i = 0; i < order->n_map; i++)
        domains[i] = order->map[i].domain;
    int64_t buddy = buddy_of(domains, order->n_map, (size_t)order->node_rank);
    free(domains);
    if (buddy < 0)
        return;
    outbox_aim(t->outbox, &(struct transfer_peer){t->addrs[buddy], t->ports[buddy]});
    log_info("images of this node's ranks are held by %s, too", order->map[buddy].node);
}

void tier_go(struct tier *t, const struct link_order *order)
{
    t->n_nodes = order->n_map;
    t->addrs = mem_zero(t->n_nodes + 1, sizeof *t->addrs);
    t->ports = mem_zero(t->n_nodes + 1, sizeof *t->ports);
    for (size_t i = 0; i < t->n_nodes; i++) {
        t->addrs[i] = str_dup(order->map[i].addr);
        t->ports[i] = order->map[i].port;
    }
    if (t->wants_buddy)
        find_buddy(t, order);
}

void tier_visitor(struct tier *t, int fd, const json_t *line)
{
    transfer_serve(t->transfers, fd, line);
}

void tier_end_ranks(struct tier *t)
{
    if (t)
        callers_unlisten(t->callers, t->rank_socket);
}

void tier_free(struct tier *t)
{
    if (!t)
        return;
    transfers_free(t->transfers);
    outbox_free(t->outbox);
    fetches_free(t->fetches);
    callers_free(t->callers);
    images_free(t->images);
    for (size_t i = 0; i < t->n_nodes; i++)
        free(t->addrs[i]);
    free(t->addrs);
    free(t->ports);
    free(t->token);
    free(t->rank_socket);
    free(t);
}
