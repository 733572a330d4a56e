/* The shapes of panels and tiles, and what the processor has. */

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#if defined(__AVX512VNNI__)
#define HAS_BYTES
#endif
#if defined(__AVX512BF16__)
#define HAS_SHORT
/* Intel's processors multiply bfloat16 at half the speed of float32, unless they do so on tiles. No
   others have had AVX512_FP16 so far. */
#if defined(__AMX_BF16__) || !defined(__AVX512FP16__)
#define HAS_FAST_SHORT
#endif
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#define HAS_TILES
#endif
#endif

#define LANES 16
#define PANEL 32
#define TALLEST 12 /* rows whose sums fit in the registers */
#define TALLEST_IN_GROUPS 4 /* likewise, of which a group has sums of its own */
#define DEPTH 32   /* inputs of a tile, and of a group */
#define MIDDLE(BITS) (1 << ((BITS) - 1)) /* of a weight's whole number */
#define ZERO 128   /* the byte of a weight of 0 */
#define LARGEST 127 /* byte that inputs are rounded to */
#define SUPER 8 /* groups that share a block's two scales */
#define HEAD (4 * LANES) /* bytes of two numbers of float16 for each output */
#define FACTORS (2 * LANES) /* bytes of two whole numbers for each output and group */
#define AHEAD 4096 /* bytes of a panel to fetch before they are needed */
#define NEAR 2048  /* likewise, once they are in the second cache */
#define SHORTEST 4 /* below this many rows a product with whole weights is memory-bound */
#define PIECE 65536 /* bytes of panels for one thread to take, at most if they are more than one */
#define TILED 32   /* rows of two tiles */
#define FEW 64     /* rows whose results don't depend on their number */
#define HIDDEN -1e29f /* a mask that adds less than this hides a token */

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t uvec __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef int8_t bytes __attribute__((vector_size(16), aligned(1), may_alias));

typedef struct {
    const void *panels;
    const float *bias;  /* [outputs], or none */
    const float *scale; /* [outputs] of eight bits, or none */
    int64_t outputs, inputs, kind;
    int64_t digits; /* of the inputs, where they are rounded to whole numbers: 1 of eight bits, or 2 */
} Matrix;

enum {
    FLOAT32,
    EIGHT_BITS,
    BFLOAT16,
    FOUR_BITS,
    EIGHT_BITS_IN_GROUPS,
    FIVE_BITS,
    BLOCKS_OF_4,
    BLOCKS_OF_5,
    BLOCKS_OF_6
};
