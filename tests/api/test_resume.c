/* test_resume.c - training that goes on from a saved model ends with the bits
 * of one that never stopped.
 *
 * A run that saves every few steps leaves versions from between and from the
 * midst of passes. From each of them the same program, unchanged, goes on.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "base/log.h"
#include "base/vec.h"
#include "ckpt/folder.h"
#include "ckpt/version.h"
#include "flotilla/flotilla.h"
#include "flotilla/io.h"
#include "../make.h"
#include "../folder.h"

#define FILES 3
#define PER_FILE 70
#define ROWS (FILES * PER_FILE)
#define BATCH 10
#define EPOCHS 3

#define assert_fails(expr, words)                                              \
    do {                                                                       \
        assert_true(expr);                                                     \
        assert_said(words);                                                    \
    } while (0)

static char folder[FOLDER_BYTES];

static const char *in_folder(const char *name)
{
    static char paths[8][128];
    static int n;
    char *path = paths[n++ % 8];

    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void remove_tree(const char *name)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -rf '%s'", in_folder(name));
    assert_int_equal(system(command), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (!folder_make(folder, "resume"))
        return -1;
    for (int i = 0; i < FILES; i++) {
        char name[16];
        FILE *f;

        snprintf(name, sizeof(name), "part-%d", i);
        f = fopen(in_folder(name), "w");
        for (int k = i * PER_FILE; f && k < (i + 1) * PER_FILE; k++)
            fprintf(f, "1 %d 1 %d 3 %.3f %.3f %.3f 1 %d\n", k * 7 % 31,
                    k * 5 % 20, k % 11 / 11.0, k % 13 / 13.0, k % 17 / 17.0,
                    k * 7 % 31 > 15);
        if (!f || fclose(f))
            return -1;
    }
    fl_log_set_level(FL_LOG_ERROR);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/* --- the program ----------------------------------------------------------- */

typedef struct recipe {
    const char *optimizer, *settings, *kind;
    bool has_schedule, is_shuffled;
    bool is_for_replicas; /* which share the counts of an AUC without locks */
} recipe;

typedef struct setting {
    const char *name, *value;
} setting;

/* All that a program has told. */
typedef struct outcome {
    fl_dataset_report trained[EPOCHS], examined[EPOCHS];
    uint64_t step;
} outcome;

typedef struct program {
    fl_ctx *ctx;
    fl_executor *exe;
    fl_var *loss, *auc, *positives;
    fl_dataset *data;
} program;

static const char *const names[] = { "a", "b", "x", "label" };

static fl_var *ids(fl_ctx *c, const char *name)
{
    return fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
}

static void build(program *p, const recipe *plan)
{
    fl_ctx *c = p->ctx;
    fl_optimizer *o = make_optimizer(c, plan->optimizer, plan->settings);
    fl_var *parts[3], *h, *out, *label;

    parts[0] = fl_layers_sparse_embedding(ids(c, "a"), 4, .param.name = "rows");
    parts[1] = fl_layers_embedding(ids(c, "b"), 20, 3, .is_sparse = true);
    parts[2] = data2(c, "x", 3);
    label = ids(c, "label");
    h = fl_layers_fc(fl_layers_concat(parts, 3, 1), 8, .act = "relu");
    out = fl_layers_fc(fl_layers_dropout(h, 0.3), 2, .act = "softmax");
    p->loss = fl_layers_mean(fl_layers_cross_entropy(out, label));
    assert_non_null(p->loss);
    if (!plan->is_for_replicas)
        p->auc = fl_layers_auc(out, label, NULL, .stat_pos = &p->positives);
    if (plan->has_schedule)
        fl_optimizer_set_lr(o,
                            fl_layers_exponential_decay(c, 0.1, 7, 0.9, false));
    assert_ok(fl_minimize(o, p->loss));
}

