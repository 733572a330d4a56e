/* The products of any number of rows with any matrix. */

#pragma once

#include "bfloat16.h"
#include "whole_numbers.h"

/* Returns whether attention is in bfloat16 where the matrices beside it are of some kind. */
int outrider_attends_in_short(int64_t kind)
{
#if defined(HAS_SHORT)
    return kind == BFLOAT16;
#endif
    (void)kind;
    return 0;
}

/* Returns rows to multiply, rounded for some matrices. They hold until this thread's next ones.

   Matrices in groups may stand beside those of float32, which take the same rows as they are. */
static Rows prepare(const Matrix *matrix, int count, const float *x, int rows, int alone)
{
    for (const Matrix *next = matrix; count--; next++)
        matrix = next->kind > matrix->kind ? next : matrix;
    const int tallest = matrix->kind < FOUR_BITS ? TALLEST : TALLEST_IN_GROUPS;
    Rows result = {x, matrix->inputs, rows, tallest, NULL, NULL, NULL, 0};
#if defined(HAS_FAST_SHORT)
    if (matrix->kind == BFLOAT16)
        shorten_rows(&result, alone);
#endif
#if defined(HAS_BYTES)
    if (matrix->kind >= FOUR_BITS) {
        result.digits = (int)matrix->digits;
        round_rows(&result, alone);
    }
#endif
    (void)alone;
    return result;
}

/* The bytes of a panel. */
static inline int64_t size_of(const Matrix *matrix)
{
    const int64_t inputs = matrix->kind == BFLOAT16 ? depth_of(matrix->inputs) * DEPTH : matrix->inputs;
    return inputs * BYTES_OF[matrix->kind] / (SUPER * DEPTH);
}

static inline int64_t panels(const Matrix *matrix)
{
    return (matrix->outputs + PANEL - 1) / PANEL;
}

/* The number of rows to take next, in as few and as equal parts as fit. */
static inline int next_rows(const Rows *rows, int row)
{
    int left = rows->rows - row;
    if (rows->shortened && left > TILED - row % TILED)
        left = TILED - row % TILED;
#if defined(HAS_TILES)
    if (rows->shortened && has_tiles)
        return left;
#endif
    const int parts = (left + rows->tallest - 1) / rows->tallest;
    return (left + parts - 1) / parts;
}

/* Returns up to TALLEST rows to multiply with panels of float32, or of bfloat16 if `is_bfloat16`.
   They hold until this thread's next ones. */
static Rows few_rows(const float *x, int64_t inputs, int count, int is_bfloat16)
{
    Rows rows = {x, inputs, count, TALLEST, NULL, NULL, NULL, 0};
#if defined(HAS_FAST_SHORT)
    static _Thread_local uint16_t *buffer;
    static _Thread_local size_t size;
    const size_t needed = (size_t)(depth_of(inputs) * TILED * DEPTH) * 2;
    if (is_bfloat16 && needed > size) {
        free(buffer);
        buffer = aligned_alloc(64, 2 * needed);
        size = 2 * needed;
    }
    if (is_bfloat16) {
        rows.shortened = buffer;
        shorten_chunk(&rows, 0);
    }
#endif
    (void)is_bfloat16;
    return rows;
}

/* The products of few rows with one panel, of bfloat16 if `is_bfloat16`, to sums[row][output]. */
static void multiply_few(const char *panel, const Rows *rows, int is_bfloat16, float *sums)
{
#if defined(HAS_TILES)
    if (rows->shortened && has_tiles) {
        multiply_shortened(panel, rows, 0, rows->rows, sums);
        return;
    }
#endif
#if defined(HAS_FAST_SHORT)
    if (rows->shortened) {
        short_tiles[rows->rows - 1](panel, rows, 0, sums);
        return;
    }
#endif
    (is_bfloat16 ? bfloat16_tiles : float32_tiles)[rows->rows - 1](panel, rows->x, rows->inputs, sums);
}

