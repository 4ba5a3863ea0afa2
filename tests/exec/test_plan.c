/* test_plan.c - order, dependencies and places of a plan. */
#include "net.h"

#include <string.h>

#include "exec/plan.h"
#include "ops/ops.h"

static fl_plan *plan_of(const char *text, bool concurrent)
{
    fl_plan_options o = { .concurrent = concurrent, .nominal_batch = 8 };
    fl_map fed = { 0 };
    fl_program *p;
    fl_plan *plan;

    assert_ok(fl_program_parse(text, &fl_ops, &p));
    fl_map_put(&fed, "x", p);
    o.fed = &fed;
    assert_ok(fl_plan_new(&plan, p, &o));
    fl_map_release(&fed);
    return plan;
}

static int place_of(const fl_plan *p, const char *name)
{
    return p->vars[fl_plan_find(p, name)].place;
}

static const char chain[] = "var x : f32[-1,4] data\n"
                            "op square (X=x) -> (Out=a)\n"
                            "op relu (X=a) -> (Out=b)\n"
                            "op square (X=b) -> (Out=c)\n"
                            "op square (X=c) -> (Out=d)\n"
                            "fetch d\n";

static void a_chain_lives_in_few_places(void **state)
{
    fl_plan *p = plan_of(chain, false);

    (void)state;
    assert_true(p->n_places <= 2);
    /* relu works in place: b lies where a lay. */
    assert_int_equal(place_of(p, "a"), place_of(p, "b"));
    assert_int_equal(p->steps[0].n_deps, 0);
    assert_int_equal(p->steps[3].n_deps, 1);
    fl_plan_free(p);
}

static void
scores_their_shares_and_their_gradient_lie_in_one_place(void **state)
{
    fl_plan *p = plan_of(
        "var x : f32[-1,4] data\nvar w : f32[4,4] persist\n"
        "op arg_max (X=x) -> (Out=label) {axis=1}\n"
        "op reduce_sum (X=x) -> (Out=g) {dim=[1]}\n"
        "op fc (Input=x, W=w) -> (Out=a)\n"
        "op softmax_with_cross_entropy (Logits=a, Label=label) -> "
        "(Softmax=s, Loss=loss)\n"
        "op softmax_with_cross_entropy_grad (Logits=a, Label=label, Softmax=s, "
        "Loss=loss, Loss@GRAD=g) -> (Logits@GRAD=d) @backward\n"
        "op fc_grad (Input=x, W=w, Out=a, Out@GRAD=d) -> (W@GRAD=e) "
        "@backward\n"
        "fetch e\n",
        false);

    (void)state;
    assert_int_equal(place_of(p, "a"), place_of(p, "s"));
    assert_int_equal(place_of(p, "s"), place_of(p, "d"));
    fl_plan_free(p);
}

static void a_step_has_the_function_of_its_device(void **state)
{
    fl_plan *p = plan_of(chain, false);

    (void)state;
    assert_ptr_equal(p->device, &fl_cpu);
    for (int i = 0; i < p->n_steps; i++)
        assert_ptr_equal(p->steps[i].run, p->steps[i].node->def->run);
    assert_ptr_equal(fl_cpu.find(fl_ops.find("relu"), true),
                     fl_ops.find("relu")->back);
    assert_null(fl_cpu.find(fl_ops.find("sgd"), true));
    fl_plan_free(p);
}

static void fetched_values_keep_their_place(void **state)
{
    fl_plan *p = plan_of("var x : f32[-1,4] data\n"
                         "op square (X=x) -> (Out=a)\n"
                         "op relu (X=a) -> (Out=b)\n"
                         "op square (X=b) -> (Out=c)\n"
                         "fetch a\nfetch c\n",
                         false);

    (void)state;
    assert_int_not_equal(place_of(p, "a"), place_of(p, "b"));
    assert_int_not_equal(place_of(p, "a"), place_of(p, "c"));
    fl_plan_free(p);
}

static const char branches[] = "var x : f32[-1,4] data\n"
                               "op square (X=x) -> (Out=a1)\n"
                               "op square (X=a1) -> (Out=a2)\n"
                               "op square (X=a2) -> (Out=a3)\n"
                               "op square (X=x) -> (Out=b1)\n"
                               "op square (X=b1) -> (Out=b2)\n"
                               "op square (X=b2) -> (Out=b3)\n"
                               "op elementwise_add (X=a3, Y=b3) -> (Out=s)\n"
                               "fetch s\n";

