/* The products of rows that are rounded to bfloat16. */

#pragma once

#include "rows.h"
#include "threads.h"
#include "tiles.h"

#if defined(HAS_FAST_SHORT)
/* Rounds the rows of two tiles to bfloat16. */
static void shorten_chunk(const void *job, int group)
{
    const Rows *rows = job;
    const int first = group * TILED;
    const int64_t depth = depth_of(rows->inputs), inputs = rows->inputs;
    for (int row = first; row < first + TILED && row < rows->rows; row++) {
        const float *x = rows->x + row * inputs;
        uint16_t *to = rows->shortened + (group * depth * TILED + row - first) * DEPTH;
        for (int64_t at = 0; at < inputs; at += DEPTH, to += TILED * DEPTH)
            for (int half = 0; half < 2; half++) {
                const int64_t left = inputs - at - half * LANES;
                const __mmask16 given = left >= LANES ? 0xffff : left > 0 ? (1 << left) - 1 : 0;
                const __m512 numbers = _mm512_maskz_loadu_ps(given, x + at + half * LANES);
                _mm256_storeu_si256((__m256i *)to + half, (__m256i)_mm512_cvtneps_pbh(numbers));
            }
    }
}

/* The products of R shortened rows with one panel of bfloat16, to sums[row][output]. */
#define SHORT(R)                                                                                   \
    static void short_##R(const char *panel, const Rows *rows, int first, float *sums)             \
    {                                                                                              \
        const int64_t depth = depth_of(rows->inputs);                                              \
        const uint16_t *x = rows->shortened + (first / TILED * depth * TILED + first % TILED) * DEPTH; \
        vec sum[R][2] = {{{0}}};                                                                   \
        for (int64_t at = 0; at < depth; at++, x += TILED * DEPTH)                                 \
            for (int pair = 0; pair < DEPTH; pair += 2, panel += 4 * PANEL) {                      \
                const __m512bh weights[] = {(__m512bh)_mm512_loadu_si512(panel),                   \
                                            (__m512bh)_mm512_loadu_si512(panel + 4 * LANES)};      \
                fetch_ahead(panel, R > SHORTEST);                                                  \
                fetch_ahead(panel + 4 * LANES, R > SHORTEST);                                      \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                {                                                                                  \
                    int32_t both;                                                                  \
                    memcpy(&both, x + row * DEPTH + pair, sizeof both);                            \
                    _Pragma("GCC unroll 2") for (int half = 0; half < 2; half++) sum[row][half] =  \
                        (vec)_mm512_dpbf16_ps((__m512)sum[row][half],                              \
                                              (__m512bh)_mm512_set1_epi32(both), weights[half]);   \
                }                                                                                  \
            }                                                                                      \
        STORE(sum, sums, R)                                                                        \
    }
SHORT(1) SHORT(2) SHORT(3) SHORT(4) SHORT(5) SHORT(6) SHORT(7) SHORT(8) SHORT(9) SHORT(10) SHORT(11) SHORT(12)
static TileOfRows *const short_tiles[] = {short_1, short_2, short_3, short_4,  short_5,  short_6,
                                          short_7, short_8, short_9, short_10, short_11, short_12};
#endif

#if defined(HAS_TILES)
static int has_tiles;

/* Asks the system for the tiles (AMX), since it saves them only for processes that did. */
__attribute__((constructor)) static void ask_for_tiles(void)
{
    has_tiles = !syscall(SYS_arch_prctl, 0x1023, 18);
}

/* The products of `tiles` tiles of rows with one panel, to sums[row][output]. Each tile's rows, and
   sums, are independent of each other. */
static inline __attribute__((always_inline)) void multiply_tiles(
    const char *panel, const uint16_t *rows, int64_t depth, const int tiles, float *sums)
{
    static const struct {
        uint8_t palette, start, unused[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const int64_t line = PANEL * 4, step = DEPTH * PANEL * 2;
    char before[64];
    __asm__ volatile("" ::"r"(before) : "memory"); /* tiles read memory unseen by the compiler */
    _tile_storeconfig(before);
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (; depth--; panel += step, rows += TILED * DEPTH) {
        _tile_loadd(4, panel, line);
        _tile_loadd(5, panel + 64, line);
        _tile_loadd(6, rows, 2 * DEPTH);
        for (int64_t ahead = 0; ahead < step; ahead += 64)
            __builtin_prefetch(panel + 2 * step + ahead);
        _tile_dpbf16ps(0, 6, 4);
        _tile_dpbf16ps(1, 6, 5);
        if (tiles > 1) {
            _tile_loadd(7, rows + TILED / 2 * DEPTH, 2 * DEPTH);
            _tile_dpbf16ps(2, 7, 4);
            _tile_dpbf16ps(3, 7, 5);
        }
    }
    _tile_stored(0, sums, line);
    _tile_stored(1, sums + LANES, line);
    if (tiles > 1) {
        _tile_stored(2, sums + TILED / 2 * PANEL, line);
        _tile_stored(3, sums + TILED / 2 * PANEL + LANES, line);
    }
    _tile_loadconfig(before);
    __asm__ volatile("" ::"r"(before) : "memory");
}

/* The products of the rows from `first` on, a multiple of TILED, with one panel. */
static void multiply_shortened(const char *panel, const Rows *rows, int first, int count, float *sums)
{
    const int64_t depth = depth_of(rows->inputs);
    const uint16_t *shortened = rows->shortened + first * depth * DEPTH;
    float all[TILED * PANEL] __attribute__((aligned(64)));
    if (count > TILED / 2)
        multiply_tiles(panel, shortened, depth, 2, all);
    else
        multiply_tiles(panel, shortened, depth, 1, all);
    memcpy(sums, all, (size_t)(count * PANEL) * sizeof(float));
}
#endif

#if defined(HAS_FAST_SHORT)
/* Rounds the rows to bfloat16. They hold until this thread's next ones. */
static void shorten_rows(Rows *rows, int alone)
{
    static _Thread_local uint16_t *buffer;
    static _Thread_local size_t size;
    const int groups = (rows->rows + TILED - 1) / TILED;
    const size_t needed = (size_t)(groups * depth_of(rows->inputs) * TILED * DEPTH) * 2;
    if (needed > size) {
        free(buffer);
        buffer = aligned_alloc(64, needed);
        size = needed;
    }
    rows->shortened = buffer;
    run(shorten_chunk, rows, groups, alone);
}
#endif
