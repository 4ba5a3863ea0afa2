/* test_layers_shapes.c - layers about shapes and places, against numbers made
 * by hand, and what is said when something does not fit. */
#include "api.h"
#include "../make.h"

#define DIMS(...) ((int64_t[]){ __VA_ARGS__ })

/* x [2,3] = 1..6, ids [3,1] = 2 0 1, picks [2,2] = 0 2 1 1, all fed. */
typedef struct rig {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_var *x, *ids, *picks;
} rig;

static const float x_values[] = { 1, 2, 3, 4, 5, 6 };
static const int64_t ids_values[] = { 2, 0, 1 };
static const int64_t picks_values[] = { 0, 2, 1, 1 };

static fl_var *ints(fl_ctx *c, const char *name, int64_t width)
{
    return fl_layers_data(c, name, FL_DTYPE_I64, 2, DIMS(-1, width), 0);
}

static rig open_rig(void)
{
    rig r = { .ctx = make_ctx() };

    r.exe = make_executor(r.ctx);
    r.x = data2(r.ctx, "x", 3);
    r.ids = ints(r.ctx, "ids", 1);
    r.picks = ints(r.ctx, "picks", 2);
    return r;
}

static void close_rig(rig *r)
{
    fl_executor_free(r->exe);
    fl_ctx_free(r->ctx);
}

static fl_status run(rig *r, const fl_var *v, int64_t rows, fl_tensor *got)
{
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x_values, 2, DIMS(rows, 3)) },
        { "ids", fl_tensor_of(FL_DTYPE_I64, ids_values, 2, DIMS(3, 1)) },
        { "picks", fl_tensor_of(FL_DTYPE_I64, picks_values, 2, DIMS(2, 2)) },
    };
    const char *name = fl_var_name(v);

    return fl_run(r->exe, fl_default_main_program(r->ctx),
                  &FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                           .fetches = &name, .n_fetches = 1, .out = got));
}

static double value_at(const fl_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        return ((const float *)t->data)[i];
    case FL_DTYPE_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return (double)((const int64_t *)t->data)[i];
    }
}

static int64_t count(int rank, const int64_t *dims)
{
    int64_t n = 1;

    for (int i = 0; i < rank; i++)
        n *= dims[i];
    return n;
}

