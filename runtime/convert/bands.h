/* bands: the numbers of one tensor in another layout, in order, a band of rows at a time, so that a model larger than memory passes through. */
#ifndef BELAY_RUNTIME_BANDS_H
#define BELAY_RUNTIME_BANDS_H

#include "common/err.h"
#include "runtime/convert/mapping.h"
#include "runtime/convert/weights.h"

/* Where they go: put returns 0, or -1 when it takes no more (it keeps the reason). */
struct bands_sink {
    int (*put)(void *to, const float *x, size_t n);
    void *to;
};

/* Reads what `t` is made of and puts it into the sink. Only a transposed tensor is in memory as a whole. 0, or -1 with a sentence; when the sink
 * failed, without one. */
int bands_put(const struct weights *weights, const struct mapping_tensor *t, const struct bands_sink *sink,
              struct err *err);

#endif
