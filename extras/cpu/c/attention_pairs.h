/* Attention of few rows where queries, keys and values are bfloat16. */

#pragma once

#include "seen.h"

#if defined(HAS_SHORT)
/* The products of some queries with the keys of some tokens, two numbers at once. */
static void score_pairs(const float *queries, int64_t count, const char *keys, int64_t tokens,
                        int64_t dim, float *scores, int64_t width)
{
    uint16_t short_queries[count * dim];
    for (int64_t at = 0; at < count * dim; at++)
        short_queries[at] = (uint16_t)(bits_of(queries[at]) >> 16);
    for (int64_t first = 0; first < tokens; first += LANES)
        for (int64_t index = 0; index < count; index++) {
            const uint16_t *query = short_queries + index * dim;
            vec sums[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t token = first + lane < tokens ? first + lane : tokens - 1;
                const char *key = keys + 2 * scratch.seen[token] * dim;
                __m512 sum = _mm512_setzero_ps();
                for (int64_t at = 0; at < dim; at += DEPTH)
                    sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_loadu_si512(query + at),
                                           (__m512bh)_mm512_loadu_si512(key + 2 * at));
                sums[lane] = (vec)sum;
            }
            *(vec *)(scores + index * width + first) = totals(sums);
        }
}

/* Writes two weights of bfloat16 as one word, for each two tokens. Behind the last is a zero. */
static void pair_weights(float *weights, int64_t tokens)
{
    uint32_t *pairs = (uint32_t *)weights;
    for (int64_t token = 0; token < tokens; token += 2)
        pairs[token / 2] = bits_of(weights[token]) >> 16 | bits_of(weights[token + 1]);
}

/* The weighted values of some tokens, two tokens at once: N times 32 numbers of H heads. */
static inline __attribute__((always_inline)) void mix_pairs(
    const float *pairs, int64_t width, int64_t tokens, const char *values, int64_t dim, float *out,
    const int H, const int N)
{
    __m512 sum[H][2 * N];
    _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
        _Pragma("GCC unroll 4") for (int part = 0; part < 2 * N; part++)
            sum[head][part] = _mm512_setzero_ps();
    for (int64_t token = 0; token < tokens; token += 2) {
        const int32_t *seen = scratch.seen + token;
        const char *one = values + 2 * seen[0] * dim, *other = values + 2 * seen[token + 1 < tokens] * dim;
        _Pragma("GCC unroll 2") for (int part = 0; part < N; part++)
        {
            const __m512i first = _mm512_loadu_si512(one + 2 * DEPTH * part);
            const __m512i second = _mm512_loadu_si512(other + 2 * DEPTH * part);
            const __m512bh low = (__m512bh)_mm512_unpacklo_epi16(first, second);
            const __m512bh high = (__m512bh)_mm512_unpackhi_epi16(first, second);
            _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
            {
                const __m512bh pair = (__m512bh)_mm512_set1_ps(pairs[head * width + token / 2]);
                sum[head][2 * part] = _mm512_dpbf16_ps(sum[head][2 * part], pair, low);
                sum[head][2 * part + 1] = _mm512_dpbf16_ps(sum[head][2 * part + 1], pair, high);
            }
        }
    }
    _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
        _Pragma("GCC unroll 2") for (int part = 0; part < N; part++)
        {
            const vec low = (vec)sum[head][2 * part], high = (vec)sum[head][2 * part + 1];
            float *to = out + head * dim + DEPTH * part;
            *(vec *)to = PICK(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
            *(vec *)(to + LANES) = PICK(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        }
}

/* The weighted values of all tokens, of some heads. */
static void mix_all_pairs(float *weights, int64_t heads, int64_t width, int64_t tokens,
                          const char *values, int64_t dim, float *out)
{
    for (int64_t head = 0; head < heads; head++)
        pair_weights(weights + head * width, tokens);
    int64_t size;
    for (int64_t at = 0; at < dim; at += size) {
        size = at + 2 * DEPTH <= dim ? 2 * DEPTH : DEPTH;
        int64_t head = 0;
        for (; head + 3 <= heads && size > DEPTH; head += 3)
            mix_pairs(weights + head * width, width, tokens, values + 2 * at, dim, out + head * dim + at, 3, 2);
        for (; head < heads && size > DEPTH; head++)
            mix_pairs(weights + head * width, width, tokens, values + 2 * at, dim, out + head * dim + at, 1, 2);
        for (; head < heads; head++)
            mix_pairs(weights + head * width, width, tokens, values + 2 * at, dim, out + head * dim + at, 1, 1);
    }
}
#endif
