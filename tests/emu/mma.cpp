/* mma: products of a warp. The lane that comes last multiplies for all; which elements a lane gives and gets is said in the PTX ISA, "Matrix
 * Fragments for mma.m16n8k16 with floating point type". */
#include <string.h>

#include "tests/emu/block.h"

namespace emu
{
enum { M = 16, N = 8, K = 16 };

/* What a lane gives: a in four registers, b in two. */
struct operands {
    uint32_t a[4], b[2];
};

static float half_of(uint32_t bits, int which)
{
    __nv_bfloat16 x = {(uint16_t)(bits >> which * 16)};
    return __bfloat162float(x);
}

static void unpack(float a[M][K], float b[K][N], const meeting &m)
{
    for (int lane = 0; lane < WARP_LANES; lane++) {
        operands o;
        memcpy(&o, m.lane[lane], sizeof o);
        int group = lane / 4, pair = lane % 4 * 2;
        for (int half = 0; half < 2; half++) {
            for (int i = 0; i < 4; i++)
                a[group + i % 2 * 8][pair + half + i / 2 * 8] = half_of(o.a[i], half);
            for (int i = 0; i < 2; i++)
                b[pair + half + i * 8][group] = half_of(o.b[i], half);
        }
    }
}

static void multiply(meeting &m)
{
    float a[M][K], b[K][N];
    unpack(a, b, m);
    for (int i = 0; i < M; i++) {
        float sums[N] = {};
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                sums[j] += a[i][k] * b[k][j];
        memcpy(m.result + (size_t)i * sizeof sums, sums, sizeof sums);
    }
}

void mma(float *d, const uint32_t *a, const uint32_t *b, const char *file, int line)
{
    static const char tag = 0;
    operands o;
    memcpy(o.a, a, sizeof o.a);
    memcpy(o.b, b, sizeof o.b);
    const float *sums = (const float *)meet(~0u, &o, sizeof o, file, line, &tag, multiply).result;
    for (int i = 0; i < 4; i++)
        d[i] += sums[(cur->lane / 4 + i / 2 * 8) * N + cur->lane % 4 * 2 + i % 2];
}
} // namespace emu
