/* Groups of 32 inputs in four, five or six bits: where their parts lie, and what they mean. */

#pragma once

#include "lanes.h"

/* Fetches what comes later in a panel. The first cache waits for few lines at once, too few to keep
   memory busy during the products of several rows, so the second one is asked for them before. */
static inline __attribute__((always_inline)) void fetch_ahead(const char *at, const int is_slow)
{
    __builtin_prefetch(at + (is_slow ? NEAR : AHEAD));
    if (is_slow)
        __builtin_prefetch(at + 2 * AHEAD, 0, 2);
}

#define IN_BLOCKS 16 /* added to the bits of a form, where eight groups make a block of GGUF's */
#define BITS(FORM) ((FORM) % IN_BLOCKS)
#define SCALES(FORM) ((FORM) == 6 + IN_BLOCKS ? 2 : 1) /* of a group: one for each 16 of six bits */

/* The bits of a weight above the fourth: how many, and where they begin. A group has eight parts of
   four inputs; above the pairs of parts lie the planes of these bits. */
#define HIGH_MASK(BITS) ((1 << ((BITS) - 4)) - 1)
#define HIGH_AT(PART, BITS) ((PART) * ((BITS) - 4))

typedef struct {
    const char *head, *factors, *weights;
} Place;

/* A weight is scale * q + least, or in six bits scale * (q - 32). */
typedef struct {
    vec scale[2], least;
} Scales;

static inline int64_t half_size(int64_t groups, const int form)
{
    const int64_t size = 4 * LANES * BITS(form);
    return form < IN_BLOCKS ? groups * (HEAD + size) : groups / SUPER * (HEAD + SUPER * (FACTORS + size));
}

/* Where a group of half a panel lies. */
static inline __attribute__((always_inline)) Place place_of(const char *half, int64_t group,
                                                            const int form)
{
    const int64_t size = 4 * LANES * BITS(form), in_block = group % SUPER;
    const char *head = half + half_size(group, form);
    if (form < IN_BLOCKS)
        return (Place){head, NULL, head + HEAD};
    const char *factors = head + HEAD;
    return (Place){head, factors + in_block * FACTORS, factors + SUPER * FACTORS + in_block * size};
}

static inline __attribute__((always_inline)) Scales load_scales(Place place, const int form)
{
    const vec scale = load_float16(place.head), least = load_float16(place.head + 2 * LANES);
    if (form < IN_BLOCKS)
        return (Scales){{scale, scale}, least};
    const vec first = load_int8(place.factors), second = load_int8(place.factors + LANES);
    return (Scales){{scale * first, scale * second}, -(least * second)};
}

/* Fetches what comes later in place of a group. */
static inline __attribute__((always_inline)) void fetch_group(Place place, int64_t group, const int rows,
                                                              const int form)
{
    const int is_slow = rows > 1 || form > IN_BLOCKS;
    _Pragma("GCC unroll 8") for (int line = 0; line < BITS(form); line++)
        fetch_ahead(place.weights + 64 * line, is_slow);
    if (form < IN_BLOCKS || group % SUPER == 0)
        for (int line = 0; line < (form < IN_BLOCKS ? 1 : 5); line++)
            fetch_ahead(place.head + 64 * line, is_slow);
}

/* Sixteen weights as numbers: of one of a group's eight parts, one of its four inputs. */
static inline __attribute__((always_inline)) vec load_few_bits(const char *weights, const int part,
                                                               const int byte, const int form)
{
    const uvec both = *(const uvec *)(weights + 4 * LANES * (part / 2)) >> (8 * byte + part % 2 * 4);
    if (BITS(form) == 4)
        return nibble(both);
    const int at = HIGH_AT(part, BITS(form));
    const uvec plane = *(const uvec *)(weights + 4 * LANES * (4 + at / 8)) >> (8 * byte + at % 8);
    const uvec whole = (both & 15) | (plane & HIGH_MASK(BITS(form))) << 4;
    return __builtin_convertvector((ivec)whole - (SCALES(form) > 1 ? MIDDLE(6) : 0), vec);
}
