/* room: scratch of the calling thread, kept from call to call: fresh pages each time would cost as much as what is computed in them. */
#ifndef BELAY_KERNELS_CPU_ROOM_H
#define BELAY_KERNELS_CPU_ROOM_H

#include <stddef.h>

#include "kernels/real.h"

/* Room for `count` reals, aligned to 64 bytes, of any content, until this thread's next call. Ends the program when there is no memory. */
real *room_take(size_t count);

#endif
