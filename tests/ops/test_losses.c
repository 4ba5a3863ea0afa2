/* test_losses.c - losses and normalising beyond what the sweep sees: numbers
 * worked out by hand, and what is said of wrong settings, shapes, types and
 * labels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "sweep/trial.h"
#include "ops/ops.h"
#include "ops/sampler.h"

static void put(fl_tensor *t, int64_t i, double v)
{
    if (t->dtype == FL_DTYPE_I64)
        ((int64_t *)t->data)[i] = (int64_t)v;
    else
        fl_value_set(t, i, v);
}

/* --- refused -------------------------------------------------------------- */

/* A number that is put into an input before the run. */
typedef struct poke {
    int slot, at;
    double value;
} poke;

typedef struct refused {
    const char *op, *in[FL_CASE_ARGS_MAX], *attrs;
    poke poke; /* 0: nothing is changed, infer refuses */
    const char *words;
} refused;

static const refused wrong[] = {
    { .op = "log_loss",
      .in = { "f32[3,1] below=1", "f32[2,1] below=1" },
      .words = "Predicted (in.Predicted.0: f32[3,1]) and Labels (in.Labels.0: "
               "f32[2,1]) must have the same shape" },
    { .op = "log_loss",
      .in = { "f32[3,1]", "f32[3,1]" },
      .attrs = "{epsilon=-1}",
      .words = "epsilon=-1 is not 0 or above" },
    { .op = "log_loss",
      .in = { "i64[3,1]", "i64[3,1]" },
      .words = "Predicted (in.Predicted.0: i64[3,1]) must be f32 or f64" },
    { .op = "log_loss",
      .in = { "f32[3,1] below=1", "f32[3,1] below=1" },
      .poke = { 1, 2, 1.5 },
      .words = "Labels: 1.5 at place 2 is not in [0, 1]" },
    { .op = "log_loss",
      .in = { "f32[3,1] below=1", "f32[3,1] below=1" },
      .poke = { 1, 1, NAN },
      .words = "Labels: nan at place 1" },
    { .op = "hinge_loss",
      .in = { "f32[3,1] below=1", "f32[3,1] below=1" },
      .poke = { 1, 0, -1 },
      .words = "Labels: -1 at place 0 is not in [0, 1]" },
    { .op = "huber_loss",
      .in = { "f32[3,1]", "f64[3,1]" },
      .words = "have different types" },
    { .op = "huber_loss",
      .in = { "f32[3,1]", "f32[3,1]" },
      .attrs = "{delta=-0.5}",
      .words = "delta=-0.5" },
    { .op = "margin_rank_loss",
      .in = { "f32[3,1]", "f32[3,1]", "f32[3,2]" },
      .words = "Label (in.Label.0: f32[3,2])" },
    { .op = "margin_rank_loss",
      .in = { "f32[3,1]", "f32[3,1]", "f32[3,1] below=1" },
      .poke = { 2, 1, 2 },
      .words = "Label: 2 at place 1 is not in [-1, 1]" },
    { .op = "rank_loss",
      .in = { "f32[3,1] below=1", "f32[3,1]", "f32[3,1]" },
      .poke = { 0, 1, -1 },
      .words = "Label: -1 at place 1 is not in [0, 1]" },
    { .op = "modified_huber_loss",
      .in = { "f32[3,1]", "f32[3,1] below=1" },
      .poke = { 1, 2, 2 },
      .words = "Y: 2 at place 2 is not in [0, 1]" },
    { .op = "minus",
      .in = { "f32[3,1]", "f32[3,2]" },
      .words = "Y (in.Y.0: f32[3,2]) must have the same shape" },
    { .op = "squared_l2_distance",
      .in = { "f32[3,2]", "f32[2,2]" },
      .words = "but Y may have one row" },
    { .op = "center_loss",
      .in = { "f32[3,2]", "i64[2,1]", "f32[4,2]", "f32[1]" },
      .attrs = "{cluster_num=4}",
      .words = "one class for each row of X" },
    { .op = "center_loss",
      .in = { "f32[3,2]", "i64[3,1]", "f32[4,3]", "f32[1]" },
      .attrs = "{cluster_num=4}",
      .words = "must be [cluster_num, columns of X]" },
    { .op = "center_loss",
      .in = { "f32[3,2]", "i64[3,1]", "f32[4,2]", "f32[2]" },
      .attrs = "{cluster_num=4}",
      .words = "CenterUpdateRate (in.CenterUpdateRate.0: f32[2]) must be one" },
    { .op = "center_loss",
      .in = { "f32[3,2]", "i64[3,1] below=4", "f32[4,2]", "f32[1]" },
      .attrs = "{cluster_num=4}",
      .poke = { 1, 1, 4 },
      .words = "4" },
    { .op = "sample_logits",
      .in = { "f32[3,5]", "i64[3,1]" },
      .attrs = "{num_samples=6}",
      .words = "num_samples=6 is not in 1..5" },
    { .op = "sample_logits",
      .in = { "f32[3,5]", "i64[2,1]" },
      .words = "a matrix with the rows of Logits" },
    { .op = "sample_logits",
      .in = { "f32[3,5]", "i64[3,1]" },
      .attrs = "{num_samples=2, use_customized_samples=true}",
      .words = "with use_customized_samples=true" },
    { .op = "sample_logits",
      .in = { "f32[3,5]", "i64[3,1]", "i32[3,3]", "f32[3,3]" },
      .attrs = "{num_samples=2, use_customized_samples=true}",
      .words = "must be i64" },
    { .op = "bilinear_tensor_product",
      .in = { "f32[3,2]", "f32[2,2]", "f32[1,2,2]" },
      .words = "a matrix with the rows of X" },
    { .op = "bilinear_tensor_product",
      .in = { "f32[3,2]", "f32[3,4]", "f32[1,2,3]" },
      .words = "must be [size, columns of X, columns of Y]" },
    { .op = "bilinear_tensor_product",
      .in = { "f32[3,2]", "f32[3,4]", "f32[5,2,4]", "f32[5]" },
      .words = "must be [1, size]" },
    { .op = "row_conv",
      .in = { "f32[3,2]", "f32[2,2]" },
      .words =
          "must have offsets and two dimensions, or no offsets and three" },
    { .op = "row_conv",
      .in = { "f32[3,2] lod=[0,3]", "f32[2,3]" },
      .words = "two dimensions and the columns of X" },
    { .op = "filter_by_instag",
      .in = { "f32[3]", "i64[3,1] lod=[0,1,2,3]", "i64[1]" },
      .words = "must have two dimensions or more" },
    { .op = "filter_by_instag",
      .in = { "f32[3,2]", "i64[3,1] lod=[0,1,3]", "i64[1]" },
      .poke = { 2, 0, 1 },
      .words = "has 3 entries" },
    { .op = "sequence_erase",
      .in = { "i64[3,2] lod=[0,3]" },
      .words = "must be [n,1], an id a row" },
    { .op = "precision_recall",
      .in = { "f32[3,1]", "i64[3,1]", "i64[2,1]" },
      .attrs = "{class_number=2}",
      .words = "Labels (in.Labels.0: i64[2,1]) must be [n,1]" },
    { .op = "precision_recall",
      .in = { "f32[3,1]", "i64[3,1]", "i64[3,1]" },
      .words = "class_number=0 is not in 1.." },
    { .op = "precision_recall",
      .in = { "f32[3,1]", "i64[3,1]", "i64[3,1]", "f32[3,1]", "f32[3,4]" },
      .attrs = "{class_number=2}",
      .words = "must be [class_number,4], class_number=2" },
    { .op = "precision_recall",
      .in = { "f32[3,1]", "i64[3,1] below=2", "i64[3,1] below=2" },
      .attrs = "{class_number=2}",
      .poke = { 1, 1, 2 },
      .words = "Indices" },
    { .op = "positive_negative_pair",
      .in = { "f32[3,2]", "f32[3,1]", "i64[3,1]" },
      .attrs = "{column=2}",
      .words = "a column 2" },
    { .op = "positive_negative_pair",
      .in = { "f32[3,2]", "f32[3,1]", "i64[2,1]" },
      .words = "must be [n,1] with the rows of Score" },
    { .op = "positive_negative_pair",
      .in = { "f32[3,2]", "f32[3,1]", "i64[3,1]", "f32[1]" },
      .words = "the three sums go together" },
    { .op = "bce_loss",
      .in = { "f32[3,1] below=1", "f32[3,1]" },
      .poke = { 0, 1, 1.5 },
      .words = "X: 1.5 at place 1 is not in [0, 1]" },
    { .op = "linear_chain_crf",
      .in = { "f32[3,2,2]", "f32[4,2]", "i64[3,1] lod=[0,3]" },
      .words = "[rows, tags] with offsets, or [n, steps, tags] with Length" },
    { .op = "linear_chain_crf",
      .in = { "f32[3,2] lod=[0,3]", "f32[3,2]", "i64[3,1] lod=[0,3]" },
      .words = "must be [tags + 2, tags]" },
    { .op = "linear_chain_crf",
      .in = { "f32[3,2] lod=[0,3]", "f32[4,2]", "i64[2,1] lod=[0,2]" },
      .words = "a tag for each row of Emission" },
    { .op = "linear_chain_crf",
      .in = { "f32[2,3,2]", "f32[4,2]", "i64[2,3]", "i64[3]" },
      .words = "must have a length for each entry of Emission" },
    { .op = "linear_chain_crf",
      .in = { "f32[2,3,2]", "f32[4,2]", "i64[2,3] below=2", "i64[2] below=3" },
      .poke = { 3, 1, 4 },
      .words = "Length: 4 at place 1 is not in 0..3, the padded rows" },
    { .op = "linear_chain_crf",
      .in = { "f32[3,2] lod=[0,3]", "f32[4,2]", "i64[3,1] lod=[0,3] below=2" },
      .poke = { 1, 0, 1e30 },
      .words = "the likelihood of sequence 0 is not finite" },
    { .op = "chunk_eval",
      .in = { "i64[3,1] lod=[0,3]", "i64[3,1] lod=[0,3]" },
      .attrs = "{chunk_scheme=BIO}",
      .words = "chunk_scheme=BIO is not IOB, IOE, IOBES or plain" },
    { .op = "chunk_eval",
      .in = { "i64[3,1] lod=[0,3]", "i64[2,1] lod=[0,2]" },
      .words = "must have the same shape" },
    { .op = "chunk_eval",
      .in = { "i64[3,1] lod=[0,3] below=2", "i64[3,1] lod=[0,3] below=2" },
      .poke = { 1, 2, 3 },
      .words = "Label: 3 at place 2 is not in 0..2" },
    { .op = "edit_distance",
      .in = { "i64[3,2] lod=[0,3]", "i64[3,1] lod=[0,3]" },
      .words = "must be [n,1] with offsets, or [n,steps] with lengths" },
    { .op = "edit_distance",
      .in = { "i64[3,2]", "i64[3,2]", "i64[3]" },
      .words = "HypsLength and RefsLength go together" },
    { .op = "edit_distance",
      .in = { "i64[3,1] lod=[0,3]", "i64[3,1] lod=[0,2,3]" },
      .poke = { 0, 0, 1 },
      .words = "Hyps has 1 sequences, and Refs another number" },
    { .op = "edit_distance",
      .in = { "i64[3,1] lod=[0,3]", "i64[0,1] lod=[0,0]" },
      .attrs = "{normalized=true}",
      .poke = { 0, 0, 1 },
      .words = "sequence 0 is empty" },
    { .op = "allclose",
      .in = { "f32[3,1]", "f32[3,2]" },
      .words = "must have the same shape" },
    { .op = "roll",
      .in = { "f32[3,1]" },
      .attrs = "{shifts=[1], dims=[0,1]}",
      .words = "there are 1 shifts and 2 dims" },
    { .op = "roll",
      .in = { "f32[3,1]" },
      .attrs = "{shifts=[1], dims=[2]}",
      .words = "has no axis 2" },
    { .op = "addmm",
      .in = { "f32[2,3]", "f32[4,5]", "f32[5,3]" },
      .words = "is not of its shape" },
    { .op = "add_position_encoding",
      .in = { "f32[2,3]" },
      .words = "must have offsets and two dimensions, or three" },
    { .op = "add_position_encoding",
      .in = { "f32[2,3,5]" },
      .words = "whose number is even" },
    { .op = "smooth_l1_loss",
      .in = { "f32[3,2]", "f32[3,2]" },
      .attrs = "{sigma=0}",
      .words = "sigma=0 is not above 0" },
    { .op = "smooth_l1_loss",
      .in = { "f32[3,2]", "f32[3,2]", "f32[3,1]" },
      .words = "InsideWeight (in.InsideWeight.0: f32[3,1]) must have the shape "
               "of X" },
    { .op = "kldiv_loss",
      .in = { "f32[3,2]", "f32[3,2]" },
      .attrs = "{reduction=median}",
      .words = "reduction 'median' is not none, mean, batchmean or sum" },
    { .op = "bpr_loss",
      .in = { "f32[3,1]", "i64[3,1] below=1" },
      .words = "two classes or more" },
    { .op = "bpr_loss",
      .in = { "f32[3,2]", "f32[3,1]" },
      .words = "Label (in.Label.0: f32[3,1]) must be i64, u64 or i32" },
    { .op = "bpr_loss",
      .in = { "f32[3,2]", "i64[3,1] below=2" },
      .poke = { 1, 1, 2 },
      .words = "Label: class 2 at place 1 is not in 0..1" },
    { .op = "cross_entropy",
      .in = { "f32[3,2]", "i64[2] below=2" },
      .words = "dimension 1 must be 1 or left out" },
    { .op = "cross_entropy",
      .in = { "f32[3,2]", "f32[3,1]" },
      .attrs = "{soft_label=true}",
      .words = "dimension 1 must be the number of classes" },
    { .op = "cross_entropy",
      .in = { "f32[3,2]", "i64[3] below=2" },
      .poke = { 1, 2, -1 },
      .words = "Label: class -1 at place 2 is not in 0..1" },
    { .op = "cos_sim",
      .in = { "f32[3,2]", "f32[2,2]" },
      .words = "Y (in.Y.0: f32[2,2]) must have the same shape" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[5,2]" },
      .attrs = "{num_total_classes=4, num_neg_samples=2}",
      .words =
          "Weight (in.Weight.0: f32[5,2]) must be [num_total_classes, width" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[4,2]" },
      .attrs = "{num_total_classes=4, num_neg_samples=0}",
      .words = "num_neg_samples=0 is not in 1..100000" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[4,2]" },
      .attrs = "{num_total_classes=4, num_neg_samples=2, sampler=3}",
      .words = "sampler=3 is not 0 (uniform), 1 (log-uniform) or 2 (custom)" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[4,2]" },
      .attrs = "{num_total_classes=4, num_neg_samples=2, sampler=2}",
      .words = "CustomDistProbs (left out)" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[4,2]" },
      .attrs =
          "{num_total_classes=4, num_neg_samples=2, custom_neg_classes=[1]}",
      .words = "custom_neg_classes has 1 classes, num_neg_samples is 2" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[4,2]" },
      .attrs =
          "{num_total_classes=4, num_neg_samples=1, custom_neg_classes=[4]}",
      .words = "class 4 at place 0, which is not in 0..3" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[4,2]" },
      .attrs = "{num_total_classes=4, num_neg_samples=1}",
      .poke = { 0, 2, 4 },
      .words = "Label: class 4 at place 2 is not in 0..3" },
    { .op = "nce",
      .in = { "i64[3,1] below=2", "f32[2] below=1", "i64[2] below=1",
              "f32[2] below=1", "f32[3,2]", "f32[2,2]" },
      .attrs = "{num_total_classes=2, num_neg_samples=100, sampler=2}",
      .poke = { 2, 0, 7 },
      .words = "CustomDistAlias: class 7 is not in 0..1" },
    { .op = "nce",
      .in = { "i64[3,1] below=4", "", "", "", "f32[3,2]", "f32[3,3,2]", "", "",
              "i64[3,3] below=4" },
      .attrs = "{num_total_classes=4, num_neg_samples=2}",
      .poke = { 8, 0, 4 },
      .words = "Samples: id 4 at place 0 is not in 0..3" },
    { .op = "batch_norm",
      .in = { "f32[3,2]", "f32[2]", "f32[2]", "f32[3]", "f32[2]" },
      .words = "Mean (in.Mean.0: f32[3]) must have one number for each channel "
               "of X" },
    { .op = "batch_norm",
      .in = { "f32[3,2]", "f32[2]", "f32[2]", "f32[2]", "f32[2]" },
      .attrs = "{data_layout=CHWN}",
      .words = "data_layout 'CHWN' is neither NCHW nor NHWC" },
    { .op = "batch_norm",
      .in = { "f32[3,2]", "f32[2]", "f32[2]", "f32[2]", "f32[2]" },
      .attrs = "{momentum=1.5}",
      .words = "momentum=1.5 is not in [0, 1]" },
    { .op = "batch_norm",
      .in = { "f32[3]", "f32[2]", "f32[2]", "f32[2]", "f32[2]" },
      .words = "must have 2 to 5 dimensions" },
    { .op = "layer_norm",
      .in = { "f32[3,2]", "f32[3]" },
      .words = "Scale (in.Scale.0: f32[3]) must have 2 numbers" },
    { .op = "layer_norm",
      .in = { "f32[3,2]" },
      .attrs = "{begin_norm_axis=2}",
      .words = "begin_norm_axis=2 is not in 1..1" },
    { .op = "data_norm",
      .in = { "f32[3,4]", "f32[4]", "f32[4]", "f32[4]" },
      .attrs = "{epsilon=0.01}",
      .words = "epsilon=0.01 is not between 0 and 0.001" },
    { .op = "data_norm",
      .in = { "f32[3,4]", "f32[4]", "f32[4]", "f32[4]" },
      .attrs = "{slot_dim=3}",
      .words = "slot_dim=3 does not divide the columns of X" },
    { .op = "data_norm",
      .in = { "f32[3,4]", "f32[4]", "f32[4]", "f32[4]", "f32[4]" },
      .attrs = "{enable_scale_and_shift=true}",
      .words =
          "scale_w and bias are there when enable_scale_and_shift is true" },
    { .op = "data_norm",
      .in = { "f32[3,4]", "f32[4] below=9", "f32[4]", "f32[4] below=9" },
      .poke = { 1, 1, 0 },
      .words = "BatchSize 0 and BatchSquareSum" },
    { .op = "data_norm_add",
      .in = { "f32[4]", "f32[4]", "f32[4]", "f32[4]", "f32[4]", "f32[3]" },
      .words = "SquareSum (in.SquareSum.0: f32[3]) must have the same shape" },
};

