/* fp8: products of linear layers whose operands are rounded to 8 bits right before, and its scales.
 *
 * A tensor's numbers are multiplied so that the largest magnitude of the last steps becomes the largest number of its type, rounded, and what is larger now
 * becomes that number; cuBLASLt multiplies the sums by the inverse. In the first step nothing is known: then the tensor is looked through
 * beforehand. The largest magnitude of this step is noted by integer maxima of the floats' bits, which come out alike in any order.
 *
 * cuBLASLt takes both operands of fp8 only with the summed dimension contiguous (cublasLt.h: the TN form), so the backward pass rounds into transposed copies. */
#include "kernels/cuda/fp8.h"

#include <cuda_fp8.h>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.cuh"

#define STEP       16         /* cuBLASLt's multiple of sizes */
#define SIDE       64         /* rows and columns of a tile */
#define PITCH      (SIDE + 4) /* bytes between its rows in shared memory */
#define LARGEST_X  448.0F     /* e4m3 */
#define LARGEST_D  57344.0F   /* e5m2 */
#define SCALE_MOST 0x1p126F   /* its inverse is no denormal; Inf times 0 would be NaN */

enum operand { OPERAND_X, OPERAND_WEIGHT, OPERAND_DY };

/* ---- scales ---- */

/* The largest of the steps before. */
__device__ __forceinline__ float known(const float *row)
{
    float most = 0;
    for (int i = 1; i < KERNEL_FP8_ROW; i++)
        most = fmaxf(most, row[i]);
    return most;
}

/* NaN and Inf say nothing of the other numbers' size. */
__device__ __forceinline__ float magnitude(float x)
{
    return isfinite(x) ? fabsf(x) : 0;
}

/* Floats from 0 on are in the order of their bits. */
__device__ __forceinline__ void note(float *row, float most)
{
    if (most > 0)
        atomicMax((int *)row, __float_as_int(most));
}

/* row[0], when the steps before say nothing */
__global__ void look_through(float *row, const bf16 *x, size_t count)
{
    SHARED(float, room, WARP);
    float most = 0;
    if (known(row) > 0)
        return;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        most = fmaxf(most, magnitude(to_float(x[i])));
    most = block_max(most, room);
    if (threadIdx.x == 0)
        note(row, most);
}

/* One block a row of a state. */
__global__ void begin_step(float *rows)
{
    float *row = rows + (size_t)blockIdx.x * KERNEL_FP8_ROW;
    int i = (int)threadIdx.x;
    float before = i > 0 && i < KERNEL_FP8_ROW ? row[i - 1] : 0;
    __syncthreads();
    if (i < KERNEL_FP8_ROW)
        row[i] = before;
}

static void fp8_step(real *states, size_t layers)
{
    if (layers > 0)
        LAUNCH(begin_step, (unsigned)(3 * layers), WARP, 0, device_stream(), states);
}

/* ---- rounding ---- */

/* What is no number stays none: it must be seen in the result. */
template <bool wide> __device__ __forceinline__ uint8_t round_fp8(float x, float scale)
{
    const __nv_fp8_interpretation_t kind = wide ? __NV_E5M2 : __NV_E4M3;
    return __nv_cvt_float_to_fp8(isfinite(x) ? x * scale : NAN, __NV_SATFINITE, kind);
}

/* out (rows, columns), or (columns, rows) when turned, of x (rows, columns); *inverse = what brings them back. One block a tile. wide: e5m2. */
template <bool wide, bool turned>
__global__ void __launch_bounds__(THREADS)
    round_tile(uint8_t *out, float *inverse, float *row, const bf16 *x, size_t rows, size_t columns)
{
    SHARED(uint8_t, tile, SIDE * PITCH);
    SHARED(float, room, WARP);
    const float largest = wide ? LARGEST_D : LARGEST_X;
    float before = known(row), size = before > 0 ? before : row[0];
    float scale = size > 0 ? fminf(largest / size, SCALE_MOST) : 1, most = 0;
    size_t top = (size_t)blockIdx.y * SIDE, left = (size_t)blockIdx.x * SIDE;
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        *inverse = 1 / scale;
    for (int i = (int)threadIdx.x; i < SIDE * SIDE / 8; i += THREADS) {
        size_t r = top + (size_t)(i / 8), c = left + (size_t)(i % 8) * 8;
        if (r >= rows || c >= columns) /* columns are a multiple of 16 */
            continue;
        pack<bf16> in = *(const pack<bf16> *)(x + r * columns + c);
        for (int j = 0; j < 8; j++) {
            float v = to_float(in.x[j]);
            most = fmaxf(most, magnitude(v));
            tile[i / 8 * PITCH + i % 8 * 8 + j] = round_fp8<wide>(v, scale);
        }
    }
    most = block_max(most, room); /* and all of the tile is there */
    if (threadIdx.x == 0)
        note(row, most);
    /* 16 bytes of a row of the result by each thread */
    int line = (int)threadIdx.x / 4, piece = (int)threadIdx.x % 4 * 16;
    size_t r = turned ? left + (size_t)line : top + (size_t)line;
    size_t c = (turned ? top : left) + (size_t)piece, height = turned ? columns : rows;
    size_t width = turned ? rows : columns;
    if (r >= height || c >= width)
        return;
    pack<uint8_t> bytes;
    for (int j = 0; j < 16; j++)
        bytes.x[j] = turned ? tile[(piece + j) * PITCH + line] : tile[line * PITCH + piece + j];
    *(pack<uint8_t> *)(out + r * width + c) = bytes;
}

