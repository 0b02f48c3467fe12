/* planverdict: see planverdict.h. The same code decides in both cases: here on the nodes of a file, in belayd on those that are there. */
#include "launcher/planverdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "daemon/core/explain.h"
#include "launcher/client.h"
#include "launcher/svg.h"

/* ---- asking ---- */

static json_t *body_of(const struct planask *ask, const struct jobfile *f)
{
    json_t *body = json_object(), *sets = json_array(), *spec = json_stringn(f->text, f->len);
    for (size_t i = 0; i < ask->sets.count; i++)
        json_array_append_new(sets, json_string(ask->sets.items[i]));
    jsonx_set(body, "spec", spec ? spec : json_string("")); /* a file that was read is UTF-8 */
    jsonx_set_str(body, "file", f->name);
    jsonx_set(body, "set", sets);
    jsonx_set(body, "placement", json_true());
    return body;
}

static int take_answer(struct planverdict *out, const struct client_reply *reply)
{
    struct err err = {""};
    if (verdict_decode(reply->body, &out->verdict, &err) != 0)
        return cli_fail(CLI_UNREACHABLE, "%s", err.text);
    out->known = true;
    out->encoded = json_incref(reply->body);
    return CLI_DONE;
}

static int ask_belayd(const struct planask *ask, const struct planask_job *job, const char *dir,
                      struct planverdict *out)
{
    struct client *c = client_open(dir);
    struct client_reply reply;
    int rc = client_try(c, "POST", body_of(ask, &job->file), &reply, "/v1/plan");
    if (reply.loss == CLIENT_NO_CONNECTION) {
        fprintf(stderr,
                "plan: note: no cluster runs in %s, so whether the job could start there is not said; "
                "--cluster FILE asks about one on paper\n",
                dir);
        rc = CLI_DONE;
    } else if (rc != CLI_DONE) {
        rc = cli_fail(rc, "%s", reply.err.text);
    } else {
        rc = take_answer(out, &reply);
        if (rc == CLI_DONE)
            rc = client_call(c, "GET", NULL, &out->nodes, "/v1/nodes");
    }
    client_reply_clear(&reply);
    client_close(c);
    return rc;
}

int planverdict_ask(const struct planask *ask, const struct planask_job *job, const char *dir,
                    struct planverdict *out)
{
    *out = (struct planverdict){.known = false};
    if (!job->cluster)
        return ask->file ? ask_belayd(ask, job, dir, out) : CLI_DONE;
    explain_cluster(job->cluster, job->spec, true, &out->verdict);
    out->known = true;
    out->encoded = verdict_encode(&out->verdict);
    return CLI_DONE;
}

void planverdict_clear(struct planverdict *v)
{
    verdict_clear(&v->verdict);
    json_decref(v->encoded);
    json_decref(v->nodes);
    *v = (struct planverdict){.known = false};
}

/* ---- memory ---- */

static void add_remedy(struct verdict *v, const struct plan_request *request, const struct plan *plan)
{
    static const char *const recomputes[PLAN_RECOMPUTES] = {"none", "selective", "full"};
    int64_t zero;
    enum job_recompute how;
    const struct job_spec *s = request->spec;
    v->changes = mem_grow(v->changes, v->n_changes + 1, sizeof(*v->changes));
    if (!plan_remedy(request, plan, &zero, &how))
        v->changes[v->n_changes++] = str_dup("other meshes need less: --search ranks them");
    else
        v->changes[v->n_changes++] =
            str_printf("with%s%s%s a device would need %.1f GB",
                       zero != s->zero ? (const char *[]){"", " zero 1", " zero 2", " zero 3"}[zero] : "",
                       how != s->train.recompute ? " recompute " : "",
                       how != s->train.recompute ? recomputes[how] : "", plan->memory_total[zero][how] / 1e9);
}

void planverdict_memory(struct planverdict *v, const struct plan_request *request, const struct plan *plan)
{
    if (!v->known || plan->fits || v->verdict.kind == VERDICT_NEVER)
        return;
    bool room = v->verdict.kind == VERDICT_NOW;
    free(v->verdict.sentence);
    v->verdict.sentence =
        str_printf("never fits: a device needs %.1f GB and has %.0f (%s)%s", plan->memory.total / 1e9,
                   plan->memory_device / 1e9, request->device->name,
                   room ? ", though slots for all its ranks are free" : "");
    v->verdict.kind = VERDICT_NEVER;
    add_remedy(&v->verdict, request, plan);
    json_decref(v->encoded);
    v->encoded = verdict_encode(&v->verdict);
}

/* ---- what follows ---- */

static int domain_of(const char *name)
{
    for (int d = 0; d < DOMAIN_COUNT; d++)
        if (strcmp(job_domain_name((enum job_domain)d), name) == 0)
            return d;
    return -1;
}

static int axis_of(const char *name)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (strcmp(axis_name((enum axis)a), name) == 0)
            return a;
    return -1;
}