/* An operator with one case. */
typedef struct tried {
    fl_op op;
    fl_op_case c;
} tried;

static void try_with(tried *t, const char *op, const char *const *in,
                     const char *attrs)
{
    t->op = *fl_ops.find(op);
    t->c = (fl_op_case){ .attrs = attrs };
    memcpy(t->c.in, in, sizeof(t->c.in));
    t->op.cases = &t->c;
    t->op.n_cases = 1;
}

static void expect_refused(const refused *r)
{
    bool runs = r->poke.slot || r->poke.at || r->poke.value != 0;
    fl_status st;
    tried with;
    fl_op_trial t;
    fl_op_call c;

    try_with(&with, r->op, r->in, r->attrs);
    st = fl_op_trial_init(&t, &with.op, 0, FL_DTYPE_F32, FL_BUILD_KNOWN);
    if (!st && runs) {
        put(t.in[r->poke.slot].t[0], r->poke.at, r->poke.value);
        st = fl_op_trial_forward(&t, &(fl_how){ 0 }, &c);
        if (!st)
            fl_op_call_release(&c);
        fl_op_trial_release(&t);
    } else if (!st || runs) {
        fail_msg("%s, '%s': %s", r->op, r->words,
                 st ? fl_last_error() : "it is taken");
    }
    if (!st || !strstr(fl_last_error(), r->words))
        fail_msg("%s: '%s' is not in '%s'", r->op, r->words, fl_last_error());
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(wrong); i++)
        expect_refused(&wrong[i]);
}

