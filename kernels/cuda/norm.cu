/* norm: LayerNorm and RMSNorm, and their gradients.
 *
 * Forward, and the gradient of x, go by rows, which teams hold in registers (row.cuh). The gradients of weight and bias are sums down the rows. The same
 * kernel takes them in passing, in registers, over the rows of its block, and leaves a part of them for each block in scratch; a second one adds
 * the parts in their order. How rows are cut depends on n and c alone. Rows that are too long or not aligned are read once for each sum. */
#include "kernels/cuda/norm.cuh"

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/fill.h"

/* ---- forward ---- */

template <class T>
__global__ void __launch_bounds__(NORM_MOST(T)) norm_rows(norm_of<T> norm, const T *x, size_t n, unsigned c)
{
    SHARED(float, sums, TEAM_ROOM);
    struct team_room room = {sums, 0};
    for (size_t row = team_first(); row < n; row += team_count()) {
        pack<T> held[NORM_SLOTS];
        row_load(held, x + row * c, c / pack<T>::size);
        held_norm(norm, held, row, c, &room);
    }
}

/* Any row: its team reads it again for each pass. */
template <class T> __device__ float long_squares(const T *x, float center, size_t c, struct team_room *room)
{
    float sum[1] = {0};
    for (size_t j = threadIdx.x; j < c; j += blockDim.x)
        sum[0] += (to_float(x[j]) - center) * (to_float(x[j]) - center);
    team_sum(sum, room);
    return sum[0];
}

template <class T> __device__ float long_mean(const T *x, size_t c, struct team_room *room)
{
    float sum[1] = {0};
    for (size_t j = threadIdx.x; j < c; j += blockDim.x)
        sum[0] += to_float(x[j]);
    team_sum(sum, room);
    return sum[0] / (float)c;
}

template <class T> __global__ void norm_long_rows(norm_of<T> norm, const T *x, size_t n, size_t c)
{
    SHARED(float, sums, TEAM_ROOM);
    struct team_room room = {sums, 0};
    for (size_t i = team_first(); i < n; i += team_count()) {
        const T *row = x + i * c;
        float mean = norm.mean ? long_mean(row, c, &room) : 0;
        float rstd = 1 / sqrtf(long_squares(row, mean, c, &room) / (float)c + norm.eps);
        for (size_t j = threadIdx.x; j < c; j += blockDim.x)
            norm.out[i * c + j] = from_float<T>((to_float(row[j]) - mean) * rstd * to_float(norm.weight[j]) +
                                                (norm.bias ? to_float(norm.bias[j]) : 0));
        if (threadIdx.x == 0) {
            norm.rstd[i] = rstd;
            if (norm.mean)
                norm.mean[i] = mean;
        }
    }
}

template <class T> static void forward(norm_of<T> norm, const T *x, size_t n, size_t c)
{
    bool held = norm_holds(norm, c) && aligned16(x, c);
    dim3 block = team_block(held ? c / pack<T>::size : c, NORM_SLOTS, NORM_MOST(T));
    if (n * c == 0)
        return;
    if (held)
        LAUNCH((norm_rows<T>), team_blocks(n, block), block, 0, device_stream(), norm, x, n, (unsigned)c);
    else
        LAUNCH((norm_long_rows<T>), team_blocks(n, block), block, 0, device_stream(), norm, x, n, c);
}

template <class T>
static void layernorm_forward(act *out, real *mean, real *rstd, const act *x, const act *weight,
                              const act *bias, real eps, size_t n, size_t c)
{
    norm_of<T> norm = {elements<T>(out), mean, rstd, elements<T>(weight), elements<T>(bias), eps};
    forward(norm, elements<T>(x), n, c);
}

template <class T>
static void rmsnorm_forward(act *out, real *rstd, const act *x, const act *weight, real eps, size_t n,
                            size_t c)
{
    norm_of<T> norm = {elements<T>(out), NULL, rstd, elements<T>(weight), NULL, eps};
    forward(norm, elements<T>(x), n, c);
}

