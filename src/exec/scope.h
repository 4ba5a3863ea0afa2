/* scope.h - what the public scope.h is made of.
 *
 * Shared by all runners of a context. Looking up and creating take the lock;
 * the values themselves are read and written without one (hogwild).
 */
#ifndef FL_EXEC_SCOPE_H
#define FL_EXEC_SCOPE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/vec.h"
#include "flotilla/scope.h"
#include "tensor/tensor.h"

typedef struct fl_scope_var {
    char *name;
    fl_tensor value; /* all that it points to is in block, or joined */
    void *block;     /* or NULL */
    size_t block_bytes;
    size_t index; /* in vars */
} fl_scope_var;

struct fl_scope {
    fl_scope *parent; /* or NULL */
    fl_mutex mu;
    fl_map by_name;              /* guarded by mu */
    FL_VEC(fl_scope_var *) vars; /* guarded by mu */
    fl_buf joined;               /* numbers that were put together */
    atomic_uint_fast64_t step;   /* training steps made */
};

void fl_scope_init(fl_scope *s);
void fl_scope_release(fl_scope *s);

/* Puts the numbers of all values next to each other, in few large pages: what is
   read as a whole in every run stays in the cache then, wherever the system has
   its small pages. Once, by the owner of a scope that nobody else has seen yet,
   and whose values stay as they are; without memory all is left as it is. */
void fl_scope_join(fl_scope *s);

/* Where a value of the name goes: to the scope that has it, or to this one. */
fl_scope *fl_scope_home(fl_scope *s, const char *name);

/* Makes room in this scope for a value like `meta` under the name and gives a
   view of it. Offsets are copied; the numbers that were there are kept when
   they are as many bytes, else zeroed. */
FL_MUST_CHECK
fl_status fl_scope_reserve(fl_scope *s, const char *name, const fl_tensor *meta,
                           fl_tensor *out);

/* What an operator made of the room that it got: fewer rows, other offsets.
   Gives the view again. */
FL_MUST_CHECK
fl_status fl_scope_settle(fl_scope *s, const char *name, fl_tensor *t);

#endif
