/* test_dist_any_mode.c - a model with all of its state, saved in one mode by some
 * servers and loaded in another by others. Where trainers update parameters
 * themselves (geo) state is theirs, and is added up for those who do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/dense.h"
#include "ckpt/table_map.h"
#include "ckpt/version.h"
#include "dist_kit.h"
#include "flotilla/io.h"
#include "mode_list.h"
#include "../folder.h"

#define STEPS 4
#define TRAINERS 2
#define ALL (-1)
#define ROWS (KIT_HEIGHT * KIT_DIM)
#define WEIGHTS ((KIT_SLOTS * KIT_DIM + KIT_DENSE) * KIT_HIDDEN)

static char folder[FOLDER_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return folder_make(folder, "any") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

typedef struct place {
    char dir[64];
} place;

static place new_place(void)
{
    static int n;
    place p;

    snprintf(p.dir, sizeof(p.dir), "%s/%d", folder, n++);
    return p;
}

/* --- what a model has ----------------------------------------------------- */

/* A rule, with the state of its rows and of fc1_w. */
typedef struct rule {
    const char *name, *field, *of_weight;
} rule;

static const rule rules[] = {
    { "adagrad", "moment", "fc1_w_moment_0" },
    { "adadelta", "_avg_squared_grad", "fc1_w__avg_squared_grad_0" },
};

static bool is_geo(const char *mode)
{
    return !strcmp(mode, "geo");
}

static void add_rows(const fl_st_file *f, const char *key, const char *field,
                     float out[ROWS])
{
    const fl_st_tensor *k = fl_st_find(f, key), *v = fl_st_find(f, field);
    const uint64_t *keys;
    const float *rows;

    assert_non_null(k);
    assert_non_null(v);
    keys = fl_st_bytes(f, k);
    rows = fl_st_bytes(f, v);
    for (int64_t i = 0; i < k->shape.dim[0]; i++)
        for (int d = 0; d < KIT_DIM; d++)
            out[keys[i] * KIT_DIM + (uint64_t)d] += rows[i * KIT_DIM + d];
}

static void add_file(const fl_model_version *v, const char *file,
                     const char *prefix, const char *field, float out[ROWS])
{
    char key[64], name[64];
    fl_st_file *f;

    snprintf(key, sizeof(key), "%skey", prefix);
    snprintf(name, sizeof(name), "%s%s", prefix, field);
    assert_ok(fl_version_map(v, file, &f));
    add_rows(f, key, name, out);
    fl_st_close(f);
}

/* State of rows: that of a trainer, or of all of the job. */
static void row_state(const place *p, const rule *r, int trainer,
                      float out[ROWS])
{
    const fl_manifest_table *t;
    fl_model_version *v;
    char file[64];

    memset(out, 0, ROWS * sizeof(*out));
    assert_ok(fl_version_open(&v, p->dir));
    t = fl_manifest_find_table(&v->manifest, "emb");
    for (size_t i = 0; i < t->n_files && !is_geo(v->manifest.mode); i++)
        add_file(v, t->files[i].file, "", r->field, out);
    for (int i = 0; i < TRAINERS && is_geo(v->manifest.mode); i++) {
        snprintf(file, sizeof(file), "trainers/%d.safetensors", i);
        if (trainer == ALL || trainer == i)
            add_file(v, file, "emb@", r->field, out);
    }
    fl_version_close(v);
}

static void row_values(const place *p, float out[ROWS])
{
    const size_t width = ROWS / KIT_HEIGHT;
    fl_model_version *v;
    fl_table_map *map;

    assert_ok(fl_version_open(&v, p->dir));
    assert_ok(fl_table_map_open(&map, v, "emb"));
    for (uint64_t i = 0; i < KIT_HEIGHT; i++) {
        float *to = out + i * width;
        const float *at;

        (void)fl_table_map_look(map, &i, 1, to, &at);
        if (at != to)
            memcpy(to, at, width * sizeof(*to));
    }
    fl_table_map_close(map);
    fl_version_close(v);
}

/* A variable like fc1_w, whole, or as a trainer has it. */
static void weights(const place *p, const char *name, int trainer,
                    float out[WEIGHTS])
{
    const fl_st_tensor *t;
    fl_model_version *v;
    fl_st_file *f;
    char file[64];

    snprintf(file, sizeof(file), "trainers/%d.safetensors", trainer);
    assert_ok(fl_version_open(&v, p->dir));
    assert_ok(fl_version_map(v, trainer == ALL ? FL_DENSE_FILE : file, &f));
    t = fl_st_find(f, name);
    assert_non_null(t);
    memcpy(out, fl_st_bytes(f, t), WEIGHTS * sizeof(*out));
    fl_st_close(f);
    fl_version_close(v);
}

/* --- jobs ----------------------------------------------------------------- */

typedef struct day {
    int steps;
    const char *dir;
} day;

static fl_status train_and_save(kit_trainer *t, void *arg)
{
    const day *d = arg;

    for (int step = 0; step < d->steps; step++)
        FL_TRY(kit_step(t, step));
    FL_TRY(fl_job_barrier(fl_transpiler_job(t->transpiler)));
    return t->rank ? FL_OK
                   : fl_job_save(fl_transpiler_job(t->transpiler), d->dir);
}

