/* cublaslt: cuBLASLt's descriptors, what it accepts, and the epilogues around the product (product.h). The rules are those of
 * "cublasLtMatmul()" in NVIDIA's cuBLAS documentation. */
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "tests/emu/machine.h"
#include "tests/emu/product.h"

struct cublasLtContext {
    int device;
};

struct emu_layout {
    cudaDataType type;
    int32_t order, batch;
    uint64_t rows, cols;
    int64_t ld, stride;
};

struct emu_product {
    int32_t compute, scale_type, pointer_mode, transpose_a, transpose_b, transpose_c;
    uint32_t epilogue;
    void *bias;
    int32_t bias_type;
    int64_t bias_stride;
    void *aux;
    int32_t aux_type;
    int64_t aux_ld, aux_stride;
    const float *a_scale, *b_scale, *c_scale, *d_scale;
    float *amax;
    int8_t fast;
    int32_t multiprocessors, a_mode, b_mode, c_mode, d_mode;
};

struct emu_preference {
    uint64_t workspace, implementations;
    uint32_t search, reductions, align_a, align_b, align_c, align_d;
    float waves;
};

/* What an algorithm needs; kept in cublasLtMatmulAlgo_t. */
struct algorithm {
    uint64_t id, alignment, workspace;
};
enum { VECTORISED = 1, PLAIN = 2, WORKSPACE = 4096 };

using namespace emu;

/* ---- setting attributes ---- */

struct field {
    int attribute;
    size_t offset, bytes;
};
#define FIELD(attribute, type, member)                                                                       \
    {                                                                                                        \
        attribute, offsetof(type, member), sizeof(((type *)0)->member)                                       \
    }

static const field layout_fields[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, emu_layout, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, emu_layout, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, emu_layout, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, emu_layout, cols),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, emu_layout, ld),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, emu_layout, batch),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, emu_layout, stride),
};

static const field product_fields[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, emu_product, compute),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, emu_product, scale_type),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, emu_product, pointer_mode),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, emu_product, transpose_a),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, emu_product, transpose_b),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, emu_product, transpose_c),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, emu_product, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, emu_product, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, emu_product, bias_stride),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, emu_product, bias_type),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, emu_product, aux),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, emu_product, aux_ld),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, emu_product, aux_stride),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, emu_product, aux_type),
    FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, emu_product, a_scale),
    FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, emu_product, b_scale),
    FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, emu_product, c_scale),
    FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, emu_product, d_scale),
    FIELD(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, emu_product, amax),
    FIELD(CUBLASLT_MATMUL_DESC_FAST_ACCUM, emu_product, fast),
    FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, emu_product, multiprocessors),
    FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, emu_product, a_mode),
    FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, emu_product, b_mode),
    FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_MODE, emu_product, c_mode),
    FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, emu_product, d_mode),
};

static const field preference_fields[] = {
    FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, emu_preference, search),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, emu_preference, workspace),
    FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, emu_preference, reductions),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, emu_preference, align_a),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, emu_preference, align_b),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, emu_preference, align_c),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, emu_preference, align_d),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, emu_preference, waves),
    FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, emu_preference, implementations),
};

