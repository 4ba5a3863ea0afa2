/* test_linear.c - building and reading programs takes work in proportion to
 * their size.
 */
#include "kit.h"

#include "pass/grad.h"
#include "pass/pass.h"
#include "../work_kit.h"

#define FEW 500

static void append(fl_block *b, const char *type, const fl_arg *in, size_t n_in,
                   const fl_arg *out, size_t n_out)
{
    fl_op_spec spec = {
        .type = type, .in = in, .n_in = n_in, .out = out, .n_out = n_out
    };

    assert_int_equal(fl_block_append(b, &spec, NULL), FL_OK);
}

/* n steps y = x w on one parameter w, and on the first y something that
   nobody reads, every tenth y fetched; at the end the mean. */
static fl_program *chain(int n)
{
    fl_program *p = fl_program_of(&fl_ops);
    fl_block *b = fl_program_main(p);
    fl_tensor x = fl_tensor_of(FL_DTYPE_F32, NULL, 2, (int64_t[]){ -1, 4 });
    fl_tensor w = fl_tensor_of(FL_DTYPE_F32, NULL, 2, (int64_t[]){ 4, 4 });
    const char *at = "x";

    assert_int_equal(fl_block_add_var(b, "x", &x, FL_VAR_DATA, NULL), FL_OK);
    assert_int_equal(fl_block_add_var(b, "w", &w, FL_VAR_PARAM, NULL), FL_OK);
    for (int i = 0; i < n; i++) {
        const char *y = fl_program_name(p, "y");

        append(b, "mul", (fl_arg[]){ { "X", at }, { "Y", "w" } }, 2,
               &(fl_arg){ "Out", y }, 1);
        append(b, "relu", &(fl_arg){ "X", "y_0" }, 1,
               &(fl_arg){ "Out", fl_program_name(p, "side") }, 1);
        if (i % 10 == 0)
            fl_program_fetch(p, y);
        at = y;
    }
    append(b, "mean", &(fl_arg){ "X", at }, 1, &(fl_arg){ "Out", "loss" }, 1);
    return p;
}

/* --- what is counted ------------------------------------------------------ */

static void build(int n)
{
    work = 0;
    fl_program_free(chain(n));
}

static void verify(int n)
{
    fl_program *p = chain(n);

    work = 0;
    assert_int_equal(fl_program_verify(p), FL_OK);
    fl_program_free(p);
}

static void print_and_parse(int n)
{
    fl_program *p = chain(n), *q;
    char *text;

    work = 0;
    text = fl_program_print(p);
    q = parse(text);
    fl_free(text);
    fl_program_free(p);
    fl_program_free(q);
}

static void clone_for_test(int n)
{
    fl_program *p = chain(n), *q;

    work = 0;
    assert_int_equal(fl_program_clone(p, FL_CLONE_FOR_TEST, &q), FL_OK);
    fl_program_free(p);
    fl_program_free(q);
}

static void prune(int n)
{
    static const char *const loss = "loss";
    fl_program *p = chain(n);

    work = 0;
    assert_int_equal(fl_program_prune(p, &loss, 1), FL_OK);
    fl_program_free(p);
}

static void differentiate(int n)
{
    fl_grad_pairs pairs = { 0 };
    fl_program *p = chain(n);
    fl_block *b = fl_program_main(p);
    fl_var *loss = fl_block_find_var(b, "loss"), *ones;
    fl_grad_spec spec = {
        .targets = &loss, .n_targets = 1, .target_grads = &ones, .sum_op = "sum"
    };

    assert_int_equal(fl_block_add_var(b, "loss@GRAD", &loss->meta, 0, &ones),
                     FL_OK);
    work = 0;
    assert_int_equal(fl_grad_append(b, &spec, &pairs), FL_OK);
    assert_int_equal(pairs.len, 1);
    fl_vec_release(&pairs);
    fl_program_free(p);
}

static void run_passes(fl_str *text, size_t most_ops)
{
    fl_pass_options options = { .optimize = true };
    fl_program *p = parse(fl_str_text(text));

    fl_str_release(text);
    work = 0;
    assert_int_equal(fl_passes_run(p, &options), FL_OK);
    assert_true(fl_program_main(p)->n_ops <= most_ops);
    fl_program_free(p);
}

/* n layers with parameters, gradients and updates, for the passes. */
static void optimise(int n)
{
    fl_str s = { 0 };

    fl_str_add(&s, "var h_0 : f32[2,2] data\nvar lr : f32[1] persist\n");
    for (int i = 0; i < n; i++)
        fl_str_addf(&s, "param w_%d : f32[2,2]\nparam b_%d : f32[2]\n", i, i);
    for (int i = 0; i < n; i++)
        fl_str_addf(&s,
                    "op mul (X=h_%d, Y=w_%d) -> (Out=m_%d)\n"
                    "op elementwise_add (X=m_%d, Y=b_%d) -> (Out=h_%d)"
                    " {axis=1}\n",
                    i, i, i, i, i, i + 1);
    for (int i = 0; i < n; i++)
        fl_str_addf(&s,
                    "op scale (X=w_%d) -> (Out=g_%d)\n"
                    "op sgd (Param=w_%d, Grad=g_%d, LearningRate=lr) -> "
                    "(ParamOut=w_%d) @optimize\n",
                    i, i, i, i, i);
    fl_str_addf(&s, "fetch h_%d\n", n);
    run_passes(&s, 3 * (size_t)n - 1);
}

