/* What must hold for every input whatever: used by the libFuzzer programs here and by the seeded runs in the unit tests. Each aborts
 * with a sentence when it does not hold. */
#ifndef BELAY_TESTS_FUZZ_TARGETS_H
#define BELAY_TESTS_FUZZ_TARGETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memimage.h"
#include "schema/cluster.h"
#include "schema/job.h"
#include "schema/link.h"
#include "schema/scenario.h"

static inline void fuzz_must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* A spec that was read is written, read again and written the same. */
static inline void fuzz_job_again(struct job_spec *spec)
{
    static struct job_diagnostics d;
    struct job_spec *again = NULL;
    char *yaml = job_spec_to_yaml(spec);
    int rc = job_spec_parse(yaml, strlen(yaml), "again", NULL, 0, &again, &d);
    if (rc < 0)
        (void)fprintf(stderr, "%s\n%s\n", d.text[0], yaml);
    fuzz_must(rc == 0, "what was written cannot be read");
    char *yaml_again = job_spec_to_yaml(again);
    fuzz_must(strcmp(yaml, yaml_again) == 0, "what was read again is written differently");
    free(yaml);
    free(yaml_again);
    job_spec_free(again);
}

/* True when the text is a job. The last line, when it begins with "--set ", is handed in as an override. */
static inline bool fuzz_job(const uint8_t *data, size_t size)
{
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    char *text = calloc(size + 1, 1);
    fuzz_must(text != NULL, "no memory");
    if (size > 0)
        memcpy(text, data, size);
    const char *set = size > 0 ? strstr(text, "\n--set ") : NULL;
    size_t len = set ? (size_t)(set - text) + 1 : size;
    const char *sets[] = {set ? set + 7 : NULL};
    int rc = job_spec_parse(text, len, "fuzz.yaml", sets, set ? 1 : 0, &spec, &d);
    fuzz_must((rc == 0) == (spec != NULL), "result and spec disagree");
    fuzz_must((rc == 0) == (d.count == 0), "result and diagnostics disagree");
    for (size_t i = 0; i < d.count && i < JOB_DIAGNOSTICS_MAX; i++)
        fuzz_must(strncmp(d.text[i], "fuzz.yaml:", 10) == 0 || strncmp(d.text[i], "--set ", 6) == 0,
                  "a sentence without a place");
    if (rc == 0)
        fuzz_job_again(spec);
    job_spec_free(spec);
    free(text);
    return rc == 0;
}

/* ---- clusters ---- */

static inline void fuzz_cluster_node(const struct cluster_spec *spec, size_t i)
{
    const struct cluster_node *node = &spec->nodes[i];
    fuzz_must(i == 0 || cluster_topology_compare(node - 1, node) < 0, "nodes are not in topology order");
    fuzz_must(cluster_find(spec, node->name) == node, "a node cannot be found");
    fuzz_must(node->pod[0] && node->rack[0], "a node without a place");
    fuzz_must(node->slots >= 1 && node->taken >= 0 && node->taken <= node->slots, "slots that cannot be");
}

/* True when the text is a cluster. */
static inline bool fuzz_cluster(const uint8_t *data, size_t size)
{
    static struct job_diagnostics d;
    struct cluster_spec *spec = NULL;
    int rc = cluster_spec_parse((const char *)data, size, "fuzz.yaml", &spec, &d);
    fuzz_must((rc == 0) == (spec != NULL), "result and spec disagree");
    fuzz_must((rc == 0) == (d.count == 0), "result and diagnostics disagree");
    for (size_t i = 0; i < d.count && i < JOB_DIAGNOSTICS_MAX; i++)
        fuzz_must(strncmp(d.text[i], "fuzz.yaml:", 10) == 0, "a sentence without a place");
    for (size_t i = 0; spec && i < spec->n_nodes; i++)
        fuzz_cluster_node(spec, i);
    for (size_t i = 1; spec && i < DOMAIN_COUNT; i++)
        fuzz_must(spec->links[i].bytes_per_s <= spec->links[i - 1].bytes_per_s, "a wider link is faster");
    cluster_spec_free(spec);
    return rc == 0;
}

/* ---- scenarios ---- */