/* The products of `count` rows with one panel, to sums[row][output]. */
static void multiply(const Matrix *matrix, int64_t panel, const Rows *rows, int row, int count,
                     float *sums)
{
    const char *weights = (const char *)matrix->panels + panel * size_of(matrix);
    for (int64_t at = 0; at < AHEAD && !row; at += 64) /* another thread may have fetched these */
        __builtin_prefetch(weights + at);
#if defined(HAS_TILES)
    if (rows->shortened && has_tiles)
        multiply_shortened(weights, rows, row, count, sums);
    else
#endif
#if defined(HAS_FAST_SHORT)
    if (rows->shortened)
        short_tiles[count - 1](weights, rows, row, sums);
    else
#endif
#if defined(HAS_BYTES)
    if (rows->groups && matrix->kind >= FOUR_BITS)
        BYTES_TILES_OF[rows->digits - 1][matrix->kind - FOUR_BITS][count - 1](weights, rows, row, sums);
    else
#endif
        TILES_OF[matrix->kind][count - 1](weights, rows->x + row * rows->inputs, rows->inputs, sums);
    const int64_t first = panel * PANEL;
    const int64_t outputs = matrix->outputs - first < PANEL ? matrix->outputs - first : PANEL;
    if (matrix->scale)
        for (int next = 0; next < count; next++)
            for (int64_t output = 0; output < outputs; output++)
                sums[next * PANEL + output] *= matrix->scale[first + output];
    if (matrix->bias)
        for (int next = 0; next < count; next++)
            for (int64_t output = 0; output < outputs; output++)
                sums[next * PANEL + output] += matrix->bias[first + output];
}

/* How many panels a thread takes at once: memory is faster where it is read in one piece. */
static int grain(const Matrix *matrix)
{
    const int64_t bytes = size_of(matrix);
    return bytes < PIECE ? (int)(PIECE / bytes) : 1;
}

/* The next outputs of several matrices side by side: out = x W^T + b, or added to what is there. */
typedef struct {
    const Matrix *matrices;
    int count, adds;
    Rows rows;
    float *out;
    int64_t stride; /* of a row of `out` */
    int panels;     /* in all; set by `run_product` */
} Product;

static void product_panel(const Product *product, int64_t panel)
{
    const Rows *rows = &product->rows;
    const Matrix *matrix = product->matrices;
    float *out = product->out, sums[TILED * PANEL];
    for (; panel >= panels(matrix); matrix++) {
        panel -= panels(matrix);
        out += matrix->outputs;
    }
    const int64_t first = panel * PANEL;
    const int64_t outputs = matrix->outputs - first < PANEL ? matrix->outputs - first : PANEL;
    for (int row = 0, count; row < rows->rows; row += count) {
        count = next_rows(rows, row);
        multiply(matrix, panel, rows, row, count, sums);
        for (int next = 0; next < count; next++) {
            float *to = out + (row + next) * product->stride + first;
            for (int64_t output = 0; output < outputs; output++)
                to[output] = sums[next * PANEL + output] + (product->adds ? to[output] : 0);
        }
    }
}

static void product_chunk(const void *job, int chunk)
{
    const Product *product = job;
    const int size = grain(product->matrices), first = chunk * size;
    for (int panel = first; panel < first + size && panel < product->panels; panel++)
        product_panel(product, panel);
}

static void run_product(Product product, int alone)
{
    const int size = grain(product.matrices);
    for (int index = 0; index < product.count; index++)
        product.panels += (int)panels(product.matrices + index);
    run(product_chunk, &product, (product.panels + size - 1) / size, alone);
}

void outrider_product(const Matrix *matrix, const float *x, float *out, int rows, int threads)
{
    const int alone = is_alone(threads);
    const Product product = {matrix, 1, 0, prepare(matrix, 1, x, rows, alone), out, matrix->outputs, 0};
    run_product(product, alone);
    release(alone);
}

/* Returns whether the inputs of a product are rounded: to bfloat16, or of groups to whole numbers. */
int outrider_rounds_inputs(int64_t kind)
{
#if defined(HAS_FAST_SHORT)
    if (kind == BFLOAT16)
        return 1;
#endif
#if defined(HAS_BYTES)
    if (kind >= FOUR_BITS)
        return 1;
#endif
    (void)kind;
    return 0;
}

/* Returns whether products with bfloat16 run on tiles. */
int outrider_has_tiles(void)
{
#if defined(HAS_TILES)
    return has_tiles;
#else
    return 0;
#endif
}
