/* sequence_erase.c - sequences without some of their ids. */
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };
enum { TOKENS };

static bool is_erased(const fl_op_node *n, int64_t id)
{
    size_t len;
    const int64_t *tokens = fl_attr_ints(n, TOKENS, &len);

    for (size_t i = 0; i < len; i++)
        if (tokens[i] == id)
            return true;
    return false;
}

/* The ids are read here: they say how long the sequences of Out are. Levels
   above the innermost stay. */
static void infer_lengths(const fl_infer *c, int64_t *off)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_seqs q = fl_seqs_of(x);

    for (size_t s = 0; s < q.n; s++) {
        off[s + 1] = off[s];
        for (int64_t i = q.off[s]; i < q.off[s + 1]; i++)
            off[s + 1] += !is_erased(c->node, fl_id_at(x, i));
    }
}

static fl_status sequence_erase_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    void *off = NULL;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, X));
    FL_TRY(fl_infer_seqs(c, X));
    if (x->shape.rank != 2 || (x->shape.dim[1] >= 0 && x->shape.dim[1] != 1))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_erase: %s must be [n,1], an id a row",
                fl_infer_text(c, X, buf));
    fl_tensor_like(out, x);
    out->shape.dim[0] = -1;
    if (!c->running)
        return FL_OK;
    FL_TRY(
        fl_infer_workspace(c, (fl_seqs_of(x).n + 1) * sizeof(int64_t), &off));
    *(int64_t *)off = 0;
    infer_lengths(c, off);
    out->lod[out->n_lod - 1] = off;
    out->shape.dim[0] = ((int64_t *)off)[fl_seqs_of(x).n];
    return FL_OK;
}

static fl_status sequence_erase_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    size_t size = fl_dtype_bytes(x->dtype);
    const char *from = x->data;
    char *to = fl_out(c, OUT);

    for (int64_t i = 0; i < x->shape.dim[0]; i++, from += size)
        if (!is_erased(c->node, fl_id_at(x, i))) {
            memcpy(to, from, size);
            to += size;
        }
    return FL_OK;
}

static const fl_op_case sequence_erase_cases[] = {
    { .in = { "i64[10,1] lod=[0,3,6,10] below=5" }, .attrs = "{tokens=[2,3]}" },
    { .in = { "i32[10,1] lod=[0,4,4,10] below=3" }, .attrs = "{tokens=[1]}" },
    { .in = { "i64[5,1] lod=[0,2] lod=[0,2,5] below=4" },
      .attrs = "{tokens=[0,1,2,3]}" },
    { .in = { "i64[4,1] lod=[0,4] below=4" } },
    { .in = { "i64[0,1] lod=[0,0]" }, .attrs = "{tokens=[7]}" },
};

const fl_op fl_op_sequence_erase = {
    .name = "sequence_erase",
    .doc = "Out = the sequences of X without the ids in tokens",
    .in = { { "X", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "tokens", FL_ATTR_INTS, "[]" } },
    .infer = sequence_erase_infer,
    .run = sequence_erase_run,
    .cases = sequence_erase_cases,
    .n_cases = FL_LEN(sequence_erase_cases),
};