/* ---- backward ----
 * With y = (x - mean) * rstd and g = dout * weight:
 *   dx += rstd * (g - mean(g) - y * mean(g y)), without mean(g) for RMSNorm;  dweight += sum of dout * y;  dbias += sum of dout */

template <class T> struct gradient_of {
    T *dx;
    const T *dout, *x, *weight;
    const float *mean, *rstd; /* mean NULL: RMSNorm */
};

/* What a thread holds of one row. */
template <class T, int SLOTS> struct gradient_row {
    pack<T> dout[SLOTS], x[SLOTS];
    float mean, rstd;
};

/* What a thread sums down its rows. */
template <class T, int SLOTS> struct gradient_sum {
    float weight[SLOTS][pack<T>::size], bias[SLOTS][pack<T>::size];
};

template <class T, int SLOTS>
__device__ __forceinline__ void gradient_load(gradient_row<T, SLOTS> *r, const gradient_of<T> &a, size_t row,
                                              unsigned c)
{
    row_load(r->dout, a.dout + row * c, c / pack<T>::size);
    row_load(r->x, a.x + row * c, c / pack<T>::size);
    r->mean = a.mean ? a.mean[row] : 0;
    r->rstd = a.rstd[row];
}

/* Adds a row to the sums down the rows, and its elements to those of g and g y along it. */
template <class T, int SLOTS>
__device__ __forceinline__ void gradient_take(gradient_sum<T, SLOTS> *down, float (&along)[2],
                                              const gradient_row<T, SLOTS> &r, const T *weight,
                                              unsigned pieces)
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        if (slot_piece(s) >= pieces)
            continue;
        pack<T> w = ((const pack<T> *)weight)[slot_piece(s)];
#pragma unroll
        for (int i = 0; i < pack<T>::size; i++) {
            float d = to_float(r.dout[s].x[i]), y = (to_float(r.x[s].x[i]) - r.mean) * r.rstd;
            float g = d * to_float(w.x[i]);
            along[0] += g;
            along[1] += g * y;
            down->weight[s][i] += d * y;
            down->bias[s][i] += d;
        }
    }
}

template <class T, int SLOTS>
__device__ __forceinline__ void gradient_store(T *dx, const gradient_row<T, SLOTS> &r, const T *weight,
                                               float g_mean, float gy_mean, unsigned pieces)
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        if (slot_piece(s) >= pieces)
            continue;
        pack<T> w = ((const pack<T> *)weight)[slot_piece(s)];
        pack<T> *to = (pack<T> *)dx + slot_piece(s), sum = *to;
#pragma unroll
        for (int i = 0; i < pack<T>::size; i++) {
            float y = (to_float(r.x[s].x[i]) - r.mean) * r.rstd;
            float g = to_float(r.dout[s].x[i]) * to_float(w.x[i]);
            sum.x[i] = from_float<T>(to_float(sum.x[i]) + r.rstd * (g - g_mean - y * gy_mean));
        }
        *to = sum;
    }
}

/* part (c) = the sums of the block's teams, added in their order; room: shared, for the sums of one team, thread by thread */
template <int SLOTS, int SIZE>
__device__ __forceinline__ void give_part(float *part, const float (&sum)[SLOTS][SIZE], float *room,
                                          unsigned pieces)
{
#pragma unroll 1
    for (unsigned y = 0; y < blockDim.y; y++) {
#pragma unroll
        for (int j = 0; j < SLOTS * SIZE; j += 4) {
            unsigned p = slot_piece(j / SIZE);
            if (threadIdx.y != y || p >= pieces)
                continue;
            pack<float> so_far;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float *mine = room + (j + i) * WARP + threadIdx.x;
                so_far.x[i] = (y > 0 ? *mine : 0) + sum[j / SIZE][j % SIZE + i];
                if (y + 1 < blockDim.y)
                    *mine = so_far.x[i];
            }
            if (y + 1 == blockDim.y)
                *(pack<float> *)(part + p * SIZE + j % SIZE) = so_far;
        }
        __syncthreads();
    }
}

/* The sums down the rows take registers: so fewer threads and slots than forward. */
#define BACK_MOST    512
#define BACK_SLOTS   4
#define BACK_CENTRED 3 /* for LayerNorm, which has twice the sums */

