/* dtype: see dtype.h. Works on the bits, so that nothing depends on what the processor or compiler has of short floats. Memory is little
 * endian, as on every host that this runs on. */
#include "checkpoint/dtype.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum dtype type;
    size_t bytes;
} types[] = {
    {"F32", DTYPE_F32, 4},   {"BF16", DTYPE_BF16, 2},     {"F16", DTYPE_F16, 2},
    {"F64", DTYPE_F64, 8},   {"BOOL", DTYPE_OTHER, 1},    {"U8", DTYPE_OTHER, 1},
    {"I8", DTYPE_OTHER, 1},  {"F8_E5M2", DTYPE_OTHER, 1}, {"F8_E4M3", DTYPE_OTHER, 1},
    {"I16", DTYPE_OTHER, 2}, {"U16", DTYPE_OTHER, 2},     {"I32", DTYPE_OTHER, 4},
    {"U32", DTYPE_OTHER, 4}, {"I64", DTYPE_OTHER, 8},     {"U64", DTYPE_OTHER, 8},
};

bool dtype_of_name(const char *name, enum dtype *type, size_t *bytes)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            *bytes = types[i].bytes;
            return true;
        }
    return false;
}

const char *dtype_name(enum dtype type)
{
    return types[type].name;
}

size_t dtype_bytes(enum dtype type)
{
    return types[type].bytes;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN: adding might carry it into infinity */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_f16(float x)
{
    uint32_t bits = bits_of(x), size = bits & 0x7fffffff, half;
    if (size > 0x7f800000)
        half = 0x7e00 | (size >> 13 & 0x3ff);
    else if (size >= 0x477ff000) /* from 65520 on the nearest is infinity */
        half = 0x7c00;
    else if (
        size <
        0x38800000) /* below 2^-14: the last place of numbers from 0.5 is 2^-24, that of subnormal halves */
        half = bits_of(float_of(size) + 0.5F) - 0x3f000000;
    else
        half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fff;
    if (size >= 0x7c00)
        return float_of(sign | 0x7f800000 | (size & 0x3ff) << 13);
    if (size >= 0x400)
        return float_of(sign | ((size << 13) + 0x38000000));
    return float_of(sign | bits_of((float)size * 0x1p-24F));
}

static void short_to_float(enum dtype type, const char *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, sizeof bits);
        out[i] = type == DTYPE_F16 ? from_f16(bits) : float_of((uint32_t)bits << 16);
    }
}

static void double_to_float(const char *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, in + 8 * i, sizeof x);
        out[i] = (float)x;
    }
}

void dtype_to_float(enum dtype type, const void *in, float *out, size_t n)
{
    if (type == DTYPE_F32)
        memcpy(out, in, n * sizeof *out);
    else if (type == DTYPE_F64)
        double_to_float(in, out, n);
    else
        short_to_float(type, in, out, n);
}

static void float_to_short(enum dtype type, const float *in, char *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = type == DTYPE_F16 ? to_f16(in[i]) : to_bf16(in[i]);
        memcpy(out + 2 * i, &bits, sizeof bits);
    }
}

static void float_to_double(const float *in, char *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = (double)in[i];
        memcpy(out + 8 * i, &x, sizeof x);
    }
}

void dtype_from_float(enum dtype type, const float *in, void *out, size_t n)
{
    if (type == DTYPE_F32)
        memcpy(out, in, n * sizeof *in);
    else if (type == DTYPE_F64)
        float_to_double(in, out, n);
    else
        float_to_short(type, in, out, n);
}
