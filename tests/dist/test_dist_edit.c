/* test_dist_edit.c - what a server's programs say is what it does: whoever edits
 * them on the server trains as if the user's program had been so from the
 * start. */
#include <string.h>

#include "dist_kit.h"

#include "ir/builder.h"

#define STEPS 50

/* --- editing -------------------------------------------------------------- */

/* Calls set for the attribute of every operator of that type, in all blocks. */
typedef void (*set_fn)(fl_program *p, fl_attr *a);

static void edit_ops(fl_program *p, const char *type, const char *attr,
                     set_fn set)
{
    int n_found = 0;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (fl_op_node *n = p->blocks.data[i]->first; n; n = n->next)
            if (!strcmp(n->def->name, type)) {
                set(p, &n->attrs[fl_op_find_attr(n->def, attr)]);
                n_found++;
            }
    FL_ASSERT(n_found);
    p->version++;
}

/* --- dense parameters ----------------------------------------------------- */

/* The rate is the only variable that starts at 0.1. */
static void halve_rate(fl_program *p, fl_attr *a)
{
    (void)p;
    if (a->f == 0.1)
        a->f = 0.05;
}

static void edit_rate(fl_program *startup, fl_program *main)
{
    (void)main;
    edit_ops(startup, "fill_constant", "value", halve_rate);
}

static void expect_as(kit_job *j, const char *words)
{
    kit_model alone;
    kit_end plain, edited;
    void (*edit)(fl_program * startup, fl_program * main) = j->edit;

    j->edit = NULL;
    kit_train(j, &plain);
    j->edit = edit;
    kit_train(j, &edited);
    j->words = words;
    kit_train_alone(j, &alone);
    assert_true(kit_error(&edited.model, &alone) <= 1e-6);
    assert_true(kit_error(&plain.model, &alone) > 1e-3);
}

static void a_rate_that_is_edited_is_the_rate(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = STEPS,
                  .optimizer = "sgd",
                  .words = "learning_rate=0.1",
                  .is_dense = true,
                  .edit = edit_rate };

    (void)state;
    expect_as(&j, "learning_rate=0.05");
}

static void lower_momentum(fl_program *p, fl_attr *a)
{
    (void)p;
    a->f = 0.3;
}

static void edit_momentum(fl_program *startup, fl_program *main)
{
    (void)startup;
    edit_ops(main, "momentum", "mu", lower_momentum);
}

static void an_attribute_of_an_update_that_is_edited_counts(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = STEPS,
                  .optimizer = "momentum",
                  .words = "learning_rate=0.02, momentum=0.9",
                  .is_dense = true,
                  .edit = edit_momentum };

    (void)state;
    expect_as(&j, "learning_rate=0.02, momentum=0.3");
}

/* --- tables --------------------------------------------------------------- */

static void raise_epsilon(fl_program *p, fl_attr *a)
{
    (void)p;
    a->f = 0.5;
}

/* The table's rule is the optimizer's, like that of the dense parameters. */
static void edit_table(fl_program *startup, fl_program *main)
{
    (void)startup;
    edit_ops(main, "adagrad", "epsilon", raise_epsilon);
}

static void the_update_of_a_table_that_is_edited_counts(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = STEPS,
                  .optimizer = "adagrad",
                  .words = "learning_rate=0.05",
                  .edit = edit_table };

    (void)state;
    expect_as(&j, "learning_rate=0.05 epsilon=0.5");
}

/* An operator of another type in its place, on the same variables but for the
   state. */
static void put_rule(fl_op_node *old, const char *type)
{
    static const char *const slots[] = { "Param", "Grad", "LearningRate" };
    fl_op_builder b = { .type = type };

    for (size_t i = 0; i < FL_LEN(slots); i++)
        fl_op_builder_ins(&b, slots[i],
                          old->in[fl_op_find_in(old->def, slots[i])]);
    fl_op_builder_outs(&b, "ParamOut", old->out[0]);
    FL_ASSERT(!fl_op_builder_insert(&b, old, NULL));
    fl_block_remove(old->block, old);
}

