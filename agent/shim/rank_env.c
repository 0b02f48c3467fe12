/* rank_env: later settings win, and the job's own come last, so a job can override everything but what it must not: its
 * identity (BELAY_TOKEN and friends), by which its processes are found again. */
#include "agent/shim/rank_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shim/rankmap.h"
#include "common/mem.h"
#include "common/memory.h"

static const char *const OUTER_PREFIXES[] = {"BELAY_", "PMIX_", "OMPI_", "PMI_", "PRTE_", "JSM_"};
static const char *const OUTER_NAMES[] = {"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"};

/* What of the agent's environment is fit for another user: how to find programs and how devices and networks are set up here, not
 * whatever secrets the agent was started with. */
static const char *const COMMON_NAMES[] = {"PATH", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "TZ"};
static const char *const COMMON_PREFIXES[] = {"LC_",  "CUDA_", "NVIDIA_",  "NCCL_",
                                              "UCX_", "OMP_",  "OPENBLAS_"};

static size_t list_length(char *const *env)
{
    size_t n = 0;
    while (env && env[n])
        n++;
    return n;
}

static char **find(char *const *env, const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; env && env[i]; i++)
        if (strncmp(env[i], key, len) == 0 && env[i][len] == '=')
            return (char **)&env[i];
    return NULL;
}

void envlist_set(char ***env, const char *key, const char *value)
{
    char **at = find(*env, key);
    if (at) {
        free(*at);
    } else {
        size_t n = list_length(*env);
        *env = mem_grow(*env, n + 2, sizeof **env);
        (*env)[n + 1] = NULL;
        at = &(*env)[n];
    }
    *at = str_printf("%s=%s", key, value);
}

static void set_int(char ***env, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    envlist_set(env, key, text);
}

const char *envlist_get(char *const *env, const char *key)
{
    char **at = find(env, key);
    return at ? *at + strlen(key) + 1 : NULL;
}

void envlist_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}

static bool has_prefix(const char *entry, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool has_name(const char *entry, const char *const *names, size_t n)
{
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == len && strncmp(entry, names[i], len) == 0)
            return true;
    return false;
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_outer(const char *entry)
{
    return has_prefix(entry, OUTER_PREFIXES, COUNT(OUTER_PREFIXES)) ||
           has_name(entry, OUTER_NAMES, COUNT(OUTER_NAMES));
}

static bool is_common(const char *entry)
{
    return has_prefix(entry, COMMON_PREFIXES, COUNT(COMMON_PREFIXES)) ||
           has_name(entry, COMMON_NAMES, COUNT(COMMON_NAMES));
}

char **rank_env_inherit(char *const *from, bool other_user)
{
    char **env = mem_zero(list_length(from) + 1, sizeof *env);
    size_t n = 0;
    for (size_t i = 0; from && from[i]; i++)
        if (!is_outer(from[i]) && (!other_user || is_common(from[i])))
            env[n++] = str_dup(from[i]);
    return env;
}

static void set_user(char ***env, const struct identity *who)
{
    if (!who->change)
        return;
    if (who->name) {
        envlist_set(env, "USER", who->name);
        envlist_set(env, "LOGNAME", who->name);
    }
    envlist_set(env, "HOME", who->home ? who->home : "/");
}

/* torch.distributed's env:// */
static void set_world(char ***env, const struct link_order *order, size_t index)
{
    set_int(env, "RANK", order->ranks[index].rank);
    set_int(env, "WORLD_SIZE", order->world);
    set_int(env, "LOCAL_RANK", (int64_t)index);
    set_int(env, "LOCAL_WORLD_SIZE", (int64_t)order->n_ranks);
    set_int(env, "NODE_RANK", order->node_rank);
    if (order->n_map == 0)
        return;
    envlist_set(env, "MASTER_ADDR", order->map[0].addr);
    set_int(env, "MASTER_PORT", order->map[0].master_port);
    envlist_set(env, "BELAY_NODE", order->map[order->node_rank].node);
}

static void set_belay(char ***env, const struct rank_env *in, size_t index)
{
    const struct link_order *order = in->order;
    set_int(env, "BELAY_JOB_ID", order->job);
    envlist_set(env, "BELAY_JOB_NAME", order->name);
    set_int(env, "BELAY_ATTEMPT", order->attempt);
    set_int(env, "BELAY_SLOT", order->ranks[index].slot);
    envlist_set(env, "BELAY_TOKEN", order->token);
    envlist_set(env, "BELAY_NOTIFY_SOCKET", in->notify_socket);
    envlist_set(env, "BELAY_JOB_FILE", in->job_file);
    if (in->memory_socket)
        envlist_set(env, MEMORY_SOCKET_ENV, in->memory_socket);
    if (in->resume_from)
        envlist_set(env, "BELAY_RESUME_FROM", in->resume_from);
}

static void set_device(char ***env, const struct rank_env *in, size_t index)
{
    set_int(env, "OMP_NUM_THREADS", in->order->cpus > 0 ? in->order->cpus : 1);
    if (strcmp(in->order->device, "gpu") == 0) {
        set_int(env, "CUDA_VISIBLE_DEVICES", in->order->ranks[index].slot);
        envlist_set(env, "CUDA_DEVICE_ORDER",
                    "PCI_BUS_ID"); /* as the inventory numbers them (agent/gpus.c) */
    } else {
        envlist_set(env, "OMPI_MCA_mpi_yield_when_idle",
                    "1"); /* CPU slots may be more than there are cores */
    }
}

/* Open MPI 4.1 takes a launcher it does not know for none and starts every rank as a world of its own; JSM_JSRUN_PORT is
 * what makes it believe. Its shared-memory files go where they are removed with the attempt, and where two pretend nodes on
 * one host do not meet. */
static void set_open_mpi(char ***env, const struct rank_env *in)
{
    envlist_set(env, "JSM_JSRUN_PORT", "1");
    envlist_set(env, "PMIX_MCA_gds", "hash");
    envlist_set(env, "OMPI_MCA_btl_vader_backing_directory", in->scratch);
    envlist_set(env, "OMPI_MCA_orte_tmpdir_base", in->scratch);
    if (rankmap_all_loopback(in->order))
        envlist_set(env, "OMPI_MCA_btl_tcp_if_include", "lo");
}

void rank_env_apply_job(char ***env, const struct link_order *order)
{
    for (size_t i = 0; i < order->n_env; i++)
        if (strncmp(order->env_keys[i], "BELAY_", 6) != 0 || !find(*env, order->env_keys[i]))
            envlist_set(env, order->env_keys[i], order->env_values[i]);
}

char **rank_env_build(const struct rank_env *in, size_t index, char *const *inherited)
{
    char **env = mem_zero(list_length(inherited) + 1, sizeof *env);
    for (size_t i = 0; inherited[i]; i++)
        env[i] = str_dup(inherited[i]);
    set_user(&env, in->who);
    set_world(&env, in->order, index);
    set_device(&env, in, index);
    set_open_mpi(&env, in);
    set_belay(&env, in, index);
    rank_env_apply_job(&env, in->order);
    return env;
}