template <size_t N>
static cublasStatus_t set_field(const field (&fields)[N], void *object, int attribute, const void *value,
                                size_t bytes)
{
    for (const field &f : fields)
        if (f.attribute == attribute) {
            if (!object || !value || bytes != f.bytes)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy((char *)object + f.offset, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_INVALID_VALUE;
}

template <class T> static cublasStatus_t destroy(T *object)
{
    if (!object)
        return CUBLAS_STATUS_INVALID_VALUE;
    delete object;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- what is accepted ---- */

static bool is_fp8(int type)
{
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static bool has_bias(const emu_product &p)
{
    return p.epilogue & CUBLASLT_EPILOGUE_BIAS;
}

/* an aux matrix, written or read */
static bool has_aux(const emu_product &p)
{
    return p.epilogue & 128;
}

static bool has_bias_gradient(const emu_product &p)
{
    return p.epilogue & (16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
}

static bool is_known_epilogue(uint32_t epilogue)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
        return true;
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB: {
        const char *allowed = getenv("EMU_EPILOGUES");
        return !allowed || strcmp(allowed, "none") != 0;
    }
    default:
        return false;
    }
}

/* m, n, k */
struct extent {
    uint64_t m, n, k;
};
static extent extent_of(const emu_product &p, const emu_layout &a, const emu_layout &b)
{
    bool ta = p.transpose_a != CUBLAS_OP_N, tb = p.transpose_b != CUBLAS_OP_N;
    return {ta ? a.cols : a.rows, tb ? b.rows : b.cols, ta ? a.rows : a.cols};
}

static bool shapes_fit(const emu_product &p, const emu_layout &a, const emu_layout &b, const emu_layout &c,
                       const emu_layout &d)
{
    extent e = extent_of(p, a, b);
    if ((p.transpose_b != CUBLAS_OP_N ? b.cols : b.rows) != e.k || d.rows != e.m || d.cols != e.n ||
        c.rows != e.m || c.cols != e.n || e.m == 0 || e.n == 0 || e.k == 0)
        return false;
    for (const emu_layout *l : {&a, &b, &c, &d})
        if (l->ld < (int64_t)l->rows || l->batch != d.batch || l->batch < 1 || l->order != CUBLASLT_ORDER_COL)
            return false;
    return p.transpose_c == CUBLAS_OP_N;
}

/* The type of the bias, or of its gradient. */
static int bias_type(const emu_product &p, const emu_layout &a, const emu_layout &d)
{
    if (p.bias_type >= 0)
        return p.bias_type;
    return is_fp8(a.type) && d.type == CUDA_R_32F ? CUDA_R_16BF : is_fp8(d.type) ? CUDA_R_16BF : d.type;
}

static int aux_type(const emu_product &p, const emu_layout &d)
{
    return p.aux_type >= 0 ? p.aux_type : (int)d.type;
}

/* Operands of 8 bits: capability 8.9 or more, A transposed and B not, one of them e4m3, all sizes
 * multiples of 16. */
static bool fp8_fits(const emu_product &p, const emu_layout &a, const emu_layout &b, const emu_layout &c,
                     const emu_layout &d)
{
    struct cudaDeviceProp device;
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess || device.major * 10 + device.minor < 89)
        return false;
    if (!is_fp8(b.type) || (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2))
        return false;
    if (p.transpose_a != CUBLAS_OP_T || p.transpose_b != CUBLAS_OP_N || p.compute != CUBLAS_COMPUTE_32F)
        return false;
    extent e = extent_of(p, a, b);
    if (e.m % 16 != 0 || e.n % 16 != 0 || e.k % 16 != 0)
        return false;
    for (const emu_layout *l : {&a, &b, &c, &d})
        if (l->ld * (int64_t)element_size(l->type) % 16 != 0)
            return false;
    bool e5m2_out = d.type == CUDA_R_8F_E5M2 && a.type == CUDA_R_8F_E4M3 && b.type == CUDA_R_8F_E4M3;
    if (e5m2_out || (is_fp8(d.type) ? c.type != CUDA_R_16BF : c.type != d.type))
        return false;
    return !has_bias_gradient(p) && (!has_bias(p) || bias_type(p, a, d) == CUDA_R_16BF);
}

static bool types_fit(const emu_product &p, const emu_layout &a, const emu_layout &b, const emu_layout &c,
                      const emu_layout &d)
{
    if (p.scale_type != CUDA_R_32F)
        return false;
    if (is_fp8(a.type) || is_fp8(b.type))
        return is_fp8(a.type) && fp8_fits(p, a, b, c, d);
    if (a.type != b.type || c.type != d.type || is_fp8(d.type) ||
        (has_bias(p) && bias_type(p, a, d) != (int)d.type))
        return false;
    return a.type == CUDA_R_32F ? d.type == CUDA_R_32F
                                : a.type == CUDA_R_16BF && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F);
}

static bool epilogue_fits(const emu_product &p, const emu_layout &d)
{
    if (!is_known_epilogue(p.epilogue))
        return false;
    bool aux_fits = p.aux_ld % 8 == 0 && p.aux_ld >= (int64_t)d.rows && p.aux_stride % 8 == 0 &&
                    (uintptr_t)p.aux % 16 == 0 &&
                    (aux_type(p, d) == (int)d.type || (is_fp8(d.type) && aux_type(p, d) == CUDA_R_16BF));
    return !has_aux(p) || aux_fits;
}

static cublasStatus_t accepted(const emu_product *p, const emu_layout *a, const emu_layout *b,
                               const emu_layout *c, const emu_layout *d)
{
    if (!p || !a || !b || !c || !d || !shapes_fit(*p, *a, *b, *c, *d))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool narrow = is_fp8(a->type);
    if ((!narrow && (p->a_scale || p->b_scale)) || (!is_fp8(d->type) && (p->d_scale || p->amax)) ||
        (!is_fp8(c->type) && p->c_scale))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool modes = p->a_mode == 0 && p->b_mode == 0 && p->c_mode == 0 && p->d_mode == 0;
    return modes && types_fit(*p, *a, *b, *c, *d) && epilogue_fits(*p, *d) ? CUBLAS_STATUS_SUCCESS
                                                                           : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- the algorithms ---- */

static bool strides_are_wide(const emu_layout *l)
{
    uint64_t size = element_size(l->type);
    return (uint64_t)l->ld * size % 16 == 0 && (uint64_t)l->stride * size % 16 == 0;
}

static int find_algorithms(const emu_layout *a, const emu_layout *b, const emu_layout *c, const emu_layout *d,
                           const emu_preference &want, algorithm found[2])
{
    int count = 0;
    bool wide = strides_are_wide(a) && strides_are_wide(b) && strides_are_wide(c) && strides_are_wide(d);
    if (wide && want.align_a >= 16 && want.align_b >= 16 && want.align_c >= 16 && want.align_d >= 16)
        found[count++] = {VECTORISED, 16, want.workspace < WORKSPACE ? 0u : (uint64_t)WORKSPACE};
    if (!is_fp8(a->type))
        found[count++] = {PLAIN, 1, 0};
    return count;
}

static const emu_preference no_preference = {0,   ~(uint64_t)0, 0, CUBLASLT_REDUCTION_SCHEME_MASK, 256, 256,
                                             256, 256,          0};

/* ---- computing ---- */

/* All that a product needs when its turn in the stream has come. */
struct task {
    emu_product p;
    emu_layout a, b, c, d;
    const char *at_a, *at_b, *at_c;
    char *at_d;
    float alpha, beta;
    const float *alpha_at, *beta_at; /* on the device, or NULL */
};

static matrix part(const emu_layout &l, const char *at, int64_t batch)
{
    matrix m = {l.type, l.rows, l.cols, (size_t)l.ld, (char *)(uintptr_t)at};
    m.at = (char *)m.at + batch * l.stride * (int64_t)element_size(l.type);
    if (!is_in_piece(m.at, matrix_bytes(m)))
        die("cublasLtMatmul: a matrix lies not, or not wholly, in memory of the device", "cublaslt.cpp", 0);
    return m;
}

/* sqrt(2/pi), and the cubic term, of GELU's form with tanh (arXiv 1606.08415), which is cuBLASLt's */
#define GELU_SCALE 0.7978845608028654f
#define GELU_CUBE  0.044715f

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(GELU_SCALE * (x + GELU_CUBE * x * x * x)));
}