static void branches_share_places_only_in_program_order(void **state)
{
    static const char *const as[] = { "a1", "a2", "a3" };
    static const char *const bs[] = { "b1", "b2", "b3" };
    fl_plan *p = plan_of(branches, true);
    fl_plan *q = plan_of(branches, false);

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            assert_int_not_equal(place_of(p, as[i]), place_of(p, bs[k]));
    assert_true(q->n_places <= p->n_places);
    fl_plan_free(p);
    fl_plan_free(q);
}

static void an_update_waits_for_every_reader(void **state)
{
    fl_plan *p = plan_of("var x : f32[-1,4] data\n"
                         "param w : f32[4,4] init=xavier trainable\n"
                         "var lr : f32[1] persist\n"
                         "var g : f32[4,4] persist\n"
                         "op mul (X=x, Y=w) -> (Out=y)\n"
                         "op mul (X=y, Y=w) -> (Out=z)\n"
                         "op sgd (Param=w, Grad=g, LearningRate=lr) -> "
                         "(ParamOut=w) @optimize\n"
                         "fetch z\n",
                         true);

    (void)state;
    assert_int_equal(p->steps[2].n_deps, 2);
    assert_true(p->trains);
    fl_plan_free(p);
}

static void what_a_gradient_takes_for_its_shape_is_not_kept(void **state)
{
    fl_plan *p = plan_of("var x : f32[-1,4] data\n"
                         "op square (X=x) -> (Out=a)\n"
                         "op square (X=a) -> (Out=h)\n"
                         "op relu (X=h) -> (Out=y)\n"
                         "op square (X=y) -> (Out=z)\n"
                         "op relu_grad (X=h, Out=y, Out@GRAD=z) -> "
                         "(X@GRAD=dh) @backward\n"
                         "fetch dh\n",
                         false);
    const fl_plan_var *h = &p->vars[fl_plan_find(p, "h")];

    (void)state;
    assert_int_equal(h->last, 2);
    fl_plan_free(p);
}

/* Nothing but their order in the program ties these to each other. */
static void pulls_and_pushes_keep_their_order(void **state)
{
    fl_plan *p = plan_of("var x : f32[-1,1] data\n"
                         "var keys : u64[-1] persist\n"
                         "var g : f32[-1,4] persist\n"
                         "var lr : f32[1] persist\n"
                         "op cast (X=x) -> (Out=ids) {out_dtype=i64}\n"
                         "op pull_sparse (Ids=ids) -> (Rows=r0, Index=i0, "
                         "Keys=k0) {table=t, dim=4}\n"
                         "op pull_sparse (Ids=ids) -> (Rows=r1, Index=i1, "
                         "Keys=k1) {table=t, dim=4}\n"
                         "op push_sparse (Keys=keys, Grad=g, LearningRate=lr) "
                         "-> () {table=t} @optimize\n"
                         "op pull_sparse (Ids=ids) -> (Rows=r2, Index=i2, "
                         "Keys=k2) {table=t, dim=4}\n"
                         "fetch r0\nfetch r1\nfetch r2\n",
                         true);

    (void)state;
    assert_int_equal(p->steps[1].n_deps, 1); /* the ids */
    assert_int_equal(p->steps[2].n_deps, 1);
    assert_int_equal(p->steps[3].n_deps, 2); /* both pulls */
    assert_int_equal(p->steps[4].n_deps, 2); /* the ids and the push */
    fl_plan_free(p);
}

/* --- parts ---------------------------------------------------------------- */

#define TABLE_UPDATE                                                           \
    "var x : i64[-1,1] data\n"                                                 \
    "param w : f32[4,4] trainable\n"                                           \
    "var lr : f32[1] persist\n"                                                \
    "op pull_sparse (Ids=x) -> (Rows=r, Index=i, Keys=k) {table=t, dim=4}\n"

static void what_serves_a_push_alone_is_done_by_each_replica(void **state)
{
    static const fl_plan_part want[] = { FL_PART_COMPUTE, FL_PART_EACH,
                                         FL_PART_EACH,    FL_PART_UPDATE,
                                         FL_PART_UPDATE,  FL_PART_UPDATE };
    fl_plan *p = plan_of(
        TABLE_UPDATE
        "op clip (X=r) -> (Out=c) {min=-1, max=1} @optimize\n"
        "op push_sparse (Keys=k, Grad=c, LearningRate=lr) -> () {table=t} "
        "@optimize\n"
        "op clip (X=w) -> (Out=g) {min=-1, max=1} @optimize\n"
        "op sgd (Param=w, Grad=g, LearningRate=lr) -> (ParamOut=w) @optimize\n"
        "op send_barrier (X=[c,k,g]) -> () @rpc\n",
        true);

    (void)state;
    for (int i = 0; i < p->n_steps; i++)
        assert_int_equal(p->steps[i].part, want[i]);
    assert_int_equal(p->mixed, -1);
    assert_true(p->trains);
    fl_plan_free(p);
}

