/* trial.h - one operator, one of its cases, no executor.
 *
 * A trial is a case made real: a program of one operator (and its gradient),
 * and inputs drawn from the text of the case. A call is one run of it: working
 * copies of the inputs, outputs in memory of exactly their size, full of dirt
 * before the run. Owner thread only.
 */
#ifndef FL_SWEEP_TRIAL_H
#define FL_SWEEP_TRIAL_H

#include "base/vec.h"
#include "ir/program.h"

#define FL_CALL_SLOTS_MAX (3 * FL_OP_SLOTS_MAX)

typedef struct fl_op_trial {
    const fl_op *op;
    const fl_op_case *test_case;
    fl_dtype real; /* what f32 of the case stands for: f32 or f64 */
    fl_program *program;
    fl_op_node *node, *grad_node; /* grad_node: NULL without a gradient */
    fl_arena mem;
    fl_targs in[FL_OP_SLOTS_MAX]; /* as drawn; no call changes them */
    void *keep;
    void (*keep_free)(void *keep);
    fl_comm *comm;     /* NULL: none, see fl_op_trial_use_comm */
    uint64_t n_allocs; /* that the last run on one thread made */
} fl_op_trial;

/* How the shapes are known while the program is built. */
typedef enum fl_build_kind {
    FL_BUILD_KNOWN, /* all of them */
    FL_BUILD_UNKNOWN /* the first dimension of slot 0 and of ragged inputs is -1 */
} fl_build_kind;

/* Where the tables of later trials are, for operators that ask for some; one
   per trial. NULL, as in the beginning: there are none. */
typedef fl_comm *(*fl_op_trial_comm_fn)(void);
void fl_op_trial_use_comm(fl_op_trial_comm_fn make);

FL_MUST_CHECK
fl_status fl_op_trial_init(fl_op_trial *t, const fl_op *op, size_t index,
                           fl_dtype real, fl_build_kind kind);
void fl_op_trial_release(fl_op_trial *t);

/* Ends what the operator keeps between steps. */
void fl_op_trial_forget(fl_op_trial *t);

/* How one call is made. */
typedef struct fl_how {
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
} fl_how;

typedef struct fl_op_call_block {
    void *data;
    size_t bytes;
} fl_op_call_block;

typedef struct fl_op_call {
    fl_targs in[FL_CALL_SLOTS_MAX], out[FL_CALL_SLOTS_MAX];
    fl_arena mem;
    FL_VEC(fl_op_call_block) blocks;
    fl_workspace workspace;
} fl_op_call;

void fl_op_call_release(fl_op_call *c);

/* Infers, allocates, runs. On failure the call is released. */
FL_MUST_CHECK
fl_status fl_op_trial_forward(fl_op_trial *t, const fl_how *h, fl_op_call *out);

/* The gradient operator after `forward`; output gradients are drawn. */
FL_MUST_CHECK
fl_status fl_op_trial_backward(fl_op_trial *t, const fl_op_call *forward,
                               const fl_how *h, fl_op_call *out);

/* Is this input one whose gradient is asked for, and this output one whose
   gradient comes? Counted over all entries of all slots. */
bool fl_op_trial_wants(const fl_op_trial *t, int slot, int i);
bool fl_op_trial_gives(const fl_op_trial *t, int slot, int i);
int fl_op_trial_n_wanted(const fl_op_trial *t);
int fl_op_trial_n_given(const fl_op_trial *t);

/* Element i of the gradient that comes for an output entry. */
double fl_drawn_gradient(int slot, int entry, int64_t i);

/* Element i of a tensor of any type, and back. */
double fl_value_at(const fl_tensor *t, int64_t i);
void fl_value_set(fl_tensor *t, int64_t i, double v);

/* False when bytes, shape, rows or offsets of two outputs differ. */
bool fl_same_bits(const fl_tensor *a, const fl_tensor *b);

/* Rows + values as a dense [height, ...] array of doubles; dense tensors are
   copied. Freed with fl_free. */
double *fl_densified(const fl_tensor *t, const fl_shape *shape);

#endif
