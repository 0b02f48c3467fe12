/* theory: closed forms. */
#include "sim/theory.h"

#include <math.h>

double theory_ettr(double overhead, double interval, double mttf, double cost)
{
    return 1 / (1 + cost / interval + (overhead + interval / 2) / mttf);
}

/* The 97.5 % quantile of Student's t: from a table, and from ten degrees of freedom on within 0.02. */
static double student(size_t freedom)
{
    static const double first[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
    size_t n = sizeof(first) / sizeof(first[0]);
    return freedom <= n ? first[freedom - 1] : 1.96 + 2.5 / (double)freedom;
}

bool theory_is_luck(const double *d, size_t n)
{
    double mean = 0, square = 0;
    if (n < 2)
        return true;
    for (size_t i = 0; i < n; i++)
        mean += d[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        square += (d[i] - mean) * (d[i] - mean);
    double error = sqrt(square / (double)(n - 1) / (double)n);
    return fabs(mean) <= student(n - 1) * error + 1e-6;
}