static void a_step_for_both_kinds_of_updates_is_found(void **state)
{
    fl_plan *p = plan_of(
        TABLE_UPDATE
        "op clip_by_global_norm (X=[r,w]) -> (Out=[c,g]) @optimize\n"
        "op push_sparse (Keys=k, Grad=c, LearningRate=lr) -> () {table=t} "
        "@optimize\n"
        "op sgd (Param=w, Grad=g, LearningRate=lr) -> (ParamOut=w) "
        "@optimize\n",
        true);

    (void)state;
    assert_int_equal(p->mixed, 1);
    fl_plan_free(p);
}

/* In replicas the send comes after all that is computed. */
static void what_is_sent_is_not_written_over_by_what_is_computed(void **state)
{
    fl_plan *p = plan_of("var x : f32[4,4] data\n"
                         "param w : f32[4,4] trainable\n"
                         "op square (X=x) -> (Out=g) @backward\n"
                         "op send (Param=w, X=g) -> () @rpc\n"
                         "op print (In=x) -> (Out=p) @backward\n"
                         "op square (X=p) -> (Out=q) @backward\n"
                         "fetch q\n",
                         true);

    (void)state;
    assert_int_equal(p->steps[2].n_deps, 1); /* effects keep their order */
    assert_int_not_equal(place_of(p, "g"), place_of(p, "p"));
    assert_int_not_equal(place_of(p, "g"), place_of(p, "q"));
    assert_true(p->trains);
    fl_plan_free(p);
}

static void a_recv_alone_does_not_train(void **state)
{
    fl_plan *p = plan_of("param w : f32[4,4] trainable\n"
                         "op recv () -> (Out=w) @rpc\n",
                         true);

    (void)state;
    assert_false(p->trains);
    fl_plan_free(p);
}

static void a_metric_is_late_where_something_is_trained(void **state)
{
    static const char text[] = "var x : f32[-1,4] data\nparam w : f32[4,1]\n"
                               "op mul (X=x, Y=w) -> (Out=y)\n"
                               "op mean (X=y) -> (Out=m)\n"
                               "op square (X=y) -> (Out=g)\n"
                               "op send (X=g, Param=w) -> () @rpc\n"
                               "fetch m\n";
    static const bool want[] = { false, true, false, false };
    fl_plan *p = plan_of(text, false);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(p->steps[i].is_late, want[i]);
    fl_plan_free(p);
    p = plan_of(chain, false);
    for (int i = 0; i < p->n_steps; i++)
        assert_false(p->steps[i].is_late);
    fl_plan_free(p);
}

static void only_what_is_fed_can_be_asked_for_ahead(void **state)
{
    fl_plan *p = plan_of("var x : i64[-1,1] data\n"
                         "op pull_sparse (Ids=x) -> (Rows=r, Index=i, Keys=k) "
                         "{table=t, dim=4}\n"
                         "op pull_sparse (Ids=i) -> (Rows=s, Index=j, Keys=l) "
                         "{table=t, dim=4}\n"
                         "op print (In=x) -> (Out=p)\n"
                         "op pull_sparse (Ids=x) -> (Rows=u, Index=m, Keys=n) "
                         "{table=t, dim=4}\n"
                         "fetch r\nfetch s\nfetch u\n",
                         false);

    (void)state;
    assert_int_equal(p->n_ahead, 1);
    assert_int_equal(p->ahead[0], 0);
    fl_plan_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_lives_in_few_places),
        cmocka_unit_test(
            scores_their_shares_and_their_gradient_lie_in_one_place),
        cmocka_unit_test(a_step_has_the_function_of_its_device),
        cmocka_unit_test(fetched_values_keep_their_place),
        cmocka_unit_test(branches_share_places_only_in_program_order),
        cmocka_unit_test(an_update_waits_for_every_reader),
        cmocka_unit_test(what_a_gradient_takes_for_its_shape_is_not_kept),
        cmocka_unit_test(pulls_and_pushes_keep_their_order),
        cmocka_unit_test(what_serves_a_push_alone_is_done_by_each_replica),
        cmocka_unit_test(a_step_for_both_kinds_of_updates_is_found),
        cmocka_unit_test(what_is_sent_is_not_written_over_by_what_is_computed),
        cmocka_unit_test(a_recv_alone_does_not_train),
        cmocka_unit_test(a_metric_is_late_where_something_is_trained),
        cmocka_unit_test(only_what_is_fed_can_be_asked_for_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