static void open_data(program *p, const char *kind)
{
    const char *path = in_folder("part-*");

    assert_ok(fl_dataset_new(&p->data, p->ctx, kind));
    assert_ok(fl_dataset_set_use_var(p->data, fl_default_main_program(p->ctx),
                                     names, FL_LEN(names)));
    assert_ok(fl_dataset_set_filelist(p->data, &path, 1));
    fl_dataset_set_batch_size(p->data, BATCH);
}

static void open_program(program *p, const recipe *plan, const setting *sets)
{
    p->ctx = make_ctx();
    assert_ok(fl_ctx_set(p->ctx, "seed", "5"));
    for (; sets->name; sets++)
        assert_ok(fl_ctx_set(p->ctx, sets->name, sets->value));
    build(p, plan);
    p->exe = make_executor(p->ctx);
    open_data(p, plan->kind);
}

static void close_program(program *p)
{
    fl_dataset_free(p->data);
    fl_executor_free(p->exe);
    fl_ctx_free(p->ctx);
}

/* As programs do that count metrics of their own, pass by pass. */
static void clear_positives(const program *p)
{
    fl_tensor t;

    assert_ok(
        fl_scope_get(fl_current_scope(p->ctx), fl_var_name(p->positives), &t));
    memset(t.data, 0, (size_t)fl_tensor_numel(&t) * sizeof(int64_t));
}

static void one_epoch(program *p, const recipe *plan, outcome *o, int e)
{
    fl_program *main = fl_default_main_program(p->ctx);
    bool in_memory = !strcmp(plan->kind, "InMemoryDataset");

    o->trained[e] = o->examined[e] = FL_INIT(fl_dataset_report);
    if (in_memory && (e == 0 || e == 2))
        assert_ok(fl_dataset_load_into_memory(p->data));
    if (plan->is_shuffled)
        assert_ok(fl_dataset_local_shuffle(p->data));
    clear_positives(p);
    assert_ok(fl_train_from_dataset(p->exe, main, p->data, &o->trained[e],
                                    .loss = fl_var_name(p->loss),
                                    .auc = fl_var_name(p->auc)));
    assert_ok(fl_infer_from_dataset(p->exe, main, p->data, &o->examined[e],
                                    .loss = fl_var_name(p->loss)));
}

/* The model that it ends with is saved under `end`. */
static void run_program(const recipe *plan, const setting *sets,
                        const char *end, outcome *o)
{
    program p;

    open_program(&p, plan, sets);
    assert_ok(fl_run(p.exe, fl_default_startup_program(p.ctx), NULL));
    for (int e = 0; e < EPOCHS; e++)
        one_epoch(&p, plan, o, e);
    o->step = fl_scope_step(fl_current_scope(p.ctx));
    remove_tree(end);
    assert_ok(fl_save_persistables(p.exe, in_folder(end), NULL));
    close_program(&p);
}

/* --- comparing ------------------------------------------------------------- */

static void assert_same_bits(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof(a));
}

static void assert_same_report(const fl_dataset_report *a,
                               const fl_dataset_report *b)
{
    assert_int_equal(a->samples, b->samples);
    assert_int_equal(a->batches, b->batches);
    assert_same_bits(a->loss, b->loss);
    assert_same_bits(a->auc, b->auc);
}

/* A save is a new epoch for the rows that change after it, so that the epochs
   tell how often it was saved. */
static void assert_same_tensors(const fl_manifest_file *a,
                                const fl_manifest_file *b)
{
    assert_int_equal(a->n_tensors, b->n_tensors);
    for (size_t i = 0; i < a->n_tensors; i++) {
        assert_string_equal(a->tensors[i].name, b->tensors[i].name);
        if (strcmp(a->tensors[i].name, "epoch") != 0 &&
            a->tensors[i].xxh3 != b->tensors[i].xxh3)
            fail_msg("%s of %s has other bits", a->tensors[i].name, a->name);
    }
}

static void assert_same_model(const char *one, const char *other)
{
    fl_model_version *a, *b;

    assert_ok(fl_version_open(&a, in_folder(one)));
    assert_ok(fl_version_open(&b, in_folder(other)));
    assert_int_equal(a->manifest.step, b->manifest.step);
    assert_int_equal(a->manifest.files.len, b->manifest.files.len);
    for (size_t i = 0; i < a->manifest.files.len; i++)
        assert_same_tensors(&a->manifest.files.data[i],
                            &b->manifest.files.data[i]);
    fl_version_close(a);
    fl_version_close(b);
}

