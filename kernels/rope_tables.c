/* rope_tables: the angles of rotary positions, on the host and in double: every device turns by the same numbers. */
#include <math.h>

#include "kernels/kernels.h"

void kernel_rope_tables(real *cosine, real *sine, double theta, size_t t, size_t size)
{
    for (size_t position = 0; position < t; position++) {
        for (size_t i = 0; i < size / 2; i++) {
            double angle = (double)position * pow(theta, -2.0 * (double)i / (double)size);
            cosine[position * (size / 2) + i] = (real)cos(angle);
            sine[position * (size / 2) + i] = (real)sin(angle);
        }
    }
}
