/* blas: see blas.h.
 *
 * Loaded, not linked, because OpenBLAS reads OPENBLAS_CORETYPE in its constructor, before main: 0.3.21 does not know processors made
 * after it and falls back to its SSE3 code ("Prescott"), ten times slower than what they can do. So the code path is chosen here by what
 * the CPU says it can execute, unless the user has chosen one. Within an OpenMP parallel region OpenBLAS computes on the calling
 * thread, which attention relies on. */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "kernels/cpu/blas.h"

#ifdef BELAY_REAL_DOUBLE
#define GEMM_SYMBOL "cblas_dgemm"
typedef __typeof__(cblas_dgemm) gemm_fn;
#else
#define GEMM_SYMBOL "cblas_sgemm"
typedef __typeof__(cblas_sgemm) gemm_fn;
#endif
#define GEMM_LIBRARY "libopenblas.so.0"

static gemm_fn *gemm;
static __typeof__(openblas_get_corename) *core_name;
static __typeof__(openblas_get_config) *config_name;

static const char *best_core(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

/* dlsym gives an object pointer; POSIX lets it hold a function, which C has no cast for. */
static int find(void *library, const char *name, void *function, struct err *err)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        return err_set(err, "%s has no function %s: install Debian's libopenblas0-openmp", GEMM_LIBRARY,
                       name);
    *(void **)function = symbol;
    return 0;
}

int blas_open(struct err *err)
{
    if (gemm)
        return 0;
    const char *core = best_core();
    if (core && setenv("OPENBLAS_CORETYPE", core, 0) != 0)
        return err_sys(err, "cannot set OPENBLAS_CORETYPE");
    void *library = dlopen(GEMM_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return err_set(err, "cannot load the matrix library: %s; install Debian's libopenblas0-openmp",
                       dlerror());
    gemm_fn *found = NULL;
    if (find(library, "openblas_get_corename", &core_name, err) != 0 ||
        find(library, "openblas_get_config", &config_name, err) != 0 ||
        find(library, GEMM_SYMBOL, &found, err) != 0)
        return -1;
    gemm = found;
    return 0;
}

void blas_describe(char *out, size_t size)
{
    const char *config = config_name();
    int version = 0; /* "OpenBLAS 0.3.21 ..." up to the second space */
    for (int spaces = 0; config[version] && (config[version] != ' ' || spaces++ < 1);)
        version++;
    snprintf(out, size, "%.*s %s, %d thread%s", version, config, core_name(), omp_get_max_threads(),
             omp_get_max_threads() == 1 ? "" : "s");
}

void blas_gemm(size_t m, size_t n, size_t k, struct blas_matrix a, struct blas_matrix b, bool accumulate,
               real *c, size_t c_stride)
{
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        for (size_t i = 0; i < m && !accumulate; i++)
            memset(c + i * c_stride, 0, n * sizeof *c);
        return;
    }
    gemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
         (blasint)m, (blasint)n, (blasint)k, 1, a.data, (blasint)a.stride, b.data, (blasint)b.stride,
         accumulate ? 1 : 0, c, (blasint)c_stride);
}
