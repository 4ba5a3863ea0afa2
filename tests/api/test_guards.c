/* test_guards.c - several programs, scopes and counters of names in one
 * context, and what is current. */
#include "api.h"
#include "../make.h"

typedef struct model {
    fl_program *main, *startup;
    fl_var *out;
} model;

static fl_ctx *ctx;

static int open_ctx(void **state)
{
    (void)state;
    ctx = make_ctx();
    return !ctx;
}

static int close_ctx(void **state)
{
    (void)state;
    fl_ctx_free(ctx);
    return 0;
}

static model build(int64_t width)
{
    model m;

    assert_ok(fl_program_new(&m.main, ctx));
    assert_ok(fl_program_new(&m.startup, ctx));
    assert_ok(fl_program_push(ctx, m.main, m.startup));
    m.out = fl_layers_mean(fl_layers_fc(data2(ctx, "x", width), 2, ));
    fl_program_pop(ctx);
    assert_non_null(m.out);
    return m;
}

static void release(model *m)
{
    fl_program_free(m->main);
    fl_program_free(m->startup);
}

static bool has(fl_program *p, const char *words)
{
    char *text = fl_program_to_text(p);
    bool found = strstr(text, words) != NULL;

    fl_text_free(text);
    return found;
}

static void layers_write_to_the_pair_of_the_guard(void **state)
{
    model a = build(3), b = build(5);

    (void)state;
    assert_non_null(fl_program_var(a.main, "fc_0.w_0"));
    assert_true(has(a.startup, "param fc_0.w_0 : f32[3,2]"));
    assert_true(has(b.startup, "param fc_0.w_0 : f32[5,2]"));
    assert_null(fl_program_var(fl_default_main_program(ctx), "x"));
    assert_false(has(fl_default_startup_program(ctx), "fc_0"));
    release(&a);
    release(&b);
}

static void guards_nest_and_the_default_pair_is_below_them(void **state)
{
    fl_program *own = fl_default_main_program(ctx);
    fl_program *own_startup = fl_default_startup_program(ctx);
    fl_program *outer, *inner;

    (void)state;
    assert_ok(fl_program_new(&outer, ctx));
    assert_ok(fl_program_new(&inner, ctx));
    assert_ok(fl_program_push(ctx, outer, NULL));
    assert_ok(fl_program_push(ctx, inner, outer));
    assert_ptr_equal(fl_default_main_program(ctx), inner);
    assert_ptr_equal(fl_default_startup_program(ctx), outer);
    fl_program_pop(ctx);
    assert_ptr_equal(fl_default_main_program(ctx), outer);
    assert_ptr_equal(fl_default_startup_program(ctx), own_startup);
    fl_program_pop(ctx);
    fl_program_pop(ctx);
    assert_ptr_equal(fl_default_main_program(ctx), own);
    fl_program_free(outer);
    fl_program_free(inner);
}

static void schedules_and_constants_follow_the_guard(void **state)
{
    fl_program *p, *startup;

    (void)state;
    assert_ok(fl_program_new(&p, ctx));
    assert_ok(fl_program_new(&startup, ctx));
    assert_ok(fl_program_push(ctx, p, startup));
    assert_non_null(fl_layers_exponential_decay(ctx, 0.1, 10, 0.9, false));
    assert_non_null(fl_layers_constant_lr(ctx, 0.1));
    assert_non_null(
        fl_layers_fill_constant(ctx, FL_DTYPE_F32, 1, (int64_t[]){ 2 }, 1));
    fl_program_pop(ctx);
    assert_true(has(p, "lr_exponential_decay"));
    assert_true(has(p, "fill_constant"));
    assert_null(
        fl_program_var(fl_default_main_program(ctx), "@LR_DECAY_COUNTER@"));
    fl_program_free(p);
    fl_program_free(startup);
}

static void a_parameter_outside_of_its_guard_is_refused(void **state)
{
    model a = build(3);

    (void)state;
    assert_null(fl_layers_fc(fl_program_var(a.main, "x"), 2, .name = "late"));
    assert_said("fl_program_push");
    assert_non_null(fl_layers_relu(fl_program_var(a.main, "x")));
    release(&a);
}

static void a_guard_takes_programs_of_its_context(void **state)
{
    fl_ctx *other = make_ctx();

    (void)state;
    assert_int_equal(fl_program_push(ctx, fl_default_main_program(other), NULL),
                     FL_ERR_INVAL);
    assert_int_equal(fl_program_push(ctx, NULL, NULL), FL_ERR_INVAL);
    fl_ctx_free(other);
}