/* Begins with a model, or NULL, and saves another. */
static void live(const char *mode, int n_servers, const rule *r,
                 const char *model, const day *d)
{
    kit_job j = { .mode = mode,
                  .n_servers = n_servers,
                  .n_trainers = TRAINERS,
                  .optimizer = r->name,
                  .words = "learning_rate=0.05",
                  .settings = { { "min_block_size", "16" },
                                { "geo_need_push_nums", "1" } },
                  .model = model };
    kit_text texts[KIT_MEMBERS] = { 0 };

    kit_run(&j, train_and_save, (void *)(uintptr_t)d, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("%s by %d servers, member %d: %s", mode, n_servers, i,
                     texts[i]);
}

/* --- what is the same ------------------------------------------------------ */

static void expect_values(const place *a, const place *b)
{
    float x[ROWS], y[ROWS], v[WEIGHTS], w[WEIGHTS];

    row_values(a, x);
    row_values(b, y);
    assert_memory_equal(x, y, sizeof(x));
    weights(a, "fc1_w", ALL, v);
    weights(b, "fc1_w", ALL, w);
    assert_memory_equal(v, w, sizeof(v));
}

/* A trainer of geo has what it had, or what the servers had. */
static void expect_trainers(const place *a, const char *mode, const place *b,
                            const rule *r)
{
    float x[ROWS], y[ROWS], v[WEIGHTS], w[WEIGHTS];

    for (int i = 0; i < TRAINERS; i++) {
        int of = is_geo(mode) ? i : ALL;

        row_state(a, r, of, x);
        row_state(b, r, i, y);
        assert_memory_equal(x, y, sizeof(x));
        weights(a, r->of_weight, of, v);
        weights(b, r->of_weight, i, w);
        assert_memory_equal(v, w, sizeof(v));
    }
}

static void expect_servers(const place *a, const place *b, const rule *r)
{
    float x[ROWS], y[ROWS], v[WEIGHTS], w[WEIGHTS];

    row_state(a, r, ALL, x);
    row_state(b, r, ALL, y);
    assert_memory_equal(x, y, sizeof(x));
    weights(a, r->of_weight, ALL, v);
    weights(b, r->of_weight, ALL, w);
    assert_memory_equal(v, w, sizeof(v));
}

/* There is something to compare. */
static void expect_trained(const place *a, const rule *r)
{
    float x[ROWS];
    int n = 0;

    row_state(a, r, ALL, x);
    for (int i = 0; i < ROWS; i++)
        n += x[i] != 0;
    assert_true(n > ROWS / 4);
}

static void every_pair(const rule *r)
{
    for (size_t i = 0; mode_name(i); i++) {
        place a = new_place();

        live(mode_name(i), 1 + (int)(i % 3), r, NULL, &(day){ STEPS, a.dir });
        expect_trained(&a, r);
        for (size_t k = 0; mode_name(k); k++) {
            place b = new_place();

            live(mode_name(k), 1 + (int)((i + k + 1) % 3), r, a.dir,
                 &(day){ 0, b.dir });
            expect_values(&a, &b);
            if (is_geo(mode_name(k)))
                expect_trainers(&a, mode_name(i), &b, r);
            else
                expect_servers(&a, &b, r);
        }
    }
}

static void every_mode_goes_on_from_any_other_with_adagrad(void **state)
{
    (void)state;
    every_pair(&rules[0]);
}

static void every_mode_goes_on_from_any_other_with_adadelta(void **state)
{
    (void)state;
    every_pair(&rules[1]);
}

/* --- one process ----------------------------------------------------------- */

static void load_alone(const place *p, const rule *r, float rows[ROWS],
                       float weight[WEIGHTS])
{
    const kit_job j = { .optimizer = r->name, .words = "learning_rate=0.05" };
    fl_tensor t;
    fl_executor *e;
    char name[64];
    fl_ctx *c;

    snprintf(name, sizeof(name), "emb_%s_0", r->field);
    assert_ok(fl_ctx_new(&c));
    assert_non_null(kit_build(c, &j));
    assert_ok(fl_executor_new(&e, c));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_ok(fl_load_persistables(e, p->dir, NULL));
    assert_ok(fl_scope_get(fl_current_scope(c), name, &t));
    memcpy(rows, t.data, ROWS * sizeof(*rows));
    assert_ok(fl_scope_get(fl_current_scope(c), r->of_weight, &t));
    memcpy(weight, t.data, WEIGHTS * sizeof(*weight));
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void state_of_trainers_comes_home(void **state)
{
    float rows[ROWS], sums[ROWS], weight[WEIGHTS], whole[WEIGHTS];
    float one[WEIGHTS], other[WEIGHTS];

    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        place p = new_place();

        live("geo", 2, &rules[i], NULL, &(day){ STEPS, p.dir });
        load_alone(&p, &rules[i], rows, weight);
        row_state(&p, &rules[i], ALL, sums);
        assert_memory_equal(rows, sums, sizeof(rows));
        weights(&p, rules[i].of_weight, ALL, whole);
        assert_memory_equal(weight, whole, sizeof(weight));
        weights(&p, rules[i].of_weight, 0, one);
        weights(&p, rules[i].of_weight, 1, other);
        for (int k = 0; k < WEIGHTS; k++)
            assert_true(whole[k] == one[k] + other[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_goes_on_from_any_other_with_adagrad),
        cmocka_unit_test(every_mode_goes_on_from_any_other_with_adadelta),
        cmocka_unit_test(state_of_trainers_comes_home),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
