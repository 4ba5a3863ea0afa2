/* ctc_align.c - the ids of each sequence without blanks, and without those that
 * are the same as the one before.
 *
 * How many are left decides the offsets of Output, so infer reads the ids.
 * Padded sequences stay as long as they are: what is left is followed by
 * padding_value, and OutputLength says how much it is.
 */
#include "ops/helpers.h"
#include "ops/padded.h"
#include "ops/sequences.h"

enum { INPUT, INPUT_LENGTH };
enum { OUTPUT, OUTPUT_LENGTH };
enum { BLANK, MERGE_REPEATED, PADDING_VALUE };

/* Whether the id at row i stays; rows of its sequence begin at `first`. */
static bool stays(const fl_op_node *n, const fl_tensor *x, int64_t first,
                  int64_t i)
{
    int64_t id = fl_id_at(x, i);

    if (id == fl_attr_int(n, BLANK))
        return false;
    return !fl_attr_bool(n, MERGE_REPEATED) || i == first ||
           fl_id_at(x, i - 1) != id;
}

/* --- infer ---------------------------------------------------------------- */

static fl_status infer_ragged(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    char buf[FL_SLOT_TEXT_MAX];
    int64_t *off;
    fl_seqs q;

    if (x->shape.rank != 2 || (x->shape.dim[1] >= 0 && x->shape.dim[1] != 1))
        FL_FAIL(FL_ERR_INVAL, "op ctc_align: %s must be [n,1], an id a row",
                fl_infer_text(c, INPUT, buf));
    if (c->running)
        FL_TRY(fl_infer_one_level(c, INPUT));
    fl_infer_dense(c, OUTPUT, x->dtype, 2, (int64_t[]){ -1, 1 });
    q = c->running ? fl_seqs_of(x) : (fl_seqs){ NULL, 0 };
    FL_TRY(fl_infer_new_seqs(c, OUTPUT, q.n, &off));
    for (size_t s = 0; s < q.n; s++) {
        off[s + 1] = off[s];
        for (int64_t i = q.off[s]; i < q.off[s + 1]; i++)
            off[s + 1] += stays(c->node, x, q.off[s], i);
    }
    if (c->running)
        fl_infer_out(c, OUTPUT)->shape.dim[0] = off[q.n];
    return FL_OK;
}

static fl_status infer_padded(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_runs(c, INPUT, INPUT_LENGTH));
    if (x->shape.rank != 2 || !fl_infer_out(c, OUTPUT_LENGTH))
        FL_FAIL(FL_ERR_INVAL,
                "op ctc_align: %s must be [n,steps], and OutputLength be there",
                fl_infer_text(c, INPUT, buf));
    fl_infer_dense(c, OUTPUT, x->dtype, 2, x->shape.dim);
    fl_infer_dense(c, OUTPUT_LENGTH, x->dtype, 2,
                   (int64_t[]){ x->shape.dim[0], 1 });
    return FL_OK;
}

static fl_status ctc_align_infer(fl_infer *c)
{
    FL_TRY(fl_infer_ids(c, INPUT));
    if (fl_infer_in(c, INPUT_LENGTH))
        return infer_padded(c);
    FL_TRY(infer_ragged(c));
    fl_infer_dense(c, OUTPUT_LENGTH, fl_infer_in(c, INPUT)->dtype, 2,
                   (int64_t[]){ 0, 1 });
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

/* Ids of rows [lo, hi) that stay, from place `at` of Output on; gives the place
   behind them. */
static int64_t put(const fl_op_ctx *c, int64_t lo, int64_t hi, int64_t at)
{
    const fl_tensor *x = fl_in_t(c, INPUT);

    for (int64_t i = lo; i < hi; i++)
        if (stays(c->node, x, lo, i))
            fl_id_put(fl_out_t(c, OUTPUT), at++, fl_id_at(x, i));
    return at;
}

static void run_ragged(const fl_op_ctx *c)
{
    fl_seqs q = fl_seqs_of(fl_in_t(c, INPUT));
    int64_t at = 0;

    for (size_t s = 0; s < q.n; s++)
        at = put(c, q.off[s], q.off[s + 1], at);
}

static fl_status run_padded(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    fl_runs r = fl_runs_of(x, fl_in_t(c, INPUT_LENGTH));
    int64_t width = x->shape.dim[1];

    FL_TRY(fl_runs_check(&r, c, INPUT_LENGTH));
    for (size_t s = 0; s < r.n; s++) {
        fl_span rows = fl_runs_at(&r, s);
        int64_t first = (int64_t)s * width;
        int64_t end = put(c, (int64_t)rows.lo, (int64_t)rows.hi, first);

        fl_id_put(fl_out_t(c, OUTPUT_LENGTH), (int64_t)s, end - first);
        for (; end < first + width; end++)
            fl_id_put(fl_out_t(c, OUTPUT), end, fl_int(c, PADDING_VALUE));
    }
    return FL_OK;
}

static fl_status ctc_align_run(fl_op_ctx *c)
{
    if (fl_in_t(c, INPUT_LENGTH))
        return run_padded(c);
    run_ragged(c);
    return FL_OK;
}

static const fl_op_case ctc_align_cases[] = {
    { .in = { "i64[10,1] lod=[0,3,6,10] below=3" } },
    { .in = { "i32[10,1] lod=[0,4,4,10] below=3" },
      .attrs = "{blank=1, merge_repeated=false}" },
    { .in = { "i64[2,5] below=3", "i64[2,1] is=[5,2]" },
      .attrs = "{padding_value=7}" },
    { .in = { "i64[0,1] lod=[0,0]" } },
    { .in = { "i64[0,3]", "i64[0,1]" } },
};

const fl_op fl_op_ctc_align = {
    .name = "ctc_align",
    .doc = "Output = the sequences of Input without blank, and, with "
           "merge_repeated, without ids that follow themselves. Sequences have "
           "offsets, or are padded and have InputLength; then padding_value "
           "follows them, and OutputLength = what is left of each",
    .in = { { "Input", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "InputLength", FL_SLOT_NO_GRAD | FL_OP_SLOT_OPTIONAL } },
    .out = { { "Output", FL_SLOT_NO_GRAD },
             { "OutputLength", FL_SLOT_NO_GRAD | FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "blank", FL_ATTR_INT, "0" },
               { "merge_repeated", FL_ATTR_BOOL, "true" },
               { "padding_value", FL_ATTR_INT, "0" } },
    .infer = ctc_align_infer,
    .run = ctc_align_run,
    .cases = ctc_align_cases,
    .n_cases = FL_LEN(ctc_align_cases),
};
