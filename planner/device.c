/* device: the table. docs/planning.md, "Devices", has the source of every column. */
#include "planner/device.h"

#include <ctype.h>
#include <string.h>

#include "schema/suggest.h"

/* Fitted to the table of published runs: gemm, gemm_half, replica_share, tp_exposed and Ampere's nvlink_share. The rest are published
 * microbenchmarks. Blackwell has one published run, of gb200. */
#define AMPERE                                                                                               \
    .gpu = true, .gemm = 0.71, .gemm_half = 128, .attention_forward = 0.60, .attention_backward = 0.50,      \
    .stream = 0.85, .nvlink_share = 0.65, .network_share = 0.90, .replica_share = 0.30, .tp_exposed = 1.0,   \
    .contention = 0.15, .kernel_s = 4e-6, .jitter = 0.01
#define HOPPER                                                                                               \
    .gpu = true, .gemm = 0.63, .gemm_half = 128, .attention_forward = 0.60, .attention_backward = 0.50,      \
    .stream = 0.85, .nvlink_share = 0.82, .network_share = 0.92, .replica_share = 0.80, .tp_exposed = 0.9,   \
    .contention = 0.15, .kernel_s = 4e-6, .jitter = 0.01
#define BLACKWELL                                                                                            \
    .gpu = true, .gemm = 0.60, .gemm_half = 128, .attention_forward = 0.55, .attention_backward = 0.45,      \
    .stream = 0.85, .nvlink_share = 0.82, .network_share = 0.92, .replica_share = 0.80, .tp_exposed = 0.9,   \
    .contention = 0.15, .kernel_s = 4e-6, .jitter = 0.01

static const struct plan_device devices[] = {
    {.name = "a100-40g",
     .bf16 = 312e12,
     .fp32 = 19.5e12,
     .memory = 40e9,
     .bandwidth = 1.555e12,
     .nvlink = 300e9,
     .network = 25e9,
     .watts = 400,
     .per_node = 8,
     .per_nvlink = 8,
     AMPERE},
    {.name = "a100-80g",
     .bf16 = 312e12,
     .fp32 = 19.5e12,
     .memory = 80e9,
     .bandwidth = 2.039e12,
     .nvlink = 300e9,
     .network = 25e9,
     .watts = 400,
     .per_node = 8,
     .per_nvlink = 8,
     AMPERE},
    {.name = "h100",
     .bf16 = 989e12,
     .fp32 = 67e12,
     .fp8 = 1979e12,
     .memory = 80e9,
     .bandwidth = 3.35e12,
     .nvlink = 450e9,
     .network = 50e9,
     .watts = 700,
     .per_node = 8,
     .per_nvlink = 8,
     HOPPER},
    {.name = "h200",
     .bf16 = 989e12,
     .fp32 = 67e12,
     .fp8 = 1979e12,
     .memory = 141e9,
     .bandwidth = 4.8e12,
     .nvlink = 450e9,
     .network = 50e9,
     .watts = 700,
     .per_node = 8,
     .per_nvlink = 8,
     HOPPER},
    {.name = "b200",
     .bf16 = 2250e12,
     .fp32 = 75e12,
     .fp8 = 4500e12,
     .memory = 180e9,
     .bandwidth = 8e12,
     .nvlink = 900e9,
     .network = 50e9,
     .watts = 1000,
     .per_node = 8,
     .per_nvlink = 8,
     .caution = "no published run confirms what is predicted for b200",
     BLACKWELL},
    {.name = "gb200", /* in racks of 72 that NVLink joins */
     .bf16 = 2450e12,
     .fp32 = 80e12,
     .fp8 = 4900e12,
     .memory = 186e9,
     .bandwidth = 8e12,
     .nvlink = 900e9,
     .network = 50e9,
     .watts = 1200,
     .per_node = 4,
     .per_nvlink = 72,
     .caution = "a single published run confirms what is predicted for gb200",
     BLACKWELL},
    /* One core of a server with AVX-512: a rank of the bundled runtime. */
    {.name = "cpu",
     .bf16 = 100e9,
     .fp32 = 100e9,
     .bandwidth = 10e9,
     .nvlink = 5e9,
     .network = 1e9,
     .watts = 10,
     .per_node = 8,
     .per_nvlink = 8,

     .gemm = 0.85,
     .gemm_half = 16,
     .attention_forward = 0.30,
     .attention_backward = 0.30,
     .stream = 0.85,
     .nvlink_share = 0.8,
     .network_share = 0.8,
     .replica_share = 1,
     .tp_exposed = 1,
     .contention = 0.15,
     .kernel_s = 1e-6,
     .jitter = 0.01},
};
#define DEVICES (sizeof devices / sizeof *devices)

/* Other names that people write. */
static const struct {
    const char *alias, *name;
} aliases[] = {{"a100", "a100-80g"}, {"h100-80g", "h100"}, {"h100-sxm", "h100"}, {"h200-141g", "h200"}};

static bool same_word(const char *a, const char *b)
{
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

const struct plan_device *plan_device_at(size_t i)
{
    return i < DEVICES ? &devices[i] : NULL;
}

/* Is the word the name up to its dash: "H100" of h100, "A100" of a100-80g? */
static bool is_stem(const char *word, size_t len, const char *name)
{
    size_t i = 0;
    while (i < len && name[i] && name[i] != '-' && tolower((unsigned char)word[i]) == name[i])
        i++;
    return i == len && (name[i] == '\0' || name[i] == '-');
}

/* Hopper's cards for PCIe slots have fewer units and lower clocks than the modules in the table. */
static bool is_card(const char *maker, const char *name)
{
    return *name == 'h' && (strstr(maker, "PCIe") || strstr(maker, "NVL"));
}

const struct plan_device *plan_device_of_maker(const char *maker)
{
    static const char between[] = " -_/";
    for (const char *word = maker + strspn(maker, between); *word;) {
        size_t len = strcspn(word, between);
        for (size_t i = 0; i < DEVICES; i++)
            if (devices[i].gpu && is_stem(word, len, devices[i].name) && !is_card(maker, devices[i].name))
                return &devices[i];
        word += len;
        word += strspn(word, between);
    }
    return NULL;
}

const struct plan_device *plan_device_find(const char *name, struct err *err)
{
    const char *names[DEVICES];
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (same_word(name, aliases[i].alias))
            name = aliases[i].name;
    for (size_t i = 0; i < DEVICES; i++) {
        names[i] = devices[i].name;
        if (same_word(name, devices[i].name))
            return &devices[i];
    }
    const char *near = suggest_nearest(name, names, DEVICES);
    /* v100 is another GPU, not a slip of h100: only what begins alike is proposed */
    bool same_start = near && tolower((unsigned char)*near) == tolower((unsigned char)*name);
    if (same_start)
        (void)err_set(err, "there is no device called \"%s\": did you mean %s? Known are " PLAN_DEVICE_NAMES,
                      name, near);
    else
        (void)err_set(err, "there is no device called \"%s\"; known are " PLAN_DEVICE_NAMES, name);
    return NULL;
}
