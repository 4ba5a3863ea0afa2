/* array.h - a list of values, each with memory of its own.
 *
 * It is what a variable of kind array holds during a run: fl_tensor.data points
 * to one. A value in it does not change once it is complete, so arrays share them: a copy
 * of an array is a copy of its list. A place in the list may be empty.
 *
 * An array belongs to one thread at a time; those that share values may belong
 * to several.
 */
#ifndef FL_TENSOR_ARRAY_H
#define FL_TENSOR_ARRAY_H

#include "base/vec.h"
#include "tensor/tensor.h"

/* More than this many values are a mistake in an index. */
#define FL_ARRAY_MAX (1 << 24)

typedef struct fl_array_item fl_array_item;
typedef struct fl_array fl_array;

fl_array *fl_array_new(void);
void fl_array_free(fl_array *a); /* NULL is fine */
void fl_array_clear(fl_array *a);

size_t fl_array_len(const fl_array *a);

/* The value at a place; NULL when there is none. */
const fl_tensor *fl_array_at(const fl_array *a, size_t i);

/* Stores a copy of a value of any kind; the list grows up to its place. */
FL_MUST_CHECK
fl_status fl_array_put(fl_array *a, size_t i, const fl_tensor *value);

/* Makes room for a value that has the type, shape, offsets and kind of `like`,
   for the caller to fill before anybody else sees it. */
FL_MUST_CHECK
fl_status fl_array_make(fl_array *a, size_t i, const fl_tensor *like,
                        fl_tensor **out);

/* Empties a place. */
void fl_array_drop(fl_array *a, size_t i);

/* The value at place j of `from`, which is there, at place i of `to` too. */
void fl_array_share(fl_array *to, size_t i, const fl_array *from, size_t j);

/* `to` becomes the same list of the same values. */
void fl_array_copy(fl_array *to, const fl_array *from);

/* `to` becomes a copy of a value of kind array from outside, where data points
   to its tensors; and the array as such a value, valid until it changes. */
FL_MUST_CHECK
fl_status fl_array_take(fl_array *to, const fl_tensor *value);
fl_tensor fl_array_view(fl_array *a);

/* The array behind a tensor of kind array of a run. */
static inline fl_array *fl_array_of(const fl_tensor *t)
{
    return t->data;
}

#endif
