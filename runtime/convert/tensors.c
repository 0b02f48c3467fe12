/* tensors: see tensors.h. The layout of one rank that has the whole model knows them all. */
#include "runtime/convert/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/model/layout.h"

#define LIST_SMALL 65536 /* layers or experts whose list can be made without a thought */

static struct job_model sizes_of(const struct manifest_model *m)
{
    return (struct job_model){.arch = strcmp(m->arch, "gpt2") == 0 ? ARCH_GPT2 : ARCH_LLAMA,
                              .layers = m->layers,
                              .hidden = m->hidden,
                              .heads = m->heads > 0 ? m->heads : 1,
                              .kv_heads = m->heads > 0 ? m->kv_heads : 0,
                              .ffn = m->ffn,
                              .vocab = m->vocab,
                              .context = m->context,
                              .experts = m->experts,
                              .top_k = m->top_k,
                              .tied = m->tied};
}

void tensors_of_model(const struct manifest_model *model, struct tensor_list *list)
{
    struct job_model sizes = sizes_of(model);
    struct layout_request request = {
        .model = &sizes, .size = {1, 1, 1, 1, 1}, .piece_layers = &sizes.layers, .virtual_stages = 1};
    struct layout layout;
    layout_make(&layout, &request);
    *list = (struct tensor_list){.count = layout.n_tensors};
    list->items = mem_zero(list->count, sizeof *list->items);
    for (size_t i = 0; i < list->count; i++) {
        const struct layout_tensor *t = &layout.tensors[i];
        list->items[i] = (struct tensor_desc){.shape = {t->shape[0], t->shape[1]}, .dims = t->dims};
        (void)snprintf(list->items[i].name, sizeof list->items[i].name, "%s", t->name); /* it has more room */
    }
    layout_free(&layout);
}

void tensors_free(struct tensor_list *list)
{
    free(list->items);
    *list = (struct tensor_list){0};
}

int tensors_check_count(const struct manifest_model *model, size_t count, struct err *err)
{
    size_t most = count > LIST_SMALL ? count : LIST_SMALL;
    most /= (size_t)(model->experts > 0 ? model->experts : 1);
    if ((uint64_t)model->layers <= most)
        return 0;
    return err_set(err,
                   "its model is said to have %lld layers with %lld experts, and there are only %zu tensors; "
                   "take the files and their description from the same model",
                   (long long)model->layers, (long long)model->experts, count);
}

size_t tensors_numbers(const struct tensor_list *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++)
        n += list->items[i].shape[0] * list->items[i].shape[1];
    return n;
}