static void a_parameter_added_as_text_gets_its_first_value(void **state)
{
    fl_executor *e = make_executor(ctx);
    fl_program *p = fl_default_main_program(ctx);
    fl_tensor t;

    (void)state;
    assert_ok(fl_program_add(p, "param w : f32[2,2] init=constant(3)"));
    assert_ok(fl_run(e, fl_default_startup_program(ctx), NULL));
    assert_ok(fl_scope_get(fl_current_scope(ctx), "w", &t));
    assert_float_equal(((float *)t.data)[3], 3, 0);
    assert_ok(fl_program_add(p, "param v : f32[2,2]\n"
                                "op relu (X=v) -> (Out=y)\n"
                                "fetch y"));
    assert_int_equal(
        fl_run(e, p,
               FL_OPTIONS(fl_run_args, .fetches = (const char *const[]){ "y" },
                          .n_fetches = 1, .out = &t)),
        FL_ERR_NOTFOUND);
    assert_said("parameter v has no value: run a startup program");
    fl_executor_free(e);
}

static void a_table_added_as_text_makes_rows_with_its_word(void **state)
{
    fl_executor *e = make_executor(ctx);
    fl_program *p = fl_default_main_program(ctx);
    char *startup;

    (void)state;
    assert_ok(fl_program_add(fl_default_startup_program(ctx),
                             "op init_table () -> () {table=mine, "
                             "settings=\"dim=3 max_rows=9\"}"));
    assert_ok(fl_program_add(
        p, "param emb : f32[-1,4] init=constant(2) trainable table\n"
           "param low : f32[10,2] init=constant(1) trainable table\n"
           "param mine : f32[-1,3] init=constant(1) trainable table"));
    startup = fl_program_to_text(fl_default_startup_program(ctx));
    assert_non_null(strstr(startup, "\"dim=4 init=constant(2)\""));
    assert_non_null(strstr(startup, "\"dim=2 height=10 init=constant(1)\""));
    assert_non_null(strstr(startup, "\"dim=3 max_rows=9\""));
    assert_null(strstr(startup, "dim=3 init"));
    fl_text_free(startup);
    assert_ok(fl_run(e, fl_default_startup_program(ctx), NULL));
    fl_executor_free(e);
}

/* --- names --------------------------------------------------------------- */

static void names_count_by_program_and_by_guard(void **state)
{
    (void)state;
    assert_string_equal(fl_unique_name(ctx, "fc"), "fc_0");
    fl_names_push(ctx, NULL);
    assert_string_equal(fl_unique_name(ctx, "fc"), "fc_0");
    fl_names_push(ctx, "tower/");
    assert_string_equal(fl_unique_name(ctx, "fc"), "tower/fc_0");
    assert_string_equal(fl_unique_name(ctx, "tower/fc_0.w"), "tower/fc_0.w_0");
    fl_names_pop(ctx);
    assert_string_equal(fl_unique_name(ctx, "fc"), "fc_1");
    fl_names_pop(ctx);
    assert_string_equal(fl_unique_name(ctx, "fc"), "fc_1");
}

static void layers_of_a_name_guard_share_parameters_by_name(void **state)
{
    fl_var *x = data2(ctx, "x", 3);

    (void)state;
    for (int i = 0; i < 2; i++) {
        fl_names_push(ctx, "shared/");
        assert_non_null(fl_layers_fc(x, 2, ));
        fl_names_pop(ctx);
    }
    assert_non_null(
        fl_program_var(fl_default_main_program(ctx), "shared/fc_0.w_0"));
    assert_null(
        fl_program_var(fl_default_main_program(ctx), "shared/fc_1.w_0"));
}

/* --- scopes -------------------------------------------------------------- */

static void put(fl_scope *s, const char *name, float value)
{
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, &value, 1, (int64_t[]){ 1 });

    assert_ok(fl_scope_set(s, name, &t));
}

static float look(fl_scope *s, const char *name)
{
    fl_tensor t;

    assert_ok(fl_scope_get(s, name, &t));
    return ((float *)t.data)[0];
}

static void a_child_shows_its_parent_and_keeps_its_own(void **state)
{
    fl_scope *parent, *child;
    fl_tensor t;

    (void)state;
    assert_ok(fl_scope_new(&parent, NULL));
    assert_ok(fl_scope_new(&child, parent));
    put(parent, "a", 1);
    assert_float_equal(look(child, "a"), 1, 0);
    put(child, "a", 2);
    assert_float_equal(look(parent, "a"), 1, 0);
    assert_float_equal(look(child, "a"), 2, 0);
    assert_true(fl_scope_drop(child, "a"));
    assert_false(fl_scope_drop(child, "a"));
    assert_float_equal(look(child, "a"), 1, 0);
    assert_false(fl_scope_find(child, "b", &t));
    assert_int_equal(fl_scope_get(child, "b", &t), FL_ERR_NOTFOUND);
    fl_scope_free(child);
    fl_scope_free(parent);
}