/* n tables of ids, each with a lookup and its update. */
static void pull_tables(int n)
{
    fl_str s = { 0 };

    fl_str_add(&s, "var lr : f32[1] persist\n");
    for (int i = 0; i < n; i++)
        fl_str_addf(&s,
                    "var c_%d : i64[-1,1] lod=1 data\n"
                    "param w_%d : f32[-1,2] trainable table\n"
                    "op lookup_table (W=w_%d, Ids=c_%d) -> (Out=e_%d)"
                    " {is_sparse=true, is_distributed=true}\n",
                    i, i, i, i, i);
    for (int i = 0; i < n; i++)
        fl_str_addf(&s,
                    "op fill_constant () -> (Out=e_%d@GRAD)"
                    " {shape=[1,2], value=1} @backward\n"
                    "op lookup_table_grad (W=w_%d, Ids=c_%d, "
                    "Out@GRAD=e_%d@GRAD) -> (W@GRAD=w_%d@GRAD)"
                    " {is_sparse=true, is_distributed=true} @backward\n",
                    i, i, i, i, i);
    for (int i = 0; i < n; i++)
        fl_str_addf(&s,
                    "op sgd (Param=w_%d, Grad=w_%d@GRAD, LearningRate=lr)"
                    " -> (ParamOut=w_%d) @optimize\n",
                    i, i, i);
    run_passes(&s, 5 * (size_t)n);
}

/* n pairs of lookups that are pooled and joined, and their gradients: operators
   that become one stand far from each other. */
static void join_lookups(int n)
{
    fl_str s = { 0 };

    for (int i = 0; i < n; i++)
        fl_str_addf(&s,
                    "var a_%d : i64[-1,1] lod=1 data\n"
                    "var b_%d : i64[-1,1] lod=1 data\n"
                    "param w_%d : f32[9,2]\n"
                    "op lookup_table (W=w_%d, Ids=a_%d) -> (Out=e_%d)\n"
                    "op lookup_table (W=w_%d, Ids=b_%d) -> (Out=f_%d)\n"
                    "op sequence_pool (X=e_%d) -> (Out=p_%d) {pooltype=SUM}\n"
                    "op sequence_pool (X=f_%d) -> (Out=q_%d) {pooltype=SUM}\n"
                    "op concat (X=[p_%d,q_%d]) -> (Out=h_%d) {axis=1}\n"
                    "fetch h_%d\n",
                    i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i);
    run_passes(&s, (size_t)n);
}

/* One operator with n outputs. */
static void split_wide(int n)
{
    fl_program *p = fl_program_of(&fl_ops);
    fl_tensor x = fl_tensor_of(FL_DTYPE_F32, NULL, 2, (int64_t[]){ -1, n });
    fl_named_attr attrs[] = { { "axis", { .type = FL_ATTR_INT, .i = 1 } },
                              { "num", { .type = FL_ATTR_INT, .i = n } } };
    fl_arg in = { "X", "x" };
    FL_VEC(fl_arg) out = { 0 };
    fl_op_spec spec = {
        .type = "split", .in = &in, .n_in = 1, .attrs = attrs, .n_attrs = 2
    };

    work = 0;
    for (int i = 0; i < n; i++) {
        fl_arg a = { "Out", fl_program_name(p, "part") };

        fl_vec_push(&out, a);
    }
    spec.out = out.data;
    spec.n_out = out.len;
    assert_int_equal(
        fl_block_add_var(fl_program_main(p), "x", &x, FL_VAR_DATA, NULL),
        FL_OK);
    assert_int_equal(fl_block_append(fl_program_main(p), &spec, NULL), FL_OK);
    assert_int_equal(fl_program_verify(p), FL_OK);
    fl_vec_release(&out);
    fl_program_free(p);
}

static void work_grows_with_the_size_and_not_with_its_square(void **state)
{
    static const work_case all[] = { { "build", build },
                                     { "verify", verify },
                                     { "print_and_parse", print_and_parse },
                                     { "clone_for_test", clone_for_test },
                                     { "prune", prune },
                                     { "differentiate", differentiate },
                                     { "optimise", optimise },
                                     { "pull_tables", pull_tables },
                                     { "join_lookups", join_lookups },
                                     { "split_wide", split_wide } };

    (void)state;
    work_is_linear(all, FL_LEN(all), FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_grows_with_the_size_and_not_with_its_square),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