static void assert_same(const outcome *a, const outcome *b)
{
    assert_int_equal(a->step, b->step);
    for (int e = 0; e < EPOCHS; e++) {
        assert_same_report(&a->trained[e], &b->trained[e]);
        assert_same_report(&a->examined[e], &b->examined[e]);
    }
    assert_same_model("never-stopped", "gone-on");
}

/* --- going on --------------------------------------------------------------- */

static const setting none[] = { { 0 } };

/* From every version of the folder that was saved into. */
static void go_on_from_all(const recipe *plan, const outcome *never_stopped,
                           size_t n_expected)
{
    fl_version_names all = { 0 };
    outcome o;

    assert_ok(fl_folder_list(in_folder("saved"), &all));
    assert_int_equal(all.len, n_expected);
    for (size_t i = 0; i < all.len; i++) {
        char path[256];
        setting sets[] = { { "resume", path }, { 0 } };

        snprintf(path, sizeof(path), "%s/%s", in_folder("saved"), all.data[i]);
        run_program(plan, sets, "gone-on", &o);
        assert_same(never_stopped, &o);
    }
    fl_version_names_release(&all);
}

static void check_plan(const recipe *plan)
{
    const setting saves[] = { { "save_dir", in_folder("saved") },
                              { "save_every_steps", "8" },
                              { "save_keep", "100" },
                              { 0 } };
    outcome never_stopped, saving;

    remove_tree("saved");
    run_program(plan, none, "never-stopped", &never_stopped);
    run_program(plan, saves, "gone-on", &saving);
    assert_same(&never_stopped, &saving);
    go_on_from_all(plan, &never_stopped, EPOCHS * ROWS / BATCH / 8);
}

