/* test_table_errors.c - programs with tables that dist_pull cannot translate,
 * and what it says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/vec.h"
#include "ops/ops.h"
#include "pass/pass.h"

#define VARIABLES                                                              \
    "var a : i64[-1,1] data\n"                                                 \
    "var b : i64[-1,1] data\n"                                                 \
    "var x : f32[-1,1] data\n"                                                 \
    "var lr : f32[1] persist\n"                                                \
    "param emb : f32[-1,4] trainable table\n"

#define LOOKUP(ids, out, attrs)                                                \
    "op lookup_table (W=emb, Ids=" ids ") -> (Out=" out                        \
    ") {is_distributed=true" attrs "}\n"

#define GRAD(ids, out, grad, attrs)                                            \
    "op lookup_table_grad (W=emb, Ids=" ids ", Out@GRAD=" out                  \
    "@GRAD) -> (W@GRAD=" grad ") {is_distributed=true" attrs "} @backward\n"

#define SGD(grad)                                                              \
    "op sgd (Param=emb, LearningRate=lr, Grad=" grad                           \
    ") -> (ParamOut=emb) @optimize\n"

/* One lookup and the gradient emb@GRAD. */
#define TRAINED(attrs)                                                         \
    LOOKUP("a", "e", attrs)                                                    \
    "op mean (X=e) -> (Out=loss)\n"                                            \
    "op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} @backward\n"  \
    "op mean_grad (X=e, Out@GRAD=loss@GRAD) -> (X@GRAD=e@GRAD) "               \
    "@backward\n" GRAD("a", "e", "emb@GRAD", attrs)

/* Two lookups, with `between` between them, and their gradients g0 and g1. */
#define TWO_TRAINED(ids0, ids1, between, attrs0, attrs1)                       \
    LOOKUP(ids0, "e0", attrs0)                                                 \
    between LOOKUP(                                                            \
        ids1, "e1",                                                            \
        attrs1) "op elementwise_add (X=e0, Y=e1) -> (Out=y)\n"                 \
                "op mean (X=y) -> (Out=loss)\n"                                \
                "op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} " \
                "@backward\n"                                                  \
                "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) "   \
                "@backward\n"                                                  \
                "op elementwise_add_grad (X=e0, Y=e1, Out@GRAD=y@GRAD) -> "    \
                "(X@GRAD=e0@GRAD, Y@GRAD=e1@GRAD) @backward\n" GRAD(           \
                    ids1, "e1", "g1", attrs1) GRAD(ids0, "e0", "g0", attrs0)

#define SUM "op sum (X=[g1,g0]) -> (Out=emb@GRAD) @backward\n"

typedef struct bad_program {
    const char *name, *text, *says;
} bad_program;