/* --- by hand -------------------------------------------------------------- */

#define VALUES_MAX 8

typedef struct known {
    const char *op, *in[FL_CASE_ARGS_MAX], *attrs;
    double values[4][VALUES_MAX]; /* by slot */
    int out;
    double want[VALUES_MAX];
} known;

static const known by_hand[] = {
    { .op = "hinge_loss",
      .in = { "f32[4,1]", "f32[4,1]" },
      .values = { { 0.5, -0.5, 2, -3 }, { 1, 1, 1, 0 } },
      .want = { 0.5, 1.5, 0, 0 } },
    { .op = "huber_loss",
      .in = { "f32[4]", "f32[4]" },
      .attrs = "{delta=2}",
      .values = { { 0, 0, 0, 5 }, { 1, 2, 4, 1 } },
      .out = 1,
      .want = { 0.5, 2, 6, 6 } },
    { .op = "margin_rank_loss",
      .in = { "f32[4]", "f32[4]", "f32[4]" },
      .attrs = "{margin=0.5}",
      .values = { { 1, 1, 0, 0 }, { 0.75, 0, 1, 1 }, { 1, 1, 1, -1 } },
      .out = 1,
      .want = { 0.25, 0, 1.5, 0 } },
    { .op = "rank_loss",
      .in = { "f32[2]", "f32[2]", "f32[2]" },
      .values = { { 1, 0 }, { 100, -100 }, { 100, 100 } },
      .want = { 0.6931471805599453, 0 } },
    { .op = "smooth_l1_loss",
      .in = { "f32[2,2]", "f32[2,2]", "f32[2,2]", "f32[2,2]" },
      .attrs = "{sigma=2}",
      .values = { { 1, 0, 0, 3 },
                  { 0, 0.125, 0, 0 },
                  { 1, 1, 1, 0.5 },
                  { 1, 2, 1, 1 } },
      .out = 1,
      .want = { 0.875 + 2 * 4 * 0.125 * 0.125 / 2, 1.375 } },
    { .op = "kldiv_loss",
      .in = { "f32[2,2]", "f32[2,2]" },
      .attrs = "{reduction=batchmean}",
      .values = { { 0, 1, 2, 3 }, { 1, 1, 0, -1 } },
      .want = { -0.5 } },
    { .op = "kldiv_loss",
      .in = { "f32[2,2]", "f32[2,2]" },
      .attrs = "{reduction=sum}",
      .values = { { 0, 1, 2, 3 }, { 1, 1, 0, -1 } },
      .want = { -1 } },
    { .op = "bpr_loss",
      .in = { "f32[2,3]", "i64[2] below=3" },
      .values = { { 0, 0, 0, 200, 0, 0 }, { 1, 0 } },
      .want = { 0.6931471805599453, 0 } },
    { .op = "cos_sim",
      .in = { "f32[3,2]", "f32[1,2]" },
      .values = { { 3, 4, 0, 0, -4, -3 }, { 0, 2 } },
      .want = { 0.8, 0, -0.6 } },
    { .op = "layer_norm",
      .in = { "f32[1,2]" },
      .attrs = "{epsilon=0}",
      .values = { { 1, 3 } },
      .want = { -1, 1 } },
};

