/* norm: LayerNorm or RMSNorm of a row that a team holds in registers (row.cuh): its mean, then the squares around it, as on the CPU, in float. */
#ifndef BELAY_KERNELS_CUDA_NORM_CUH
#define BELAY_KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/row.cuh"

/* The longest rows that are held, in how many slots, and the threads of a team for that */
#define NORM_COLUMNS 16384
#define NORM_SLOTS   4
#define NORM_MOST(T) (NORM_COLUMNS / NORM_SLOTS / pack<T>::size)

/* struct kernel_norm for a kernel; out NULL: no norm. */
template <class T> struct norm_of {
    T *out;
    float *mean, *rstd;     /* mean NULL: RMSNorm */
    const T *weight, *bias; /* bias NULL: none */
    float eps;
};

/* This thread's part of the sum of (x - center)^POWER, POWER 1 or 2 */
template <int POWER, class T, int SLOTS>
__device__ __forceinline__ float held_sum(const pack<T> (&x)[SLOTS], float center, unsigned pieces)
{
    float sum = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        if (slot_piece(s) >= pieces)
            continue;
#pragma unroll
        for (int i = 0; i < pack<T>::size; i++) {
            float d = to_float(x[s].x[i]) - center;
            sum += POWER == 2 ? d * d : d;
        }
    }
    return sum;
}

/* out (a row) = (x - mean) * rstd * weight + bias */
template <class T, int SLOTS>
__device__ __forceinline__ void held_normalise(T *out, const pack<T> (&x)[SLOTS], float mean, float rstd,
                                               const norm_of<T> &norm, unsigned pieces)
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        unsigned p = slot_piece(s);
        if (p >= pieces)
            continue;
        pack<T> weight = ((const pack<T> *)norm.weight)[p], bias = {}, y;
        if (norm.bias)
            bias = ((const pack<T> *)norm.bias)[p];
#pragma unroll
        for (int i = 0; i < pack<T>::size; i++)
            y.x[i] = from_float<T>((to_float(x[s].x[i]) - mean) * rstd * to_float(weight.x[i]) +
                                   to_float(bias.x[i]));
        ((pack<T> *)out)[p] = y;
    }
}

/* The norm of row number `row`, of c elements, which the team holds in x. */
template <class T, int SLOTS>
__device__ __forceinline__ void held_norm(const norm_of<T> &norm, const pack<T> (&x)[SLOTS], size_t row,
                                          unsigned c, struct team_room *room)
{
    unsigned pieces = c / pack<T>::size;
    float mean = 0;
    if (norm.mean) {
        float sum[1] = {held_sum<1>(x, 0, pieces)};
        team_sum(sum, room);
        mean = sum[0] / (float)c;
    }
    float squares[1] = {held_sum<2>(x, mean, pieces)};
    team_sum(squares, room);
    float rstd = 1 / sqrtf(squares[0] / (float)c + norm.eps);
    if (threadIdx.x == 0) {
        norm.rstd[row] = rstd;
        if (norm.mean)
            norm.mean[row] = mean;
    }
    held_normalise(norm.out + row * c, x, mean, rstd, norm, pieces);
}

/* ---- on the host ---- */

/* May the kernels hold rows of c elements, which the norm gives? */
template <class T> static inline bool norm_holds(const norm_of<T> &norm, size_t c)
{
    return aligned16(norm.out, c) && aligned16(norm.weight, c) && aligned16(norm.bias, c) &&
           c <= NORM_COLUMNS;
}

#endif
