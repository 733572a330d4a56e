/* Matrices as GGUF files store them, packed without a change of a number, and read back. */

#pragma once

#include "products.h"

/* The file's numbers of its formats. */
enum { Q4_0 = 2, Q4_1, Q5_0 = 6, Q5_1, Q8_0, Q4_K = 12, Q5_K, Q6_K };

/* A block of one output, or eight groups of one: whole numbers, and what they are multiplied with.

   scale, least: in float16. factors: two of each group, that of `scale` and that of `least`, or in
   Q6_K those of `scale` for its first sixteen inputs and its others. */
typedef struct {
    uint8_t whole[SUPER * DEPTH];
    uint16_t scale, least;
    int8_t factors[2 * SUPER];
} Block;

typedef struct {
    const Matrix *matrix;
    const uint8_t *blocks; /* [outputs][inputs / the block's inputs] */
    int64_t type;
} Packing;

/* The bytes of a block in a file, of 32 inputs or, in the K formats, of 256. */
static int64_t block_size(int64_t type)
{
    static const uint8_t sizes[] = {[Q4_0] = 18, [Q4_1] = 20,  [Q5_0] = 22,  [Q5_1] = 24,
                                    [Q8_0] = 34, [Q4_K] = 144, [Q5_K] = 176, [Q6_K] = 210};
    return sizes[type];
}

/* Returns the kind of matrix that keeps a format, and -1 for a format that none keeps. */
int64_t outrider_kind_of(int64_t type)
{
    switch (type) {
    case Q4_0:
    case Q4_1:
        return FOUR_BITS;
    case Q5_0:
    case Q5_1:
        return FIVE_BITS;
    case Q8_0:
        return EIGHT_BITS_IN_GROUPS;
    case Q4_K:
    case Q5_K:
    case Q6_K:
        return BLOCKS_OF_4 + type - Q4_K;
    default:
        return -1;
    }
}

int64_t outrider_panel_bytes(const Matrix *matrix)
{
    return size_of(matrix);
}

