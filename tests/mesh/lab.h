/* lab: the models, the samples and the job that mesh_reference (double, one rank) and mesh_check (float, any mesh) both train. */
#ifndef BELAY_TESTS_MESH_LAB_H
#define BELAY_TESTS_MESH_LAB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/engine/engine.h"

#define LAB_GLOBAL 16 /* sequences of a step */
#define LAB_STEPS  10
#define LAB_SEED   7

/* Small, but with everything odd that a mesh could stumble on: a vocabulary of 97, fewer key heads than heads, tied and untied tables. */
static const struct job_model lab_models[] = {
    {.arch = ARCH_GPT2,
     .layers = 4,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 64,
     .vocab = 97,
     .context = 16,
     .tied = true,
     .norm_eps = 1e-5},
    {.arch = ARCH_LLAMA,
     .layers = 4,
     .hidden = 32,
     .heads = 8,
     .kv_heads = 4,
     .ffn = 48,
     .vocab = 97,
     .context = 16,
     .norm_eps = 1e-5,
     .rope_theta = 10000},
    {.arch = ARCH_LLAMA,
     .layers = 4,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 24,
     .vocab = 97,
     .context = 16,
     .norm_eps = 1e-5,
     .rope_theta = 10000,
     .experts = 4,
     .top_k = 2,
     .balance_loss = 0.05,
     .router_z_loss = 0.01},
    {.arch = ARCH_LLAMA,
     .layers = 4,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 24,
     .vocab = 97,
     .context = 16,
     .tied = true,
     .norm_eps = 1e-5,
     .rope_theta = 10000,
     .experts = 4,
     .top_k = 2,
     .capacity = 1.0,
     .balance_loss = 0.05},
    {.arch = ARCH_GPT2,
     .layers = 4,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 64,
     .vocab = 97,
     .context = 16,
     .tied = true,
     .norm_eps = 1e-5,
     .dropout = 0.2},
    {.arch = ARCH_LLAMA,
     .layers = 7,
     .hidden = 32,
     .heads = 4,
     .kv_heads = 4,
     .ffn = 48,
     .vocab = 101,
     .context = 16,
     .tied = true,
     .norm_eps = 1e-5,
     .rope_theta = 10000},
    /* as many heads as ranks, fewer tokens than rows that 8 ranks have room for, sequences so short that all targets of some are masked */
    {.arch = ARCH_GPT2,
     .layers = 2,
     .hidden = 16,
     .heads = 8,
     .kv_heads = 8,
     .ffn = 8,
     .vocab = 33,
     .context = 8,
     .tied = true,
     .norm_eps = 1e-5,
     .dropout = 0.1},
    /* one expert a token and the smallest capacity: most rows are dropped, experts and whole ranks get none */
    {.arch = ARCH_LLAMA,
     .layers = 2,
     .hidden = 16,
     .heads = 2,
     .kv_heads = 2,
     .ffn = 8,
     .vocab = 33,
     .context = 8,
     .norm_eps = 1e-5,
     .rope_theta = 10000,
     .experts = 8,
     .top_k = 1,
     .capacity = 0.01,
     .balance_loss = 0.05,
     .router_z_loss = 0.01},
    /* every token to every expert, and a layer for each of 8 pieces */
    {.arch = ARCH_LLAMA,
     .layers = 8,
     .hidden = 16,
     .heads = 4,
     .kv_heads = 2,
     .ffn = 8,
     .vocab = 33,
     .context = 8,
     .tied = true,
     .norm_eps = 1e-5,
     .dropout = 0.1,
     .rope_theta = 10000,
     .experts = 4,
     .top_k = 4,
     .balance_loss = 0.05,
     .router_z_loss = 0.01},
};
enum {
    LAB_GPT2,
    LAB_LLAMA,
    LAB_MOE,
    LAB_CAPACITY,
    LAB_DROPOUT,
    LAB_SEVEN,
    LAB_NARROW,
    LAB_SPARSE,
    LAB_EVERY,
    LAB_MODELS
};
static const char *const lab_names[] = {"gpt2",  "llama",  "moe",    "capacity", "dropout",
                                        "seven", "narrow", "sparse", "every"};

static struct job_spec lab_spec(int model)
{
    struct job_spec s = {.is_train = true, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .virtual_stages = 1};
    s.train.model = lab_models[model];
    s.train.batch_global = s.train.batch_micro = LAB_GLOBAL;
    s.train.seed = LAB_SEED;
    return s;
}

static uint32_t lab_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 33);
}

/* Tokens with some order in them; of each sample another number of targets is not counted. */
static int lab_fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                    struct err *err)
{
    const struct job_model *m = owner;
    size_t t = (size_t)m->context;
    (void)err;
    for (size_t i = 0; i < count * t; i++) {
        uint64_t sample = first + i / t, at = i % t;
        uint32_t masked = lab_mix(sample * 77 + 5) % 9;
        tokens[i] = (int32_t)((lab_mix(sample) + 3 * at + (lab_mix(sample * 1000 + at) % 4 == 0)) %
                              (uint64_t)m->vocab);
        targets[i] = at < masked ? -1 : (int32_t)((lab_mix(sample) + 3 * (at + 1)) % (uint64_t)m->vocab);
    }
    return 0;
}

static struct kernel_adamw lab_adamw(double lr, int64_t step, double norm)
{
    return (struct kernel_adamw){.lr = lr,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .weight_decay = 0.1,
                                 .gradient_scale = norm > 1 ? 1 / norm : 1,
                                 .step = step};
}

#define LAB_LR 2e-3

/* Name of a model's reference file in a folder; fresh. */
static char *lab_path(const char *folder, int model)
{
    char *path = malloc(strlen(folder) + 64);
    if (!path)
        abort();
    (void)snprintf(path, strlen(folder) + 64, "%s/%s.reference", folder, lab_names[model]);
    return path;
}

/* What a reference file begins with; the gradients of the first step follow, tensor by tensor in the order of one rank's layout, as double. */
struct lab_header {
    double loss, router, norm;
    double losses[LAB_STEPS];
    double held; /* evaluation after the steps */
    uint64_t numbers;
};

#endif