/* ---- operands of products ---- */

/* Where the operands of one product lie: their inverses, then a and b. */
struct room {
    float *inverse;
    uint8_t *a, *b;
};

static size_t whole(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static struct room room_of(size_t a, size_t b)
{
    char *x = (char *)arena_scratch(SCRATCH_FP8, 256 + whole(a) + whole(b));
    struct room out = {(float *)x, (uint8_t *)x + 256, (uint8_t *)x + 256 + whole(a)};
    return out;
}

template <bool wide>
static void round_into(uint8_t *out, float *inverse, float *row, bool turned, const act *x, size_t rows,
                       size_t columns)
{
    const bf16 *in = elements<bf16>(x);
    dim3 grid((unsigned)((columns + SIDE - 1) / SIDE), (unsigned)((rows + SIDE - 1) / SIDE));
    LAUNCH(look_through, blocks_for(rows * columns), THREADS, 0, device_stream(), row, in, rows * columns);
    if (turned)
        LAUNCH((round_tile<wide, true>), grid, THREADS, 0, device_stream(), out, inverse, row, in, rows,
               columns);
    else
        LAUNCH((round_tile<wide, false>), grid, THREADS, 0, device_stream(), out, inverse, row, in, rows,
               columns);
}

static float *row_of(const struct kernel_linear *l, enum operand which)
{
    return l->fp8 + (size_t)which * KERNEL_FP8_ROW;
}

/* a, b, c: the call's other arrays, or NULL. What is rounded is read, and cuBLASLt wants to find the rest, at multiples of 16 bytes. */
static bool possible(const struct kernel_linear *l, size_t n, const void *a, const void *b, const void *c)
{
    uintptr_t all = (uintptr_t)l->weight | (uintptr_t)l->bias | (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    return n > 0 && n % STEP == 0 && l->in % STEP == 0 && l->out % STEP == 0 && n / SIDE < 65535 &&
           l->out / SIDE < 65535 && all % 16 == 0;
}

/* d (m,n) = a (m,k) b (n,k)^T + c: both in fp8, as they lie in the room */
static struct product product_of(const struct room *r, size_t m, size_t n, size_t k, void *d, const void *c,
                                 bool narrow)
{
    struct product p = {m,
                        n,
                        k,
                        {(const act *)(void *)r->a, k, false},
                        {(const act *)(void *)r->b, k, true},
                        CUDA_R_8F_E4M3,
                        narrow ? CUDA_R_16BF : CUDA_R_32F,
                        c,
                        d,
                        n,
                        CUBLASLT_EPILOGUE_DEFAULT,
                        NULL,
                        NULL,
                        0,
                        CUDA_R_8F_E4M3,
                        r->inverse,
                        r->inverse + 1};
    return p;
}

static void must(const struct product *p)
{
    if (!product_enqueue(p))
        device_fail("cublasLtMatmulAlgoGetHeuristic",
                    "cuBLASLt has no product in fp8 for a layer of this model; use precision: bf16");
}

bool fp8_forward(act *y, const act *onto, const act *x, const struct kernel_linear *l, size_t n)
{
    if (!possible(l, n, x, y, onto))
        return false;
    struct room r = room_of(n * l->in, l->out * l->in);
    round_into<false>(r.a, r.inverse, row_of(l, OPERAND_X), false, x, n, l->in);
    round_into<false>(r.b, r.inverse + 1, row_of(l, OPERAND_WEIGHT), false, l->weight, l->out, l->in);
    struct product p = product_of(&r, n, l->out, l->in, y, onto, true);
    p.bias = l->bias;
    p.epilogue = l->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    must(&p);
    return true;
}

bool fp8_backward(act *dx, bool accumulate, const act *dy, const struct kernel_linear *l, size_t n)
{
    if (!possible(l, n, dy, dx, NULL))
        return false;
    struct room r = room_of(n * l->out, l->out * l->in);
    round_into<true>(r.a, r.inverse, row_of(l, OPERAND_DY), false, dy, n, l->out);
    round_into<false>(r.b, r.inverse + 1, row_of(l, OPERAND_WEIGHT), true, l->weight, l->out, l->in);
    struct product p = product_of(&r, n, l->in, l->out, dx, accumulate ? dx : NULL, true);
    p.in = CUDA_R_8F_E5M2;
    must(&p);
    return true;
}

bool fp8_weights(real *dweight, const act *dy, const act *x, const struct kernel_linear *l, size_t n)
{
    if (!possible(l, n, x, dweight, dy))
        return false;
    struct room r = room_of(n * l->out, n * l->in);
    round_into<true>(r.a, r.inverse, row_of(l, OPERAND_DY), true, dy, n, l->out);
    round_into<false>(r.b, r.inverse + 1, row_of(l, OPERAND_X), true, x, n, l->in);
    struct product p = product_of(&r, l->out, l->in, n, dweight, dweight, false);
    p.in = CUDA_R_8F_E5M2;
    must(&p);
    return true;
}

/* cuBLASLt has fp8 from Ada (8.9) on. */
CUDA_FILL(fp8)
{
    const struct cuda_device *d = device_properties();
    table->fp8_step = table->type == KERNEL_BF16 && d->major * 10 + d->minor >= 89 ? fp8_step : NULL;
}
