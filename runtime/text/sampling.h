/* sampling: which token comes next, from the logits of all. Pure.
 *
 * Temperature, then the K most likely, then the nucleus (Holtzman et al., arXiv 1904.09751, section 3.1): the fewest of the most likely whose
 * probabilities among those still there come to at least P. The draw is a function of (seed, stream, position) and the logits, not of what
 * was drawn before or beside: a text does not depend on which others are made with it. */
#ifndef BELAY_RUNTIME_SAMPLING_H
#define BELAY_RUNTIME_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

struct sampling {
    double temperature; /* >= 0; 0: always the most likely */
    size_t top_k;       /* 0 = all */
    double top_p;       /* 0..1; 1 = all; 0 = the most likely */
    uint64_t seed;
};

/* An id below vocab: of equal logits the lower id counts as more likely. -1 when vocab is 0 or one of the logits is NaN or +Inf; those of -Inf are
 * never chosen, and when all are it is -1, too. stream: which text; position: of the token within it. */
int32_t sampling_pick(const struct sampling *s, const float *logits, size_t vocab, uint64_t stream,
                      uint64_t position);

/* The natural logarithm of the probability that the model itself (temperature 1, nothing cut off) gives to `id`. */
double sampling_log_probability(const float *logits, size_t vocab, int32_t id);

/* The number in [0,1) that is drawn: 53 bits of mix(mix(mix(seed + G) + stream + G) + position + G), G = 0x9E3779B97F4A7C15 and mix the finaliser
 * of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
double sampling_uniform(uint64_t seed, uint64_t stream, uint64_t position);

/* A stream of a text's own: of what it begins with, and the number of the sample. */
uint64_t sampling_stream(const int32_t *prompt, size_t count, uint64_t sample);

#endif
