/* gpus: NVIDIA GPUs of this node, through NVML loaded at run time: a node without it simply has none. */
#ifndef BELAY_AGENT_GPUS_H
#define BELAY_AGENT_GPUS_H

#include "schema/link.h"

#define GPUS_NVML "libnvidia-ml.so.1"
#define GPUS_MAX  64 /* more than any machine holds */

/* *gpus is fresh (caller frees; NULL when there are none). Problems are logged, and what could be read is given. */
void gpus_read(const char *library, struct link_gpu **gpus, size_t *n);

#endif
