/* dense.h - a dense block on a server: values, optimizer state, and the small
 * program that the executor runs when a gradient comes.
 *
 * The program is a block of the server's: it is fed NAME@GRAD, its only `data`
 * variable, and has the persistent variable NAME of as many floats. Values and
 * state of a block are its own: what several blocks use, each has a copy of.
 *
 * Several blocks may be used at once by different threads; one block by one at
 * a time (it has a lock of its own).
 */
#ifndef FL_PS_STORE_DENSE_H
#define FL_PS_STORE_DENSE_H

#include "conf/conf.h"
#include "exec/scope.h"
#include "ir/program.h"
#include "ps/msg/codec.h"

typedef struct fl_dense fl_dense;

/* Its first values are those that the scope has for its persistent variables.
   All is borrowed for the call. */
FL_MUST_CHECK
fl_status fl_dense_new(fl_dense **out, const fl_block *update, fl_scope *scope,
                       const fl_conf *conf);
void fl_dense_free(fl_dense *d); /* NULL is fine */

const char *fl_dense_name(const fl_dense *d);
uint64_t fl_dense_len(const fl_dense *d);
uint64_t fl_dense_bytes(fl_dense *d); /* values and state */

/* step is the job's global step, for schedules. Returns after the update. After
   an error in its midst (memory, check_nan_inf) the block may be half updated. A
   gradient in f32 is used where it lies. */
FL_MUST_CHECK
fl_status fl_dense_push(fl_dense *d, fl_codec codec, const void *grad,
                        uint64_t step);
void fl_dense_pull(fl_dense *d, fl_codec codec, void *out);
void fl_dense_assign(fl_dense *d, fl_codec codec, const void *values);

/* Gives every persistent variable of the block: values, state, rates. Borrowed for
   the call; ends with the first error of fn. */
FL_MUST_CHECK
fl_status fl_dense_each(fl_dense *d,
                        fl_status (*fn)(void *arg, const char *name,
                                        const fl_tensor *value),
                        void *arg);

/* Of values and state, less that of their first values: 0 for a block that is
   as it was born, so that a server that does not use it adds nothing. */
uint64_t fl_dense_hash(fl_dense *d);

#endif
