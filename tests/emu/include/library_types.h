/* library_types: the types of elements that the toolkit's libraries know, as far as they are used (tests/emu). */
#ifndef BELAY_TESTS_EMU_LIBRARY_TYPES_H
#define BELAY_TESTS_EMU_LIBRARY_TYPES_H

typedef enum cudaDataType_t {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
    CUDA_R_8F_E4M3 = 28,
    CUDA_R_8F_E5M2 = 29
} cudaDataType;

#endif
