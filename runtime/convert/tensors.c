/* tensors: see tensors.h. The table has a row for each kind of tensor; "#" is the number of a layer, "@" that of an expert. */
#include "runtime/convert/tensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum size_name { ONE, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, CONTEXT, EXPERTS };
enum { FRONT, LAYER, EXPERT, TAIL };
enum { GPT2 = 1, DENSE = 2, MOE = 4, LLAMA = DENSE | MOE, ALL = GPT2 | LLAMA, UNTIED = 8 };

static const struct row {
    const char *name;
    int where;
    unsigned models;
    enum size_name rows, columns; /* columns ONE: of one dimension */
} table[] = {
    {"embed.weight", FRONT, ALL, VOCAB, HIDDEN},
    {"position.weight", FRONT, GPT2, CONTEXT, HIDDEN},
    {"layers.#.norm1.weight", LAYER, ALL, HIDDEN, ONE},
    {"layers.#.norm1.bias", LAYER, GPT2, HIDDEN, ONE},
    {"layers.#.attn.q.weight", LAYER, ALL, HEADS, HIDDEN},
    {"layers.#.attn.k.weight", LAYER, ALL, KV_HEADS, HIDDEN},
    {"layers.#.attn.v.weight", LAYER, ALL, KV_HEADS, HIDDEN},
    {"layers.#.attn.q.bias", LAYER, GPT2, HEADS, ONE},
    {"layers.#.attn.k.bias", LAYER, GPT2, KV_HEADS, ONE},
    {"layers.#.attn.v.bias", LAYER, GPT2, KV_HEADS, ONE},
    {"layers.#.attn.out.weight", LAYER, ALL, HIDDEN, HEADS},
    {"layers.#.attn.out.bias", LAYER, GPT2, HIDDEN, ONE},
    {"layers.#.norm2.weight", LAYER, ALL, HIDDEN, ONE},
    {"layers.#.norm2.bias", LAYER, GPT2, HIDDEN, ONE},
    {"layers.#.ffn.gate.weight", LAYER, DENSE, FFN, HIDDEN},
    {"layers.#.ffn.up.weight", LAYER, GPT2 | DENSE, FFN, HIDDEN},
    {"layers.#.ffn.up.bias", LAYER, GPT2, FFN, ONE},
    {"layers.#.ffn.down.weight", LAYER, GPT2 | DENSE, HIDDEN, FFN},
    {"layers.#.ffn.down.bias", LAYER, GPT2, HIDDEN, ONE},
    {"layers.#.router.weight", LAYER, MOE, EXPERTS, HIDDEN},
    {"layers.#.experts.@.gate.weight", EXPERT, MOE, FFN, HIDDEN},
    {"layers.#.experts.@.up.weight", EXPERT, MOE, FFN, HIDDEN},
    {"layers.#.experts.@.down.weight", EXPERT, MOE, HIDDEN, FFN},
    {"norm.weight", TAIL, ALL, HIDDEN, ONE},
    {"norm.bias", TAIL, GPT2, HIDDEN, ONE},
    {"head.weight", TAIL, ALL | UNTIED, VOCAB, HIDDEN},
};
enum { ROWS = sizeof table / sizeof *table };

static size_t size_of(enum size_name name, const struct manifest_model *m)
{
    const size_t sizes[] = {[ONE] = 1,
                            [HIDDEN] = (size_t)m->hidden,
                            [HEADS] = (size_t)m->hidden,
                            [KV_HEADS] = m->heads > 0 ? (size_t)(m->hidden / m->heads * m->kv_heads) : 0,
                            [FFN] = (size_t)m->ffn,
                            [VOCAB] = (size_t)m->vocab,
                            [CONTEXT] = (size_t)m->context,
                            [EXPERTS] = (size_t)m->experts};
    return sizes[name];
}

static bool has(const struct manifest_model *m, const struct row *r)
{
    unsigned kind = strcmp(m->arch, "gpt2") == 0 ? GPT2 : (m->experts > 0 ? MOE : DENSE);
    return (r->models & kind) && !((r->models & UNTIED) && m->tied);
}

/* The pattern with numbers in place of # and @. */
static void fill_in(const char *pattern, int64_t layer, int64_t expert, char out[MANIFEST_NAME_SIZE])
{
    size_t used = 0;
    for (; *pattern; pattern++) {
        const char one[2] = {*pattern, 0};
        char number[24];
        (void)snprintf(number, sizeof number, "%lld", (long long)(*pattern == '#' ? layer : expert));
        used +=
            (size_t)snprintf(out + used, MANIFEST_NAME_SIZE - used, "%s",
                             *pattern == '#' || *pattern == '@' ? number : one); /* at most 70 bytes in all */
    }
}

static void add(struct tensor_list *list, const struct manifest_model *m, const struct row *r, int64_t layer,
                int64_t expert)
{
    if (list->count == list->room)
        list->items = mem_one_more(list->items, list->count, &list->room, sizeof *list->items);
    struct tensor_desc *t = &list->items[list->count++];
    *t = (struct tensor_desc){.shape = {size_of(r->rows, m), size_of(r->columns, m)},
                              .dims = r->columns == ONE ? 1 : 2};
    fill_in(r->name, layer, expert, t->name);
}

static void add_all(struct tensor_list *list, const struct manifest_model *m, int where, int64_t layer,
                    int64_t expert)
{
    for (size_t i = 0; i < ROWS; i++)
        if (table[i].where == where && has(m, &table[i]))
            add(list, m, &table[i], layer, expert);
}

void tensors_of_model(const struct manifest_model *model, struct tensor_list *list)
{
    *list = (struct tensor_list){0};
    add_all(list, model, FRONT, 0, 0);
    for (int64_t layer = 0; layer < model->layers; layer++) {
        add_all(list, model, LAYER, layer, 0);
        for (int64_t expert = 0; expert < model->experts; expert++)
            add_all(list, model, EXPERT, layer, expert);
    }
    add_all(list, model, TAIL, 0, 0);
}

void tensors_free(struct tensor_list *list)
{
    free(list->items);
    *list = (struct tensor_list){0};
}

size_t tensors_numbers(const struct tensor_list *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++)
        n += list->items[i].shape[0] * list->items[i].shape[1];
    return n;
}
