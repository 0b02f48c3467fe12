/* evaluate: how well a model predicts the tokens of an evalset. */
#ifndef BELAY_RUNTIME_EVALUATE_H
#define BELAY_RUNTIME_EVALUATE_H

#include <stdint.h>

#include "common/err.h"
#include "runtime/evalset.h"
#include "runtime/inference.h"

struct evaluate_result {
    double nats;      /* sum over the tokens counted of the negative logarithms of their probabilities */
    uint64_t counted; /* tokens */
    uint64_t bytes;   /* of their texts; special tokens have none */
    uint64_t windows;
};

/* Called now and then with what there is so far, of `windows` in all. */
typedef void evaluate_progress(void *arg, const struct evaluate_result *sofar, uint64_t windows);

/* The first `windows` windows of the set, of `context` tokens. 0, or -1 with a sentence: a token cannot be read, memory is short, or the
 * loss is not finite. */
int evaluate(const struct inference *inference, const struct evalset *set, size_t context, uint64_t windows,
             evaluate_progress *progress, void *arg, struct evaluate_result *result, struct err *err);

#endif
