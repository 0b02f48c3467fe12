/* planparts: two tables. */
#include "launcher/planparts.h"

#include <string.h>

struct part {
    const char *key, *words;
    size_t at;
};

static const struct part memory_parts[] = {
    {"weights", "", offsetof(struct plan, memory.weights)},
    {"gradients", "", offsetof(struct plan, memory.gradients)},
    {"optimizer", "", offsetof(struct plan, memory.optimizer)},
    {"gathered", "", offsetof(struct plan, memory.gathered)},
    {"activations", "", offsetof(struct plan, memory.activations)},
    {"working", "", offsetof(struct plan, memory.working)},
    {"logits", "", offsetof(struct plan, memory.logits)},
    {"reserve", "", offsetof(struct plan, memory.reserve)},
};
const size_t planparts_memory_count = sizeof memory_parts / sizeof *memory_parts;

static const struct part step_parts[] = {
    {"products", "matrix products", offsetof(struct plan, step.products)},
    {"attention", "attention", offsetof(struct plan, step.attention)},
    {"elementwise", "elementwise kernels", offsetof(struct plan, step.elementwise)},
    {"recompute", "computing activations again", offsetof(struct plan, step.recompute)},
    {"tp", "waiting for TP", offsetof(struct plan, step.tp)},
    {"cp", "waiting for CP", offsetof(struct plan, step.cp)},
    {"ep", "waiting for EP", offsetof(struct plan, step.ep)},
    {"pp", "sending between pipeline ranks", offsetof(struct plan, step.pp)},
    {"bubble", "pipeline bubble", offsetof(struct plan, step.bubble)},
    {"dp", "waiting for DP", offsetof(struct plan, step.dp)},
    {"optimizer", "optimizer", offsetof(struct plan, step.optimizer)},
    {"jitter", "waiting for the slowest rank", offsetof(struct plan, step.jitter)},
};
const size_t planparts_step_count = sizeof step_parts / sizeof *step_parts;

static double value(const struct plan *plan, size_t at)
{
    double out;
    memcpy(&out, (const char *)plan + at, sizeof out);
    return out;
}

double planparts_memory(const struct plan *plan, size_t i)
{
    return value(plan, memory_parts[i].at);
}

const char *planparts_memory_name(size_t i)
{
    return memory_parts[i].key;
}

double planparts_step(const struct plan *plan, size_t i)
{
    return value(plan, step_parts[i].at);
}

const char *planparts_step_key(size_t i)
{
    return step_parts[i].key;
}

const char *planparts_step_words(size_t i)
{
    return step_parts[i].words;
}