static float gelu_slope(float x)
{
    float t = tanhf(GELU_SCALE * (x + GELU_CUBE * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
}

static float number_at(const float *at)
{
    float x = 1;
    if (at && !is_in_piece(at, sizeof x))
        die("cublasLtMatmul: a scale is not in memory of the device", "cublaslt.cpp", 0);
    if (at)
        memcpy(&x, at, sizeof x);
    return x;
}

/* The value of one element after activation; aux: its place in the aux matrix. */
static float activated(const emu_product &p, cudaDataType type, float x, void *aux, size_t at)
{
    if (p.epilogue & CUBLASLT_EPILOGUE_RELU)
        return x > 0 ? x : 0;
    if (p.epilogue & CUBLASLT_EPILOGUE_GELU) {
        if (has_aux(p))
            store(type, aux, at, x);
        return gelu(x);
    }
    return (p.epilogue & 64) ? x * gelu_slope(load(type, aux, at)) : x;
}

static void write_bias_gradient(const task &t, void *bias, const std::vector<float> &sums)
{
    cudaDataType type = (cudaDataType)bias_type(t.p, t.a, t.d);
    matrix m = {type, sums.size(), 1, sums.size(), bias};
    if (!is_in_piece(bias, matrix_bytes(m)))
        die("cublasLtMatmul: the bias's gradient does not fit", "cublaslt.cpp", 0);
    for (size_t i = 0; i < sums.size(); i++)
        store(type, bias, i, sums[i]);
}

/* The vectors and matrices of one batch's epilogue. */
struct epilogue {
    cudaDataType bias_is, aux_is;
    const char *bias;
    char *aux;
};

static epilogue epilogue_of(const task &t, int64_t batch, const matrix &d)
{
    cudaDataType bias_is = (cudaDataType)bias_type(t.p, t.a, t.d), aux_is = (cudaDataType)aux_type(t.p, t.d);
    const char *bias = (const char *)t.p.bias + batch * t.p.bias_stride * (int64_t)element_size(bias_is);
    char *aux = (char *)t.p.aux + batch * t.p.aux_stride * (int64_t)element_size(aux_is);
    if (has_bias(t.p) && !is_in_piece(bias, d.rows * element_size(bias_is)))
        die("cublasLtMatmul: the bias is too short", "cublaslt.cpp", 0);
    if (has_aux(t.p) && !is_in_piece(aux, matrix_bytes({aux_is, d.rows, d.cols, (size_t)t.p.aux_ld, aux})))
        die("cublasLtMatmul: the aux matrix does not fit", "cublaslt.cpp", 0);
    return {bias_is, aux_is, bias, aux};
}

/* From the products out (m,n) of one batch to what is written into d; row_sums: of its values, for DGELU_BGRAD. Gives the largest magnitude. */
static float finish(const task &t, int64_t batch, const std::vector<float> &out, std::vector<float> &row_sums)
{
    float alpha = t.alpha_at ? number_at(t.alpha_at) : t.alpha,
          beta = t.beta_at ? number_at(t.beta_at) : t.beta;
    matrix d = part(t.d, t.at_d, batch), c = beta != 0 ? part(t.c, t.at_c, batch) : d;
    epilogue e = epilogue_of(t, batch, d);
    float scale = alpha * number_at(t.p.a_scale) * number_at(t.p.b_scale), d_scale = number_at(t.p.d_scale);
    float c_scale = beta * number_at(t.p.c_scale), largest = 0;
    for (size_t j = 0; j < d.cols; j++)
        for (size_t i = 0; i < d.rows; i++) {
            float x = scale * out[j * d.rows + i];
            if (beta != 0)
                x += c_scale * load(c.type, c.at, j * c.ld + i);
            if (has_bias(t.p))
                x += load(e.bias_is, e.bias, i);
            x = activated(t.p, e.aux_is, x, e.aux, j * (size_t)t.p.aux_ld + i);
            row_sums[i] += x;
            largest = std::max(largest, fabsf(x));
            store(d.type, d.at, j * d.ld + i, x * d_scale);
        }
    return largest;
}

/* row_sums: of d's values. */
static void finish_bias_gradient(const task &t, int64_t batch, const matrix &a, const matrix &b,
                                 const std::vector<float> &row_sums)
{
    std::vector<float> sums = row_sums;
    if (t.p.epilogue == CUBLASLT_EPILOGUE_BGRADA)
        sum_rows(sums.data(), a, t.p.transpose_a != CUBLAS_OP_N);
    if (t.p.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        sums.resize(t.d.cols);
        sum_rows(sums.data(), b, t.p.transpose_b == CUBLAS_OP_N);
    }
    int64_t size = (int64_t)element_size((cudaDataType)bias_type(t.p, t.a, t.d));
    write_bias_gradient(t, (char *)t.p.bias + batch * t.p.bias_stride * size, sums);
}

static void compute(const task &t)
{
    bool ta = t.p.transpose_a != CUBLAS_OP_N, tb = t.p.transpose_b != CUBLAS_OP_N;
    float largest = 0;
    for (int64_t batch = 0; batch < t.d.batch; batch++) {
        matrix a = part(t.a, t.at_a, batch), b = part(t.b, t.at_b, batch);
        std::vector<float> out(t.d.rows * t.d.cols), row_sums(t.d.rows);
        multiply(out.data(), a, ta, b, tb);
        largest = std::max(largest, finish(t, batch, out, row_sums));
        if (has_bias_gradient(t.p))
            finish_bias_gradient(t, batch, a, b, row_sums);
    }
    if (t.p.amax) {
        number_at(t.p.amax); /* is it on the device? */
        memcpy(t.p.amax, &largest, sizeof largest);
    }
}

/* Is a pointer that its epilogue needs not set? */
static bool lacks_pointer(const emu_product &p)
{
    return ((has_bias(p) || has_bias_gradient(p)) && !p.bias) || (has_aux(p) && !p.aux);
}

/* No preference names the alignment of the bias, and kernels read it in accesses of 16 bytes: elsewhere it ends in "misaligned address"
 * (pytorch/pytorch#194497). */
static void check_bias(const emu_product &p)
{
    if ((has_bias(p) || has_bias_gradient(p)) && (uintptr_t)p.bias % 16 != 0)
        die("cublasLtMatmul: misaligned address: the bias is not aligned to 16 bytes", "cublaslt.cpp", 0);
}

static void set_factors(task *t, const void *alpha, const void *beta)
{
    if (t->p.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        t->alpha_at = (const float *)alpha;
        t->beta_at = (const float *)beta;
    } else {
        memcpy(&t->alpha, alpha, sizeof t->alpha);
        memcpy(&t->beta, beta, sizeof t->beta);
    }
}

/* ---- the functions ---- */

#define STATUS_CASE(name)                                                                                    \
    case name:                                                                                               \
        return #name;

extern "C" {
const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
        STATUS_CASE(CUBLAS_STATUS_SUCCESS)
        STATUS_CASE(CUBLAS_STATUS_NOT_INITIALIZED)
        STATUS_CASE(CUBLAS_STATUS_ALLOC_FAILED)
        STATUS_CASE(CUBLAS_STATUS_INVALID_VALUE)
        STATUS_CASE(CUBLAS_STATUS_ARCH_MISMATCH)
        STATUS_CASE(CUBLAS_STATUS_MAPPING_ERROR)
        STATUS_CASE(CUBLAS_STATUS_EXECUTION_FAILED)
        STATUS_CASE(CUBLAS_STATUS_INTERNAL_ERROR)
        STATUS_CASE(CUBLAS_STATUS_NOT_SUPPORTED)
        STATUS_CASE(CUBLAS_STATUS_LICENSE_ERROR)
    }
    return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "success"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "the requested functionality is not supported"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "an unsupported value or parameter was passed"
                                                   : cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (device_number() < 0)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext{device_number()};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *layout = new emu_layout{type, CUBLASLT_ORDER_COL, 1, rows, cols, ld, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    return set_field(layout_fields, layout, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    emu_product *p = *product = new emu_product();
    p->compute = compute;
    p->scale_type = scale;
    p->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    p->bias_type = p->aux_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
    return destroy(product);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes)
{
    return set_field(product_fields, product, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new emu_preference(no_preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    return set_field(preference_fields, preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    *count = 0;
    if (!handle || wanted < 1 || !results)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t rc = accepted(product, a, b, c, d);
    if (rc != CUBLAS_STATUS_SUCCESS)
        return rc;
    algorithm found[2];
    int n = find_algorithms(a, b, c, d, preference ? *preference : no_preference, found);
    for (int i = 0; i < n && i < wanted; i++) {
        results[i] = {};
        memcpy(&results[i].algo, &found[i], sizeof found[i]);
        results[i].workspaceSize = found[i].workspace;
        results[i].wavesCount = 1;
        ++*count;
    }
    return n > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written)
{
    uint32_t x = attribute == CUBLASLT_ALGO_CONFIG_ID           ? (uint32_t)algo->data[0]
                 : attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1
                                                                : 0; /* no reduction; tile 0 */
    if (written)
        *written = sizeof x;
    if (bytes != sizeof x)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &x, sizeof x);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    cublasStatus_t rc = accepted(product, a_layout, b_layout, c_layout, d_layout);
    if (!handle || !alpha || !beta || may_enqueue(stream) != cudaSuccess || rc != CUBLAS_STATUS_SUCCESS)
        return rc != CUBLAS_STATUS_SUCCESS ? rc : CUBLAS_STATUS_INVALID_VALUE;
    algorithm chosen[2];
    if (algo)
        memcpy(&chosen[0], algo, sizeof chosen[0]);
    else if (find_algorithms(a_layout, b_layout, c_layout, d_layout, no_preference, chosen) == 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    uintptr_t addresses = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d;
    if (addresses % chosen[0].alignment != 0 || workspace_bytes < chosen[0].workspace ||
        lacks_pointer(*product))
        return CUBLAS_STATUS_INVALID_VALUE;
    check_bias(*product);
    task t = {*product,
              *a_layout,
              *b_layout,
              *c_layout,
              *d_layout,
              (const char *)a,
              (const char *)b,
              (const char *)c,
              (char *)d,
              1,
              0,
              NULL,
              NULL};
    set_factors(&t, alpha, beta);
    uint64_t used = chosen[0].workspace;
    enqueue(
        stream,
        [t, workspace, used] {
            if (used > 0)
                memset(workspace, 0xff, used);
            compute(t);
            return true;
        },
        "cublasLtMatmul");
    return CUBLAS_STATUS_SUCCESS;
}
}
