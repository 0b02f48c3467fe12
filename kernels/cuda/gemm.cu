/* gemm: matrix products by cuBLASLt.
 *
 * cuBLASLt knows column-major matrices only, and a row-major matrix is the transposed column-major one in the same memory. So c = a b is asked for as c^T =
 * b^T a^T: its A is our b, its B our a, its rows our columns; that turns no operand around which we have not, and gives a bias along our
 * columns, which cuBLASLt adds along its rows.
 *
 * A plan, what was asked of cuBLASLt and the algorithm it named, is kept for everything that its choice depends on, the alignment of the pointers too. The
 * choice is the first of the heuristic's list, so it is the same in each run; nothing is measured. Sums that are cut along k are
 * allowed only where the parts lie in the workspace in float and are added by a second kernel in a fixed order. */
#include "kernels/cuda/gemm.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.h"

extern "C" {
#include "common/mem.h"
}

#define MIB            ((size_t)1 << 20)
#define WORKSPACE      (32 * MIB) /* what cuBLAS itself takes before sm_90, and from there on more */
#define WORKSPACE_SM90 (64 * MIB)
#define CHAINS         512
#define CHOICES        8   /* asked of the heuristic: the first fits, unless its workspace is too large */
#define ALIGNMENT_MOST 256 /* more than any algorithm asks for */
#define ALIGNMENT_NONE 1   /* of a pointer that is not there */

#define CHECK_LT(call) check_lt((call), #call)
static void check_lt(cublasStatus_t rc, const char *call)
{
    if (rc != CUBLAS_STATUS_SUCCESS)
        device_fail(call, cublasLtGetStatusString(rc));
}

/* All that a choice depends on; compared byte by byte, so it has no gaps. */
struct key {
    uint64_t m, n, k, a_stride, b_stride, stride, aux_stride;
    uint32_t in, out, epilogue, transposed; /* transposed: bit 0: a, bit 1: b */
    uint32_t added;                         /* 0: no c, 1: another than d, 2: d */
    uint32_t a, b, c, d, bias, aux;         /* alignments in bytes */
    uint32_t in_b;                          /* fp8: type of b */
};

struct plan {
    struct key key;
    bool possible;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, d; /* ours; c has d's */
    cublasLtMatmulAlgo_t algorithm;
    struct plan *next;
};

static struct {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_size;
    struct plan *plans[CHAINS];
    bool by_tiles; /* always */
} lt;

static void open_lt(void)
{
    if (lt.handle)
        return;
    lt.workspace_size = device_properties()->major >= 9 ? WORKSPACE_SM90 : WORKSPACE;
    lt.workspace = arena_take(lt.workspace_size);
    if (!lt.workspace)
        device_fail("memory for matrix products", "the GPU has none left");
    CHECK_LT(cublasLtCreate(&lt.handle));
}

size_t gemm_version(void)
{
    return cublasLtGetVersion();
}

/* ---- plans ---- */

static uint32_t alignment(const void *x)
{
    uintptr_t lowest = (uintptr_t)x & -(uintptr_t)x;
    return !x ? ALIGNMENT_NONE : lowest > ALIGNMENT_MOST ? ALIGNMENT_MOST : (uint32_t)lowest;
}

/* fp8 comes in two types. */
static cudaDataType_t type_of_b(const struct product *p)
{
    return p->b_scale ? p->in_b : p->in;
}

static struct key key_of(const struct product *p)
{
    struct key k;
    memset(&k, 0, sizeof k);
    k.m = p->m;
    k.n = p->n;
    k.k = p->k;
    k.a_stride = p->a.stride;
    k.b_stride = p->b.stride;
    k.stride = p->stride;
    k.aux_stride = p->aux_stride;
    k.in = (uint32_t)p->in;
    k.out = (uint32_t)p->out;
    k.epilogue = (uint32_t)p->epilogue;
    k.transposed = (uint32_t)p->a.transposed | (uint32_t)p->b.transposed << 1;
    k.added = !p->c ? 0 : p->c != p->d ? 1 : 2;
    k.a = alignment(p->a.data);
    k.b = alignment(p->b.data);
    k.c = alignment(p->c ? p->c : p->d);
    k.d = alignment(p->d);
    k.bias = alignment(p->bias);
    k.aux = alignment(p->aux);
    k.in_b = (uint32_t)type_of_b(p);
    return k;
}

/* FNV-1a */
static size_t chain_of(const struct key *k)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof *k; i++)
        h = (h ^ ((const unsigned char *)k)[i]) * 0x100000001B3u;
    return (size_t)((h ^ h >> 32) % CHAINS);
}

static void describe(cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t what, const void *value,
                     size_t size)
{
    CHECK_LT(cublasLtMatmulDescSetAttribute(how, what, value, size));
}