void planverdict_levels(const struct planverdict *v, struct plan_request *request)
{
    const json_t *axes = json_object_get(v->verdict.cost, "axes"), *one;
    size_t i;
    json_array_foreach(axes, i, one)
    {
        int axis = axis_of(jsonx_str_or(one, "axis", "")), level = domain_of(jsonx_str_or(one, "level", ""));
        if (axis >= 0 && level >= 0)
            request->level[axis] = (enum job_domain)level;
    }
}

/* ---- drawing ---- */

struct drawing {
    struct svg_node *nodes;
    size_t n_nodes;
    struct svg_rank *ranks;
    size_t n_ranks;
    json_t *index; /* node name → its number */
};

static void add_node(struct drawing *d, struct svg_node node)
{
    json_object_set_new(d->index, node.name, json_integer((json_int_t)d->n_nodes));
    d->nodes[d->n_nodes++] = node;
}

static void nodes_of_file(struct drawing *d, const struct cluster_spec *cluster)
{
    d->nodes = mem_zero(cluster->n_nodes + 1, sizeof(*d->nodes));
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct cluster_node *n = &cluster->nodes[i];
        add_node(d, (struct svg_node){.name = n->name,
                                      .rack = n->rack,
                                      .pod = n->pod,
                                      .nvlink = n->nvlink,
                                      .slots = n->slots,
                                      .taken = n->taken,
                                      .usable = !n->drained});
    }
}

static void nodes_of_belayd(struct drawing *d, const json_t *nodes)
{
    size_t i;
    const json_t *n;
    d->nodes = mem_zero(json_array_size(nodes) + 1, sizeof(*d->nodes));
    json_array_foreach(nodes, i, n)
    {
        int64_t slots = jsonx_int_or(n, "slots", 0);
        add_node(d, (struct svg_node){.name = jsonx_str_or(n, "name", "?"),
                                      .rack = jsonx_str_or(n, "rack", ""),
                                      .pod = jsonx_str_or(n, "pod", ""),
                                      .nvlink = jsonx_str_or(n, "nvlink", ""),
                                      .slots = slots,
                                      .taken = slots - jsonx_int_or(n, "free", slots),
                                      .usable = strcmp(jsonx_str_or(n, "state", ""), "up") == 0});
    }
}

static void add_ranks(struct drawing *d, const json_t *placement)
{
    size_t i;
    const json_t *r;
    d->ranks = mem_zero(json_array_size(placement) + 1, sizeof(*d->ranks));
    json_array_foreach(placement, i, r)
    {
        const json_t *node = json_object_get(d->index, jsonx_str_or(r, "node", ""));
        if (!node)
            continue;
        d->ranks[d->n_ranks++] = (struct svg_rank){.rank = jsonx_int_or(r, "rank", 0),
                                                   .node = (size_t)json_integer_value(node),
                                                   .slot = jsonx_int_or(r, "slot", 0),
                                                   .tp = jsonx_int_or(r, "tp", 0),
                                                   .pp = jsonx_int_or(r, "pp", 0),
                                                   .cp = jsonx_int_or(r, "cp", 0),
                                                   .dp = jsonx_int_or(r, "dp", 0)};
    }
}

static int write_svg(const struct drawing *d, const char *path, enum svg_colour by, const char *title)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return cli_fail(CLI_USAGE, "plan: cannot write %s: %s", path, strerror(errno));
    svg_cluster(out, d->nodes, d->n_nodes, d->ranks, d->n_ranks, by, title);
    bool bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad)
        return cli_fail(CLI_REFUSED, "plan: %s could not be written in full: is the disk full?", path);
    return CLI_DONE;
}

int planverdict_draw(const struct planverdict *v, const struct planask_job *job, const char *path,
                     const char *colour)
{
    enum svg_colour by = SVG_PP;
    if (colour && svg_colour_parse(colour, &by) != 0)
        return cli_fail(CLI_USAGE, "plan: --colour is tp, pp or dp, not \"%s\"", colour);
    if (!v->known)
        return cli_fail(CLI_USAGE,
                        "plan: --svg draws a job in a cluster: start one, or name one with --cluster");
    struct drawing d = {.index = json_object()};
    if (job->cluster)
        nodes_of_file(&d, job->cluster);
    else
        nodes_of_belayd(&d, v->nodes);
    add_ranks(&d, v->verdict.placement);
    char *title = str_printf("%s: tp %lld, pp %lld, cp %lld, dp %lld%s", job->spec->name,
                             (long long)job->spec->tp, (long long)job->spec->pp, (long long)job->spec->cp,
                             (long long)job->spec->dp, d.n_ranks > 0 ? "" : " (not placed)");
    int rc = write_svg(&d, path, by, title);
    free(title);
    free(d.nodes);
    free(d.ranks);
    json_decref(d.index);
    return rc;
}
