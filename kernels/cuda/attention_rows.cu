/* attention_rows: what the backward pass needs of each query before it begins: delta = sum of dout * out, which is the sum over keys of p * dp
 * (Dao et al., arXiv 2205.14135, appendix B.2), beside lse and the dropout's hash of the row. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.cuh"

/* One 16-byte access or one element of each. */
template <class T, int WIDE> __device__ __forceinline__ float dot_part(const T *a, const T *b)
{
    float sum = 0;
    if (WIDE) {
        pack<T> x = *(const pack<T> *)a, y = *(const pack<T> *)b;
        for (int i = 0; i < x.size; i++)
            sum += to_float(x.x[i]) * to_float(y.x[i]);
    } else {
        sum = to_float(*a) * to_float(*b);
    }
    return sum;
}

/* `lanes` lanes, a power of two, take one head of one token; heads next to each other lie side by side in memory. */
template <class T, int WIDE>
__global__ void __launch_bounds__(THREADS)
    attention_row_sums(struct attention_row *rows, struct attention a, int lanes)
{
    const int unit = WIDE ? pack<T>::size : 1;
    int lane = (int)threadIdx.x % lanes;
    size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) / lanes, head = i % a.heads, n = i / a.heads;
    size_t row = n % a.queries, b = n / a.queries;
    bool there = b < (size_t)a.batch;
    size_t at = b * a.out_batch + row * a.out_stride + head * a.size;
    const T *dout = (const T *)(const void *)a.dout + at, *out = (const T *)(const void *)a.kept_out + at;
    float sum = 0;
    for (int j = lane * unit; there && j < a.size; j += lanes * unit)
        sum += dot_part<T, WIDE>(dout + j, out + j);
    for (int d = lanes / 2; d > 0; d /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, d);
    if (!there || lane > 0)
        return;
    struct attention_row r = {0, sum, 0};
    r.lse = a.kept_lse[(b * a.heads + head) * a.lse_stride + row] * LOG2_E;
    if (a.threshold)
        r.hash = attention_hash(a, (int)b, (int)head, (int)row);
    rows[(b * a.heads + head) * a.queries + row] = r;
}

template <class T, int WIDE> static void row_sums(struct attention_row *rows, const struct attention *a)
{
    int unit = WIDE ? pack<T>::size : 1, lanes = 1;
    while (lanes < WARP && lanes * unit < a->size)
        lanes *= 2;
    size_t count = (size_t)a->batch * a->queries * a->heads, each = THREADS / lanes;
    LAUNCH((attention_row_sums<T, WIDE>), (unsigned)((count + each - 1) / each), THREADS, 0, device_stream(),
           rows, *a, lanes);
}

template <class T> static void row_sums(struct attention_row *rows, const struct attention *a)
{
    bool wide = aligned16(elements<T>(a->dout), a->out_stride) &&
                aligned16(elements<T>(a->kept_out), a->out_batch) && a->size % pack<T>::size == 0;
    wide ? row_sums<T, 1>(rows, a) : row_sums<T, 0>(rows, a);
}

const struct attention_row *attention_rows(const struct attention *a)
{
    size_t count = (size_t)a->batch * a->heads * a->queries;
    struct attention_row *rows =
        (struct attention_row *)arena_scratch(SCRATCH_ATTENTION, count * sizeof(struct attention_row));
    if (count > 0)
        a->half ? row_sums<bf16>(rows, a) : row_sums<float>(rows, a);
    return rows;
}