static void the_names_of_a_scope_are_listed_once(void **state)
{
    static const char *const names[] = { "a", "b", "c" };
    fl_scope *s;

    (void)state;
    assert_ok(fl_scope_new(&s, NULL));
    for (int i = 0; i < 3; i++)
        put(s, names[i], 0);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(fl_scope_name(s, i), names[i]);
    assert_true(fl_scope_drop(s, "a"));
    assert_string_equal(fl_scope_name(s, 0), "c");
    assert_string_equal(fl_scope_name(s, 1), "b");
    assert_null(fl_scope_name(s, 2));
    fl_scope_free(s);
}

static void one_program_trains_in_two_scopes(void **state)
{
    fl_executor *e = make_executor(ctx);
    fl_program *main = fl_default_main_program(ctx);
    fl_program *startup = fl_default_startup_program(ctx);
    float data[3] = { 1, 2, 3 }, before;
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, data, 2, (int64_t[]){ 1, 3 }) };
    fl_run_args args = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_scope *s;

    (void)state;
    assert_ok(
        fl_minimize(make_optimizer(ctx, "sgd", NULL),
                    fl_layers_mean(fl_layers_fc(data2(ctx, "x", 3), 1, ))));
    assert_ok(fl_scope_new(&s, NULL));
    assert_ok(fl_run(e, startup, NULL));
    assert_int_equal(fl_run(e, main,
                            FL_OPTIONS(fl_run_args, .feeds = &feed,
                                       .n_feeds = 1, .scope = s)),
                     FL_ERR_NOTFOUND);
    fl_scope_push(ctx, s);
    assert_ptr_equal(fl_current_scope(ctx), s);
    assert_ok(fl_run(e, startup, NULL));
    fl_scope_set_step(s, 0);
    fl_scope_pop(ctx);
    before = look(s, "fc_0.w_0");
    assert_ok(fl_run(e, main, &args));
    assert_float_equal(look(s, "fc_0.w_0"), before, 0);
    assert_int_equal(fl_scope_step(s), 0);
    args.scope = s;
    assert_ok(fl_run(e, main, &args));
    assert_float_equal(look(s, "fc_0.w_0"),
                       look(fl_current_scope(ctx), "fc_0.w_0"), 0);
    assert_int_equal(fl_scope_step(s), 1);
    fl_scope_free(s);
    fl_executor_free(e);
}

/* Its parameters are what the servers are asked for, in one place. */
static void a_job_runs_in_the_scope_that_it_was_made_in_alone(void **state)
{
    fl_executor *e = make_executor(ctx);
    fl_transpiler *t;
    fl_scope *s, *made_in;

    (void)state;
    assert_ok(
        fl_minimize(make_optimizer(ctx, "sgd", NULL),
                    fl_layers_mean(fl_layers_fc(data2(ctx, "x", 3), 1, ))));
    assert_ok(fl_scope_new(&made_in, NULL));
    fl_scope_push(ctx, made_in);
    assert_ok(fl_transpile(&t, ctx, .pservers = "127.0.0.1:7009"));
    fl_scope_pop(ctx);
    assert_ok(fl_scope_new(&s, NULL));
    assert_int_equal(fl_run(e, fl_transpiler_trainer_startup(t),
                            FL_OPTIONS(fl_run_args, .scope = s)),
                     FL_ERR_INVAL);
    assert_said("when its programs were made");
    assert_int_equal(fl_run(e, fl_transpiler_trainer(t), NULL), FL_ERR_INVAL);
    assert_said("when its programs were made");
    fl_scope_free(s);
    fl_transpiler_free(t);
    fl_scope_free(made_in);
    fl_executor_free(e);
}

#define guard_test(f) cmocka_unit_test_setup_teardown(f, open_ctx, close_ctx)

int main(void)
{
    const struct CMUnitTest tests[] = {
        guard_test(layers_write_to_the_pair_of_the_guard),
        guard_test(guards_nest_and_the_default_pair_is_below_them),
        guard_test(schedules_and_constants_follow_the_guard),
        guard_test(a_parameter_outside_of_its_guard_is_refused),
        guard_test(a_guard_takes_programs_of_its_context),
        guard_test(a_parameter_added_as_text_gets_its_first_value),
        guard_test(a_table_added_as_text_makes_rows_with_its_word),
        guard_test(names_count_by_program_and_by_guard),
        guard_test(layers_of_a_name_guard_share_parameters_by_name),
        guard_test(a_child_shows_its_parent_and_keeps_its_own),
        guard_test(the_names_of_a_scope_are_listed_once),
        guard_test(one_program_trains_in_two_scopes),
        guard_test(a_job_runs_in_the_scope_that_it_was_made_in_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
