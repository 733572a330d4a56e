/* Attention of all rows of a pass. */

#pragma once

#include "attention_many.h"

/* Some of the rows that lie side by side. */
static Pass some_rows(const Pass *pass, int64_t first, int64_t end)
{
    Pass some = *pass;
    some.rows = end - first;
    some.qkv += first * (pass->heads + 2 * pass->kv_heads) * pass->dim;
    some.mixed += first * pass->heads * pass->dim;
    some.owners += pass->owners ? first : 0;
    some.slots += pass->slots ? first : 0;
    if (pass->mask)
        some.mask += first * pass->mask_row_stride;
    return some;
}

/* Returns the end of a text's rows, of which `first` is the first one. */
static int64_t end_of_text(const Pass *pass, int64_t first)
{
    int64_t end = first + 1;
    while (end < pass->rows && pass->owners[end] == pass->owners[first])
        end++;
    return end;
}

/* Attention of rows side by side: many rows of one text are a chain, and the others few. */
static void attend_side_by_side(const Pass *pass, int is_bfloat16, int alone)
{
    for (int64_t first = 0, end; first < pass->rows; first = end) {
        int64_t next = first;
        do {
            end = next;
            next = end < pass->rows ? end_of_text(pass, end) : end;
        } while (next > end && (pass->mask || next - end <= FEW));
        if (end > first) {
            const Pass few = some_rows(pass, first, end);
            attend_few(&few, is_bfloat16, alone);
        } else {
            end = next;
            Pass chain = some_rows(pass, first, end);
            chain.keys = kept(pass, pass->keys, *chain.owners * pass->text_stride);
            chain.values = kept(pass, pass->values, *chain.owners * pass->text_stride);
            chain.kv_length = chain.slots[chain.rows - 1] + 1;
            attend_tall(&chain, is_bfloat16, alone);
        }
    }
}

static void attend(const Pass *pass, const Exit *exit, int alone)
{
    const int is_bfloat16 = outrider_attends_in_short(exit->output.kind);
    const int64_t known = pass->rows - pass->drafted;
    if (pass->owners) {
        attend_side_by_side(pass, is_bfloat16, alone);
    } else if (known > FEW && pass->texts == 1 && !pass->mask) {
        /* A draft's rows are attended to as if they were read later, one by one. */
        Pass chain = some_rows(pass, 0, known);
        chain.kv_length -= pass->drafted;
        attend_tall(&chain, is_bfloat16, alone);
        const Pass draft = some_rows(pass, known, pass->rows);
        if (draft.rows)
            attend_few(&draft, is_bfloat16, alone);
    } else {
        attend_few(pass, is_bfloat16, alone);
    }
}
