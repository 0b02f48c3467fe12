/* residual: what a block gives joins the stream, and its norm is taken while the team that made a row holds it in registers. The norm is that of the
 * rounded sum, which is what the backward pass and another forward pass over it see. The sum itself is rounded once. */
#include "kernels/cuda/drop.cuh"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/table.h"

template <class T> struct residual_of {
    T *sum;                 /* may be in or x */
    const T *in, *x, *bias; /* bias NULL: none */
    struct drop drop;
};

/* in + dropped (x + bias); row: of drop_row */
template <class T>
__device__ __forceinline__ T residual_element(const residual_of<T> &a, T in, T x, T bias, uint64_t row,
                                              size_t column)
{
    float add = to_float(x);
    if (a.bias)
        add += to_float(bias);
    if (a.drop.rows)
        add *= drop_factor(a.drop, row, column);
    return from_float<T>(to_float(in) + add);
}

/* The team's pieces of row number `row`: they become `sum`. */
template <class T, int SLOTS>
__device__ __forceinline__ void residual_hold(pack<T> (&sum)[SLOTS], const residual_of<T> &a, size_t row,
                                              unsigned c)
{
    pack<T> x[SLOTS];
    uint64_t hash = drop_row(a.drop, row);
    row_load(sum, a.in + row * c, c / pack<T>::size);
    row_load(x, a.x + row * c, c / pack<T>::size);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        unsigned p = slot_piece(s);
        if (p >= c / pack<T>::size)
            continue;
        pack<T> bias = {};
        if (a.bias)
            bias = ((const pack<T> *)a.bias)[p];
#pragma unroll
        for (int i = 0; i < pack<T>::size; i++)
            sum[s].x[i] = residual_element(a, sum[s].x[i], x[s].x[i], bias.x[i], hash, p * pack<T>::size + i);
    }
    row_store(a.sum + row * c, sum, c / pack<T>::size);
}

template <class T>
__global__ void __launch_bounds__(NORM_MOST(T))
    residual_rows(residual_of<T> a, norm_of<T> norm, size_t n, unsigned c)
{
    SHARED(float, sums, TEAM_ROOM);
    struct team_room room = {sums, 0};
    for (size_t row = team_first(); row < n; row += team_count()) {
        pack<T> held[NORM_SLOTS];
        residual_hold(held, a, row, c);
        if (norm.out)
            held_norm(norm, held, row, c, &room);
    }
}

/* Any row, without the norm */
template <class T> __global__ void residual_long_rows(residual_of<T> a, size_t n, size_t c)
{
    for (size_t row = team_first(); row < n; row += team_count()) {
        uint64_t hash = drop_row(a.drop, row);
        for (size_t j = threadIdx.x; j < c; j += blockDim.x) {
            size_t at = row * c + j;
            a.sum[at] = residual_element(a, a.in[at], a.x[at], a.bias ? a.bias[j] : T(), hash, j);
        }
    }
}

static void norm_alone(const struct kernels *k, const struct kernel_norm *norm, const act *x, size_t n,
                       size_t c)
{
    if (norm->bias)
        k->layernorm_forward(norm->out, norm->mean, norm->rstd, x, norm->weight, norm->bias, norm->eps, n, c);
    else
        k->rmsnorm_forward(norm->out, norm->rstd, x, norm->weight, norm->eps, n, c);
}

template <class T>
static void residual_forward(act *sum, const act *in, const act *x, const act *bias,
                             const struct kernel_dropout *dropout, const struct kernel_norm *norm, size_t n,
                             size_t c)
{
    residual_of<T> a = {elements<T>(sum), elements<T>(in), elements<T>(x), elements<T>(bias),
                        drop_of(dropout)};
    norm_of<T> to = {};
    if (norm)
        to = {elements<T>(norm->out),    norm->bias ? norm->mean : NULL, norm->rstd,
              elements<T>(norm->weight), elements<T>(norm->bias),        norm->eps};
    bool held = aligned16(a.sum, c) && aligned16(a.in, c) && aligned16(a.x, c) && aligned16(a.bias, c) &&
                norm_holds(to, c);
    dim3 block = team_block(held ? c / pack<T>::size : c, NORM_SLOTS, NORM_MOST(T));
    if (n * c == 0)
        return;
    if (held) {
        LAUNCH((residual_rows<T>), team_blocks(n, block), block, 0, device_stream(), a, to, n, (unsigned)c);
        return;
    }
    LAUNCH((residual_long_rows<T>), team_blocks(n, block), block, 0, device_stream(), a, n, c);
    if (norm)
        norm_alone(kernels_cuda(sizeof(T) == 2 ? KERNEL_BF16 : KERNEL_FP32), norm, sum, n, c);
}

template <class T> static void fill(struct kernels *table)
{
    table->residual_forward = residual_forward<T>;
}

CUDA_FILL(residual)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
