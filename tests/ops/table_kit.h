/* table_kit.h - one operator of tables with its tensors, run against a backend
 * that answers at once or later. */
#ifndef TESTS_OPS_TABLE_KIT_H
#define TESTS_OPS_TABLE_KIT_H

#include "fake_comm.h"
#include "ir/program.h"
#include "ops/ops.h"

#define DIM 3
#define TEXT_MAX 2048
#define TENSORS_MAX 10
#define SLOTS_MAX 6
#define ROOM_BYTES 512

/* A waker that counts, in place of an executor. */
typedef struct counter {
    fl_waker waker;
    int n;
} counter;

/* One operator with its tensors. */
typedef struct table_op {
    fl_program *program;
    const fl_op_node *node;
    fake_comm *fake;
    fl_comm *comm; /* what the operator sees; NULL: nothing */
    counter waker;
    fl_arena scratch;
    void *keep;
    void (*keep_free)(void *keep);
    int n_tensors;
    fl_tensor tensors[TENSORS_MAX];
    _Alignas(64) char room[TENSORS_MAX][ROOM_BYTES]; /* of outputs */
    fl_tensor *in_ptr[SLOTS_MAX][TENSORS_MAX], *out_ptr[SLOTS_MAX][TENSORS_MAX];
    fl_targs in[SLOTS_MAX], out[SLOTS_MAX];
} table_op;

int table_op_set_up(void **state);
int table_op_tear_down(void **state);

fl_status table_op_parse(const char *op, fl_program **out);

/* Takes the operator of that text; its tensors follow. */
void table_op_begin(table_op *f, const char *op);

/* One more input of a slot. */
void table_op_give(table_op *f, int slot, fl_tensor t);

/* Infers and runs, as an executor would. */
fl_status table_op_run(table_op *f);

/* Runs alone, as an executor does when a wait is over. */
fl_status table_op_call(table_op *f, bool resumed);

void expect_said(const char *part);

fl_tensor ids_of(const int64_t *ids, int64_t n);
fl_tensor list_of(const int64_t *ids, const int64_t *offsets, int64_t n_seq);

#endif
