/* read.c - batches that come from outside of the program: a reader, one that
 * reads ahead of it, and the operator that gives a batch to the program.
 *
 * None of them runs. A batch is in memory already when a run begins, so whoever
 * starts the run takes it from the reader and feeds it, without a copy and for
 * each replica its own; the run leaves these operators out. */
#include "ops/helpers.h"

enum { OUT };

/* A reader is a name; it holds nothing. */
static fl_status reader_infer(fl_infer *c)
{
    fl_infer_dense(c, OUT, FL_DTYPE_U8, 1, (int64_t[]){ 0 });
    return FL_OK;
}

static fl_status read_infer(fl_infer *c)
{
    for (int i = 0; i < fl_infer_n_out(c, OUT); i++) {
        const fl_var *v = c->node->out[OUT].vars[i];

        if (!v)
            FL_FAIL(FL_ERR_INVAL,
                    "op read: entry %d of Out names no variable that exists; "
                    "declare it before the operator",
                    i);
        fl_tensor_like(fl_infer_out_at(c, OUT, i), &v->meta);
    }
    return FL_OK;
}

static const fl_op_case create_py_reader_cases[] = {
    { .in = { "u8[0]" },
      .attrs = "{shape_concat=[-1,4,-1,1], ranks=[2,2], lod_levels=[0,0], "
               "dtypes=[5,3], need_check_feed=[0,0]}" },
};

const fl_op fl_op_create_py_reader = {
    .name = "create_py_reader",
    .doc = "Out names the reader of the batches in blocking_queue, which have "
           "tensors of these shapes, one behind the other, ranks, types and "
           "levels. A run leaves it out",
    .in = { { "blocking_queue", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "shape_concat", FL_ATTR_INTS, "[]" },
               { "lod_levels", FL_ATTR_INTS, "[]" },
               { "dtypes", FL_ATTR_INTS, "[]" },
               { "need_check_feed", FL_ATTR_INTS, "[]" },
               { "ranks", FL_ATTR_INTS, "[]" },
               { "use_data_config", FL_ATTR_BOOL, "true" } },
    .flags = FL_OP_FED,
    .infer = reader_infer,
    .cases = create_py_reader_cases,
    .n_cases = FL_LEN(create_py_reader_cases),
};

static const fl_op_case create_double_buffer_reader_cases[] = {
    { .in = { "u8[0]" }, .attrs = "{place=CPU}" },
};

const fl_op fl_op_create_double_buffer_reader = {
    .name = "create_double_buffer_reader",
    .doc = "Out names the reader UnderlyingReader, which reads ahead of a "
           "run. A run leaves it out",
    .in = { { "UnderlyingReader", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "place", FL_ATTR_STRING, "AUTO" } },
    .flags = FL_OP_FED,
    .infer = reader_infer,
    .cases = create_double_buffer_reader_cases,
    .n_cases = FL_LEN(create_double_buffer_reader_cases),
};

static const fl_op_case read_cases[] = {
    { .in = { "u8[0]", "f32[3,4];i64[3,1]" } },
    { .in = { "u8[0]", "f32[0,4]" }, .attrs = "{drop_last=false}" },
};

const fl_op fl_op_read = {
    .name = "read",
    .doc = "Out is the next batch of Reader, as the variables are declared: "
           "what starts a run feeds it, and the run leaves the operator out. "
           "drop_last: batches that are too few for all replicas are left",
    .in = { { "Reader", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_LIST } },
    .attrs = { { "throw_eof_exp", FL_ATTR_BOOL, "true" },
               { "drop_last", FL_ATTR_BOOL, "true" } },
    .flags = FL_OP_FED,
    .infer = read_infer,
    .cases = read_cases,
    .n_cases = FL_LEN(read_cases),
};
