/* memorynote: what a rank is predicted to need against the memory that it would get, in a sentence. */
#ifndef BELAY_LAUNCHER_MEMORYNOTE_H
#define BELAY_LAUNCHER_MEMORYNOTE_H

#include "planner/planner.h"

/* Of ranks that compute in host memory: they need more than resources.memory sets aside, and what to write. memory: as predicted without a
 * GPU (memory_of). Fresh, or NULL: it is enough, or nothing is set aside for a rank that needs too little for a word. */
char *memorynote_host(const struct job_spec *spec, const struct memory *memory);

/* The same of ranks that compute on GPUs: in host memory they have copies of their state. Only with checkpoint.memory. */
char *memorynote_images(const struct job_spec *spec, const struct memory *memory);

/* Of a plan for GPUs that fits, but not where gradients are added up in fp32. Fresh, or NULL. */
char *memorynote_gradients(const struct plan *plan);

#endif
