/* test_dist_inference.c - models for prediction that a job saves: they score as
 * one that a single process has made of the same values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/dense.h"
#include "ckpt/version.h"
#include "dist_kit.h"
#include "flotilla/io.h"
#include "flotilla/predict.h"
#include "mode_list.h"
#include "../folder.h"

#define STEPS 4
#define SCORES (2 * KIT_ROWS)

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "inference") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* Where the models of one test are. */
typedef struct places {
    char whole[96], ours[96], alone[96];
} places;

static places new_places(void)
{
    static int n;
    places p;

    n++;
    snprintf(p.whole, sizeof(p.whole), "%s/%d/whole", folder, n);
    snprintf(p.ours, sizeof(p.ours), "%s/%d/ours", folder, n);
    snprintf(p.alone, sizeof(p.alone), "%s/%d/alone", folder, n);
    return p;
}

/* --- a job ---------------------------------------------------------------- */

static fl_status train(kit_trainer *t)
{
    for (int step = 0; step < STEPS; step++)
        FL_TRY(kit_step(t, step));
    return fl_job_barrier(fl_transpiler_job(t->transpiler));
}

/* No batch is made between the two saves. */
static fl_status save_both(kit_trainer *t, void *arg)
{
    const places *at = arg;

    FL_TRY(train(t));
    if (t->rank)
        return FL_OK;
    FL_TRY(fl_save_persistables(t->exe, at->whole, NULL));
    return kit_save_scores(t->exe, fl_default_main_program(t->ctx), at->ours);
}

static void run(const kit_job *j, kit_work work, void *arg)
{
    kit_text texts[KIT_MEMBERS] = { 0 };

    kit_run(j, work, arg, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

/* --- one process ---------------------------------------------------------- */

static void save_alone(const kit_job *j, const places *at)
{
    fl_executor *e;
    fl_ctx *c;

    assert_ok(fl_ctx_new(&c));
    assert_ok(fl_ctx_set(c, "seed", "7"));
    assert_non_null(kit_build(c, j));
    assert_ok(fl_executor_new(&e, c));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_ok(fl_load_persistables(e, at->whole, NULL));
    assert_ok(kit_save_scores(e, fl_default_main_program(c), at->alone));
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void score(const char *dir, const kit_job *j, int step,
                  float out[SCORES])
{
    kit_batch *b = kit_batch_make(j, 0, 1, step);
    fl_predictor *p;
    fl_model *m;
    fl_tensor t;

    assert_ok(fl_model_open(&m, dir, .verify = true));
    assert_ok(fl_predictor_new(&p, m));
    assert_ok(fl_predictor_run(p, kit_batch_feeds(b), KIT_INPUTS, &t, 1));
    assert_int_equal(t.shape.dim[0] * t.shape.dim[1], SCORES);
    memcpy(out, t.data, SCORES * sizeof(*out));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_batch_free(b);
}

/* Steps that were not trained have rows that there are not. */
static void compare(const kit_job *j, const places *at)
{
    float ours[SCORES], alone[SCORES];

    for (int step = 0; step < 3 * STEPS; step++) {
        score(at->ours, j, step, ours);
        score(at->alone, j, step, alone);
        assert_memory_equal(ours, alone, sizeof(ours));
    }
}

/* --- tests ---------------------------------------------------------------- */

/* In mode geo two trainers would publish more of what they learned at each
   save. */
static void every_mode_saves_what_scores_as_one_process_does(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        kit_job j = { .mode = mode_name(i),
                      .n_servers = 1 + (int)(i % 3),
                      .n_trainers = strcmp(mode_name(i), "geo") ? 2 : 1 };
        places at = new_places();

        run(&j, save_both, &at);
        save_alone(&j, &at);
        compare(&j, &at);
    }
}

static void any_number_of_servers_saves_the_same_scores(void **state)
{
    float first[SCORES], other[SCORES];

    (void)state;
    for (int s = 1; s <= 3; s++) {
        kit_job j = { .n_servers = s,
                      .n_trainers = 2,
                      .optimizer = "adam",
                      .words = "learning_rate=0.05",
                      .settings = { { "min_block_size", "16" } } };
        places at = new_places();

        run(&j, save_both, &at);
        score(at.ours, &j, 1, s == 1 ? first : other);
        if (s > 1)
            assert_memory_equal(other, first, sizeof(first));
    }
}

static bool has_tensor(const fl_manifest_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name))
            return true;
    return false;
}

