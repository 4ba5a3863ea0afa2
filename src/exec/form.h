/* form.h - whether a tensor has the form of another: the same in all but where
 * its numbers and offsets are.
 *
 * A prediction takes microseconds and may have hundreds of feeds, nearly all of
 * which look like those of the run before. So it is seen without a call, and
 * without a branch for each field.
 */
#ifndef FL_EXEC_FORM_H
#define FL_EXEC_FORM_H

#include <stddef.h>
#include <string.h>

#include "tensor/tensor.h"

_Static_assert(offsetof(fl_tensor, shape) == 4 * sizeof(uint64_t),
               "four words say what a tensor is, apart from its shape");

static inline bool fl_has_reserved(const fl_tensor *t)
{
    uintptr_t any = 0;

    for (size_t i = 0; i < FL_LEN(t->reserved); i++)
        any |= (uintptr_t)t->reserved[i];
    return any;
}

/* Whether fl_form_is_like says all of what comes after it: not where the values
   have to be looked at as well. */
static inline bool fl_form_is_plain(const fl_tensor *t)
{
    return !t->strides && t->kind <= FL_KIND_RAGGED &&
           t->dtype != FL_DTYPE_BOOL;
}

static inline uint64_t fl_form_word(const fl_tensor *t, size_t i)
{
    uint64_t word;

    memcpy(&word, (const char *)t + i * sizeof(word), sizeof(word));
    return word;
}

/* Offsets of one level that were found good: many inputs share them. */
typedef struct fl_good_offsets {
    const int64_t *off;
    int64_t n, end;
} fl_good_offsets;

static inline bool fl_form_ascends(const int64_t *off, int64_t n, int64_t end,
                                   fl_good_offsets *good)
{
    if (off == good->off && n == good->n && end == good->end)
        return off;
    if (!off || !fl_lod_ascends(off, n, end))
        return false;
    *good = (fl_good_offsets){ off, n, end };
    return true;
}

/* As many offsets in each level, and good ones. */
static inline bool fl_form_has_offsets(const fl_tensor *t,
                                       const fl_tensor *before,
                                       fl_good_offsets *good)
{
    for (int k = 0; k < before->n_lod; k++) {
        int64_t end = k + 1 < before->n_lod ? before->lod_len[k + 1] - 1
                                            : before->shape.dim[0];

        if (t->lod_len[k] != before->lod_len[k] ||
            !fl_form_ascends(t->lod[k], t->lod_len[k], end, good))
            return false;
    }
    return true;
}

/* Whether t may stand where `before`, a plain one that was checked, does. One
   that differs behind its rank may be called another though it is not. `good` is
   zeros at first, and is for values that are looked at in one go. */
static inline bool fl_form_is_like(const fl_tensor *t, const fl_tensor *before,
                                   fl_good_offsets *good)
{
    uint64_t differ = (uint64_t)(t->shape.rank ^ before->shape.rank);

    differ |= fl_form_word(t, 0) ^ fl_form_word(before, 0);
    differ |= fl_form_word(t, 1) ^ fl_form_word(before, 1);
    differ |= fl_form_word(t, 2) ^ fl_form_word(before, 2);
    differ |= fl_form_word(t, 3) ^ fl_form_word(before, 3);
    differ |= (uint64_t)(t->shape.dim[0] ^ before->shape.dim[0]);
    differ |= (uint64_t)(t->shape.dim[1] ^ before->shape.dim[1]);
    differ |= (uint64_t)(uintptr_t)t->strides;
    if (differ || !t->data || fl_has_reserved(t))
        return false;
    for (int i = 2; i < before->shape.rank; i++)
        differ |= (uint64_t)(t->shape.dim[i] ^ before->shape.dim[i]);
    return !differ && fl_form_has_offsets(t, before, good);
}

#endif
