/* The products of rows that are rounded to whole numbers of eight or fifteen bits. */

#pragma once

#include "rows.h"
#include "threads.h"
#include "tiles.h"

#if defined(HAS_BYTES)
static inline int32_t *starts_of(const Rows *rows, int start)
{
    return rows->starts + start * (rows->inputs / DEPTH) * rows->rows;
}

/* Rounds one row's inputs to whole numbers: to 0 where no step is a number, so that a group with a
   NaN or an infinity has products that are none either. */
static void round_chunk(const void *job, int row)
{
    const Rows *rows = job;
    const float *x = rows->x + row * rows->inputs;
    Group *group = rows->groups + row * (rows->inputs / DEPTH);
    for (int64_t at = 0; at < rows->inputs; at += DEPTH, group++, x += DEPTH) {
        const __m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + LANES);
        const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)));
        const float largest = rows->digits > 1 ? 128 * LARGEST : LARGEST, scale = largest / most;
        const int is_nan = _mm512_cmp_ps_mask(first, second, _CMP_UNORD_Q) != 0; /* which `max` drops */
        const __mmask16 rounds = !is_nan && scale > 0 && scale < __builtin_inff() ? 0xffff : 0;
        group->step = is_nan ? __builtin_nanf("") : most / largest;
        group->sum = total((vec)_mm512_add_ps(first, second));
        int32_t sums[2];
        for (int half = 0; half < 2; half++) {
            const __m512 steps = _mm512_mul_ps(half ? second : first, _mm512_set1_ps(scale));
            const __m512i whole = _mm512_maskz_cvtps_epi32(rounds, steps);
            __m512i high = whole;
            if (rows->digits > 1)
                high = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(64)), 7);
            const __m512i low = _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 7));
            _mm_storeu_si128((__m128i *)group->digits[0] + half, _mm512_cvtepi32_epi8(high));
            _mm_storeu_si128((__m128i *)group->digits[1] + half, _mm512_cvtepi32_epi8(low));
            sums[half] = _mm512_reduce_add_epi32(whole);
        }
        const int32_t sum = sums[0] + sums[1];
        const int32_t starts[] = {-MIDDLE(4) * sum, -MIDDLE(5) * sum, -MIDDLE(6) * sums[0],
                                  -MIDDLE(6) * sums[1], -ZERO * sum};
        for (int start = 0; start < STARTS; start++)
            starts_of(rows, start)[at / DEPTH * rows->rows + row] = starts[start];
    }
}

/* Adds the products of sixteen times four bytes of weights with each digit of four inputs. */
static inline __attribute__((always_inline)) void add_bytes(__m512i *sums, __m512i weights,
                                                            const Group *group, int input, const int digits)
{
    _Pragma("GCC unroll 2") for (int digit = 0; digit < digits; digit++)
    {
        int32_t four_inputs;
        memcpy(&four_inputs, group->digits[digit] + input, sizeof four_inputs);
        sums[digit] = _mm512_dpbusd_epi32(sums[digit], weights, _mm512_set1_epi32(four_inputs));
    }
}

/* What the sums of a row start from, since a weight of 0 is stored as another number. */
static inline __attribute__((always_inline)) void start_sums(__m512i *sums, int32_t start,
                                                             const int digits)
{
    sums[0] = _mm512_setzero_si512();
    sums[digits - 1] = _mm512_set1_epi32(start);
}

/* Four weights of each of sixteen outputs, one of a group's eight such parts. */
static inline __attribute__((always_inline)) __m512i load_whole(const char *weights, const int part,
                                                                const int bits)
{
    const __m512i both = _mm512_loadu_si512(weights + 4 * LANES * (part / 2));
    const __m512i low =
        _mm512_and_si512(part % 2 ? _mm512_srli_epi32(both, 4) : both, _mm512_set1_epi8(15));
    if (bits == 4)
        return low;
    const int at = HIGH_AT(part, bits), shift = 4 - at % 8;
    const __m512i plane = _mm512_loadu_si512(weights + 4 * LANES * (4 + at / 8));
    const __m512i moved =
        shift > 0 ? _mm512_slli_epi32(plane, shift) : _mm512_srli_epi32(plane, -shift);
    return _mm512_or_si512(low, _mm512_and_si512(moved, _mm512_set1_epi8(HIGH_MASK(bits) << 4)));
}

/* The sums of all digits, as numbers. */
static inline __attribute__((always_inline)) vec whole_sums(const __m512i *sums, const int digits)
{
    const __m512i whole =
        digits > 1 ? _mm512_add_epi32(_mm512_slli_epi32(sums[0], 7), sums[1]) : sums[0];
    return (vec)_mm512_cvtepi32_ps(whole);
}

/* The products of R rows of whole numbers of D digits with one panel of four to six bits, to
   sums[row][output]. The weights are taken from their middle, so that what the inputs lose in
   rounding counts less. */