/* One block: `rows` rows from blockIdx.x * rows on. parts (gridDim.x, c): of dweight; when CENTRED as many of dbias
 * behind them */
template <class T, int SLOTS, bool CENTRED>
__global__ void __launch_bounds__(BACK_MOST)
    norm_gradient(gradient_of<T> a, float *parts, size_t rows, size_t n, unsigned c)
{
    SHARED(float, sums, TEAM_ROOM);
    DYN_SHARED(float, room_of_part);
    struct team_room room = {sums, 0};
    gradient_sum<T, SLOTS> down = {};
    unsigned pieces = c / pack<T>::size;
    size_t first = blockIdx.x * rows, end = n - first < rows ? n : first + rows;
    for (size_t row = first + threadIdx.y; row < end; row += blockDim.y) {
        gradient_row<T, SLOTS> r;
        float along[2] = {0, 0};
        gradient_load(&r, a, row, c);
        gradient_take(&down, along, r, a.weight, pieces);
        team_sum(along, &room);
        gradient_store(a.dx + row * c, r, a.weight, CENTRED ? along[0] / (float)c : 0, along[1] / (float)c,
                       pieces);
    }
    float *part = parts + blockIdx.x * (size_t)c;
    give_part(part, down.weight, room_of_part, pieces);
    if (CENTRED)
        give_part(part + gridDim.x * (size_t)c, down.bias, room_of_part, pieces);
}

/* Any row: its team reads it twice. */
template <class T> __global__ void norm_long_dx(gradient_of<T> a, size_t n, size_t c)
{
    SHARED(float, sums, TEAM_ROOM);
    struct team_room room = {sums, 0};
    for (size_t row = team_first(); row < n; row += team_count()) {
        const T *dout = a.dout + row * c, *x = a.x + row * c;
        float mean = a.mean ? a.mean[row] : 0, rstd = a.rstd[row], along[2] = {0, 0};
        for (size_t j = threadIdx.x; j < c; j += blockDim.x) {
            float g = to_float(dout[j]) * to_float(a.weight[j]);
            along[0] += a.mean ? g : 0;
            along[1] += g * (to_float(x[j]) - mean) * rstd;
        }
        team_sum(along, &room);
        for (size_t j = threadIdx.x; j < c; j += blockDim.x) {
            float y = (to_float(x[j]) - mean) * rstd, g = to_float(dout[j]) * to_float(a.weight[j]);
            T *dx = a.dx + row * c + j;
            *dx = from_float<T>(to_float(*dx) + rstd * (g - along[0] / (float)c - y * (along[1] / (float)c)));
        }
    }
}

/* One thread: the sums of a column over `rows` rows from blockIdx.y * rows on, into part number blockIdx.y */
template <class T>
__global__ void norm_long_columns(gradient_of<T> a, float *parts, size_t rows, size_t n, size_t c)
{
    size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * rows;
    size_t end = n - first < rows ? n : first + rows;
    float weight_sum = 0, bias_sum = 0, *part = parts + blockIdx.y * c;
    if (j >= c)
        return;
    for (size_t row = first; row < end; row++) {
        float d = to_float(a.dout[row * c + j]);
        weight_sum += d * (to_float(a.x[row * c + j]) - (a.mean ? a.mean[row] : 0)) * a.rstd[row];
        bias_sum += d;
    }
    part[j] = weight_sum;
    if (a.mean)
        part[gridDim.y * c + j] = bias_sum;
}

/* ---- backward, on the host ---- */

/* How the rows are cut: by their number, and how many a block works on at a time. */
struct cut {
    size_t rows, parts;
};
static struct cut cut_rows(size_t n, unsigned teams, size_t most)
{
    size_t rows = (n + most - 1) / most, least = teams < 4 ? 8 : 2 * teams;
    rows = rows < least ? least : (rows + teams - 1) / teams * teams;
    return (struct cut){rows, (n + rows - 1) / rows};
}