/* True when the text is a scenario. Files that it names are looked for in a folder that is not there. */
static inline bool fuzz_scenario(const uint8_t *data, size_t size)
{
    static struct job_diagnostics d;
    struct scenario *s = NULL;
    int rc = scenario_parse((const char *)data, size, "nowhere/fuzz.yaml", NULL, 0, &s, &d);
    fuzz_must((rc == 0) == (s != NULL), "result and scenario disagree");
    fuzz_must((rc == 0) == (d.count == 0), "result and diagnostics disagree");
    for (size_t i = 0; s && i < s->n_jobs; i++)
        fuzz_must(s->jobs[i].spec && s->jobs[i].count >= 1 && s->jobs[i].checkpoint.stall_ms >= 0,
                  "a job that cannot be");
    for (size_t k = 0; s && k < SCENARIO_KIND_COUNT; k++)
        fuzz_must(s->faults[k].per_day >= 0 && s->faults[k].repair.ms >= 0, "a failure that cannot be");
    fuzz_must(!s || (s->cluster && s->n_jobs > 0 && s->days >= 0),
              "a scenario without a cluster, jobs or days");
    scenario_free(s);
    return rc == 0;
}

/* ---- links ---- */

static inline bool fuzz_order(const json_t *obj)
{
    struct link_order a, b;
    struct err err = {""};
    if (link_order_decode(obj, &a, &err) < 0) {
        fuzz_must(err.text[0] != '\0', "refused without a sentence");
        return false;
    }
    json_t *encoded = link_order_encode(&a, "order");
    fuzz_must(link_order_decode(encoded, &b, &err) == 0, "an encoded order does not decode");
    json_t *again = link_order_encode(&b, "order");
    fuzz_must(json_equal(encoded, again), "an order came back different");
    link_order_clear(&a);
    link_order_clear(&b);
    json_decref(encoded);
    json_decref(again);
    return true;
}

static inline bool fuzz_report(const json_t *obj)
{
    struct link_report a, b = {0};
    struct err err = {""};
    if (link_report_decode(obj, &a, &err) < 0) {
        fuzz_must(err.text[0] != '\0', "refused without a sentence");
        return false;
    }
    link_report_copy(&b, &a);
    json_t *encoded = link_report_encode(&a, NULL), *copied = link_report_encode(&b, NULL);
    fuzz_must(json_equal(encoded, copied), "a copied report is different");
    link_report_clear(&b);
    fuzz_must(link_report_decode(encoded, &b, &err) == 0, "an encoded report does not decode");
    link_report_clear(&a);
    link_report_clear(&b);
    json_decref(encoded);
    json_decref(copied);
    return true;
}

static inline bool fuzz_inventory(const json_t *obj)
{
    struct link_inventory a, b;
    struct err err = {""};
    if (link_inventory_decode(obj, &a, &err) < 0) {
        fuzz_must(err.text[0] != '\0', "refused without a sentence");
        return false;
    }
    json_t *encoded = link_inventory_encode(&a);
    fuzz_must(link_inventory_decode(encoded, &b, &err) == 0, "an encoded inventory does not decode");
    link_inventory_clear(&a);
    link_inventory_clear(&b);
    json_decref(encoded);
    return true;
}

static inline bool fuzz_progress(const json_t *obj)
{
    struct link_progress a, b;
    struct err err = {""};
    if (link_progress_decode(obj, &a, &err) < 0) {
        fuzz_must(err.text[0] != '\0', "refused without a sentence");
        return false;
    }
    json_t *encoded = link_progress_encode(&a);
    fuzz_must(link_progress_decode(encoded, &b, &err) == 0, "an encoded progress does not decode");
    fuzz_must(json_equal(a.values, b.values), "a progress came back different");
    link_progress_clear(&a);
    link_progress_clear(&b);
    json_decref(encoded);
    return true;
}

/* True when the text is one of the four messages. */
/* An image that was read is written and read the same. */
static inline bool fuzz_memimage(const json_t *obj)
{
    struct memimage image, again;
    struct err err = {""};
    if (memimage_get(obj, &image, &err) != 0) {
        fuzz_must(err.text[0] != '\0', "refused without a sentence");
        return false;
    }
    json_t *written = json_object();
    memimage_put(written, &image);
    fuzz_must(memimage_get(written, &again, &err) == 0, "a written image cannot be read");
    fuzz_must(memimage_same(&image, &again) && image.rank == again.rank && image.attempt == again.attempt,
              "an image comes back different");
    json_decref(written);
    return true;
}

static inline bool fuzz_link(const uint8_t *data, size_t size)
{
    json_error_t why;
    json_t *obj = json_loadb((const char *)data, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!obj)
        return false;
    bool order = fuzz_order(obj), report = fuzz_report(obj), inventory = fuzz_inventory(obj),
         progress = fuzz_progress(obj), image = fuzz_memimage(obj);
    json_decref(obj);
    return order || report || inventory || progress || image;
}

#endif
