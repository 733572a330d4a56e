/* Which keys and values a row sees, and where they are. */

#pragma once

#include "layers.h"

/* The first tokens of a text that another one holds, and where they are, in tokens from its own. */
typedef struct {
    int64_t held, ahead;
} Origin;

static Origin origin_of(const Pass *pass, int64_t row)
{
    if (!pass->prefix_owners)
        return (Origin){0, 0};
    const int64_t text = pass->owners[row], tokens = pass->text_stride / pass->dim;
    return (Origin){pass->prefix_lengths[text], (pass->prefix_owners[text] - text) * tokens};
}

/* Lists the tokens that a row sees, in the order of the text, so that a path of a tree adds up
   as a chain does. Returns how many they are. */
static int64_t list_seen(const Pass *pass, int64_t row)
{
    const int64_t count = pass->rows / pass->texts;
    const Origin origin = origin_of(pass, row);
    int64_t limit = pass->slots ? pass->slots[row] + 1 : pass->kv_length - count + row % count + 1;
    const float *mask = NULL;
    int64_t seen = 0;
    if (pass->mask) {
        mask = pass->mask + row / count * pass->mask_text_stride + row % count * pass->mask_row_stride;
        limit = pass->kv_length;
    }
    for (int64_t token = 0; token < limit; token++)
        if (!mask || mask[token] > HIDDEN)
            scratch.seen[seen++] = (int32_t)(token + (token < origin.held ? origin.ahead : 0));
    return seen;
}

/* Where a number of keys or values is. */
static inline const char *kept(const Pass *pass, const void *all, int64_t at)
{
    return (const char *)all + at * (pass->is_bfloat16 ? 2 : 4);
}

static inline vec load_kept(const char *some, int64_t at, const int is_bfloat16)
{
    return is_bfloat16 ? load_bfloat16(some + 2 * at) : load_float32(some + 4 * at);
}
