/* fault: faults on order, for tests of everything around the training (docs/belay-train.md, "Faults on order"). */
#ifndef BELAY_RUNTIME_FAULT_H
#define BELAY_RUNTIME_FAULT_H

#include <stdint.h>

#include "common/err.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_EXIT0,
    FAULT_EXIT1,
    FAULT_SEGV,
    FAULT_KILL,
    FAULT_NAN,
    FAULT_NANGRAD,
    FAULT_HANG
};

struct fault {
    enum fault_kind kind;
    int64_t step, rank, attempt; /* rank, attempt -1 = any */
    int64_t times;               /* that it may still strike: steps come again after going back */
};

/* Reads "KIND@STEP[:rank=R][:attempt=A][:times=N]" with KIND exit0|exit1|segv|kill|nan|nangrad|hang; NULL or "" = no fault. 0, or -1 with a
 * sentence. */
int fault_parse(const char *text, struct fault *out, struct err *err);

/* The fault due now, or FAULT_NONE. Those that end or stop the process happen here and do not return. */
enum fault_kind fault_strike(struct fault *fault, int64_t step, int64_t rank, int64_t attempt);

#endif