static void a_queue_goes_on_bit_by_bit(void **state)
{
    static const recipe all[] = {
        { .optimizer = "sgd",
          .settings = "learning_rate=0.1",
          .kind = "QueueDataset" },
        { .optimizer = "momentum",
          .settings = "learning_rate=0.1, mu=0.9",
          .kind = "QueueDataset",
          .has_schedule = true },
        { .optimizer = "adagrad",
          .settings = "learning_rate=0.1",
          .kind = "QueueDataset" },
        { .optimizer = "adam",
          .settings = "learning_rate=0.01",
          .kind = "QueueDataset",
          .has_schedule = true },
        { .optimizer = "ftrl",
          .settings = "learning_rate=0.1",
          .kind = "QueueDataset" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(all); i++)
        check_plan(&all[i]);
}

static void shuffled_memory_goes_on_bit_by_bit(void **state)
{
    static const recipe all[] = {
        { .optimizer = "adam",
          .settings = "learning_rate=0.01",
          .kind = "InMemoryDataset",
          .has_schedule = true,
          .is_shuffled = true },
        { .optimizer = "adagrad",
          .settings = "learning_rate=0.1, grad_clip=norm(0.1)",
          .kind = "InMemoryDataset",
          .is_shuffled = true },
        { .optimizer = "sgd",
          .settings = "learning_rate=0.1",
          .kind = "InMemoryDataset" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(all); i++)
        check_plan(&all[i]);
}

/* Four batches are a step, and a save is never between them. */
static void batches_that_are_added_up_stay_together(void **state)
{
    static const recipe p = { .optimizer = "adam",
                              .settings = "learning_rate=0.01, accumulate=3",
                              .kind = "QueueDataset" };
    const setting saves[] = { { "save_dir", in_folder("saved") },
                              { "save_every_steps", "3" },
                              { "save_keep", "100" },
                              { 0 } };
    outcome never_stopped, saving;

    (void)state;
    remove_tree("saved");
    run_program(&p, none, "never-stopped", &never_stopped);
    run_program(&p, saves, "gone-on", &saving);
    go_on_from_all(&p, &never_stopped, EPOCHS * ROWS / BATCH / 9);
}

static void passes_that_were_made_return_at_once(void **state)
{
    static const recipe p = { .optimizer = "sgd",
                              .settings = "learning_rate=0.1",
                              .kind = "QueueDataset" };
    const setting saves[] = { { "save_dir", in_folder("saved") },
                              { "save_every_steps", "30" },
                              { 0 } };
    const setting resume[] = { { "resume", in_folder("saved") }, { 0 } };
    outcome o;

    (void)state;
    remove_tree("saved");
    run_program(&p, saves, "never-stopped", &o);
    assert_false(o.trained[0].was_made_before);
    run_program(&p, resume, "gone-on", &o);
    assert_true(o.trained[0].was_made_before);
    assert_true(o.examined[0].was_made_before);
    assert_true(o.trained[1].was_made_before);
    assert_false(o.trained[2].was_made_before);
    assert_same_model("never-stopped", "gone-on");
}

static void a_folder_without_a_version_is_begun_with(void **state)
{
    static const recipe p = { .optimizer = "sgd",
                              .settings = "learning_rate=0.1",
                              .kind = "QueueDataset" };
    const setting resume[] = { { "resume", in_folder("nothing") }, { 0 } };
    outcome never_stopped, o;

    (void)state;
    run_program(&p, none, "never-stopped", &never_stopped);
    run_program(&p, resume, "gone-on", &o);
    assert_same(&never_stopped, &o);
}

/* --- a loop over runs -------------------------------------------------------- */

/* Two replicas, gradients summed by their owners; the step is the number of the
   batch. */
static void run_loop(const setting *sets, const char *end)
{
    static const recipe plan = { .optimizer = "adam",
                                 .settings = "learning_rate=0.01",
                                 .kind = "QueueDataset",
                                 .has_schedule = true,
                                 .is_for_replicas = true };
    fl_build_strategy build_args =
        FL_INIT(fl_build_strategy, .reduce_strategy = FL_REPLICA_REDUCE);
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy, .n_replicas = 2);
    fl_compiled_program *cp;
    const fl_feed *feeds;
    program p;
    size_t n;

    open_program(&p, &plan, sets);
    assert_ok(fl_run(p.exe, fl_default_startup_program(p.ctx), NULL));
    assert_ok(fl_compiled_program_new(&cp, fl_default_main_program(p.ctx)));
    assert_ok(fl_compiled_program_with_data_parallel(cp, fl_var_name(p.loss),
                                                     &build_args, &exec));
    assert_ok(fl_dataset_begin(p.data, 1));
    for (uint64_t i = 0, step = fl_scope_step(fl_current_scope(p.ctx));; i++) {
        assert_ok(fl_dataset_next(p.data, 0, &feeds, &n));
        if (!feeds)
            break;
        if (i >= step)
            assert_ok(fl_run_compiled(
                p.exe, cp,
                &FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 4)));
    }
    fl_dataset_end(p.data);
    fl_compiled_program_free(cp);
    remove_tree(end);
    assert_ok(fl_save_persistables(p.exe, in_folder(end), NULL));
    close_program(&p);
}

static void a_loop_over_runs_goes_on_by_its_step(void **state)
{
    const setting saves[] = { { "save_dir", in_folder("saved") },
                              { "save_every_steps", "9" },
                              { 0 } };
    const setting resume[] = { { "resume", in_folder("saved") }, { 0 } };

    (void)state;
    remove_tree("saved");
    run_loop(none, "never-stopped");
    run_loop(saves, "gone-on");
    assert_same_model("never-stopped", "gone-on");
    run_loop(resume, "gone-on");
    assert_same_model("never-stopped", "gone-on");
}

/* --- a day, and the next ------------------------------------------------------ */