/* What a description names beside the operands; changes from call to call. */
static void point(cublasLtMatmulDesc_t how, const struct product *p)
{
    if (p->bias)
        describe(how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    if (p->aux)
        describe(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &p->aux, sizeof p->aux);
    if (p->a_scale) { /* its A is our b */
        describe(how, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p->b_scale, sizeof p->b_scale);
        describe(how, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p->a_scale, sizeof p->a_scale);
    }
}

/* A row-major (rows, columns) matrix in cuBLASLt's words. */
static cublasLtMatrixLayout_t layout(cudaDataType_t type, size_t rows, size_t columns, size_t stride)
{
    cublasLtMatrixLayout_t x;
    CHECK_LT(cublasLtMatrixLayoutCreate(&x, type, columns, rows, (int64_t)stride));
    return x;
}

static cublasLtMatrixLayout_t operand(cudaDataType_t type, const struct kernel_matrix *x, size_t rows,
                                      size_t columns)
{
    return x->transposed ? layout(type, columns, rows, x->stride) : layout(type, rows, columns, x->stride);
}

static void set_up(struct plan *plan, const struct product *p)
{
    cublasOperation_t a = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      b = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    int64_t aux_stride = (int64_t)p->aux_stride;
    CHECK_LT(cublasLtMatmulDescCreate(&plan->how, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    describe(plan->how, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b);
    describe(plan->how, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a);
    describe(plan->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
    if (p->aux)
        describe(plan->how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_stride, sizeof aux_stride);
    point(plan->how, p); /* the heuristic looks at alignments */
    plan->a = operand(p->in, &p->a, p->m, p->k);
    plan->b = operand(type_of_b(p), &p->b, p->k, p->n);
    plan->d = layout(p->out, p->m, p->n, p->stride);
}

static void prefer(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t what,
                   const void *value, size_t size)
{
    CHECK_LT(cublasLtMatmulPreferenceSetAttribute(wish, what, value, size));
}

static cublasLtMatmulPreference_t wishes(const struct key *k)
{
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t wish;
    CHECK_LT(cublasLtMatmulPreferenceCreate(&wish));
    prefer(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &lt.workspace_size, sizeof lt.workspace_size);
    prefer(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->b, sizeof k->b); /* its A is our b */
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->a, sizeof k->a);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->c, sizeof k->c);
    prefer(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->d, sizeof k->d);
    return wish;
}

/* Refusing a shape is an answer, too. */
static void choose(struct plan *plan)
{
    cublasLtMatmulHeuristicResult_t found[CHOICES];
    cublasLtMatmulPreference_t wish = wishes(&plan->key);
    int count = 0;
    cublasStatus_t rc = cublasLtMatmulAlgoGetHeuristic(lt.handle, plan->how, plan->b, plan->a, plan->d,
                                                       plan->d, wish, CHOICES, found, &count);
    CHECK_LT(cublasLtMatmulPreferenceDestroy(wish));
    if (rc == CUBLAS_STATUS_NOT_SUPPORTED || rc == CUBLAS_STATUS_INVALID_VALUE)
        return;
    check_lt(rc, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count && !plan->possible; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= lt.workspace_size) {
            plan->algorithm = found[i].algo;
            plan->possible = true;
        }
}

static struct plan *plan_for(const struct product *p)
{
    struct key key = key_of(p);
    struct plan **chain = &lt.plans[chain_of(&key)], *plan = *chain;
    while (plan && memcmp(&plan->key, &key, sizeof key) != 0)
        plan = plan->next;
    if (plan)
        return plan;
    open_lt();
    plan = (struct plan *)mem_zero(1, sizeof *plan);
    plan->key = key;
    set_up(plan, p);
    choose(plan);
    plan->next = *chain;
    *chain = plan;
    return plan;
}

void gemm_close(void)
{
    for (size_t i = 0; i < CHAINS; i++)
        for (struct plan *p = lt.plans[i], *next; p; p = next) {
            next = p->next;
            CHECK_LT(cublasLtMatrixLayoutDestroy(p->a));
            CHECK_LT(cublasLtMatrixLayoutDestroy(p->b));
            CHECK_LT(cublasLtMatrixLayoutDestroy(p->d));
            CHECK_LT(cublasLtMatmulDescDestroy(p->how));
            free(p);
        }
    if (lt.handle)
        CHECK_LT(cublasLtDestroy(lt.handle));
    arena_give(lt.workspace);
    memset(&lt, 0, sizeof lt);
}

/* ---- products ---- */

/* No preference names the alignment of what an epilogue reads or writes beside d, and cuBLASLt's kernels do that in accesses of 16 bytes, which end
 * in "misaligned address" elsewhere (pytorch/pytorch#194497). */
static bool epilogue_aligned(const struct product *p)
{
    return (uintptr_t)p->bias % 16 == 0 && (uintptr_t)p->aux % 16 == 0;
}

bool product_enqueue(const struct product *p)
{
    struct plan *plan = epilogue_aligned(p) ? plan_for(p) : NULL;
    float one = 1, onto = p->c ? 1 : 0;
    if (!plan || !plan->possible)
        return false;
    point(plan->how, p);
    CHECK_LT(cublasLtMatmul(lt.handle, plan->how, &one, p->b.data, plan->b, p->a.data, plan->a, &onto,
                            p->c ? p->c : p->d, plan->d, p->d, plan->d, &plan->algorithm, lt.workspace,
                            lt.workspace_size, device_stream()));
    return true;
}

static size_t size_of(cudaDataType_t type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

void product_plain(const struct product *p)
{
    size_t element = size_of(p->out), row = p->stride * element;
    if (p->m == 0 || p->n == 0 || (p->k == 0 && p->c == p->d))
        return;
    if (p->k == 0)
        memory_rows(p->d, row, p->c, row, p->m, p->n * element);
    else if (lt.by_tiles || !product_enqueue(p))
        product_by_tiles(p);
}

/* ---- without cuBLASLt ---- */

void gemm_by_tiles(bool only)
{
    lt.by_tiles = only;
}

#define TILE 16

template <class T>
__device__ __forceinline__ float element(const T *x, size_t stride, bool transposed, size_t i, size_t j)
{
    return to_float(transposed ? x[j * stride + i] : x[i * stride + j]);
}

/* One block a tile of d, one thread an element; slow, and only right. */
template <class In, class Out>
__global__ void tiles_product(size_t m, size_t n, size_t k, const In *a, size_t a_stride, bool a_transposed,
                              const In *b, size_t b_stride, bool b_transposed, const Out *c, Out *d,
                              size_t stride)
{
    SHARED(float, left, TILE *(TILE + 1));
    SHARED(float, right, TILE *TILE);
    size_t i = (size_t)blockIdx.x * TILE + threadIdx.y, j = (size_t)blockIdx.y * TILE + threadIdx.x;
    float sum = 0;
    for (size_t l = 0; l < k; l += TILE) {
        size_t across = l + threadIdx.x, down = l + threadIdx.y;
        left[threadIdx.y * (TILE + 1) + threadIdx.x] =
            i < m && across < k ? element(a, a_stride, a_transposed, i, across) : 0;
        right[threadIdx.y * TILE + threadIdx.x] =
            down < k && j < n ? element(b, b_stride, b_transposed, down, j) : 0;
        __syncthreads();
        for (int t = 0; t < TILE; t++)
            sum += left[threadIdx.y * (TILE + 1) + t] * right[t * TILE + threadIdx.x];
        __syncthreads();
    }
    if (i < m && j < n)
        d[i * stride + j] = from_float<Out>(sum + (c ? to_float(c[i * stride + j]) : 0));
}

template <class In, class Out> static void by_tiles(const struct product *p)
{
    dim3 grid((unsigned)((p->m + TILE - 1) / TILE), (unsigned)((p->n + TILE - 1) / TILE)), block(TILE, TILE);
    LAUNCH((tiles_product<In, Out>), grid, block, 0, device_stream(), p->m, p->n, p->k,
           elements<In>(p->a.data), p->a.stride, p->a.transposed, elements<In>(p->b.data), p->b.stride,
           p->b.transposed, (const Out *)p->c, (Out *)p->d, p->stride);
}

void product_by_tiles(const struct product *p)
{
    static bool said;
    if (!said && !lt.by_tiles)
        device_say("cuBLASLt has no algorithm for a product of %zu x %zu x %zu elements with these strides; "
                   "a slow kernel "
                   "computes it and others like it",
                   p->m, p->n, p->k);
    said = true;
    if (p->in == CUDA_R_32F)
        by_tiles<float, float>(p);
    else if (p->out == CUDA_R_32F)
        by_tiles<bf16, float>(p);
    else
        by_tiles<bf16, bf16>(p);
}

/* ---- the table ---- */

static void multiply(size_t m, size_t n, size_t k, const struct kernel_matrix *a,
                     const struct kernel_matrix *b, bool accumulate, void *c, size_t c_stride,
                     cudaDataType_t in, cudaDataType_t out)
{
    struct product p = {
        m,    n,    k, *a, *b,   in,  out, accumulate ? c : NULL, c, c_stride, CUBLASLT_EPILOGUE_DEFAULT,
        NULL, NULL, 0, in, NULL, NULL};
    product_plain(&p);
}

#define GEMM(name, in, out, result)                                                                          \
    static void name(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,           \
                     bool accumulate, result *c, size_t c_stride)                                            \
    {                                                                                                        \
        multiply(m, n, k, &a, &b, accumulate, c, c_stride, in, out);                                         \
    }
GEMM(gemm_float, CUDA_R_32F, CUDA_R_32F, act)
GEMM(gemm_float_real, CUDA_R_32F, CUDA_R_32F, real)
GEMM(gemm_bf16, CUDA_R_16BF, CUDA_R_16BF, act)
GEMM(gemm_bf16_real, CUDA_R_16BF, CUDA_R_32F, real)

CUDA_FILL(gemm)
{
    bool half = table->type == KERNEL_BF16;
    table->gemm = half ? gemm_bf16 : gemm_float;
    table->gemm_real = half ? gemm_bf16_real : gemm_float_real;
}
