/* test_dist_names.c - what of a model a job loads: strictly by name, in the words
 * of one process, and what may be asked for: less, other names, other shapes,
 * another optimizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/dense.h"
#include "ckpt/table_map.h"
#include "ckpt/version.h"
#include "dist_kit.h"
#include "flotilla/io.h"
#include "../make.h"
#include "../folder.h"

#define STEPS 3

static char folder[FOLDER_BYTES], saved[64];

/* --- networks ------------------------------------------------------------- */

/* The same network under other names, in other sizes. */
typedef struct look {
    const char *emb, *weight, *optimizer;
    int dim;
} look;

static const look usual = { "emb", "fc1_w", "adam", KIT_DIM };
static const look *now = &usual;

static fl_var *build(fl_ctx *c, const kit_job *j)
{
    static const char *const slots[KIT_SLOTS] = { "s0", "s1", "s2" };
    fl_var *parts[KIT_SLOTS + 1], *h, *label, *loss;
    fl_optimizer *o;

    (void)j;
    for (int i = 0; i < KIT_SLOTS; i++)
        parts[i] = fl_layers_sequence_pool(
            fl_layers_embedding(
                fl_layers_data(c, slots[i], FL_DTYPE_I64, 2,
                               (int64_t[]){ -1, 1 }, 1),
                KIT_HEIGHT, now->dim, .is_sparse = true,
                .param = { .name = now->emb, .init = "uniform(-0.5,0.5)" }),
            "sum");
    parts[KIT_SLOTS] = fl_layers_data(c, "dense", FL_DTYPE_F32, 2,
                                      (int64_t[]){ -1, KIT_DENSE }, 0);
    h = fl_layers_fc(fl_layers_concat(parts, KIT_SLOTS + 1, 1), KIT_HIDDEN,
                     .act = "relu", .param = { .name = now->weight },
                     .bias = { .name = "fc1_b" });
    h = fl_layers_fc(h, 2, .act = "softmax", .param = { .name = "fc2_w" },
                     .bias = { .name = "fc2_b" });
    label =
        fl_layers_data(c, "label", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    loss = fl_layers_mean(fl_layers_cross_entropy(h, label));
    o = make_optimizer(c, now->optimizer, "learning_rate=0.05");
    return o && !fl_minimize(o, loss) ? loss : NULL;
}

static kit_job new_job(int n_servers)
{
    return (kit_job){ .mode = "sync",
                      .build = build,
                      .n_servers = n_servers,
                      .n_trainers = 2,
                      .settings = { { "min_block_size", "16" } } };
}

static void run(const kit_job *j, kit_work work, void *arg)
{
    kit_text texts[KIT_MEMBERS] = { 0 };

    kit_run(j, work, arg, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

static fl_status train(kit_trainer *t)
{
    for (int step = 0; step < STEPS; step++)
        FL_TRY(kit_step(t, step));
    return fl_job_barrier(fl_transpiler_job(t->transpiler));
}

static fl_status train_and_save(kit_trainer *t, void *arg)
{
    (void)arg;
    FL_TRY(train(t));
    return t->rank ? FL_OK
                   : fl_job_save(fl_transpiler_job(t->transpiler), saved);
}

static int set_up(void **state)
{
    kit_job j = new_job(2);

    (void)state;
    if (!folder_make(folder, "names"))
        return -1;
    snprintf(saved, sizeof(saved), "%s/model", folder);
    run(&j, train_and_save, NULL);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- what a model has ----------------------------------------------------- */

/* A dense variable of the model against that of the job: the first `cols` of
   `rows` rows are the same, or none of it is. */
typedef struct part {
    const char *name, *in_model;
    int rows, cols;
    int n, width; /* of the job's */
    bool differs;
} part;

static fl_status compare(const part *p, const float *have, const float *model,
                         int model_width)
{
    bool is_same = true;

    for (int i = 0; i < p->rows; i++)
        is_same &= !memcmp(have + (size_t)i * (size_t)p->width,
                           model + (size_t)i * (size_t)model_width,
                           (size_t)p->cols * sizeof(float));
    if (is_same == p->differs)
        FL_FAIL(FL_ERR_INVAL, "%s is %s %s of the model", p->name,
                is_same ? "like" : "unlike", p->in_model);
    return FL_OK;
}

static fl_status check_dense(fl_job *job, const part *p)
{
    float *have = calloc((size_t)p->n, sizeof(*have));
    const fl_st_tensor *t = NULL;
    fl_model_version *v = NULL;
    fl_st_file *f = NULL;
    fl_status st;
    int dense;

    st = fl_job_find_dense(job, p->name, &dense);
    if (!st)
        st = fl_job_pull_dense(job, dense, have);
    if (!st)
        st = fl_version_open(&v, saved);
    if (!st)
        st = fl_version_map(v, FL_DENSE_FILE, &f);
    if (!st) {
        t = fl_st_find(f, p->in_model);
        st = compare(p, have, fl_st_bytes(f, t),
                     t->shape.rank == 2 ? (int)t->shape.dim[1] : 1);
    }
    fl_st_close(f);
    fl_version_close(v);
    free(have);
    return st;
}

/* The rows of the model have the same numbers in the job, as many as fit. */
static fl_status compare_rows(const fl_table_map *map, const float *have,
                              const char *name, int dim)
{
    int n = dim < KIT_DIM ? dim : KIT_DIM, n_rows = 0;

    for (uint64_t key = 0; key < KIT_HEIGHT; key++) {
        float value[KIT_DIM];
        uint64_t row;

        fl_table_map_find(map, &key, 1, &row);
        if (row == FL_MAP_NONE)
            continue;
        fl_table_map_value(map, row, value);
        n_rows++;
        if (memcmp(have + key * (uint64_t)dim, value,
                   (size_t)n * sizeof(float)) != 0)
            FL_FAIL(FL_ERR_INVAL, "row %d of %s is not the model's", (int)key,
                    name);
    }
    if (!n_rows)
        FL_FAIL(FL_ERR_INVAL, "the model has no rows");
    return FL_OK;
}

static fl_status check_rows(fl_job *job, const char *name, int dim)
{
    float *have = calloc(KIT_HEIGHT * (size_t)dim, sizeof(*have));
    uint64_t keys[KIT_HEIGHT];
    fl_table_map *map = NULL;
    fl_model_version *v = NULL;
    fl_status st = fl_version_open(&v, saved);
    int table;

    for (uint64_t i = 0; i < KIT_HEIGHT; i++)
        keys[i] = i;
    if (!st)
        st = fl_job_find_table(job, name, &table);
    if (!st)
        st = fl_job_pull(job, table, keys, KIT_HEIGHT, FL_PULL_ONLY, have);
    if (!st)
        st = fl_table_map_open(&map, v, "emb");
    if (!st)
        st = compare_rows(map, have, name, dim);
    fl_table_map_close(map);
    fl_version_close(v);
    free(have);
    return st;
}

/* --- a load --------------------------------------------------------------- */

/* What a job of that look loads, and how it is then. */
typedef struct load {
    look look;
    fl_load_args args;
    const char *rows; /* this table has the model's; NULL: not looked at */
    part parts[3];
} load;

static fl_status load_and_look(kit_trainer *t, void *arg)
{
    fl_job *job = fl_transpiler_job(t->transpiler);
    const load *l = arg;

    FL_TRY(train(t));
    if (t->rank)
        return FL_OK;
    FL_TRY(fl_load_vars(t->exe, saved, NULL, &l->args));
    for (int i = 0; i < 3 && l->parts[i].name; i++)
        FL_TRY(check_dense(job, &l->parts[i]));
    return l->rows ? check_rows(job, l->rows, l->look.dim) : FL_OK;
}

/* By more servers than saved it. */
static void expect_load(load *l)
{
    kit_job j = new_job(3);

    l->args.size = sizeof(l->args);
    now = &l->look;
    run(&j, load_and_look, l);
    now = &usual;
}

#define WIDE (KIT_SLOTS * KIT_DIM + KIT_DENSE) /* rows of fc1_w */

static const part whole_weight = { "fc1_w",    "fc1_w",          WIDE,
                                   KIT_HIDDEN, WIDE *KIT_HIDDEN, KIT_HIDDEN,
                                   false };
static const part whole_bias = { "fc2_b", "fc2_b", 2, 1, 2, 1, false };

static void another_optimizer_begins_with_fresh_state(void **state)
{
    load l = { .look = { "emb", "fc1_w", "sgd", KIT_DIM },
               .args = { .fresh_state = true },
               .rows = "emb",
               .parts = { whole_weight, whole_bias } };

    (void)state;
    expect_load(&l);
}

static void a_list_loads_less(void **state)
{
    static const char *const names[] = { "fc1_w" };
    load l = { .look = { "emb", "fc1_w", "sgd", KIT_DIM },
               .args = { .names = names, .n_names = 1 },
               .parts = { whole_weight, whole_bias } };

    (void)state;
    l.parts[1].differs = true;
    expect_load(&l);
}

static void other_names_are_given(void **state)
{
    static const char *const renames[] = { "fc1_w=first", "emb=rows" };
    load l = { .look = { "rows", "first", "adam", KIT_DIM },
               .args = { .renames = renames, .n_renames = 2 },
               .rows = "rows",
               .parts = { whole_weight, whole_bias } };

    (void)state;
    l.parts[0].name = "first";
    expect_load(&l);
}

/* Slots are wider, so that the weights have more rows. */
static void another_shape_is_cut_or_filled_up(void **state)
{
    static const char *const resizes[] = { "fc1_w", "emb" };
    load l = { .look = { "emb", "fc1_w", "adam", KIT_DIM + 2 },
               .args = { .resizes = resizes, .n_resizes = 2 },
               .rows = "emb",
               .parts = { whole_weight, whole_bias } };

    (void)state;
    l.parts[0].n = (WIDE + 2 * KIT_SLOTS) * KIT_HIDDEN;
    expect_load(&l);
    l.look.dim = KIT_DIM - 2;
    l.parts[0].rows = WIDE - 2 * KIT_SLOTS;
    l.parts[0].n = l.parts[0].rows * KIT_HIDDEN;
    expect_load(&l);
}

/* --- what does not fit ---------------------------------------------------- */

static const look other = { "emb", "fc9_w", "sgd", KIT_DIM };

/* What one process says of it. */
static void load_alone(char *said, size_t cap)
{
    fl_executor *e;
    fl_ctx *c;

    assert_ok(fl_ctx_new(&c));
    assert_non_null(build(c, NULL));
    assert_ok(fl_executor_new(&e, c));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_int_not_equal(fl_load_persistables(e, saved, NULL), FL_OK);
    snprintf(said, cap, "%s", fl_last_error());
    fl_executor_free(e);
    fl_ctx_free(c);
}

static fl_status be_refused(kit_trainer *t, void *arg)
{
    const char *said = arg;

    FL_TRY(train(t));
    if (t->rank)
        return FL_OK;
    if (!fl_load_persistables(t->exe, saved, NULL) ||
        strcmp(fl_last_error(), said) != 0)
        FL_FAIL(FL_ERR_INVAL, "the job says: %s, and one process: %s",
                fl_last_error(), said);
    return train(t);
}

static void what_does_not_fit_is_listed_as_by_one_process(void **state)
{
    kit_job j = new_job(2);
    char said[2048];

    (void)state;
    now = &other;
    load_alone(said, sizeof(said));
    assert_non_null(strstr(said, "fc9_w was not saved (the nearest is fc1_w)"));
    assert_non_null(strstr(said, "fc1_w was saved, but the program has none"));
    run(&j, be_refused, said);
    now = &usual;
}

/* Before it serves. */
static void a_server_that_begins_with_it_says_the_same(void **state)
{
    char addresses[64], said[2048];
    fl_transpiler *t;
    fl_executor *e;
    fl_ctx *c;

    (void)state;
    now = &other;
    load_alone(said, sizeof(said));
    kit_addresses(addresses, sizeof(addresses), 1);
    assert_ok(fl_ctx_new(&c));
    assert_non_null(build(c, NULL));
    assert_ok(fl_executor_new(&e, c));
    assert_ok(fl_transpile(&t, c, .role = FL_ROLE_SERVER, .pservers = addresses,
                           .n_trainers = 1));
    assert_int_not_equal(fl_load_persistables(e, saved, NULL), FL_OK);
    assert_string_equal(fl_last_error(), said);
    fl_transpiler_free(t);
    fl_executor_free(e);
    fl_ctx_free(c);
    now = &usual;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_optimizer_begins_with_fresh_state),
        cmocka_unit_test(a_list_loads_less),
        cmocka_unit_test(other_names_are_given),
        cmocka_unit_test(another_shape_is_cut_or_filled_up),
        cmocka_unit_test(what_does_not_fit_is_listed_as_by_one_process),
        cmocka_unit_test(a_server_that_begins_with_it_says_the_same),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