static inline uint16_t short_at(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

/* Minus 2^power times a number of float16, which is exact below 2^15. */
static uint16_t minus_times(uint16_t number, int power)
{
    for (; power && !(number & 0x7c00); power--) /* digits that carry make the first exponent */
        number = (uint16_t)(number + (number & 0x3ff));
    return (uint16_t)(number + (power << 10)) ^ 0x8000;
}

/* Reads 32 numbers of four bits, those of 16 more behind those of 16, and adds the fifth bits. */
static void read_halves(const uint8_t *low, const uint8_t *high, uint8_t *whole)
{
    for (int at = 0; at < DEPTH / 2; at++) {
        whole[at] = low[at] & 15;
        whole[at + DEPTH / 2] = low[at] >> 4;
    }
    for (int byte = 0; byte < 4 && high; byte++, whole += 8) {
        uint64_t eight;
        memcpy(&eight, whole, 8);
        const uint64_t copies = high[byte] * UINT64_C(0x0101010101010101);
        const uint64_t own = copies & UINT64_C(0x8040201008040201); /* bit n in byte n */
        eight |= (own + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 3 & UINT64_C(0x1010101010101010);
        memcpy(whole, &eight, 8);
    }
}

/* The factors of Q4_K and Q5_K: eight pairs of six bits in twelve bytes. */
static void read_factors(const uint8_t *at, int8_t *factors)
{
    for (int group = 0; group < SUPER; group++, factors += 2)
        for (int part = 0; part < 2; part++) {
            const uint8_t *first = at + 4 * part + group % 4;
            const int last = at[8 + group % 4] >> 4 * part & 15;
            factors[part] = (int8_t)(group < 4 ? *first & 63 : last | *first >> 6 << 4);
        }
}

/* Reads 256 numbers of Q4_K or Q5_K. */
static void read_fours(const uint8_t *low, const uint8_t *high, uint8_t *whole)
{
    for (int pair = 0; pair < SUPER / 2; pair++, low += DEPTH, whole += 2 * DEPTH)
        for (int at = 0; at < DEPTH; at++) {
            whole[at] = low[at] & 15;
            whole[at + DEPTH] = low[at] >> 4;
            if (high) {
                whole[at] |= (high[at] >> 2 * pair & 1) << 4;
                whole[at + DEPTH] |= (high[at] >> (2 * pair + 1) & 1) << 4;
            }
        }
}

/* Reads 256 numbers of Q6_K. */
static void read_sixes(const uint8_t *low, const uint8_t *high, uint8_t *whole)
{
    for (int half = 0; half < 2; half++, low += 2 * DEPTH, high += DEPTH, whole += 4 * DEPTH)
        for (int at = 0; at < DEPTH; at++)
            for (int part = 0; part < 4; part++)
                whole[at + part * DEPTH] = (uint8_t)((low[at + part % 2 * DEPTH] >> part / 2 * 4 & 15)
                                                     | (high[at] >> 2 * part & 3) << 4);
}

static void read_block(int64_t type, const uint8_t *at, Block *block)
{
    block->scale = short_at(at + (type == Q6_K ? 208 : 0));
    switch (type) {
    case Q4_0:
        block->least = minus_times(block->scale, 3);
        read_halves(at + 2, NULL, block->whole);
        break;
    case Q4_1:
        block->least = short_at(at + 2);
        read_halves(at + 4, NULL, block->whole);
        break;
    case Q5_0:
        block->least = minus_times(block->scale, 4);
        read_halves(at + 6, at + 2, block->whole);
        break;
    case Q5_1:
        block->least = short_at(at + 2);
        read_halves(at + 8, at + 4, block->whole);
        break;
    case Q8_0:
        for (int input = 0; input < DEPTH; input++)
            block->whole[input] = at[2 + input] ^ ZERO;
        break;
    case Q6_K:
        block->least = 0;
        memcpy(block->factors, at + 192, sizeof block->factors);
        read_sixes(at, at + 128, block->whole);
        break;
    default:
        block->least = short_at(at + 2);
        read_factors(at + 4, block->factors);
        read_fours(at + (type == Q5_K ? 48 : 16), type == Q5_K ? at + 16 : NULL, block->whole);
    }
}

/* Writes 32 whole numbers of one output. to: that of the first output. */
static void write_group(const uint8_t *whole, char *to, const int bits)
{
    uint32_t fours[8], planes[2] = {0};
    memcpy(fours, whole, sizeof fours);
    if (bits == 8) {
        for (int part = 0; part < 8; part++)
            memcpy(to + 4 * LANES * part, fours + part, 4);
        return;
    }
    const uint32_t lower = 0x0f0f0f0f, high = 0x01010101 * HIGH_MASK(bits);
    for (int pair = 0; pair < 4; pair++) {
        const uint32_t both = (fours[2 * pair] & lower) | (fours[2 * pair + 1] & lower) << 4;
        memcpy(to + 4 * LANES * pair, &both, 4);
    }
    for (int part = 0; part < 8 && bits > 4; part++)
        planes[HIGH_AT(part, bits) / 8] |= (fours[part] >> 4 & high) << HIGH_AT(part, bits) % 8;
    for (int plane = 0; plane < bits - 4; plane++)
        memcpy(to + 4 * LANES * (4 + plane), planes + plane, 4);
}

/* The form of a kind of few bits, as in few_bits.h. */
static int form_of(int64_t kind)
{
    return kind == FOUR_BITS ? 4 : kind == FIVE_BITS ? 5 : (int)(kind - BLOCKS_OF_4) + 4 + IN_BLOCKS;
}

/* Packs the groups of one output in a panel's half. */
static inline __attribute__((always_inline)) void pack_output(const Packing *packing, const uint8_t *from,
                                                              char *half, int lane, const int form)
{
    const int64_t groups = packing->matrix->inputs / DEPTH, size = block_size(packing->type);
    const int count = form < IN_BLOCKS ? 1 : SUPER;
    Block block;
    for (int64_t group = 0; group < groups; group += count, from += size) {
        read_block(packing->type, from, &block);
        if (form == 8) {
            char *head = half + group * (2 * LANES + DEPTH * LANES);
            memcpy(head + 2 * lane, &block.scale, 2);
            write_group(block.whole, head + 2 * LANES + 4 * lane, 8);
            continue;
        }
        for (int next = 0; next < count; next++) {
            const Place place = place_of(half, group + next, form);
            memcpy((char *)place.head + 2 * lane, &block.scale, 2);
            memcpy((char *)place.head + 2 * (LANES + lane), &block.least, 2);
            for (int part = 0; part < 2 && place.factors; part++)
                ((char *)place.factors)[part * LANES + lane] = block.factors[2 * next + part];
            write_group(block.whole + DEPTH * next, (char *)place.weights + 4 * lane, BITS(form));
        }
    }
}

static void pack_panel(const void *job, int panel)
{
    const Packing *packing = job;
    const Matrix *matrix = packing->matrix;
    const int64_t groups = matrix->inputs / DEPTH, size = size_of(matrix);
    const int64_t row = groups / (packing->type < Q4_K ? 1 : SUPER) * block_size(packing->type);
    char *to = (char *)matrix->panels + panel * size;
    const int64_t first = (int64_t)panel * PANEL, left = matrix->outputs - first;
    for (int index = 0; index < PANEL && index < left; index++) {
        char *half = to + index / LANES * (size / 2);
        const uint8_t *from = packing->blocks + (first + index) * row;
        if (matrix->kind == EIGHT_BITS_IN_GROUPS)
            pack_output(packing, from, half, index % LANES, 8);
        else
            pack_output(packing, from, half, index % LANES, form_of(matrix->kind));
    }
}

/* Packs a matrix of a format: its panels are of `outrider_kind_of` that, and hold zeros so far. */
void outrider_pack(const Matrix *matrix, const uint8_t *blocks, int64_t type, int threads)
{
    const int alone = is_alone(threads);
    const Packing packing = {matrix, blocks, type};
    run(pack_panel, &packing, (int)panels(matrix), alone);
    release(alone);
}

/* Reads the weights of some outputs, to [count, inputs]. */
void outrider_read(const Matrix *matrix, const int64_t *outputs, int64_t count, float *to)
{
    const int64_t groups = matrix->inputs / DEPTH, size = size_of(matrix);
    const int form = form_of(matrix->kind);
    for (int64_t row = 0; row < count; row++) {
        const int64_t panel = outputs[row] / PANEL, index = outputs[row] % PANEL, lane = index % LANES;
        const char *half = (const char *)matrix->panels + panel * size + index / LANES * (size / 2);
        for (int64_t group = 0; group < groups; group++, to += DEPTH) {
            if (matrix->kind == EIGHT_BITS_IN_GROUPS) {
                const char *head = half + group * (2 * LANES + DEPTH * LANES);
                const uint8_t *whole = (const uint8_t *)head + 2 * LANES + 4 * lane;
                for (int at = 0; at < DEPTH; at++)
                    to[at] = (float)(whole[4 * LANES * (at / 4) + at % 4] - ZERO) * load_float16(head)[lane];
                continue;
            }
            const Place place = place_of(half, group, form);
            const Scales own = load_scales(place, form);
            for (int at = 0; at < DEPTH; at++) {
                const vec whole = load_few_bits(place.weights, at / 4, at % 4, form);
                if (SCALES(form) > 1)
                    to[at] = whole[lane] * own.scale[at / 16][lane];
                else
                    to[at] = __builtin_fmaf(whole[lane], own.scale[0][lane], own.least[lane]);
            }
        }
    }
}
