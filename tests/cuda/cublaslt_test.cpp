/* The emulated cuBLASLt (tests/emu) against products in double: layouts, types, epilogues, and what it refuses. */
#include <cublasLt.h>
#include <cuda_fp8.h>

#include "tests/cuda/check.h"

/* A column-major matrix on the device with room between its columns, and what it holds in double. */
struct matrix {
    cudaDataType type;
    size_t rows, cols, ld, batch;
    std::vector<double> x;
    char *device;
    cublasLtMatrixLayout_t layout;

    size_t size() const
    {
        return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1;
    }
    matrix(cudaDataType t, size_t r, size_t c, size_t gap = 0, size_t batches = 1)
        : type(t), rows(r), cols(c), ld(r + gap), batch(batches), x(ld * c * batches)
    {
        assert_int_equal(cudaMalloc((void **)&device, x.size() * size()), cudaSuccess);
        assert_int_equal(cublasLtMatrixLayoutCreate(&layout, t, r, c, (int64_t)ld), 0);
        int32_t count = (int32_t)batch;
        int64_t stride = (int64_t)(ld * c);
        assert_int_equal(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                          sizeof count),
                         0);
        assert_int_equal(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                          &stride, sizeof stride),
                         0);
    }
    matrix(const matrix &) = delete;
    matrix &operator=(const matrix &) = delete;
    ~matrix()
    {
        cudaFree(device);
        cublasLtMatrixLayoutDestroy(layout);
    }
    double &at(size_t i, size_t j, size_t b = 0)
    {
        return x[(b * cols + j) * ld + i];
    }
    double of(bool transposed, size_t i, size_t j, size_t b)
    {
        return transposed ? at(j, i, b) : at(i, j, b);
    }
    static void encode(cudaDataType t, char *to, double v)
    {
        float wide = (float)v;
        __nv_bfloat16 narrow = __float2bfloat16_rn(wide);
        __nv_fp8_e4m3 e4(wide);
        __nv_fp8_e5m2 e5(wide);
        t == CUDA_R_32F       ? memcpy(to, &wide, 4)
        : t == CUDA_R_16BF    ? memcpy(to, &narrow, 2)
        : t == CUDA_R_8F_E4M3 ? memcpy(to, &e4, 1)
                              : memcpy(to, &e5, 1);
    }
    static double decode(cudaDataType t, const char *from)
    {
        float wide;
        __nv_bfloat16 narrow;
        __nv_fp8_e4m3 e4;
        __nv_fp8_e5m2 e5;
        memcpy(&narrow, from, t == CUDA_R_32F || t == CUDA_R_16BF ? 2 : 0);
        memcpy(&wide, from, t == CUDA_R_32F ? 4 : 0);
        memcpy(&e4, from, 1);
        memcpy(&e5, from, 1);
        return t == CUDA_R_32F       ? (double)wide
               : t == CUDA_R_16BF    ? (double)__bfloat162float(narrow)
               : t == CUDA_R_8F_E4M3 ? (double)(float)e4
                                     : (double)(float)e5;
    }
    matrix &random(random_bits &r)
    {
        std::vector<char> bytes(x.size() * size());
        for (size_t i = 0; i < x.size(); i++) {
            encode(type, &bytes[i * size()], r.number());
            x[i] = decode(type, &bytes[i * size()]);
        }
        assert_int_equal(cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
        return *this;
    }
    void expect(const char *what, double tolerance)
    {
        std::vector<char> bytes(x.size() * size());
        assert_int_equal(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
        for (size_t i = 0; i < x.size(); i++) {
            double got = decode(type, &bytes[i * size()]);
            if (i % ld < rows && !(fabs(got - x[i]) <= tolerance * (1 + fabs(x[i]))))
                fail_msg("%s[%zu,%zu] is %g, not %g", what, i % ld, i / ld, got, x[i]);
        }
    }
};

static cublasLtHandle_t handle()
{
    static cublasLtHandle_t h;
    if (!h)
        assert_int_equal(cublasLtCreate(&h), 0);
    return h;
}

struct product {
    cublasLtMatmulDesc_t desc;
    product(bool ta, bool tb, uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT)
    {
        assert_int_equal(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
        set(CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)(ta ? CUBLAS_OP_T : CUBLAS_OP_N));
        set(CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)(tb ? CUBLAS_OP_T : CUBLAS_OP_N));
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    }
    product(const product &) = delete;
    product &operator=(const product &) = delete;
    ~product()
    {
        cublasLtMatmulDescDestroy(desc);
    }
    template <class T> void set(cublasLtMatmulDescAttributes_t attribute, T value)
    {
        assert_int_equal(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value), 0);
    }
    cublasStatus_t run(float alpha, matrix &a, matrix &b, float beta, matrix &c, matrix &d)
    {
        return cublasLtMatmul(handle(), desc, &alpha, a.device, a.layout, b.device, b.layout, &beta, c.device,
                              c.layout, d.device, d.layout, NULL, NULL, 0, 0);
    }
    cublasStatus_t ask(matrix &a, matrix &b, matrix &d)
    {
        cublasLtMatmulHeuristicResult_t found;
        int count;
        return cublasLtMatmulAlgoGetHeuristic(handle(), desc, a.layout, b.layout, d.layout, d.layout, NULL, 1,
                                              &found, &count);
    }
};

