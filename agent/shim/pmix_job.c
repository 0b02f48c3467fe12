/* pmix_job: the maps alone would do for the library to derive the rest, but what is derived differs between versions; so all of
 * it is said. A node's array without its host name crashes 4.2.2, and a rank's array replaces what was derived for it, so it
 * must be complete. */
#include "agent/shim/pmix_job.h"

#include <pmix.h>
#include <pmix_server.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static void add_u32(void *list, const char *key, int64_t value)
{
    uint32_t v = (uint32_t)value;
    PMIx_Info_list_add(list, key, &v, PMIX_UINT32);
}

static void add_u16(void *list, const char *key, int64_t value)
{
    uint16_t v = (uint16_t)value;
    PMIx_Info_list_add(list, key, &v, PMIX_UINT16);
}

static void add_rank(void *list, const char *key, int64_t value)
{
    pmix_rank_t v = (pmix_rank_t)value;
    PMIx_Info_list_add(list, key, &v, PMIX_PROC_RANK);
}

static void add_string(void *list, const char *key, const char *value)
{
    PMIx_Info_list_add(list, key, value, PMIX_STRING);
}

/* Puts the array `inner` (released here) into `list` under key. */
static void add_array(void *list, const char *key, void *inner)
{
    pmix_data_array_t array;
    if (PMIx_Info_list_convert(inner, &array) == PMIX_SUCCESS) {
        PMIx_Info_list_add(list, key, &array, PMIX_DATA_ARRAY);
        PMIX_DATA_ARRAY_DESTRUCT(&array);
    }
    PMIx_Info_list_release(inner);
}

/* The ranks of a node, "0,1,5". Fresh. */
static char *rank_list(const struct link_map_node *node)
{
    size_t room = node->n_ranks * 21 + 1, at = 0;
    char *text = mem_zero(room, 1);
    for (size_t i = 0; i < node->n_ranks; i++)
        at += (size_t)snprintf(text + at, room - at, i ? ",%lld" : "%lld", (long long)node->ranks[i]);
    return text;
}

/* item(node 0) separator item(node 1) … Fresh. */
static char *join_nodes(const struct link_order *order, const char *separator, bool ranks)
{
    char *text = str_dup("");
    size_t len = 0;
    for (size_t n = 0; n < order->n_map; n++) {
        char *item = ranks ? rank_list(&order->map[n]) : str_dup(order->map[n].node);
        size_t add = strlen(item);
        text = mem_grow(text, len + add + 2, 1);
        if (n)
            text[len++] = separator[0];
        memcpy(text + len, item, add + 1);
        len += add;
        free(item);
    }
    return text;
}

static void add_maps(void *list, const struct link_order *order)
{
    char *nodes = join_nodes(order, ",", false), *ranks = join_nodes(order, ";", true), *regex = NULL;
    if (PMIx_generate_regex(nodes, &regex) == PMIX_SUCCESS)
        PMIx_Info_list_add(list, PMIX_NODE_MAP, regex, PMIX_REGEX);
    free(regex);
    regex = NULL;
    if (PMIx_generate_ppn(ranks, &regex) == PMIX_SUCCESS)
        PMIx_Info_list_add(list, PMIX_PROC_MAP, regex, PMIX_REGEX);
    free(regex);
    free(nodes);
    free(ranks);
}

static void add_job(void *list, const struct link_order *order, const char *nspace, const char *dir)
{
    bool yes = true;
    add_u32(list, PMIX_UNIV_SIZE, order->world);
    add_u32(list, PMIX_MAX_PROCS, order->world);
    add_u32(list, PMIX_JOB_SIZE, order->world);
    add_u32(list, PMIX_JOB_NUM_APPS, 1);
    add_u32(list, PMIX_NUM_NODES, order->nodes);
    add_string(list, PMIX_JOBID, nspace);
    add_string(list, PMIX_TMPDIR, dir);
    add_string(list, PMIX_NSDIR, dir);
    PMIx_Info_list_add(list, PMIX_TDIR_RMCLEAN, &yes, PMIX_BOOL); /* the shim removes it */
}

static void add_node(void *list, const struct link_order *order, size_t n)
{
    const struct link_map_node *node = &order->map[n];
    void *inner = PMIx_Info_list_start();
    char *peers = rank_list(node);
    add_string(inner, PMIX_HOSTNAME, node->node);
    add_u32(inner, PMIX_NODEID, (int64_t)n);
    add_u32(inner, PMIX_LOCAL_SIZE, (int64_t)node->n_ranks);
    add_u32(inner, PMIX_NODE_SIZE, (int64_t)node->n_ranks);
    add_string(inner, PMIX_LOCAL_PEERS, peers);
    add_rank(inner, PMIX_LOCALLDR, node->n_ranks ? node->ranks[0] : 0);
    add_array(list, PMIX_NODE_INFO_ARRAY, inner);
    free(peers);
}

static void add_app(void *list, const struct link_order *order)
{
    void *inner = PMIx_Info_list_start();
    add_u32(inner, PMIX_APPNUM, 0);
    add_u32(inner, PMIX_APP_SIZE, order->world);
    add_rank(inner, PMIX_APPLDR, 0);
    add_array(list, PMIX_APP_INFO_ARRAY, inner);
}

static void add_proc(void *list, const struct link_order *order, size_t n, size_t local)
{
    void *inner = PMIx_Info_list_start();
    int64_t rank = order->map[n].ranks[local];
    add_rank(inner, PMIX_RANK, rank); /* the library wants it first */
    add_rank(inner, PMIX_GLOBAL_RANK, rank);
    add_rank(inner, PMIX_APP_RANK, rank);
    add_u16(inner, PMIX_LOCAL_RANK, (int64_t)local);
    add_u16(inner, PMIX_NODE_RANK, (int64_t)local);
    add_u32(inner, PMIX_NODEID, (int64_t)n);
    add_string(inner, PMIX_HOSTNAME, order->map[n].node);
    add_u32(inner, PMIX_APPNUM, 0);
    add_array(list, PMIX_PROC_INFO_ARRAY, inner);
}

void *pmix_job_describe(const struct link_order *order, const char *nspace, const char *dir)
{
    void *list = PMIx_Info_list_start();
    add_maps(list, order);
    add_job(list, order, nspace, dir);
    for (size_t n = 0; n < order->n_map; n++)
        add_node(list, order, n);
    add_app(list, order);
    for (size_t n = 0; n < order->n_map; n++)
        for (size_t i = 0; i < order->map[n].n_ranks; i++)
            add_proc(list, order, n, i);
    return list;
}
