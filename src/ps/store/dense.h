/* dense.h - a dense block on a server: values, optimizer state, and the small
 * program that the executor runs when a gradient comes.
 *
 * A block takes memory for values and state when it is first used: every server
 * is told of all blocks, but each is used on one of them.
 *
 * Several blocks may be used at once by different threads; one block by one at
 * a time (it has a lock of its own).
 */
#ifndef FL_PS_STORE_DENSE_H
#define FL_PS_STORE_DENSE_H

#include "conf/conf.h"
#include "exec/scope.h"
#include "ir/program.h"
#include "ps/declare.h"

typedef struct fl_dense fl_dense;

/* From a declared program (declare.h says what it must be like). The conf is
   borrowed for the call. */
FL_MUST_CHECK
fl_status fl_dense_new(fl_dense **out, const fl_declared *d,
                       const fl_op_set *ops, const fl_conf *conf);
void fl_dense_free(fl_dense *d); /* NULL is fine */

const char *fl_dense_name(const fl_dense *d);
uint64_t fl_dense_len(const fl_dense *d);
uint64_t fl_dense_bytes(fl_dense *d); /* values and state */

/* step is the job's global step, for schedules. Returns after the update. After
   an error in its midst (memory, check_nan_inf) the block may be half updated.
 */
FL_MUST_CHECK
fl_status fl_dense_push(fl_dense *d, const float *grad, uint64_t step);
FL_MUST_CHECK
fl_status fl_dense_pull(fl_dense *d, float *out);
FL_MUST_CHECK
fl_status fl_dense_assign(fl_dense *d, const float *values);

/* Where the scope has a variable of the block's name and size: the block starts
   now, with the values of the scope for it and for those of its other
   persistent variables that the scope has in the same size. Else it is left as
   it is. */
FL_MUST_CHECK
fl_status fl_dense_take(fl_dense *d, fl_scope *scope);

/* Of values and state, less that of their first values: 0 for a block that is
   as it was born, so that a server that does not use it adds nothing. */
uint64_t fl_dense_hash(fl_dense *d);

#endif
