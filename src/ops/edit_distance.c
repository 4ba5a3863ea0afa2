/* edit_distance.c - how many ids are to be put in, taken out or replaced until
 * one sequence is another. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/padded.h"

enum { HYPS, REFS, HYPS_LENGTH, REFS_LENGTH };
enum { SEQUENCE_NUM, OUT };
enum { NORMALIZED };

static fl_status check_side(const fl_infer *c, int slot, int length)
{
    const fl_shape *s = &fl_infer_in(c, slot)->shape;
    bool is_padded = fl_infer_in(c, length);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, slot));
    if (s->rank != 2 || (!is_padded && s->dim[1] >= 0 && s->dim[1] != 1))
        FL_FAIL(FL_ERR_INVAL,
                "op edit_distance: %s must be [n,1] with offsets, or [n,steps] "
                "with lengths",
                fl_infer_text(c, slot, buf));
    return fl_infer_runs(c, slot, length);
}

static fl_status edit_distance_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, HYPS);
    int64_t n = -1;

    if (!fl_infer_in(c, HYPS_LENGTH) != !fl_infer_in(c, REFS_LENGTH))
        FL_FAIL(FL_ERR_INVAL,
                "op edit_distance: HypsLength and RefsLength go together");
    FL_TRY(check_side(c, HYPS, HYPS_LENGTH));
    FL_TRY(check_side(c, REFS, REFS_LENGTH));
    if (c->running)
        n = (int64_t)fl_runs_of(x, fl_infer_in(c, HYPS_LENGTH)).n;
    if (c->running &&
        fl_runs_of(fl_infer_in(c, REFS), fl_infer_in(c, REFS_LENGTH)).n !=
            (size_t)n)
        FL_FAIL(FL_ERR_INVAL,
                "op edit_distance: Hyps has %" PRId64 " sequences, and Refs "
                "another number",
                n);
    fl_infer_dense(c, SEQUENCE_NUM, FL_DTYPE_I64, 1, (int64_t[]){ 1 });
    fl_infer_dense(c, OUT, FL_DTYPE_F32, 2, (int64_t[]){ n, 1 });
    return FL_OK;
}

static int64_t least(int64_t a, int64_t b, int64_t c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

/* row[k] is the distance of the ids so far of a from the first k of b. */
static int64_t distance(const fl_tensor *a, fl_span in_a, const fl_tensor *b,
                        fl_span in_b, int64_t *row)
{
    size_t n = in_b.hi - in_b.lo;

    for (size_t k = 0; k <= n; k++)
        row[k] = (int64_t)k;
    for (size_t i = in_a.lo; i < in_a.hi; i++) {
        int64_t before = row[0]++;

        for (size_t k = 0; k < n; k++) {
            bool differ =
                fl_id_at(a, (int64_t)i) != fl_id_at(b, (int64_t)(in_b.lo + k));
            int64_t here = least(row[k + 1] + 1, row[k] + 1, before + differ);

            before = row[k + 1];
            row[k + 1] = here;
        }
    }
    return row[n];
}

static fl_status distance_at(const fl_op_ctx *c, const fl_runs *hyps,
                             const fl_runs *refs, size_t i, int64_t *row)
{
    fl_span r = fl_runs_at(refs, i);
    int64_t d = distance(fl_in_t(c, HYPS), fl_runs_at(hyps, i),
                         fl_in_t(c, REFS), r, row);

    if (fl_bool(c, NORMALIZED) && r.lo == r.hi)
        FL_FAIL(FL_ERR_INVAL,
                "Refs: sequence %zu is empty, and the distance is to be "
                "divided by its length",
                i);
    ((float *)fl_out(c, OUT))[i] =
        (float)d / (float)(fl_bool(c, NORMALIZED) ? r.hi - r.lo : 1);
    return FL_OK;
}

static fl_status edit_distance_run(fl_op_ctx *c)
{
    fl_runs hyps = fl_runs_of(fl_in_t(c, HYPS), fl_in_t(c, HYPS_LENGTH));
    fl_runs refs = fl_runs_of(fl_in_t(c, REFS), fl_in_t(c, REFS_LENGTH));
    int64_t *row = fl_scratch(
        c, ((size_t)fl_tensor_numel(fl_in_t(c, REFS)) + 1) * sizeof(*row));

    if (!row)
        return FL_NOMEM(c);
    FL_TRY(fl_runs_check(&hyps, c, HYPS_LENGTH));
    FL_TRY(fl_runs_check(&refs, c, REFS_LENGTH));
    *(int64_t *)fl_out(c, SEQUENCE_NUM) = (int64_t)hyps.n;
    for (size_t i = 0; i < hyps.n; i++)
        FL_TRY(distance_at(c, &hyps, &refs, i, row));
    return FL_OK;
}

static const fl_op_case edit_distance_cases[] = {
    { .in = { "i64[7,1] lod=[0,3,7] below=3",
              "i64[6,1] lod=[0,4,6] below=3" } },
    { .in = { "i64[3,1] lod=[0,0,3] below=3", "i64[4,1] lod=[0,2,4] below=3" },
      .attrs = "{normalized=true}" },
    { .in = { "i64[2,4] below=3", "i64[2,3] below=3", "i64[2] is=[4,0]",
              "i64[2,1] is=[1,3]" },
      .attrs = "{normalized=true}" },
    { .in = { "i64[0,1] lod=[0]", "i64[0,1] lod=[0]" } },
};

#define IDS FL_SLOT_NO_GRAD
#define LENGTHS (FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD)

const fl_op fl_op_edit_distance = {
    .name = "edit_distance",
    .doc = "Out = for each sequence the least number of ids that are put into, "
           "taken out of or replaced in Hyps until it is Refs, divided by the "
           "length of Refs with normalized; SequenceNum = how many there are. "
           "Sequences have offsets, or are padded and have HypsLength and "
           "RefsLength",
    .in = { { "Hyps", IDS },
            { "Refs", IDS },
            { "HypsLength", LENGTHS },
            { "RefsLength", LENGTHS } },
    .out = { { "SequenceNum", FL_SLOT_NO_GRAD }, { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "normalized", FL_ATTR_BOOL, "false" } },
    .infer = edit_distance_infer,
    .run = edit_distance_run,
    .cases = edit_distance_cases,
    .n_cases = FL_LEN(edit_distance_cases),
};
