/* Rows to multiply, and the forms that their inputs are rounded to. */

#pragma once

#include "lanes.h"

/* A group of a row's inputs: each is about `step` times a whole number, which is a digit, or 128
   times a digit and another one.

   sum: of the inputs. start: what products with the row start from. */
typedef struct {
    float step, sum;
    int32_t start;
    int8_t digits[2][DEPTH];
} Group;

/* Some rows to multiply with matrices of one kind.

   tallest: how many rows to take at once.
   shortened: the rows in bfloat16, [TILED rows][DEPTH inputs][TILED][DEPTH], or none.
   groups: the rows as whole numbers, [rows][inputs / DEPTH], or none.
   digits: how many these have.
   zero: the byte of a weight of 0, for groups. */
typedef struct {
    const float *x;
    int64_t inputs;
    int rows, tallest;
    uint16_t *shortened;
    Group *groups;
    int digits, zero;
} Rows;

static inline int64_t depth_of(int64_t inputs)
{
    return (inputs + DEPTH - 1) / DEPTH;
}

/* The products of some rows, from `first` on, with one panel, to sums[row][output]. */
typedef void TileOfRows(const char *panel, const Rows *rows, int first, float *sums);