static void check_contents(const fl_manifest *m)
{
    static const char *const params[] = { "fc1_w", "fc1_b", "fc2_w", "fc2_b" };
    const fl_manifest_file *dense = fl_manifest_find_file(m, FL_DENSE_FILE);

    assert_int_equal(m->kind, FL_MANIFEST_INFERENCE);
    assert_int_equal(m->step, STEPS);
    assert_int_equal(m->n_feeds, KIT_INPUTS);
    assert_int_equal(m->n_targets, 1);
    assert_non_null(dense);
    assert_int_equal(dense->n_tensors, KIT_PARAMS);
    for (int i = 0; i < KIT_PARAMS; i++)
        assert_true(has_tensor(dense, params[i]));
    assert_int_equal(m->tables.len, 1);
    assert_string_equal(m->tables.data[0].name, "emb");
    assert_int_equal(m->tables.data[0].n_fields, 1);
    assert_int_equal(m->tables.data[0].n_files, 2);
    assert_int_equal(m->files.len, 4); /* program, dense, shards of each */
}

static void it_has_the_variables_it_names_and_no_state(void **state)
{
    kit_job j = { .n_servers = 2,
                  .n_trainers = 2,
                  .optimizer = "adam",
                  .words = "learning_rate=0.05" };
    places at = new_places();
    fl_model_version *v;

    (void)state;
    run(&j, save_both, &at);
    assert_ok(fl_version_open(&v, at.ours));
    assert_ok(fl_version_verify(v));
    check_contents(&v->manifest);
    fl_version_close(v);
}

/* --- what is refused ------------------------------------------------------ */

typedef struct refusal {
    const char *feeds[KIT_FEEDS];
    size_t n_feeds;
    const char *target; /* NULL: the probabilities */
    const char *says;
} refusal;

static const refusal refusals[] = {
    { .feeds = { "s0", "s1", "s2" },
      .n_feeds = 3,
      .says = "the targets need dense, which is not among the feeds" },
    { .feeds = { "s0", "s1", "s2", "dense", "label" },
      .n_feeds = 5,
      .says = "the targets do not need the feeds label; leave them out" },
    { .n_feeds = 0, .target = "nobody", .says = "nobody" },
};

static fl_status be_refused(kit_trainer *t, const refusal *r, const char *dir)
{
    const char *target =
        r->target ? r->target : kit_target(fl_default_main_program(t->ctx));
    fl_status st = fl_save_inference_model(t->exe, dir, .feeds = r->feeds,
                                           .n_feeds = r->n_feeds,
                                           .targets = &target, .n_targets = 1);

    if (!st || !strstr(fl_last_error(), r->says))
        FL_FAIL(FL_ERR_INVAL, "not refused with \"%s\" but \"%s\"", r->says,
                st ? fl_last_error() : "");
    return FL_OK;
}

static fl_status ask_for_what_cannot_be(kit_trainer *t, void *arg)
{
    const places *at = arg;

    FL_TRY(train(t));
    for (size_t i = 0; !t->rank && i < FL_LEN(refusals); i++)
        FL_TRY(be_refused(t, &refusals[i], at->ours));
    return FL_OK;
}

static void what_cannot_be_saved_for_prediction_is_named(void **state)
{
    kit_job j = { .n_servers = 1, .n_trainers = 2 };
    places at = new_places();
    fl_model_version *v;

    (void)state;
    run(&j, ask_for_what_cannot_be, &at);
    assert_int_not_equal(fl_version_open(&v, at.ours), FL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_saves_what_scores_as_one_process_does),
        cmocka_unit_test(any_number_of_servers_saves_the_same_scores),
        cmocka_unit_test(it_has_the_variables_it_names_and_no_state),
        cmocka_unit_test(what_cannot_be_saved_for_prediction_is_named),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