static void put_sgd(fl_program *startup, fl_program *main)
{
    (void)startup;
    for (size_t i = 1; i < main->blocks.len; i++)
        put_rule(main->blocks.data[i]->last, "sgd");
}

/* Of a table as well as of dense parameters. */
static void another_rule_that_is_put_there_is_the_rule(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .n_steps = STEPS,
                  .optimizer = "adagrad",
                  .words = "learning_rate=0.1",
                  .edit = put_sgd };
    kit_model alone;
    kit_end edited;

    (void)state;
    kit_train(&j, &edited);
    j.optimizer = "sgd";
    kit_train_alone(&j, &alone);
    assert_true(kit_error(&edited.model, &alone) <= 1e-6);
}

/* --- edits that nobody could train with ----------------------------------- */

static void drop_blocks(fl_program *p, fl_attr *a)
{
    (void)p;
    a->n = 0;
}

static void edit_blocks(fl_program *startup, fl_program *main)
{
    (void)startup;
    edit_ops(main, "listen_and_serv", "optimize_blocks", drop_blocks);
}

static void rename_table(fl_program *p, fl_attr *a)
{
    (void)p;
    a->s = "other";
}

static void edit_name(fl_program *startup, fl_program *main)
{
    (void)main;
    edit_ops(startup, "init_table", "table", rename_table);
}

/* The block of the only table is the last one. */
static fl_op_node *update_of_table(const fl_program *main)
{
    return main->blocks.data[main->blocks.len - 1]->first;
}

static void edit_table_name(fl_program *startup, fl_program *main)
{
    fl_op_node *n = update_of_table(main);

    (void)startup;
    FL_ASSERT(!fl_block_rename_var(n->block, n->in[0].vars[0], "other"));
}

static void drop_update(fl_program *startup, fl_program *main)
{
    (void)startup;
    fl_block_remove(update_of_table(main)->block, update_of_table(main));
}

/* One that needs all of a parameter at once. */
static void put_whole_rule(fl_program *startup, fl_program *main)
{
    (void)startup;
    put_rule(update_of_table(main), "lars_momentum");
}

static void name_rule(fl_program *p, fl_attr *a)
{
    a->s = fl_arena_printf(&p->arena, "%s optimizer=adam", a->s);
}

static void edit_settings(fl_program *startup, fl_program *main)
{
    (void)main;
    edit_ops(startup, "init_table", "settings", name_rule);
}

static void expect_refused(void (*edit)(fl_program *startup, fl_program *main),
                           const char *words)
{
    kit_job j = { .n_servers = 1, .n_trainers = 1, .edit = edit };
    kit_text text = "";
    char address[64];

    kit_addresses(address, sizeof(address), 1);
    kit_member(&j, address, KIT_SERVER, 0, NULL, NULL, text);
    if (!strstr(text, words))
        fail_msg("'%s' does not say '%s'", text, words);
}

static void what_trainers_expect_must_stay(void **state)
{
    (void)state;
    expect_refused(edit_blocks, "has nothing where the job has block fc1_w");
    expect_refused(edit_name, "table emb, number 0 of the job, was not made");
    expect_refused(edit_table_name, "updates table other, which no init_table");
    expect_refused(drop_update, "has something else than the operator");
    expect_refused(put_whole_rule, "has something else than the operator");
    expect_refused(
        edit_settings,
        "is made with optimizer=adam, but its block updates it with");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_that_is_edited_is_the_rate),
        cmocka_unit_test(an_attribute_of_an_update_that_is_edited_counts),
        cmocka_unit_test(the_update_of_a_table_that_is_edited_counts),
        cmocka_unit_test(another_rule_that_is_put_there_is_the_rule),
        cmocka_unit_test(what_trainers_expect_must_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
