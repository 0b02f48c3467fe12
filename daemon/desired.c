/* desired: see desired.h. The map's text is kept for the attempts that were written last, and by each message until it has been sent. */
#include "daemon/desired.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { MAPS_KEPT = 32 }; /* attempts; a map of 2,048 nodes has 250 KB */

struct map_text {
    int64_t job, attempt;
    int users; /* the table and messages that are not sent yet */
    size_t len;
    char *text;
};

struct desired {
    struct map_text *kept[MAPS_KEPT];
    size_t next; /* place of the one to be replaced */
};

struct desired *desired_new(void)
{
    return mem_zero(1, sizeof(struct desired));
}

static void let_go(struct map_text *m)
{
    if (!m || --m->users > 0)
        return;
    free(m->text);
    free(m);
}

void desired_free(struct desired *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < MAPS_KEPT; i++)
        let_go(d->kept[i]);
    free(d);
}

static char *text_of(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (!text)
        abort(); /* out of memory */
    return text;
}

static struct map_text *make_map(struct desired *d, const struct link_order *o)
{
    struct map_text *m = mem_zero(1, sizeof(*m));
    *m = (struct map_text){.job = o->job, .attempt = o->attempt, .users = 1};
    m->text = text_of(link_map_encode(o->map, o->n_map));
    m->len = strlen(m->text);
    let_go(d->kept[d->next]);
    d->kept[d->next] = m;
    d->next = (d->next + 1) % MAPS_KEPT;
    return m;
}

static struct map_text *map_of(struct desired *d, const struct link_order *o)
{
    for (size_t i = 0; i < MAPS_KEPT; i++)
        if (d->kept[i] && d->kept[i]->job == o->job && d->kept[i]->attempt == o->attempt)
            return d->kept[i];
    return make_map(d, o);
}

static void sent(const void *data, size_t len, void *map)
{
    (void)data;
    (void)len;
    let_go(map);
}

static void append(struct evbuffer *out, const char *text, size_t len)
{
    if (evbuffer_add(out, text, len) != 0)
        abort(); /* out of memory */
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u; /* FNV-1a */
    return h;
}

static uint64_t write_order(struct desired *d, const struct link_order *order, uint64_t hash,
                            struct evbuffer *out)
{
    struct link_order bare = *order;
    bare.n_map = 0;
    char *text = text_of(link_order_encode(&bare, NULL));
    append(out, text, strlen(text) - 1);
    if (order->n_map > 0) {
        struct map_text *map = map_of(d, order);
        append(out, ",\"map\":", 7);
        map->users++;
        if (evbuffer_add_reference(out, map->text, map->len, sent, map) != 0)
            abort(); /* out of memory */
    }
    append(out, "}", 1);
    hash = hash_text(hash, text) ^ (order->n_map > 0);
    free(text);
    return hash;
}

static uint64_t write_keep(const int64_t *jobs, size_t n, uint64_t hash, struct evbuffer *out)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_integer(jobs[i]));
    char *text = text_of(list);
    append(out, text, strlen(text));
    hash = hash_text(hash, text);
    free(text);
    return hash;
}

uint64_t desired_write(struct desired *d, const struct desired_set *set, struct evbuffer *out)
{
    static const char head[] = "{\"t\":\"desired\",\"attempts\":[", middle[] = "],\"keep\":", tail[] = "}\n";
    uint64_t hash = 1469598103934665603u;
    append(out, head, sizeof(head) - 1);
    for (size_t i = 0; i < set->n_orders; i++) {
        if (i > 0)
            append(out, ",", 1);
        hash = write_order(d, &set->orders[i], hash, out);
    }
    append(out, middle, sizeof(middle) - 1);
    hash = write_keep(set->keep, set->n_keep, hash, out);
    append(out, tail, sizeof(tail) - 1);
    return hash ? hash : 1;
}
