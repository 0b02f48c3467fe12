/* theory: closed forms. */
#include "sim/theory.h"

#include <math.h>

double theory_ettr(double overhead, double interval, double mttf, double cost)
{
    return 1 / (1 + cost / interval + (overhead + interval / 2) / mttf);
}

double theory_young(double cost, double mttf)
{
    return sqrt(2 * cost * mttf);
}

double theory_daly(double cost, double mttf)
{
    double x = cost / (2 * mttf);
    return x >= 1 ? mttf : theory_young(cost, mttf) * (1 + sqrt(x) / 3 + x / 9) - cost;
}
