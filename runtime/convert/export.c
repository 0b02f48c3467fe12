/* export: see export.h. What both formats share. */
#include "runtime/convert/export.h"

#include <string.h>

int32_t export_bos(const struct tokenizer *t)
{
    int32_t begin = tokenizer_special(t, "<|begin_of_text|>");
    return begin >= 0 ? begin : tokenizer_end(t);
}

int export_check(const struct export_request *request, struct err *err)
{
    const struct manifest_model *m = weights_model(request->weights);
    const struct tokenizer *t = request->tokenizer;
    if (strcmp(m->arch, "gpt2") == 0 && m->kv_heads != m->heads)
        return err_set(
            err, "a gpt2 model with fewer kv_heads (%lld) than heads (%lld) is known to no other program",
            (long long)m->kv_heads, (long long)m->heads);
    if (m->experts > 0 && m->top_k < 2)
        return err_set(err,
                       "a model with top_k 1 cannot be exported: Mixtral's weight of the one expert that is "
                       "chosen is always 1, here it is its probability");
    if (m->context < 1)
        return err_set(
            err,
            "%s does not tell the length of the context (format 1 did not); resume it and save it again, "
            "then export that",
            weights_path(request->weights));
    if (tokenizer_vocab(t) > (size_t)m->vocab)
        return err_set(
            err,
            "the tokenizer %s has %zu tokens, the model %lld: it is not the one that the model was trained "
            "with; name that with --tokenizer",
            tokenizer_name(t), tokenizer_vocab(t), (long long)m->vocab);
    return 0;
}
