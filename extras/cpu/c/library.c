/* Passes of a few rows through a decoder of Llama's kind, by as many threads as are free.

   A row's result does not depend on the rows beside it: every sum runs in one order. So a text
   that is written token by token and one that is read as a draft get the same logits, to the bit.

   Matrices are packed in panels of 32 outputs: [panel][input][32]. Those of bfloat16 have their
   inputs in pairs, [panel][pair][32][2], with zeros up to a multiple of 32 inputs. In four bits,
   32 inputs are a group, and a panel is two halves, [half][group]: a group has its scales and its
   least weights, [16] of float16 each, and [8 inputs][16 outputs][4] bytes, where the lower half
   of byte i is input i of the eight, and the upper half input i + 4. In eight bits, it has its
   scales and [4 inputs][16 outputs][4] bytes, of which 128 stands for 0.

   Whatever the weights are stored as, everything else is float32, but for the inputs of a product
   where the processor multiplies shorter ones faster. With weights of bfloat16, they are rounded to
   bfloat16 as well (AMD's AVX512_BF16, AMX). With groups, each row's are whole numbers of fifteen or
   eight bits, with a scale for each group (VNNI). */

#include "attention.h"
#include "blocks.h"

/* Adds a matrix's products to the states. */
static void add(const Pass *pass, const Matrix *matrix, const float *x, int alone)
{
    const Rows rows = prepare(matrix, 1, x, (int)pass->rows, alone);
    const Product product = {matrix, 1, 1, rows, pass->x, pass->width, 0};
    run_product(product, alone);
}

/* From a layer's attention to its output. */
static void leave(const Pass *pass, const Exit *exit, int alone)
{
    add(pass, &exit->output, pass->mixed, alone);
    normalize_all(pass, exit->norm, exit->epsilon);
    const Rows normed = prepare(&exit->gate, 2, pass->normed, (int)pass->rows, alone);
    const Gate gate = {exit, normed, pass->active};
    const int size = grain(&exit->up);
    run(gate_chunk, &gate, ((int)panels(&exit->up) + size - 1) / size, alone);
    add(pass, &exit->down, pass->active, alone);
}

/* Where a layer's keys and values lie: [texts, kv_heads, capacity, dim]. */
typedef struct {
    void *keys, *values;
    int64_t capacity;
} Store;

typedef struct {
    Entry entry;
    Exit exit;
} Layer;

/* Writes a head's keys or values. */
static void keep(void *to, int64_t at, const float *numbers, int64_t dim, int64_t is_bfloat16)
{
    if (!is_bfloat16)
        memcpy((float *)to + at, numbers, (size_t)dim * sizeof(float));
    else
        for (int64_t index = 0; index < dim; index++)
            put(to, at + index, nearest(numbers[index]), 1);
}

/* Appends the keys and values of a pass's rows to those of its texts. */
static void append(const Pass *pass, const Store *store)
{
    const int64_t dim = pass->dim, count = pass->rows / pass->texts;
    const int64_t stride = (pass->heads + 2 * pass->kv_heads) * dim;
    for (int64_t row = 0; row < pass->rows; row++) {
        const float *keys = pass->qkv + row * stride + pass->heads * dim;
        const int64_t text = pass->owners ? pass->owners[row] : row / count;
        const int64_t token = pass->slots ? pass->slots[row] : pass->kv_length - count + row % count;
        for (int64_t head = 0; head < pass->kv_heads; head++, keys += dim) {
            const int64_t at = ((text * pass->kv_heads + head) * store->capacity + token) * dim;
            keep(store->keys, at, keys, dim, pass->is_bfloat16);
            keep(store->values, at, keys + pass->kv_heads * dim, dim, pass->is_bfloat16);
        }
    }
}

/* Runs whole layers, and appends to the keys and values of each. */
void outrider_layers(Pass *pass, const Layer *layers, const Store *stores, int count)
{
    const int alone = is_alone((int)pass->threads);
    for (int index = 0; index < count; index++) {
        const Store *store = stores + index;
        enter(pass, &layers[index].entry, alone);
        append(pass, store);
        pass->keys = store->keys;
        pass->values = store->values;
        pass->head_stride = store->capacity * pass->dim;
        pass->text_stride = pass->kv_heads * pass->head_stride;
        attend(pass, &layers[index].exit, alone);
        leave(pass, &layers[index].exit, alone);
    }
    release(alone);
}

/* The queries, keys and values of one layer. */
void outrider_enter(const Pass *pass, const Entry *entry)
{
    const int alone = is_alone((int)pass->threads);
    enter(pass, entry, alone);
    release(alone);
}

/* The rest of the layer. It attends first, if `keys` is set. */
void outrider_leave(const Pass *pass, const Exit *exit)
{
    const int alone = is_alone((int)pass->threads);
    if (pass->keys)
        attend(pass, exit, alone);
    leave(pass, exit, alone);
    release(alone);
}
