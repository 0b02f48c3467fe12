/* real: the number type of the CPU kernels: float, or double when they are compiled a second time as the reference
 * (-DBELAY_REAL_DOUBLE, see tests/unit/double). */
#ifndef BELAY_KERNELS_REAL_H
#define BELAY_KERNELS_REAL_H

#ifdef BELAY_REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
