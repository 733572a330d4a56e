/* Sixteen numbers at once: how each kind is read, and how they are added up. */

#pragma once

#include "sizes.h"

static inline uint32_t bits_of(float number)
{
    return ((union { float number; uint32_t bits; }){number}).bits;
}

static inline vec load_float32(const void *at)
{
    return *(const vec *)at;
}

static inline vec load_int8(const void *at)
{
#if defined(__AVX512F__) /* which compilers don't find by themselves */
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
#elif defined(__AVX2__)
    vec numbers;
    for (int half = 0; half < 2; half++) {
        const __m128i eight_bytes = _mm_loadl_epi64((const __m128i *)((const char *)at + 8 * half));
        _mm256_storeu_ps((float *)&numbers + 8 * half, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes)));
    }
    return numbers;
#else
    return __builtin_convertvector(__builtin_convertvector(*(const bytes *)at, ivec), vec);
#endif
}

static inline float total(vec x)
{
    const eight halves_of_x = ((const eight *)&x)[0] + ((const eight *)&x)[1];
    const four quarters = ((const four *)&halves_of_x)[0] + ((const four *)&halves_of_x)[1];
    return quarters[0] + quarters[2] + (quarters[1] + quarters[3]);
}

#if defined(__clang__) || __GNUC__ >= 12
#define PICK(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
#define PICK(A, B, ...) __builtin_shuffle(A, B, (ivec){__VA_ARGS__})
#endif

/* Adds the halves of two vectors, or of what they were folded from. */
static inline vec fold16(vec a, vec b)
{
    return PICK(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
         + PICK(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}

static inline vec fold8(vec a, vec b)
{
    return PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
         + PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

static inline vec fold4(vec a, vec b)
{
    return PICK(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)
         + PICK(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
}

static inline vec fold2(vec a, vec b)
{
    return PICK(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
         + PICK(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

/* The totals of sixteen vectors, each added up as `total` does. */
static inline __attribute__((always_inline)) vec totals(const vec *x)
{
    vec eights[8], fours[4];
    _Pragma("GCC unroll 8") for (int pair = 0; pair < 8; pair++)
        eights[pair] = fold16(x[2 * pair], x[2 * pair + 1]);
    _Pragma("GCC unroll 4") for (int pair = 0; pair < 4; pair++)
        fours[pair] = fold8(eights[2 * pair], eights[2 * pair + 1]);
    return fold2(fold4(fours[0], fours[1]), fold4(fours[2], fours[3]));
}

/* The lowest four bits of each word, as numbers. */
static inline vec nibble(uvec words)
{
#if defined(__AVX512F__) /* looks only at the lowest four bits */
    const vec numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vec)_mm512_permutexvar_ps((__m512i)words, (__m512)numbers);
#else
    return __builtin_convertvector((ivec)(words & 15), vec);
#endif
}

/* Sixteen numbers of float16: the exponent's offset is 15 instead of 127. */
static inline vec load_float16(const void *at)
{
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
#endif
    const uvec bits = __builtin_convertvector(*(const halves *)at, uvec);
    const vec magnitude = (vec)((bits & 0x7fff) << 13) * 0x1p112f;
    return (vec)((uvec)magnitude | (bits & 0x8000) << 16);
}

static inline vec load_bfloat16(const void *at)
{
    return (vec)(__builtin_convertvector(*(const halves *)at, uvec) << 16);
}
