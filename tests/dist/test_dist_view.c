/* test_dist_view.c - what the servers of a job hold is what it has saved, as a
 * tool sees it that takes no part: in every mode, on any number of servers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/job.h"
#include "dist_kit.h"
#include "flotilla/consistency.h"
#include "flotilla/io.h"
#include "flotilla/serving.h"
#include "mode_list.h"
#include "../folder.h"

#define STEPS 4
#define TOKEN "not for everybody"
#define SERVERS_MAX 3

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "view") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static fl_var *pooled(fl_ctx *c, const char *slot)
{
    fl_var *ids =
        fl_layers_data(c, slot, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);

    return fl_layers_sequence_pool(
        fl_layers_sparse_embedding(ids, KIT_DIM, .param.name = "emb"), "sum");
}

/* The network of the kit, with its rows in a table of any ids. */
static fl_var *build_on_table(fl_ctx *c, const kit_job *j)
{
    static const char *const slots[] = { "s0", "s1", "s2" };
    fl_var *parts[KIT_SLOTS + 1], *label, *h;
    fl_optimizer *o;

    for (int i = 0; i < KIT_SLOTS; i++)
        parts[i] = pooled(c, slots[i]);
    parts[KIT_SLOTS] = fl_layers_data(c, "dense", FL_DTYPE_F32, 2,
                                      (int64_t[]){ -1, KIT_DENSE }, 0);
    label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    h = fl_layers_fc(fl_layers_concat(parts, KIT_SLOTS + 1, 1), KIT_HIDDEN,
                     .act = "relu", .param.name = "fc1_w",
                     .bias.name = "fc1_b");
    h = fl_layers_fc(h, 2, .act = "softmax", .param.name = "fc2_w",
                     .bias.name = "fc2_b");
    h = fl_layers_mean(fl_layers_cross_entropy(h, label));
    if (!h || fl_optimizer_new(&o, c, j->optimizer, j->words))
        return NULL;
    return fl_minimize(o, h) ? NULL : h;
}

/* --- comparing ------------------------------------------------------------ */

/* The first difference as an error. */
static fl_status say_first(const fl_consistency *c)
{
    fl_consistency_result r = FL_INIT(fl_consistency_result);

    for (size_t i = 0; fl_consistency_result_at(c, i, &r); i++)
        if (r.first)
            FL_FAIL(FL_ERR_INVAL, "%s", r.first);
    return FL_OK;
}

static fl_status score(fl_consistency *c, fl_model *m, const kit_job *j)
{
    fl_predictor *p;
    kit_batch *b = kit_batch_make(j, 0, 1, STEPS + 1);
    const fl_feed *feeds = kit_batch_feeds(b);
    size_t n_feeds;
    fl_tensor t;
    fl_status st;

    (void)fl_model_inputs(m, &n_feeds);
    FL_TRY(fl_predictor_new(&p, m));
    st = fl_predictor_run(p, feeds, n_feeds, &t, 1);
    if (!st)
        st = fl_consistency_add(c, feeds, KIT_FEEDS, KIT_ROWS, &t, 1);
    fl_predictor_free(p);
    kit_batch_free(b);
    return st;
}

static fl_status compare(const char *dir, fl_model *m, const kit_job *j)
{
    fl_consistency *c;
    fl_status st;

    FL_TRY(fl_consistency_open(&c, dir, m));
    st = fl_consistency_compare(c);
    if (!st)
        st = score(c, m, j);
    if (!st)
        st = say_first(c);
    fl_consistency_close(c);
    return st;
}

/* By a context of its own, as another process would have one. */
static fl_status look(const char *address, const char *dir, const char *target,
                      const kit_job *j)
{
    fl_row_source *rows;
    fl_model *m = NULL;
    fl_ctx *c;
    fl_status st;

    FL_TRY(fl_ctx_new(&c));
    st = fl_ctx_set(c, "join_token", TOKEN);
    if (!st)
        st = fl_row_source_of_servers(&rows, c, address);
    if (!st)
        st = fl_model_open(&m, dir, .rows = rows, .targets = &target,
                           .n_targets = target ? 1 : 0);
    if (!st)
        st = compare(dir, m, j);
    fl_model_close(m);
    fl_ctx_free(c);
    return st;
}

/* --- jobs ----------------------------------------------------------------- */

static const char *server_0(const kit_trainer *t)
{
    return fl_transpiler_job(t->transpiler)->dist->config.servers[0];
}