static float *parts_take(struct cut cut, size_t width)
{
    return (float *)arena_scratch(SCRATCH_SUMS, cut.parts * width * sizeof(float));
}

/* dweight, dbias (or NULL) += what a kernel has left in parts */
static void add_parts(float *dweight, float *dbias, const float *parts, size_t count, size_t c)
{
    columns_add_parts(dweight, parts, count, c);
    if (dbias)
        columns_add_parts(dbias, parts + count * c, count, c);
}

template <class T, int SLOTS, bool CENTRED>
static void backward_held(gradient_of<T> a, float *dweight, float *dbias, size_t n, size_t c)
{
    dim3 block = team_block(c / pack<T>::size, SLOTS, BACK_MOST);
    struct cut cut = cut_rows(n, block.y, 1024);
    float *parts = parts_take(cut, CENTRED ? 2 * c : c);
    size_t room = block.y > 1 ? SLOTS * WARP * sizeof(pack<T>) / sizeof(T) * sizeof(float) : 0;
    LAUNCH((norm_gradient<T, SLOTS, CENTRED>), (unsigned)cut.parts, block, room, device_stream(), a, parts,
           cut.rows, n, (unsigned)c);
    add_parts(dweight, dbias, parts, cut.parts, c);
}

template <class T>
static void backward_long(gradient_of<T> a, float *dweight, float *dbias, size_t n, size_t c)
{
    struct cut cut = cut_rows(n, 1, 256);
    float *parts = parts_take(cut, dbias ? 2 * c : c);
    dim3 columns((unsigned)((c + THREADS - 1) / THREADS), (unsigned)cut.parts);
    dim3 block = team_block(c, BACK_SLOTS, BACK_MOST);
    LAUNCH((norm_long_columns<T>), columns, THREADS, 0, device_stream(), a, parts, cut.rows, n, c);
    LAUNCH((norm_long_dx<T>), team_blocks(n, block), block, 0, device_stream(), a, n, c);
    add_parts(dweight, dbias, parts, cut.parts, c);
}

/* A row that fits a warp needs no barriers; longer ones get more threads rather than more slots, which take registers. */
template <class T, bool CENTRED>
static void backward(gradient_of<T> a, float *dweight, float *dbias, size_t n, size_t c)
{
    const int MANY = CENTRED ? BACK_CENTRED : BACK_SLOTS;
    bool wide = aligned16(a.dx, c) && aligned16(a.dout, c) && aligned16(a.x, c) && aligned16(a.weight, c);
    size_t pieces = c / pack<T>::size;
    bool many = pieces > 2 * BACK_MOST || (pieces > 2 * WARP && pieces <= (size_t)MANY * WARP);
    if (n * c == 0)
        return;
    if (!wide || pieces > (size_t)MANY * BACK_MOST)
        backward_long(a, dweight, dbias, n, c);
    else if (many)
        backward_held<T, MANY, CENTRED>(a, dweight, dbias, n, c);
    else
        backward_held<T, 2, CENTRED>(a, dweight, dbias, n, c);
}

template <class T>
static void layernorm_backward(act *dx, real *dweight, real *dbias, const act *dout, const act *x,
                               const act *weight, const real *mean, const real *rstd, size_t n, size_t c)
{
    gradient_of<T> a = {elements<T>(dx), elements<T>(dout), elements<T>(x), elements<T>(weight), mean, rstd};
    backward<T, true>(a, dweight, dbias, n, c);
}

template <class T>
static void rmsnorm_backward(act *dx, real *dweight, const act *dout, const act *x, const act *weight,
                             const real *rstd, size_t n, size_t c)
{
    gradient_of<T> a = {elements<T>(dx), elements<T>(dout), elements<T>(x), elements<T>(weight), NULL, rstd};
    backward<T, false>(a, dweight, NULL, n, c);
}

template <class T> static void fill(struct kernels *table)
{
    table->layernorm_forward = layernorm_forward<T>;
    table->layernorm_backward = layernorm_backward<T>;
    table->rmsnorm_forward = rmsnorm_forward<T>;
    table->rmsnorm_backward = rmsnorm_backward<T>;
}

CUDA_FILL(norm)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