static void expect(rig *r, const fl_var *v, int rank, const int64_t *dims,
                   const double *want)
{
    fl_tensor got;

    if (!v || run(r, v, 2, &got))
        fail_msg("%s", fl_last_error());
    assert_int_equal(got.shape.rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(got.shape.dim[i], dims[i]);
    for (int64_t i = 0; i < count(rank, dims); i++)
        assert_true(value_at(&got, i) == want[i]);
}

#define EXPECT(r, v, dims, ...)                                                \
    expect(r, v, sizeof(dims) / sizeof(int64_t), dims,                         \
           (double[]){ __VA_ARGS__ })

static void axes_move_come_and_go(void **state)
{
    rig r = open_rig();
    fl_var *col = fl_layers_slice(r.x, 1, DIMS(1), DIMS(-1), DIMS(9));
    fl_var *both[] = { r.x, r.x };

    (void)state;
    EXPECT(&r, fl_layers_transpose(r.x, 2, DIMS(1, 0)), DIMS(3, 2), 1, 4, 2, 5,
           3, 6);
    EXPECT(&r, col, DIMS(2, 1), 3, 6);
    EXPECT(&r, fl_layers_squeeze(col, 1, DIMS(1)), DIMS(2), 3, 6);
    EXPECT(&r, fl_layers_unsqueeze(r.x, 2, DIMS(0, -1)), DIMS(1, 2, 3, 1), 1, 2,
           3, 4, 5, 6);
    EXPECT(&r, fl_layers_flatten(r.x, 0), DIMS(1, 6), 1, 2, 3, 4, 5, 6);
    EXPECT(&r, fl_layers_stack(both, 2, 1), DIMS(2, 2, 3), 1, 2, 3, 1, 2, 3, 4,
           5, 6, 4, 5, 6);
    EXPECT(&r, fl_layers_expand(col, 2, DIMS(1, 2)), DIMS(2, 2), 3, 3, 6, 6);
    EXPECT(&r, fl_layers_expand_as(col, r.x), DIMS(2, 3), 3, 3, 3, 6, 6, 6);
    close_rig(&r);
}

static void places_are_taken_and_put(void **state)
{
    rig r = open_rig();
    fl_var *t = fl_layers_transpose(r.x, 2, DIMS(1, 0));
    fl_var *zeros = fl_layers_fill_any_like(t, 0);
    fl_var *first = fl_layers_assign_value(r.ctx, FL_DTYPE_I64, 2, DIMS(3, 1),
                                           (double[]){ 0, 0, 2 });

    (void)state;
    EXPECT(&r, fl_layers_gather(t, r.ids), DIMS(3, 2), 3, 6, 1, 4, 2, 5);
    EXPECT(&r, fl_layers_gather_nd(t, r.ids), DIMS(3, 2), 3, 6, 1, 4, 2, 5);
    EXPECT(&r, fl_layers_index_sample(r.x, r.picks), DIMS(2, 2), 1, 3, 5, 5);
    EXPECT(&r, fl_layers_scatter(zeros, first, t, true), DIMS(3, 2), 2, 5, 0, 0,
           3, 6);
    EXPECT(&r, fl_layers_scatter(zeros, first, t, false), DIMS(3, 2), 3, 9, 0,
           0, 3, 6);
    EXPECT(&r, fl_layers_one_hot(r.ids, 3), DIMS(3, 3), 0, 0, 1, 1, 0, 0, 0, 1,
           0);
    EXPECT(&r, fl_layers_one_hot_v2(r.picks, 3), DIMS(2, 2, 3), 1, 0, 0, 0, 0,
           1, 0, 1, 0, 0, 1, 0);
    close_rig(&r);
}

static void the_largest_the_smallest_and_the_order_are_found(void **state)
{
    rig r = open_rig();
    fl_var *places = NULL;
    fl_var *sorted = fl_layers_argsort(r.x, 1, true, &places);

    (void)state;
    EXPECT(&r, fl_layers_arg_max(r.x, 1), DIMS(2), 2, 2);
    EXPECT(&r, fl_layers_arg_min(r.x, 0), DIMS(3), 0, 0, 0);
    EXPECT(&r, sorted, DIMS(2, 3), 3, 2, 1, 6, 5, 4);
    EXPECT(&r, places, DIMS(2, 3), 2, 1, 0, 2, 1, 0);
    close_rig(&r);
}

static void conditions_choose_and_tell_their_places(void **state)
{
    rig r = open_rig();
    fl_var *c = fl_layers_cast(r.picks, FL_DTYPE_BOOL);
    fl_var *zeros = fl_layers_fill_zeros_like(r.picks);

    (void)state;
    EXPECT(&r, fl_layers_where_index(c), DIMS(3, 2), 0, 1, 1, 0, 1, 1);
    EXPECT(&r, fl_layers_where(c, zeros, r.picks), DIMS(2, 2), 0, 0, 0, 0);
    EXPECT(&r, fl_layers_where_index(zeros), DIMS(0, 2), 0);
    close_rig(&r);
}

static void numbers_come_from_nothing(void **state)
{
    rig r = open_rig();
    fl_var *one = fl_layers_fill_constant(r.ctx, FL_DTYPE_I64, 1, DIMS(1), 1);
    fl_var *ten = fl_layers_fill_constant(r.ctx, FL_DTYPE_I64, 1, DIMS(1), 10);
    fl_var *four = fl_layers_fill_constant(r.ctx, FL_DTYPE_I64, 1, DIMS(1), 4);

    (void)state;
    EXPECT(&r, fl_layers_range(one, ten, four), DIMS(3), 1, 5, 9);
    EXPECT(&r, fl_layers_seed(r.ctx, 7), DIMS(1), 7);
    EXPECT(&r, fl_layers_increment(one, 2), DIMS(1), 3);
    close_rig(&r);
}

/* x@GRAD would be rows + values; here they come from a lookup's gradient. */
static void rows_and_values_are_merged_and_taken_apart(void **state)
{
    rig r = open_rig();
    fl_var *w[1], *g[1];
    fl_var *e =
        fl_layers_embedding(r.ids, 5, 2, .is_sparse = true,
                            .param = { .name = "emb", .init = "constant(1)" });
    fl_var *loss = fl_layers_reduce_sum(fl_layers_gather(e, r.ids));

    (void)state;
    w[0] = fl_block_var(fl_program_block(fl_default_main_program(r.ctx), 0),
                        "emb");
    assert_ok(fl_gradients_with(g, FL_OPTIONS(fl_gradients_args,
                                              .targets = &loss, .n_targets = 1,
                                              .inputs = w, .n_inputs = 1)));
    assert_ok(fl_run(r.exe, fl_default_startup_program(r.ctx), NULL));
    EXPECT(&r,
           fl_layers_get_tensor_from_selected_rows(
               fl_layers_merge_selected_rows(g[0])),
           DIMS(3, 2), 1, 1, 1, 1, 1, 1);
    close_rig(&r);
}

/* --- shapes that are values ----------------------------------------------- */

static void a_constant_has_as_many_rows_as_the_batch(void **state)
{
    rig r = open_rig();
    fl_var *rows =
        fl_layers_slice(fl_layers_shape(r.x), 1, DIMS(0), DIMS(0), DIMS(1));
    fl_var *v = fl_layers_fill_constant_dims(
        r.ctx, FL_DTYPE_F32, 2, (fl_dim[]){ { .var = rows }, { .size = 1 } },
        0.5);
    fl_tensor got;

    (void)state;
    EXPECT(&r, v, DIMS(2, 1), 0.5, 0.5);
    assert_int_equal(fl_var_shape(v).dim[0], -1);
    assert_int_equal(fl_var_shape(v).dim[1], 1);
    assert_ok(run(&r, v, 0, &got));
    assert_int_equal(got.shape.dim[0], 0);
    close_rig(&r);
}

static void shapes_and_limits_come_from_variables(void **state)
{
    rig r = open_rig();
    fl_var *shape = fl_layers_shape(r.x);
    fl_var *rows = fl_layers_slice(shape, 1, DIMS(0), DIMS(0), DIMS(1));
    fl_var *two = fl_layers_fill_constant(r.ctx, FL_DTYPE_I64, 1, DIMS(1), 2);

    (void)state;
    EXPECT(&r, shape, DIMS(2), 2, 3);
    EXPECT(&r,
           fl_layers_reshape_dims(r.x, 2,
                                  (fl_dim[]){ { .size = 3 }, { .var = rows } }),
           DIMS(3, 2), 1, 2, 3, 4, 5, 6);
    EXPECT(&r,
           fl_layers_slice_dims(r.x, 1, DIMS(1), (fl_dim[]){ { .size = 1 } },
                                (fl_dim[]){ { .var = two } }),
           DIMS(2, 1), 2, 5);
    close_rig(&r);
}

static void a_shape_that_does_not_fit_is_named(void **state)
{
    rig r = open_rig();
    fl_var *minus =
        fl_layers_fill_constant(r.ctx, FL_DTYPE_I64, 1, DIMS(1), -3);
    fl_var *v = fl_layers_fill_constant_dims(r.ctx, FL_DTYPE_F32, 1,
                                             (fl_dim[]){ { .var = minus } }, 1);
    fl_var *w = fl_layers_reshape_dims(r.x, 1, (fl_dim[]){ { .var = minus } });
    fl_tensor got;

    (void)state;
    assert_int_equal(run(&r, v, 2, &got), FL_ERR_INVAL);
    assert_said("fill_constant");
    assert_said(fl_var_name(minus));
    assert_said("gives -3 for dimension 0; it must be at least 0");
    assert_int_equal(run(&r, w, 2, &got), FL_ERR_INVAL);
    assert_said("gives -3 for dimension 0; it must be at least -1");
    close_rig(&r);
}

/* --- errors --------------------------------------------------------------- */

#define REFUSED(v, words)                                                      \
    do {                                                                       \
        assert_null(v);                                                        \
        assert_said(words);                                                    \
    } while (0)

static void what_does_not_fit_is_refused_while_building(void **state)
{
    rig r = open_rig();
    fl_var *unlike[] = { r.x, r.picks };

    (void)state;
    REFUSED(fl_layers_transpose(r.x, 2, DIMS(0, 0)), "each of the 2 axes of X");
    REFUSED(fl_layers_squeeze(r.x, 1, DIMS(1)), "has length 3 at axis 1");
    REFUSED(fl_layers_squeeze(r.x, 1, DIMS(4)), "has no axis 4");
    REFUSED(fl_layers_unsqueeze(r.x, 1, DIMS(4)), "no place for an axis 4");
    REFUSED(fl_layers_flatten(r.x, 3), "cannot be cut before axis 3");
    REFUSED(fl_layers_stack(unlike, 2, 0), "are not alike");
    REFUSED(fl_layers_stack(&r.x, 1, 4), "no place for an axis 4");
    REFUSED(fl_layers_expand(r.x, 1, DIMS(2)), "expand_times has 1 entries");
    REFUSED(fl_layers_expand_as(r.x, r.picks), "does not give the shape of");
    REFUSED(fl_layers_slice(r.x, 1, DIMS(5), DIMS(0), DIMS(1)),
            "has no axis 5");
    REFUSED(fl_layers_gather(r.x, r.picks), "must be [n] or [n,1]");
    REFUSED(fl_layers_gather(r.x, r.x), "must be i64, u64 or i32");
    REFUSED(fl_layers_gather_nd(r.x, fl_layers_cast(r.x, FL_DTYPE_I64)),
            "must be 0 to 2 long");
    REFUSED(fl_layers_index_sample(r.ids, r.x), "must be i64, u64 or i32");
    REFUSED(fl_layers_one_hot(r.picks, 3), "the last of which is 1 long");
    REFUSED(fl_layers_one_hot(r.ids, 0), "depth is 0, below 1");
    REFUSED(fl_layers_arg_max(r.x, 2), "no axis 2");
    REFUSED(fl_layers_argsort(r.x, 2, false, NULL), "has no axis 2");
    REFUSED(fl_layers_range(r.x, r.x, r.x), "must hold one number");
    REFUSED(fl_layers_where(r.x, r.x, r.x), "must be bool");
    REFUSED(fl_layers_increment(r.x, 1), "must hold one number");
    REFUSED(fl_layers_fill_any_like(r.ids, 1e19),
            "1e+19 is no number of type i64");
    REFUSED(fl_layers_merge_selected_rows(r.x), "is dense, not rows + values");
    REFUSED(fl_layers_tdm_child(r.ids, r.picks, 2, NULL),
            "must be [nodes, 3 + child_nums]");
    close_rig(&r);
}

static void a_place_that_is_not_there_is_named(void **state)
{
    rig r = open_rig();
    fl_var *rows = fl_layers_gather(r.x, r.ids);
    fl_var *depth = fl_layers_one_hot(r.ids, 2);
    fl_var *pick = fl_layers_index_sample(
        fl_layers_slice(r.x, 1, DIMS(1), DIMS(0), DIMS(2)), r.picks);
    fl_tensor got;

    (void)state;
    assert_int_equal(run(&r, rows, 2, &got), FL_ERR_INVAL);
    assert_said("Index: 2 at place 0 is not in 0..1, axis 0 of X");
    assert_int_equal(run(&r, depth, 2, &got), FL_ERR_INVAL);
    assert_said("X: id 2 at place 0 is not in 0..1");
    assert_int_equal(run(&r, pick, 2, &got), FL_ERR_INVAL);
    assert_said("Index: 2 in row 0 is not in 0..1");
    close_rig(&r);
}

static void a_number_that_changed_since_building_is_named(void **state)
{
    rig r = open_rig();
    fl_program *p = fl_default_main_program(r.ctx);
    fl_tensor got;

    (void)state;
    assert_ok(fl_program_add(
        p, "op fill_constant () -> (Out=two) {shape=[1], value=2, dtype=i64}\n"
           "op fill_constant (ShapeTensorList=[two,two]) -> (Out=v) "
           "{shape=[-1,3]}\n"));
    assert_int_equal(run(&r, fl_program_var(p, "v"), 2, &got), FL_ERR_INVAL);
    assert_said("ShapeTensorList[1] (two: i64[1]) is 2, but the program was "
                "built with 3 in its place");
    close_rig(&r);
}

static void refuse(rig *r, const char *line, const char *why)
{
    assert_int_not_equal(fl_program_add(fl_default_main_program(r->ctx), line),
                         FL_OK);
    assert_said(why);
}

static void tensors_that_stand_for_attributes_are_checked(void **state)
{
    rig r = open_rig();

    (void)state;
    refuse(&r, "op fill_constant (ShapeTensor=x) -> (Out=a)",
           "must be i64, u64 or i32");
    refuse(&r, "op fill_constant (ShapeTensor=ids) -> (Out=a)",
           "must be a list of at most 9 integers");
    refuse(&r, "op fill_constant (ShapeTensorList=[picks]) -> (Out=a)",
           "must hold one integer");
    refuse(&r, "op fill_constant (ValueTensor=x) -> (Out=a) {shape=[1]}",
           "must hold one number of type f32");
    refuse(&r, "op clip (X=x, Min=ids) -> (Out=a)", "of type f32 or f64");
    refuse(&r, "op concat (X=x, AxisTensor=x) -> (Out=a)",
           "must hold one integer");
    refuse(&r, "op split (X=x, SectionsTensorList=[x]) -> (Out=a)",
           "must hold one integer");
    refuse(&r, "op top_k (X=x, K=picks) -> (Out=a, Indices=b)",
           "must hold one integer");
    refuse(&r,
           "op slice (Input=x) -> (Out=a) {axes=[0,1], starts=[0], ends=[1]}",
           "2 axes of Input (x: f32[-1,3]) are cut, but there are 1 starts");
    refuse(&r,
           "op slice (Input=x) -> (Out=a) {axes=[1], starts=[0], ends=[2], "
           "decrease_axis=[1]}",
           "is not one long after the cut, but 2");
    refuse(&r, "op assign_value () -> (Out=a) {shape=[2], fp32_values=[1]}",
           "fp32_values has 1 numbers, which do not fill shape [2]");
    refuse(&r, "op seed () -> (Out=a) {seed=4294967296}",
           "does not fit in i32");
    refuse(&r, "op arg_max (X=x) -> (Out=a) {dtype=float32}",
           "is not int32 or int64");
    close_rig(&r);
}

/* --- trees ---------------------------------------------------------------- */

/* [item, layer, parent, child, child]; 3, 4, 5 and 6 are items. */
static const double tree[] = {
    0, 0, 0, 1, 2, /**/ 0, 1, 0, 3, 4, /**/ 0, 1, 0, 5, 6, /**/
    3, 2, 1, 0, 0, /**/ 4, 2, 1, 0, 0, /**/ 5, 2, 2, 0, 0, /**/
    6, 2, 2, 0, 0,
};

static void children_of_a_tree_are_found(void **state)
{
    rig r = open_rig();
    fl_var *t =
        fl_layers_assign_value(r.ctx, FL_DTYPE_I64, 2, DIMS(7, 5), tree);
    fl_var *leaf = NULL;
    fl_var *child = fl_layers_tdm_child(r.ids, t, 2, &leaf);

    (void)state;
    EXPECT(&r, child, DIMS(3, 1, 2), 5, 6, 0, 0, 3, 4);
    EXPECT(&r, leaf, DIMS(3, 1, 2), 1, 1, 0, 0, 1, 1);
    close_rig(&r);
}

/* Items 2, 0 and 1; of layer 1 all three others are drawn, in some order. */
static void paths_are_sampled_with_other_nodes_of_their_layers(void **state)
{
    static const double travel[] = { 1, 3, 1, 4, 2, 0 };
    static const double nodes[] = { 1, 2, 3, 4, 5, 6 };
    rig r = open_rig();
    fl_var *t =
        fl_layers_assign_value(r.ctx, FL_DTYPE_I64, 2, DIMS(3, 2), travel);
    fl_var *l = fl_layers_assign_value(r.ctx, FL_DTYPE_I64, 1, DIMS(6), nodes);
    fl_var *labels = NULL, *mask = NULL;
    fl_var *out = fl_layers_tdm_sampler(
        r.ids, t, l, .n_layers = 2, .neg_samples_num_list = DIMS(1, 3),
        .layer_offset_lod = DIMS(0, 2, 6), .labels = &labels, .mask = &mask);

    (void)state;
    EXPECT(&r, labels, DIMS(3, 6), 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1,
           0, 0, 0);
    EXPECT(&r, mask, DIMS(3, 6), 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
           1, 1);
    EXPECT(&r, fl_layers_argsort(out, 1, false, NULL), DIMS(3, 6), 0, 0, 0, 0,
           1, 2, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
    close_rig(&r);
}

static void a_tree_that_does_not_fit_is_named(void **state)
{
    rig r = open_rig();
    fl_var *t =
        fl_layers_assign_value(r.ctx, FL_DTYPE_I64, 2, DIMS(2, 5), tree);
    fl_var *child = fl_layers_tdm_child(r.ids, t, 2, NULL);
    fl_tensor got;

    (void)state;
    assert_int_equal(run(&r, child, 2, &got), FL_ERR_INVAL);
    assert_said("X: node 2 is not in 0..1, the nodes of TreeInfo");
    REFUSED(fl_layers_tdm_sampler(r.ids, r.picks, r.ids, .n_layers = 2,
                                  .neg_samples_num_list = DIMS(1, 9),
                                  .layer_offset_lod = DIMS(0, 2, 6)),
            "9 negatives of layer 1, which has 4 nodes");
    REFUSED(fl_layers_tdm_sampler(r.ids, r.picks, r.ids, .n_layers = 2,
                                  .neg_samples_num_list = DIMS(1, 1),
                                  .layer_offset_lod = DIMS(1, 2, 6)),
            "layer_offset_lod must go from 0");
    close_rig(&r);
}

/* --- drawn orders --------------------------------------------------------- */

static void a_batch_is_shuffled_in_an_order_that_is_given_out(void **state)
{
    rig r = open_rig();
    fl_var *order = NULL;
    fl_var *t = fl_layers_transpose(r.x, 2, DIMS(1, 0));
    fl_var *s = fl_layers_shuffle_batch(t, 5, &order);

    (void)state;
    assert_non_null(s);
    /* Row i of X is row order[i] of what came out. */
    EXPECT(&r, fl_layers_gather(s, order), DIMS(3, 2), 1, 4, 2, 5, 3, 6);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_move_come_and_go),
        cmocka_unit_test(places_are_taken_and_put),
        cmocka_unit_test(the_largest_the_smallest_and_the_order_are_found),
        cmocka_unit_test(conditions_choose_and_tell_their_places),
        cmocka_unit_test(numbers_come_from_nothing),
        cmocka_unit_test(rows_and_values_are_merged_and_taken_apart),
        cmocka_unit_test(a_constant_has_as_many_rows_as_the_batch),
        cmocka_unit_test(shapes_and_limits_come_from_variables),
        cmocka_unit_test(a_shape_that_does_not_fit_is_named),
        cmocka_unit_test(what_does_not_fit_is_refused_while_building),
        cmocka_unit_test(a_place_that_is_not_there_is_named),
        cmocka_unit_test(a_number_that_changed_since_building_is_named),
        cmocka_unit_test(tensors_that_stand_for_attributes_are_checked),
        cmocka_unit_test(children_of_a_tree_are_found),
        cmocka_unit_test(paths_are_sampled_with_other_nodes_of_their_layers),
        cmocka_unit_test(a_tree_that_does_not_fit_is_named),
        cmocka_unit_test(a_batch_is_shuffled_in_an_order_that_is_given_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