static void expect_known(const known *k)
{
    const fl_tensor *out;
    tried with;
    fl_op_trial t;
    fl_op_call c;

    try_with(&with, k->op, k->in, k->attrs);
    if (fl_op_trial_init(&t, &with.op, 0, FL_DTYPE_F64, FL_BUILD_KNOWN))
        fail_msg("%s: %s", k->op, fl_last_error());
    for (int s = 0; s < 4; s++)
        for (int64_t i = 0; t.in[s].n && i < fl_tensor_numel(t.in[s].t[0]); i++)
            put(t.in[s].t[0], i, k->values[s][i]);
    if (fl_op_trial_forward(&t, &(fl_how){ 0 }, &c))
        fail_msg("%s: %s", k->op, fl_last_error());
    out = c.out[k->out].t[0];
    for (int64_t i = 0; i < fl_tensor_numel(out); i++)
        if (!(fabs(fl_value_at(out, i) - k->want[i]) < 1e-12))
            fail_msg("%s: number %d is %.17g, not %.17g", k->op, (int)i,
                     fl_value_at(out, i), k->want[i]);
    fl_op_call_release(&c);
    fl_op_trial_release(&t);
}

static void losses_are_what_a_hand_works_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(by_hand); i++)
        expect_known(&by_hand[i]);
}