#define BYTES_OF_FEW_BITS(NAME, R, D, FORM)                                                        \
    static void NAME##_##R(const char *panel, const Rows *rows, int first, float *sums)            \
    {                                                                                              \
        const int bits = BITS(FORM), scales = SCALES(FORM);                                        \
        const int64_t groups = rows->inputs / DEPTH;                                               \
        for (int half = 0; half < 2; half++, sums += LANES, panel += half_size(groups, FORM)) {    \
            const Group *group = rows->groups + first * groups;                                    \
            const int32_t *start = starts_of(rows, start_of(bits, 0)) + first;                     \
            const int32_t *second = starts_of(rows, start_of(bits, scales - 1)) + first;           \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t at = 0; at < groups; at++, group++) {                                     \
                const Place place = place_of(panel, at, FORM);                                     \
                fetch_group(place, at, R, FORM);                                                   \
                _Pragma("GCC unroll 2") for (int from = 0; from < scales; from++)                  \
                {                                                                                  \
                    __m512i whole[R][D];                                                           \
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                     \
                        start_sums(whole[row], (from ? second : start)[at * rows->rows + row], D); \
                    _Pragma("GCC unroll 8") for (int part = 0; part < 8 / scales; part++)          \
                    {                                                                              \
                        const int next = from * 8 / scales + part;                                 \
                        const __m512i weights = load_whole(place.weights, next, bits);             \
                        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                 \
                            add_bytes(whole[row], weights, group + row * groups, 4 * next, D);     \
                    }                                                                              \
                    const Scales own = load_scales(place, FORM);                                   \
                    const vec scale = own.scale[from], middle = scale * (float)MIDDLE(bits) + own.least;\
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                     \
                    {                                                                              \
                        sum[row] += whole_sums(whole[row], D) * (scale * group[row * groups].step);\
                        if (scales == 1)                                                           \
                            sum[row] += middle * group[row * groups].sum;                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }

/* The same for a panel of eight bits. */
#define BYTES8(NAME, R, D, FORM)                                                                   \
    static void NAME##_##R(const char *panel, const Rows *rows, int first, float *sums)            \
    {                                                                                              \
        const int64_t groups = rows->inputs / DEPTH;                                               \
        for (int half = 0; half < 2; half++, sums += LANES) {                                      \
            const Group *group = rows->groups + first * groups;                                    \
            const int32_t *start = starts_of(rows, start_of(8, 0)) + first;                        \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t at = 0; at < groups; at++, group++) {                                     \
                __m512i whole[R][D];                                                               \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                    start_sums(whole[row], start[at * rows->rows + row], D);                       \
                const vec scale = load_float16(panel);                                             \
                fetch_ahead(panel, R > 1);                                                         \
                panel += 2 * LANES;                                                                \
                _Pragma("GCC unroll 8") for (int word = 0; word < DEPTH / 4; word++, panel += 64)  \
                {                                                                                  \
                    const __m512i weights = _mm512_loadu_si512(panel);                             \
                    fetch_ahead(panel, R > 1);                                                     \
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                     \
                        add_bytes(whole[row], weights, group + row * groups, 4 * word, D);         \
                }                                                                                  \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                    sum[row] += whole_sums(whole[row], D) * (scale * group[row * groups].step);    \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }

#define OF_BYTES(TILE, NAME, D, FORM)                                                              \
    TILE(NAME, 1, D, FORM) TILE(NAME, 2, D, FORM) TILE(NAME, 3, D, FORM) TILE(NAME, 4, D, FORM)    \
    TILE(NAME, 5, D, FORM) TILE(NAME, 6, D, FORM) TILE(NAME, 7, D, FORM) TILE(NAME, 8, D, FORM)    \
    static TileOfRows *const NAME##_tiles[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4,             \
                                                NAME##_5, NAME##_6, NAME##_7, NAME##_8};

OF_BYTES(BYTES_OF_FEW_BITS, bytes4, 1, 4)
OF_BYTES(BYTES_OF_FEW_BITS, bytes4_long, 2, 4)
OF_BYTES(BYTES8, bytes8, 1, 0)
OF_BYTES(BYTES8, bytes8_long, 2, 0)
OF_BYTES(BYTES_OF_FEW_BITS, bytes5, 1, 5)
OF_BYTES(BYTES_OF_FEW_BITS, bytes_in_blocks4, 1, 4 + IN_BLOCKS)
OF_BYTES(BYTES_OF_FEW_BITS, bytes_in_blocks5, 1, 5 + IN_BLOCKS)
OF_BYTES(BYTES_OF_FEW_BITS, bytes_in_blocks6, 1, 6 + IN_BLOCKS)
static TileOfRows *const *const BYTES_TILES_OF[2][6] = {
    {bytes4_tiles, bytes8_tiles, bytes5_tiles, bytes_in_blocks4_tiles, bytes_in_blocks5_tiles,
     bytes_in_blocks6_tiles},
    {bytes4_long_tiles, bytes8_long_tiles}};

/* Rounds the rows to whole numbers. They hold until this thread's next ones. */
static void round_rows(Rows *rows, int alone)
{
    static _Thread_local Group *buffer;
    static _Thread_local size_t size;
    const size_t groups = (size_t)(rows->rows * (rows->inputs / DEPTH));
    const size_t needed = groups * (sizeof(Group) + STARTS * sizeof(int32_t));
    if (needed > size) {
        free(buffer);
        buffer = malloc(needed);
        size = needed;
    }
    rows->groups = buffer;
    rows->starts = (int32_t *)(buffer + groups);
    rows->tallest = TALLEST * 2 / 3; /* with two sums for each of the others' */
    run(round_chunk, rows, rows->rows, alone || rows->rows < TALLEST);
}
#endif
