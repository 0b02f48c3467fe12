/* world_records: deep copies of the core's records, as a store keeps them. */
#ifndef BELAY_TESTS_UNIT_CORE_WORLD_RECORDS_H
#define BELAY_TESTS_UNIT_CORE_WORLD_RECORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "daemon/core/core.h"

static inline void world_text(char **to, const char *from)
{
    free(*to);
    *to = from ? str_dup(from) : NULL;
}

static inline void world_drop_job(struct job_record *r)
{
    free(r->key);
    free(r->user);
    free(r->cwd);
    free(r->yaml);
    free(r->reason);
    if (r->spec)
        job_spec_free(r->spec);
    memset(r, 0, sizeof(*r));
}

static inline struct job_spec *world_spec(const char *yaml)
{
    struct job_spec *spec = NULL;
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    if (job_spec_parse(yaml, strlen(yaml), "job.yaml", NULL, 0, &spec, d) != 0)
        fail_msg("%s\n%s", d->text[0], yaml);
    free(d);
    return spec;
}

static inline void world_copy_job(struct job_record *to, const struct job_record *from)
{
    world_drop_job(to);
    *to = *from;
    to->key = str_dup(from->key);
    to->user = str_dup(from->user);
    to->cwd = str_dup(from->cwd);
    to->yaml = str_dup(from->yaml);
    to->reason = str_dup(from->reason);
    to->spec = NULL;
}

static inline void world_drop_attempt(struct attempt_record *r)
{
    for (size_t i = 0; i < r->n_nodes; i++)
        link_report_clear(&r->nodes[i].report);
    free(r->nodes);
    free(r->placement);
    free(r->spares);
    free(r->reason);
    memset(r, 0, sizeof(*r));
}

static inline void world_copy_attempt(struct attempt_record *to, const struct attempt_record *from)
{
    world_drop_attempt(to);
    *to = *from;
    to->reason = str_dup(from->reason);
    to->placement = mem_zero(from->world + 1, sizeof(*to->placement));
    memcpy(to->placement, from->placement, from->world * sizeof(*to->placement));
    to->spares = mem_zero(from->n_spares + 1, sizeof(*to->spares));
    if (from->n_spares > 0)
        memcpy(to->spares, from->spares, from->n_spares * sizeof(*to->spares));
    to->nodes = mem_zero(from->n_nodes + 1, sizeof(*to->nodes));
    for (size_t i = 0; i < from->n_nodes; i++) {
        to->nodes[i] = from->nodes[i];
        to->nodes[i].report.ranks = NULL;
        link_report_copy(&to->nodes[i].report, &from->nodes[i].report);
    }
}

static inline void world_drop_node(struct node_record *r)
{
    free(r->reason);
    link_inventory_clear(&r->inventory);
    memset(r, 0, sizeof(*r));
}

static inline void world_copy_node(struct node_record *to, const struct node_record *from)
{
    world_drop_node(to);
    *to = *from;
    to->reason = str_dup(from->reason);
    to->inventory.gpus = NULL;
    to->inventory.n_gpus = 0;
}

#endif