/* --- noise ---------------------------------------------------------------- */

#define DRAWS 20000
#define CLASSES 5

static fl_tensor view(fl_dtype dtype, void *data)
{
    return (
        fl_tensor){ .dtype = dtype, .shape = { 1, { CLASSES } }, .data = data };
}

/* Within five deviations of what the sampler says. */
static void expect_frequencies(const fl_sampler *s)
{
    int count[CLASSES] = { 0 };

    for (size_t i = 0; i < DRAWS; i++) {
        int64_t k, again;

        assert_int_equal(fl_sampler_draw(s, 11, i / 8, i % 8, &k), FL_OK);
        assert_int_equal(fl_sampler_draw(s, 11, i / 8, i % 8, &again), FL_OK);
        assert_int_equal(k, again);
        count[k]++;
    }
    for (int k = 0; k < CLASSES; k++) {
        double p = fl_sampler_prob(s, k);

        /* The last class is never drawn log-uniformly. */
        if (s->kind == FL_SAMPLER_LOG_UNIFORM && k == CLASSES - 1)
            p = 0;
        assert_true(fabs(count[k] - p * DRAWS) <=
                    5 * sqrt(DRAWS * p * (1 - p)));
    }
}

static void noise_follows_its_distribution(void **state)
{
    /* Place 1 stands for class 0, place 2 for 2 and 3, place 3 for 3 and 0. */
    float probs[] = { 0.5f, 0, 0.1f, 0.2f, 0.2f };
    float own[] = { 1, 0, 0.5f, 0.5f, 1 };
    int64_t alias[] = { 0, 0, 3, 0, 4 };
    fl_tensor t[] = { view(FL_DTYPE_F32, probs), view(FL_DTYPE_I64, alias),
                      view(FL_DTYPE_F32, own) };

    (void)state;
    expect_frequencies(&(fl_sampler){ FL_SAMPLER_UNIFORM, CLASSES, 0, 0, 0 });
    expect_frequencies(
        &(fl_sampler){ FL_SAMPLER_LOG_UNIFORM, CLASSES, 0, 0, 0 });
    expect_frequencies(
        &(fl_sampler){ FL_SAMPLER_CUSTOM, CLASSES, &t[0], &t[1], &t[2] });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(losses_are_what_a_hand_works_out),
        cmocka_unit_test(noise_follows_its_distribution),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
