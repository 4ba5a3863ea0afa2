/* harness.h - one operator, one of its cases, no executor.
 *
 * A trial is a case made real: a program of one operator (and its gradient),
 * and inputs drawn from the text of the case. A call is one run of it: working
 * copies of the inputs, outputs in memory of exactly their size, full of dirt
 * before the run. Owner thread only.
 */
#ifndef FL_TESTS_OPS_HARNESS_H
#define FL_TESTS_OPS_HARNESS_H

#include "base/vec.h"
#include "ir/program.h"

#define CALL_SLOTS_MAX (3 * FL_OP_SLOTS_MAX)

typedef struct trial {
    const fl_op *op;
    const fl_op_case *test_case;
    fl_dtype real; /* what f32 of the case stands for: f32 or f64 */
    fl_program *program;
    fl_op_node *node, *grad_node; /* grad_node: NULL without a gradient */
    fl_arena mem;
    fl_targs in[FL_OP_SLOTS_MAX]; /* as drawn; no call changes them */
    void *keep;
    void (*keep_free)(void *keep);
    fl_comm *comm;
    uint64_t n_allocs; /* that the last run on one thread made */
} trial;

/* How the shapes are known while the program is built. */
typedef enum build_kind {
    BUILD_KNOWN,  /* all of them */
    BUILD_UNKNOWN /* the first dimension of slot 0 and of ragged inputs is -1 */
} build_kind;

FL_MUST_CHECK
fl_status trial_init(trial *t, const fl_op *op, size_t index, fl_dtype real,
                     build_kind kind);
void trial_release(trial *t);

/* Ends what the operator keeps between steps. */
void trial_forget(trial *t);

/* How one call is made. */
typedef struct how {
    int nth;         /* shares, each on its own thread; 0 means 1 */
    unsigned dirt;   /* byte that fills outputs before the run */
    bool in_place;   /* output 0 lies where input 0 lies */
    bool over_out;   /* back: input 0's gradient lies where output 0 lies */
    bool apart;      /* new state lies apart from the old one */
    uint64_t fail;   /* the k-th allocation of the run fails; 0: none */
    bool blind;      /* back: inputs that are not in back_uses hold dirt */
    int only_in;     /* back: only this input's gradient, 1 + its number */
    int only_out;    /* back: only this output's gradient comes, 1 + number */
    bool zero_other; /* with only_out: the others come as zeros */
} how;

typedef struct block {
    void *data;
    size_t bytes;
} block;

typedef struct call {
    fl_targs in[CALL_SLOTS_MAX], out[CALL_SLOTS_MAX];
    fl_arena mem;
    FL_VEC(block) blocks;
    fl_workspace workspace;
} call;

void call_release(call *c);

/* Infers, allocates, runs. On failure the call is released. */
FL_MUST_CHECK
fl_status trial_forward(trial *t, const how *h, call *out);

/* The gradient operator after `forward`; output gradients are drawn. */
FL_MUST_CHECK
fl_status trial_backward(trial *t, const call *forward, const how *h,
                         call *out);

/* Is this input one whose gradient is asked for, and this output one whose
   gradient comes? Counted over all entries of all slots. */
bool trial_wants(const trial *t, int slot, int i);
bool trial_gives(const trial *t, int slot, int i);
int trial_n_wanted(const trial *t);
int trial_n_given(const trial *t);

/* Element i of the gradient that comes for an output entry. */
double drawn_gradient(int slot, int entry, int64_t i);

/* Element i of a tensor of any type, and back. */
double value_at(const fl_tensor *t, int64_t i);
void value_set(fl_tensor *t, int64_t i, double v);

/* False when bytes, shape, rows or offsets of two outputs differ. */
bool same_bits(const fl_tensor *a, const fl_tensor *b);

/* Rows + values as a dense [height, ...] array of doubles; dense tensors are
   copied. Freed with fl_free. */
double *densified(const fl_tensor *t, const fl_shape *shape);

#endif
