/* Rows to multiply, and the forms that their inputs are rounded to. */

#pragma once

#include "lanes.h"

/* A group of a row's inputs: each is about `step` times a whole number, which is a digit, or 128
   times a digit and another one.

   sum: of the inputs. */
typedef struct {
    float step, sum;
    int8_t digits[2][DEPTH];
} Group;

#define STARTS 5

/* The place of a start: a weight of 0 is stored as the middle of 4, 5 or 8 bits, and in six bits, whose
   halves of a group start by themselves, as that of six. */
static inline int start_of(int bits, int half)
{
    return bits == 8 ? 4 : bits - 4 + half;
}

/* Some rows to multiply with matrices.

   tallest: how many rows to take at once.
   shortened: the rows in bfloat16, [TILED rows][DEPTH inputs][TILED][DEPTH], or none.
   groups: the rows as whole numbers, [rows][inputs / DEPTH], or none.
   starts: what their products start from, [STARTS][inputs / DEPTH][rows], by `start_of`.
   digits: how many these have. */
typedef struct {
    const float *x;
    int64_t inputs;
    int rows, tallest;
    uint16_t *shortened;
    Group *groups;
    int32_t *starts;
    int digits;
} Rows;

static inline int64_t depth_of(int64_t inputs)
{
    return (inputs + DEPTH - 1) / DEPTH;
}

/* The products of some rows, from `first` on, with one panel, to sums[row][output]. */
typedef void TileOfRows(const char *panel, const Rows *rows, int first, float *sums);