static const bad_program programs[] = {
    { "a_table_is_not_fetched", VARIABLES LOOKUP("a", "e", "") "fetch emb\n",
      "emb cannot be fetched: parameter emb is in a table" },
    { "a_gradient_of_a_table_is_not_fetched",
      VARIABLES TRAINED("") "fetch emb@GRAD\n", "emb@GRAD cannot be fetched" },
    { "another_operator_cannot_use_a_table",
      VARIABLES "op scale (X=emb) -> (Out=y)\nfetch y\n",
      "op scale -> y: parameter emb is in a table" },
    { "a_lookup_in_a_table_says_is_distributed",
      VARIABLES LOOKUP("a", "e", "") "op lookup_table (W=emb, Ids=b) -> "
                                     "(Out=f)\nfetch f\n",
      "op lookup_table -> f: parameter emb is in a table" },
    { "a_lookup_in_another_block_is_refused",
      VARIABLES "block 1 parent 0\n" LOOKUP("a", "e", "") "end\n",
      "op lookup_table -> e: parameter emb is in a table" },
    { "a_bias_beside_a_table_has_rows",
      VARIABLES "param c : f32[9] trainable\nvar y : f32[-1,4] data\n"
                "op nce (Label=a, Input=y, Weight=emb, Bias=c) -> (Cost=q) "
                "{num_total_classes=9}\nfetch q\n",
      "op nce -> q: Bias c must be [num_total_classes, 1]" },
    { "decay_is_a_setting_of_the_table",
      VARIABLES TRAINED("") "op weight_decay (Param=emb, Grad=emb@GRAD) -> "
                            "(Out=g) {l2=0.1} @optimize\n" SGD("g"),
      "op weight_decay -> g: parameter emb is in a table, whose decay is a "
      "setting of the table (regularization=...)" },
    { "two_optimizers_are_refused",
      VARIABLES TRAINED("") SGD("emb@GRAD") SGD("emb@GRAD"),
      "op sgd -> emb: parameter emb is in a table" },
    { "an_optimizer_of_several_is_refused",
      VARIABLES
      "param w : f32[4,4] trainable\nvar g : f32[4,4] persist\n" TRAINED(
          "") "op sgd (Param=[w,emb], Grad=[g,emb@GRAD], LearningRate=lr) -> "
              "(ParamOut=[w,emb]) @optimize\n",
      "op sgd -> w: parameter emb is in a table" },
    { "an_optimizer_needs_the_gradient_of_the_lookups",
      VARIABLES "var g : f32[-1,4] persist\n" LOOKUP("a", "e", "") SGD("g"),
      "op sgd -> emb: its gradient is not that of the lookups" },
    { "another_gradient_is_not_the_table_s",
      VARIABLES "var g : f32[-1,4] persist\n" TRAINED("") SGD("g"),
      "op sgd -> emb: its gradient is not that of the lookups" },
    { "a_gradient_has_its_lookup",
      VARIABLES "var e@GRAD : f32[-1,4] data\n" GRAD("a", "e", "emb@GRAD", ""),
      "op lookup_table_grad -> emb@GRAD: it is the gradient of no lookup" },
    { "only_clipping_works_on_the_gradient",
      VARIABLES TRAINED("") "op scale (X=emb@GRAD) -> (Out=g) @optimize\n" SGD(
          "g"),
      "op scale -> g: it works on the gradient of table parameter emb" },
    { "the_gradient_has_one_reader",
      VARIABLES TRAINED("") "op clip (X=emb@GRAD) -> (Out=g) @optimize\n" SGD(
          "emb@GRAD"),
      "op sgd -> emb: gradient emb@GRAD of table parameter emb has another "
      "reader" },
    { "clipping_in_place_is_refused",
      VARIABLES TRAINED("") "op clip (X=emb@GRAD) -> (Out=emb@GRAD) "
                            "@optimize\n",
      "op clip -> emb@GRAD: it works on the gradient" },
    { "gradients_are_added_up",
      VARIABLES TWO_TRAINED("a", "b", "", "", "") "op relu (X=g0) -> (Out=h)\n",
      "op relu -> h: it works on the gradient" },
    { "no_gradient_is_left_out_of_the_sum",
      VARIABLES TWO_TRAINED("a", "b", "", "", ""),
      "gradient g0 of table parameter emb is not added to the others" },
    { "lookups_have_one_padding",
      VARIABLES LOOKUP("a", "e", ", padding_idx=0")
          LOOKUP("b", "f", "") "fetch f\n",
      "op lookup_table -> e has padding_idx=0, op lookup_table -> f has -1" },
    { "lookups_have_one_show",
      VARIABLES TWO_TRAINED("a", "b", "", ", show=a", ", show=b")
          SUM SGD("emb@GRAD"),
      "show is a in one lookup and b in another" },
    { "a_click_that_does_not_exist_is_named",
      VARIABLES TRAINED(", click=nothing") SGD("emb@GRAD"),
      "click names variable nothing, which does not exist" },
    { "a_gradient_in_parts_is_not_clipped",
      VARIABLES TWO_TRAINED(
          "a", "ids", "op cast (X=x) -> (Out=ids) {out_dtype=i64}\n", "", "")
          SUM "op clip (X=emb@GRAD) -> (Out=g) @optimize\n" SGD("g"),
      "op clip -> g: the gradient of table parameter emb comes in 2 parts" },
    { "a_name_that_is_taken_is_refused",
      VARIABLES "var emb@ROWS : f32[-1,4] data\n" LOOKUP("a", "e", "") "fetch "
                                                                       "e\n",
      "variable emb@ROWS has the name that table parameter emb needs" },
};

static void is_refused(void **state)
{
    const bad_program *bad = *state;
    fl_pass_options o = { .optimize = true };
    fl_program *p = NULL;

    if (fl_program_parse(bad->text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    assert_int_not_equal(fl_passes_run(p, &o), FL_OK);
    if (!strstr(fl_last_error(), bad->says))
        fail_msg("'%s' does not say '%s'", fl_last_error(), bad->says);
    assert_memory_equal(fl_last_error(),
                        "pass dist_pull: ", strlen("pass dist_pull: "));
    fl_program_free(p);
}

int main(void)
{
    FL_VEC(struct CMUnitTest) tests = { 0 };
    int failed;

    for (size_t i = 0; i < FL_LEN(programs); i++) {
        struct CMUnitTest t = { .name = programs[i].name,
                                .test_func = is_refused,
                                .initial_state =
                                    (void *)(uintptr_t)&programs[i] };

        fl_vec_push(&tests, t);
    }
    failed = _cmocka_run_group_tests("table_errors", tests.data, tests.len,
                                     NULL, NULL);
    fl_vec_release(&tests);
    return failed;
}