/* d = alpha op(a) op(b) + beta c, all in double */
static void multiply(double alpha, matrix &a, bool ta, matrix &b, bool tb, double beta, matrix &d)
{
    size_t depth = ta ? a.rows : a.cols;
    for (size_t batch = 0; batch < d.batch; batch++)
        for (size_t j = 0; j < d.cols; j++)
            for (size_t i = 0; i < d.rows; i++) {
                double sum = 0;
                for (size_t k = 0; k < depth; k++)
                    sum += a.of(ta, i, k, batch) * b.of(tb, k, j, batch);
                d.at(i, j, batch) = alpha * sum + beta * d.at(i, j, batch);
            }
}

static double tolerance(cudaDataType type)
{
    return type == CUDA_R_32F       ? 2e-6
           : type == CUDA_R_16BF    ? 1.0 / 128
           : type == CUDA_R_8F_E4M3 ? 1.0 / 8
                                    : 1.0 / 4;
}

static void products_of_all_layouts(void **)
{
    static const cudaDataType types[][2] = {
        {CUDA_R_32F, CUDA_R_32F}, {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
    random_bits r(1);
    for (auto &type : types)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int round = 0; round < 6; round++) {
                bool ta = transposes & 1, tb = transposes & 2;
                size_t m = r.between(1, 40), n = r.between(1, 40), k = r.between(1, 70), gap = r.below(3);
                size_t batch = r.between(1, 3);
                matrix a(type[0], ta ? k : m, ta ? m : k, gap, batch),
                    b(type[0], tb ? n : k, tb ? k : n, gap, batch), d(type[1], m, n, gap, batch);
                float beta = round % 2 ? 0.5f : 0;
                a.random(r);
                b.random(r);
                if (beta != 0) /* else it is full of NaN */
                    d.random(r);
                product p(ta, tb);
                assert_int_equal(p.run(2, a, b, beta, d, d), 0);
                multiply(2, a, ta, b, tb, (double)beta, d);
                d.expect("d", tolerance(type[1]));
            }
}

static double gelu(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

static void bias_and_gelu(void **)
{
    random_bits r(2);
    for (cudaDataType type : {CUDA_R_32F, CUDA_R_16BF}) {
        size_t m = 24, n = 9, k = 17;
        matrix a(type, k, m), b(type, k, n), d(type, m, n), bias(type, m, 1), aux(type, m, n, 8);
        a.random(r), b.random(r), bias.random(r), d.random(r);
        product p(true, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
        p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device);
        p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.device);
        p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)aux.ld);
        assert_int_equal(p.run(1, a, b, 1, d, d), 0);
        multiply(1, a, true, b, false, 1, d);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < m; i++) {
                aux.at(i, j) = d.at(i, j) + bias.at(i, 0);
                d.at(i, j) = gelu(aux.at(i, j));
            }
        aux.expect("aux", tolerance(type));
        d.expect("d", tolerance(type));
    }
}

static void gradients_of_gelu_and_bias(void **)
{
    random_bits r(3);
    for (uint32_t epilogue : {CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD}) {
        size_t m = 16, n = 11, k = 13;
        matrix a(CUDA_R_32F, m, k), b(CUDA_R_32F, k, n), d(CUDA_R_32F, m, n), bias(CUDA_R_32F, m, 1),
            aux(CUDA_R_32F, m, n);
        a.random(r), b.random(r), aux.random(r), bias.random(r);
        product p(false, false, epilogue);
        p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device);
        p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.device);
        p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)aux.ld);
        assert_int_equal(p.run(1, a, b, 0, d, d), 0);
        multiply(1, a, false, b, false, 0, d);
        for (size_t i = 0; i < m; i++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += d.at(i, j) *= gelu_slope(aux.at(i, j));
            if (epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
                bias.at(i, 0) = sum;
        }
        d.expect("d", 1e-5);
        bias.expect("bias's gradient", 1e-5);
    }
}