static fl_status train(kit_trainer *t)
{
    for (int step = 0; step < STEPS; step++)
        FL_TRY(kit_step(t, step));
    return fl_job_barrier(fl_transpiler_job(t->transpiler));
}

/* Nobody trains between the save and the look. */
static fl_status save_and_look(kit_trainer *t, void *arg)
{
    const char *dir = arg, *target;

    FL_TRY(train(t));
    target = kit_target(fl_default_main_program(t->ctx));
    if (!t->rank) {
        FL_TRY(fl_save_persistables(t->exe, dir, NULL));
        FL_TRY(look(server_0(t), dir, target, t->job));
    }
    return fl_job_barrier(fl_transpiler_job(t->transpiler));
}

static fl_status save_scores(const kit_trainer *t, const char *dir)
{
    return kit_save_scores(t->exe, fl_default_main_program(t->ctx), dir);
}

static fl_status save_scores_and_look(kit_trainer *t, void *arg)
{
    FL_TRY(train(t));
    if (!t->rank) {
        FL_TRY(save_scores(t, arg));
        FL_TRY(look(server_0(t), arg, NULL, t->job));
    }
    return fl_job_barrier(fl_transpiler_job(t->transpiler));
}

/* From folder to folder: what goes online is in the second. */
static fl_status save_twice(kit_trainer *t, void *arg)
{
    char online[128];
    fl_model *m;
    fl_status st;

    snprintf(online, sizeof(online), "%s.online", (const char *)arg);
    FL_TRY(train(t));
    FL_TRY(fl_save_persistables(t->exe, arg, NULL));
    FL_TRY(save_scores(t, online));
    FL_TRY(fl_model_open(&m, online));
    st = compare(arg, m, t->job);
    fl_model_close(m);
    return st;
}

/* In mode geo a save is an exchange, by which values are rounded once more: its
   two saves are of two moments. */
static bool has_one_moment(const char *mode)
{
    return strcmp(mode, "geo") != 0;
}

static bool is_any(const char *mode)
{
    (void)mode;
    return true;
}

static void sweep(const kit_job *base, kit_work work,
                  bool (*takes)(const char *mode))
{
    static int n;

    for (size_t i = 0; mode_name(i); i++)
        for (int s = 1; s <= SERVERS_MAX && takes(mode_name(i)); s++) {
            kit_text texts[KIT_MEMBERS] = { 0 };
            kit_job j = *base;
            char dir[96];

            snprintf(dir, sizeof(dir), "%s/%d", folder, n++);
            j.mode = mode_name(i);
            j.n_servers = s;
            kit_run(&j, work, dir, NULL, texts);
            for (int k = KIT_MEMBERS - 1; k >= 0; k--) /* trainers know why */
                if (texts[k][0])
                    fail_msg("%s, %d servers, member %d: %s", j.mode, s, k,
                             texts[k]);
        }
}

/* Parameters are cut into several blocks. The token is the job's own, whoever
   has left one for its ports. */
#define SETTINGS                                                               \
    {                                                                          \
        { "min_block_size", "16" },                                            \
        {                                                                      \
            "join_token", TOKEN                                                \
        }                                                                      \
    }

static void servers_hold_the_rows_that_were_saved(void **state)
{
    const kit_job j = { .build = build_on_table,
                        .n_trainers = 2,
                        .optimizer = "adagrad",
                        .words = "learning_rate=0.05",
                        .settings = SETTINGS };

    (void)state;
    sweep(&j, save_and_look, is_any);
}

/* The embedding is an array, whose rows the servers keep in a table. */
static void servers_hold_the_arrays_that_were_saved(void **state)
{
    const kit_job j = { .n_trainers = 2,
                        .optimizer = "adagrad",
                        .words = "learning_rate=0.05",
                        .settings = SETTINGS };

    (void)state;
    sweep(&j, save_scores_and_look, is_any);
    sweep(&j, save_and_look, is_any);
}

static void what_a_job_saves_for_prediction_is_what_it_trained(void **state)
{
    const kit_job j = { .n_trainers = 1,
                        .optimizer = "adagrad",
                        .words = "learning_rate=0.05",
                        .settings = SETTINGS };

    (void)state;
    sweep(&j, save_twice, has_one_moment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_hold_the_rows_that_were_saved),
        cmocka_unit_test(servers_hold_the_arrays_that_were_saved),
        cmocka_unit_test(what_a_job_saves_for_prediction_is_what_it_trained),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