static void train_day(program *p, uint64_t day)
{
    fl_dataset_set_seed(p->data, day);
    assert_ok(fl_dataset_load_into_memory(p->data));
    assert_ok(fl_dataset_local_shuffle(p->data));
    assert_ok(fl_train_from_dataset(p->exe, fl_default_main_program(p->ctx),
                                    p->data, NULL, .auc = fl_var_name(p->auc)));
}

static void
a_day_that_was_saved_and_loaded_is_followed_by_the_next(void **state)
{
    static const recipe plan = { .optimizer = "adam",
                                 .settings = "learning_rate=0.01",
                                 .kind = "InMemoryDataset",
                                 .has_schedule = true,
                                 .is_shuffled = true };
    program p;

    (void)state;
    remove_tree("saved");
    remove_tree("never-stopped");
    remove_tree("gone-on");
    open_program(&p, &plan, none);
    assert_ok(fl_run(p.exe, fl_default_startup_program(p.ctx), NULL));
    train_day(&p, 1);
    assert_ok(fl_save_persistables(p.exe, in_folder("saved"), NULL));
    train_day(&p, 2);
    assert_ok(fl_save_persistables(p.exe, in_folder("never-stopped"), NULL));
    close_program(&p);
    open_program(&p, &plan, none);
    assert_ok(fl_run(p.exe, fl_default_startup_program(p.ctx), NULL));
    assert_ok(fl_load_persistables(p.exe, in_folder("saved"), NULL));
    train_day(&p, 2);
    assert_ok(fl_save_persistables(p.exe, in_folder("gone-on"), NULL));
    close_program(&p);
    assert_same_model("never-stopped", "gone-on");
}

/* --- what is refused ----------------------------------------------------------- */

static void settings_without_sense_are_refused(void **state)
{
    static const recipe plan = { .optimizer = "sgd",
                                 .settings = "learning_rate=0.1",
                                 .kind = "QueueDataset" };
    const setting saves[] = { { "save_every_steps", "8" }, { 0 } };
    const setting resume[] = { { "resume", in_folder("saved") }, { 0 } };
    program p;

    (void)state;
    open_program(&p, &plan, saves);
    assert_ok(fl_run(p.exe, fl_default_startup_program(p.ctx), NULL));
    assert_fails(fl_train_from_dataset(p.exe, fl_default_main_program(p.ctx),
                                       p.data, NULL),
                 "save_every_steps is set, but not where to: set save_dir");
    close_program(&p);
    open_program(&p, &plan, resume);
    assert_fails(fl_train_from_dataset(p.exe, fl_default_main_program(p.ctx),
                                       p.data, NULL),
                 "run the startup program first");
    close_program(&p);
}

static void other_passes_than_before_are_refused(void **state)
{
    static const recipe plan = { .optimizer = "sgd",
                                 .settings = "learning_rate=0.1",
                                 .kind = "QueueDataset" };
    const setting saves[] = { { "save_dir", in_folder("saved") },
                              { "save_every_steps", "30" },
                              { 0 } };
    const setting resume[] = { { "resume", in_folder("saved") }, { 0 } };
    program p;
    outcome o;

    (void)state;
    remove_tree("saved");
    run_program(&plan, saves, "never-stopped", &o);
    open_program(&p, &plan, resume);
    assert_ok(fl_run(p.exe, fl_default_startup_program(p.ctx), NULL));
    assert_fails(fl_infer_from_dataset(p.exe, fl_default_main_program(p.ctx),
                                       p.data, NULL),
                 "pass 1 of the run that is gone on with was one that trains");
    close_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_goes_on_bit_by_bit),
        cmocka_unit_test(shuffled_memory_goes_on_bit_by_bit),
        cmocka_unit_test(batches_that_are_added_up_stay_together),
        cmocka_unit_test(passes_that_were_made_return_at_once),
        cmocka_unit_test(a_folder_without_a_version_is_begun_with),
        cmocka_unit_test(a_loop_over_runs_goes_on_by_its_step),
        cmocka_unit_test(
            a_day_that_was_saved_and_loaded_is_followed_by_the_next),
        cmocka_unit_test(settings_without_sense_are_refused),
        cmocka_unit_test(other_passes_than_before_are_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
