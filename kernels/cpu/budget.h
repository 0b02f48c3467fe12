/* budget: how much memory the arrays of this process may come to. Linux promises more than the host has, and kills the program that uses it: better
 * to refuse, while there is still somebody to tell. */
#ifndef BELAY_KERNELS_CPU_BUDGET_H
#define BELAY_KERNELS_CPU_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* Takes `bytes` of what the host's memory leaves; false, nothing taken, when that is less. Any thread may call. */
bool budget_take(size_t bytes);
/* Counts a few bytes more that are there already. */
void budget_add(size_t bytes);
void budget_give(size_t bytes);
/* What is taken now, and the most that was. */
size_t budget_taken(void);
size_t budget_peak(void);
/* All that there is. */
size_t budget_whole(void);

#endif