/* BGRADA and BGRADB are sums of an operand over k, and overwrite what was there. */
static void gradients_of_bias_from_operands(void **)
{
    random_bits r(4);
    for (bool from_a : {true, false})
        for (int transposes = 0; transposes < 4; transposes++) {
            bool ta = transposes & 1, tb = transposes & 2;
            size_t m = 5, n = 7, k = 9;
            matrix a(CUDA_R_16BF, ta ? k : m, ta ? m : k), b(CUDA_R_16BF, tb ? n : k, tb ? k : n),
                d(CUDA_R_32F, m, n), bias(CUDA_R_32F, from_a ? m : n, 1);
            a.random(r), b.random(r), d.random(r), bias.random(r);
            product p(ta, tb, from_a ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB);
            p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device);
            assert_int_equal(p.run(1, a, b, 1, d, d), 0);
            for (size_t i = 0; i < bias.rows; i++) {
                bias.at(i, 0) = 0;
                for (size_t l = 0; l < k; l++)
                    bias.at(i, 0) += from_a ? a.of(ta, i, l, 0) : b.of(tb, l, i, 0);
            }
            bias.expect("bias's gradient", 1e-6);
            multiply(1, a, ta, b, tb, 1, d);
            d.expect("d", 2e-6);
        }
}

static float *number(float x)
{
    float *at;
    cudaMalloc((void **)&at, sizeof x);
    cudaMemcpy(at, &x, sizeof x, cudaMemcpyHostToDevice);
    return at;
}

static void products_of_fp8(void **)
{
    static const cudaDataType types[][4] = {
        {CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_16BF},
        {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2, CUDA_R_32F, CUDA_R_32F},
        {CUDA_R_8F_E5M2, CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_8F_E5M2},
        {CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_8F_E4M3},
    };
    random_bits r(5);
    for (auto &type : types) {
        bool narrow = type[3] != type[2];
        matrix a(type[0], 32, 16), b(type[1], 32, 48), c(type[2], 16, 48), d(type[3], 16, 48);
        a.random(r), b.random(r), c.random(r);
        float *half = number(0.5f), *third = number(1 / 3.0f), *four = number(4), *amax = number(-1);
        product p(true, false);
        p.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, half);
        p.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, third);
        p.set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, narrow ? four : NULL);
        p.set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, narrow ? amax : NULL);
        p.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, (int8_t)1);
        assert_int_equal(p.run(1, a, b, 1, c, d), 0);
        d.x = c.x;
        multiply(1 / 6.0, a, true, b, false, 1, d);
        double most = 0;
        for (double &v : d.x) {
            most = fmax(most, fabs(v));
            v *= narrow ? 4 : 1;
        }
        d.expect("d", tolerance(type[3]));
        float got;
        cudaMemcpy(&got, amax, sizeof got, cudaMemcpyDeviceToHost);
        assert_true(narrow ? fabs((double)got - most) < 1e-5 : got == -1);
        cudaFree(half), cudaFree(third), cudaFree(four), cudaFree(amax);
    }
}

