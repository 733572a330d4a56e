/* The products of a few rows of float32 with one panel of each kind. */

#pragma once

#include "few_bits.h"

/* Writes the sums of R rows, which are in registers, to sums[row][output]. */
#define STORE(SUM, SUMS, R)                                                                        \
    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                                     \
    {                                                                                              \
        *(vec *)(SUMS + row * PANEL) = SUM[row][0];                                                \
        *(vec *)(SUMS + row * PANEL + LANES) = SUM[row][1];                                        \
    }

/* The sums of R rows with one panel, to sums[row][output]. R is a constant, so that they stay in
   registers. */
#define TILE(NAME, SIZE, R)                                                                        \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        vec sum[R][2];                                                                             \
        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row][0] = sum[row][1] =     \
            (vec){0};                                                                              \
        for (int64_t input = 0; input < inputs; input++, panel += PANEL * SIZE) {                  \
            const vec first = load_##NAME(panel), second = load_##NAME(panel + LANES * SIZE);      \
            fetch_ahead(panel, R > SHORTEST);                                                      \
            if (SIZE > 1)                                                                          \
                fetch_ahead(panel + LANES * SIZE, R > SHORTEST);                                   \
            _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                             \
            {                                                                                      \
                const float value = x[row * inputs + input];                                       \
                sum[row][0] += value * first;                                                      \
                sum[row][1] += value * second;                                                     \
            }                                                                                      \
        }                                                                                          \
        STORE(sum, sums, R)                                                                        \
    }

/* The same for weights of bfloat16, which are the upper halves of float32. Two inputs share a
   word; behind the last of an odd number is a weight of 0. */
#define PAIR_TILE(NAME, SIZE, R)                                                                   \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        vec sum[R][2];                                                                             \
        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row][0] = sum[row][1] =     \
            (vec){0};                                                                              \
        for (int64_t input = 0; input < inputs; input += 2, panel += 2 * PANEL * SIZE) {           \
            const uvec first = *(const uvec *)panel;                                               \
            const uvec second = *(const uvec *)(panel + 2 * LANES * SIZE);                         \
            const int64_t odd = input + 1 < inputs;                                                \
            fetch_ahead(panel, R > SHORTEST);                                                      \
            fetch_ahead(panel + 2 * LANES * SIZE, R > SHORTEST);                                   \
            _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                             \
            {                                                                                      \
                const float *values = x + row * inputs + input;                                    \
                sum[row][0] += values[0] * (vec)(first << 16);                                     \
                sum[row][1] += values[0] * (vec)(second << 16);                                    \
                sum[row][0] += values[odd] * (vec)(first & 0xffff0000);                            \
                sum[row][1] += values[odd] * (vec)(second & 0xffff0000);                           \
            }                                                                                      \
        }                                                                                          \
        STORE(sum, sums, R)                                                                        \
    }

/* The same for weights of four to six bits. A group's sums of whole numbers are scaled at its end. */
#define FEW_BITS_TILE(NAME, FORM, R)                                                               \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        const int scales = SCALES(FORM);                                                           \
        const int64_t groups = inputs / DEPTH;                                                     \
        for (int half = 0; half < 2; half++, sums += LANES, panel += half_size(groups, FORM)) {    \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t at = 0; at < groups; at++) {                                              \
                const Place place = place_of(panel, at, FORM);                                     \
                const Scales own = load_scales(place, FORM);                                       \
                fetch_group(place, at, R, FORM);                                                   \
                for (int from = 0; from < scales; from++) {                                        \
                    vec first[R] = {{0}}, second[R] = {{0}};                                       \
                    _Pragma("GCC unroll 4") for (int word = 4 / scales * from;                     \
                                                 word < 4 / scales * (from + 1); word++)           \
                        _Pragma("GCC unroll 4") for (int byte = 0; byte < 4; byte++)               \
                    {                                                                              \
                        const vec even = load_few_bits(place.weights, 2 * word, byte, FORM);       \
                        const vec odd = load_few_bits(place.weights, 2 * word + 1, byte, FORM);    \
                        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                 \
                        {                                                                          \
                            const float *values = x + row * inputs + at * DEPTH + 8 * word + byte; \
                            first[row] += values[0] * even;                                        \
                            second[row] += values[4] * odd;                                        \
                        }                                                                          \
                    }                                                                              \
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row] +=         \
                        (first[row] + second[row]) * own.scale[from];                              \
                }                                                                                  \
                if (scales == 1)                                                                   \
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                     \
                    {                                                                              \
                        const vec *values = (const vec *)(x + row * inputs + at * DEPTH);          \
                        sum[row] += total(values[0] + values[1]) * own.least;                      \
                    }                                                                              \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }

/* The same for weights of eight bits in groups. */
#define BYTES_TILE(NAME, SIZE, R)                                                                  \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        for (int half = 0; half < 2; half++, sums += LANES) {                                      \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t group = 0; group < inputs; group += DEPTH) {                              \
                const vec scale = load_float16(panel);                                             \
                vec whole[R] = {{0}};                                                              \
                panel += 2 * LANES;                                                                \
                for (int64_t word = 0; word < DEPTH / 4; word++, panel += 4 * LANES) {             \
                    const uvec words = *(const uvec *)panel;                                       \
                    fetch_ahead(panel, R > SHORTEST);                                              \
                    _Pragma("GCC unroll 4") for (int byte = 0; byte < 4; byte++)                   \
                    {                                                                              \
                        const ivec bytes = (ivec)(words >> 8 * byte & 255) - ZERO;                 \
                        const vec weights = __builtin_convertvector(bytes, vec);                   \
                        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) whole[row] +=   \
                            x[row * inputs + group + 4 * word + byte] * weights;                   \
                    }                                                                              \
                }                                                                                  \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row] +=             \
                    whole[row] * scale;                                                            \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }
#define TILES(TILE, NAME, SIZE)                                                                    \
    TILE(NAME, SIZE, 1) TILE(NAME, SIZE, 2) TILE(NAME, SIZE, 3) TILE(NAME, SIZE, 4)                \
    TILE(NAME, SIZE, 5) TILE(NAME, SIZE, 6) TILE(NAME, SIZE, 7) TILE(NAME, SIZE, 8)                \
    TILE(NAME, SIZE, 9) TILE(NAME, SIZE, 10) TILE(NAME, SIZE, 11) TILE(NAME, SIZE, 12)             \
    static Tile *const NAME##_tiles[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4,  NAME##_5,        \
                                         NAME##_6, NAME##_7, NAME##_8, NAME##_9,  NAME##_10,       \
                                         NAME##_11, NAME##_12};
#define FEW_TILES(TILE, NAME, SIZE) /* groups have more sums */                                     \
    TILE(NAME, SIZE, 1) TILE(NAME, SIZE, 2) TILE(NAME, SIZE, 3) TILE(NAME, SIZE, 4)                \
    static Tile *const NAME##_tiles[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4};

typedef void Tile(const char *panel, const float *x, int64_t inputs, float *sums);
TILES(TILE, float32, 4)
TILES(TILE, int8, 1)
TILES(PAIR_TILE, bfloat16, 2)
FEW_TILES(FEW_BITS_TILE, int4, 4)
FEW_TILES(BYTES_TILE, grouped, 0)
FEW_TILES(FEW_BITS_TILE, int5, 5)
FEW_TILES(FEW_BITS_TILE, blocks4, 4 + IN_BLOCKS)
FEW_TILES(FEW_BITS_TILE, blocks5, 5 + IN_BLOCKS)
FEW_TILES(FEW_BITS_TILE, blocks6, 6 + IN_BLOCKS)
static Tile *const *const TILES_OF[] = {float32_tiles, int8_tiles,    bfloat16_tiles, int4_tiles,
                                        grouped_tiles, int5_tiles,    blocks4_tiles,  blocks5_tiles,
                                        blocks6_tiles};

/* The bytes of 256 inputs in a panel, with the scales of their groups. */
static const int BYTES_OF[] = {32768, 8192, 16384, 5120, 8704, 6144, 4736, 5760, 6784};
