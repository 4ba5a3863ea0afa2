/* tdm_child.c - the children of nodes of a tree, and which of them are leaves.
 *
 * A row of TreeInfo is a node: [item, layer, parent, child, child, ...]; the
 * item of an inner node is 0, and so is a child that is not there.
 */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, TREE_INFO };
enum { CHILD, LEAF_MASK };
enum { CHILD_NUMS, DTYPE };

#define FIRST_CHILD 3 /* its column */

static fl_status check_tree(const fl_infer *c)
{
    const fl_shape *tree = &fl_infer_in(c, TREE_INFO)->shape;
    int64_t n = fl_int(c, CHILD_NUMS);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, X));
    FL_TRY(fl_infer_ids(c, TREE_INFO));
    if (n < 1 || tree->rank != 2 || tree->dim[1] != FIRST_CHILD + n)
        FL_FAIL(FL_ERR_INVAL,
                "op tdm_child: %s must be [nodes, 3 + child_nums], child_nums "
                "is %" PRId64,
                fl_infer_text(c, TREE_INFO, buf), n);
    return FL_OK;
}

static fl_status tdm_child_infer(fl_infer *c)
{
    fl_shape shape = fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_dtype dtype;

    FL_TRY(check_tree(c));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (dtype != FL_DTYPE_I32 && dtype != FL_DTYPE_I64)
        FL_FAIL(FL_ERR_INVAL, "op tdm_child: dtype %s is not int32 or int64",
                fl_str_attr(c, DTYPE));
    if (shape.rank == FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op tdm_child: %s has no room for an axis more",
                fl_infer_text(c, X, buf));
    shape.dim[shape.rank++] = fl_int(c, CHILD_NUMS);
    fl_infer_dense(c, CHILD, dtype, shape.rank, shape.dim);
    fl_infer_dense(c, LEAF_MASK, dtype, shape.rank, shape.dim);
    return FL_OK;
}

static fl_status check_node(int64_t id, const fl_tensor *tree, const char *what)
{
    if (id < 0 || id >= tree->shape.dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "%s %" PRId64 " is not in 0..%" PRId64
                ", the nodes of TreeInfo",
                what, id, tree->shape.dim[0] - 1);
    return FL_OK;
}

/* Node 0 is none, so it has no children. */
static fl_status give_children(fl_op_ctx *c, int64_t i)
{
    const fl_tensor *tree = fl_in_t(c, TREE_INFO);
    int64_t n = fl_int(c, CHILD_NUMS), width = FIRST_CHILD + n;
    int64_t id = fl_id_at(fl_in_t(c, X), i);

    FL_TRY(check_node(id, tree, "X: node"));
    for (int64_t k = 0; k < n; k++) {
        int64_t child = id ? fl_id_at(tree, id * width + FIRST_CHILD + k) : 0;

        FL_TRY(check_node(child, tree, "TreeInfo: child"));
        fl_id_put(fl_out_t(c, CHILD), i * n + k, child);
        fl_id_put(fl_out_t(c, LEAF_MASK), i * n + k,
                  child && fl_id_at(tree, child * width) != 0);
    }
    return FL_OK;
}

static fl_status tdm_child_run(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));

    for (size_t i = s.lo; i < s.hi; i++)
        FL_TRY(give_children(c, (int64_t)i));
    return FL_OK;
}

static const fl_op_case tdm_child_cases[] = {
    { .in = { "i64[33,1] below=6", "i32[6,5] below=6" },
      .attrs = "{child_nums=2}" },
    { .in = { "i32[4] below=6", "i64[6,6] below=6" },
      .attrs = "{child_nums=3, dtype=int64}" },
    { .in = { "i64[0,1]", "i32[6,5] below=6" }, .attrs = "{child_nums=2}" },
};

const fl_op fl_op_tdm_child = {
    .name = "tdm_child",
    .doc = "Child = the child_nums children of each node of X, 0 where there "
           "is none; LeafMask = 1 for those that are items. TreeInfo has a "
           "row [item, layer, parent, children] for each node",
    .in = { { "X", FL_SLOT_NO_GRAD }, { "TreeInfo", FL_SLOT_NO_GRAD } },
    .out = { { "Child", 0 }, { "LeafMask", 0 } },
    .attrs = { { "child_nums", FL_ATTR_INT, "0" },
               { "dtype", FL_ATTR_STRING, "int32" } },
    .flags = FL_OP_SLICED,
    .infer = tdm_child_infer,
    .run = tdm_child_run,
    .cases = tdm_child_cases,
    .n_cases = FL_LEN(tdm_child_cases),
};