static void what_is_not_supported_is_refused(void **)
{
    matrix a(CUDA_R_16BF, 32, 16), b(CUDA_R_16BF, 32, 48), d(CUDA_R_16BF, 16, 48),
        narrow_d(CUDA_R_8F_E4M3, 16, 48);
    matrix a8(CUDA_R_8F_E4M3, 32, 16), b8(CUDA_R_8F_E4M3, 32, 48), odd8(CUDA_R_8F_E4M3, 32, 40);
    matrix a5(CUDA_R_8F_E5M2, 32, 16), b5(CUDA_R_8F_E5M2, 32, 48), turned8(CUDA_R_8F_E4M3, 16, 32);
    matrix odd_d(CUDA_R_16BF, 16, 40);
    float *one = number(1);
    product tn(true, false), nn(false, false), aux(true, false, CUBLASLT_EPILOGUE_GELU_AUX);
    assert_int_equal(tn.ask(a, b, d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(nn.ask(a, b, d), CUBLAS_STATUS_INVALID_VALUE); /* shapes */
    assert_int_equal(tn.ask(a, b8, d), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(tn.ask(a, b, narrow_d), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(tn.ask(a8, b8, d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(nn.ask(turned8, b8, d), CUBLAS_STATUS_NOT_SUPPORTED); /* not TN */
    assert_int_equal(tn.ask(a8, odd8, odd_d), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(tn.ask(a5, b5, d), CUBLAS_STATUS_NOT_SUPPORTED);
    aux.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, d.device);
    aux.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)16);
    assert_int_equal(aux.ask(a, b, d), CUBLAS_STATUS_SUCCESS);
    aux.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)20);
    assert_int_equal(aux.ask(a, b, d), CUBLAS_STATUS_NOT_SUPPORTED);
    tn.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, one);
    assert_int_equal(tn.ask(a, b, d), CUBLAS_STATUS_INVALID_VALUE);
    int64_t wrong_size = 1;
    assert_int_equal(cublasLtMatmulDescSetAttribute(tn.desc, CUBLASLT_MATMUL_DESC_TRANSA, &wrong_size, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    cudaFree(one);
}

/* The first algorithm needs what the preference promised. */
static void alignment_and_workspace_are_checked(void **)
{
    matrix a(CUDA_R_16BF, 32, 24), b(CUDA_R_16BF, 32, 48), d(CUDA_R_16BF, 16, 48);
    cublasLtMatrixLayout_t layout;
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 32, 16, 32);
    product p(true, false);
    cublasLtMatmulPreference_t preference;
    uint64_t most = 1 << 20;
    cublasLtMatmulPreferenceCreate(&preference);
    assert_int_equal(cublasLtMatmulPreferenceSetAttribute(
                         preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
                     0);
    cublasLtMatmulHeuristicResult_t found[4];
    int count;
    cublasLtMatmulAlgoGetHeuristic(handle(), p.desc, layout, b.layout, d.layout, d.layout, preference, 4,
                                   found, &count);
    assert_int_equal(count, 2);
    void *workspace;
    cudaMalloc(&workspace, found[0].workspaceSize);
    auto run = [&](const char *at, int algo, size_t bytes) {
        float one = 1, zero = 0;
        return cublasLtMatmul(handle(), p.desc, &one, at, layout, b.device, b.layout, &zero, d.device,
                              d.layout, d.device, d.layout, &found[algo].algo, workspace, bytes, 0);
    };
    assert_int_equal(run(a.device, 0, found[0].workspaceSize), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(run(a.device, 0, found[0].workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(run(a.device + 2, 0, found[0].workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(run(a.device + 2, 1, 0), CUBLAS_STATUS_SUCCESS);
    uint32_t two = 2;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &two,
                                         sizeof two);
    cublasLtMatmulAlgoGetHeuristic(handle(), p.desc, layout, b.layout, d.layout, d.layout, preference, 4,
                                   found, &count);
    assert_int_equal(count, 1);
    assert_int_equal(run(a.device + 2, 0, 0), CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(layout);
    cudaFree(workspace);
}

/* Every number of 8 bits comes back, neighbours round to even between them, and what is too large saturates. */
static void numbers_of_8_bits(void **)
{
    for (auto kind : {__NV_E4M3, __NV_E5M2}) {
        int largest = kind == __NV_E4M3 ? 0x7e : 0x7b;
        for (int code = 0; code < largest; code++) {
            float x = emu_fp8_to_float((unsigned char)code, kind),
                  next = emu_fp8_to_float((unsigned char)(code + 1), kind);
            assert_true(x < next);
            assert_int_equal(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind), code);
            assert_int_equal(__nv_cvt_float_to_fp8(-x, __NV_SATFINITE, kind), code | 0x80);
            float middle = (x + next) / 2;
            assert_int_equal(__nv_cvt_float_to_fp8(middle, __NV_SATFINITE, kind), code + code % 2);
            assert_int_equal(__nv_cvt_float_to_fp8(nextafterf(middle, 0), __NV_SATFINITE, kind), code);
            assert_int_equal(__nv_cvt_float_to_fp8(nextafterf(middle, next), __NV_SATFINITE, kind), code + 1);
        }
        for (float big : {1e5f, 1e30f, INFINITY})
            assert_int_equal(__nv_cvt_float_to_fp8(big, __NV_SATFINITE, kind), largest);
        assert_true(isnan(emu_fp8_to_float(__nv_cvt_float_to_fp8(NAN, __NV_SATFINITE, kind), kind)));
    }
    assert_true(emu_fp8_to_float(0x7e, __NV_E4M3) == 448 && emu_fp8_to_float(0x7b, __NV_E5M2) == 57344);
    assert_int_equal(__nv_cvt_float_to_fp8(1e5f, __NV_NOSAT, __NV_E4M3), 0x7f);
    assert_int_equal(__nv_cvt_float_to_fp8(1e5f, __NV_NOSAT, __NV_E5M2), 0x7c);
}

int main(void)
{
    setenv("EMU_CAPABILITY", "9.0", 1); /* has fp8 */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_8_bits),
        cmocka_unit_test(products_of_all_layouts),
        cmocka_unit_test(bias_and_gelu),
        cmocka_unit_test(gradients_of_gelu_and_bias),
        cmocka_unit_test(gradients_of_bias_from_operands),
        cmocka_unit_test(products_of_fp8),
        cmocka_unit_test(what_is_not_supported_is_refused),
        cmocka_unit_test(alignment_and_workspace_are_checked),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    cublasLtDestroy(handle());
    return rc;
}
