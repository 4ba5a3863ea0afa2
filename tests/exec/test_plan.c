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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_lives_in_few_places),
        cmocka_unit_test(fetched_values_keep_their_place),
        cmocka_unit_test(branches_share_places_only_in_program_order),
        cmocka_unit_test(an_update_waits_for_every_reader),
        cmocka_unit_test(what_a_gradient_takes_for_its_shape_is_not_kept),
        cmocka_unit_test(pulls_and_pushes_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
