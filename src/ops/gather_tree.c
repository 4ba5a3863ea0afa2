/* gather_tree.c - the ways of a beam search, from the ids of each step and where
 * each of them came from.
 *
 * All three are [steps, batch, beams]; a way is read from its last step back.
 */
#include <inttypes.h>

#include "ops/helpers.h"

enum { IDS, PARENTS };
enum { OUT };

static fl_status gather_tree_infer(fl_infer *c)
{
    const fl_tensor *ids = fl_infer_in(c, IDS);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, IDS));
    FL_TRY(fl_infer_same_dtype(c, IDS, PARENTS));
    if (ids->shape.rank != 3 ||
        !fl_shape_matches(&ids->shape, &fl_infer_in(c, PARENTS)->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op gather_tree: %s and %s must both be [steps, batch, beams]",
                fl_infer_text(c, IDS, a), fl_infer_text(c, PARENTS, b));
    fl_infer_dense(c, OUT, ids->dtype, 3, ids->shape.dim);
    return FL_OK;
}

/* The way that ends at place `at` of the last step. */
static fl_status walk_back(const fl_op_ctx *c, int64_t batch, int64_t at)
{
    const fl_tensor *ids = fl_in_t(c, IDS), *parents = fl_in_t(c, PARENTS);
    int64_t n_beams = ids->shape.dim[2];
    int64_t step = ids->shape.dim[1] * n_beams;
    int64_t from = at;

    for (int64_t t = ids->shape.dim[0] - 1; t >= 0; t--) {
        int64_t row = t * step + batch * n_beams;

        if (from < 0 || from >= n_beams)
            FL_FAIL(FL_ERR_INVAL,
                    "Parents: a way of row %" PRId64 " comes from beam %" PRId64
                    ", and there are %" PRId64,
                    batch, from, n_beams);
        fl_id_put(fl_out_t(c, OUT), row + at, fl_id_at(ids, row + from));
        from = fl_id_at(parents, row + from);
    }
    return FL_OK;
}

static fl_status gather_tree_run(fl_op_ctx *c)
{
    const fl_shape *s = &fl_in_t(c, IDS)->shape;

    for (int64_t batch = 0; batch < s->dim[1]; batch++)
        for (int64_t beam = 0; beam < s->dim[2]; beam++)
            FL_TRY(walk_back(c, batch, beam));
    return FL_OK;
}

static const fl_op_case gather_tree_cases[] = {
    { .in = { "i64[4,2,3] below=9", "i64[4,2,3] below=3" } },
    { .in = { "i32[2,1,5] below=9", "i32[2,1,5] below=5" } },
    { .in = { "i64[0,2,3]", "i64[0,2,3]" } },
};

const fl_op fl_op_gather_tree = {
    .name = "gather_tree",
    .doc = "Out = for each beam of the last step the ids of its way there: Ids "
           "of each step, with Parents to say which beam of the step before "
           "they follow; all are [steps, batch, beams]",
    .in = { { "Ids", FL_SLOT_NO_GRAD }, { "Parents", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .infer = gather_tree_infer,
    .run = gather_tree_run,
    .cases = gather_tree_cases,
    .n_cases = FL_LEN(gather_tree_cases),
};
