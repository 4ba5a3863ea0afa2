/* test_watch.c - versions and deltas that come while a model is in use. */
#include "delta_kit.h"

#include <stdatomic.h>

#include "base/thread.h"
#include "ckpt/version.h"
#include "table/cut.h"

#define SCORERS 3
#define VERSIONS 12

/* --- a model whose score is the number of its version --------------------- */

static const char program[] = "var x : f32[-1,1] data\n"
                              "param w : f32[1,1]\n"
                              "op mul (X=x, Y=w) -> (Out=y)\n"
                              "fetch y\n";
static const char wider[] = "var x : f32[-1,2] data\n"
                            "param w : f32[2,1]\n"
                            "op mul (X=x, Y=w) -> (Out=y)\n"
                            "fetch y\n";

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_program *p;
} net;

static net net_of(const char *text)
{
    net n = { .c = make_ctx() };

    n.e = make_executor(n.c);
    must(fl_program_from_text(&n.p, n.c, text));
    return n;
}

static void net_free(net *n)
{
    fl_program_free(n->p);
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static void save_number(net *n, const char *dir, float number, int64_t width)
{
    float w[] = { number, number };
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, w, 2, (int64_t[]){ width, 1 });
    const char *x[] = { "x" }, *y[] = { "y" };

    must(fl_scope_set(fl_current_scope(n->c), "w", &t));
    must(fl_save_inference_model(n->e, dir, .feeds = x, .n_feeds = 1,
                                 .targets = y, .n_targets = 1,
                                 .program = n->p));
}

static float score_one(fl_predictor *p)
{
    static const float one = 1;
    fl_feed x = { "x",
                  fl_tensor_of(FL_DTYPE_F32, &one, 2, (int64_t[]){ 1, 1 }) };
    fl_tensor y;

    must(fl_predictor_run(p, &x, 1, &y, 1));
    return *(const float *)y.data;
}

/* Flips a bit near the end of a file of the version that counts. */
static void damage(const char *dir, const char *file)
{
    fl_model_version *v;
    char path[512];
    FILE *f;
    int c;

    must(fl_version_open(&v, dir));
    snprintf(path, sizeof(path), "%s/%s", v->path, file);
    fl_version_close(v);
    f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -2, SEEK_END), 0);
    c = fgetc(f);
    assert_int_equal(fseek(f, -2, SEEK_END), 0);
    fputc(c ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static void a_newer_version_is_taken_by_the_next_run(void **state)
{
    net n = net_of(program);
    fl_predictor *p;
    fl_model *m;
    char dir[256];

    (void)state;
    save_number(&n, kit_path("newer", dir), 1, 1);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    assert_true(score_one(p) == 1);
    assert_ok(fl_model_refresh(m));
    assert_int_equal(kit_stats(m).versions, 0);
    save_number(&n, dir, 2, 1);
    assert_true(score_one(p) == 1); /* nobody has looked yet */
    assert_ok(fl_model_refresh(m));
    assert_true(score_one(p) == 2);
    assert_int_equal(kit_stats(m).versions, 1);
    fl_predictor_free(p);
    fl_model_close(m);
    net_free(&n);
}

static void
a_damaged_version_is_refused_once_and_the_old_one_stays(void **state)
{
    net n = net_of(program);
    fl_predictor *p;
    fl_model *m;
    char dir[256];

    (void)state;
    save_number(&n, kit_path("damaged", dir), 1, 1);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    save_number(&n, dir, 2, 1);
    damage(dir, "dense.safetensors");
    assert_int_equal(fl_model_refresh(m), FL_ERR_CORRUPT);
    assert_said("is not taken");
    assert_said("dense.safetensors");
    assert_ok(fl_model_refresh(m)); /* it is not tried again */
    assert_true(score_one(p) == 1);
    assert_int_equal(kit_stats(m).refused, 1);
    save_number(&n, dir, 3, 1);
    assert_ok(fl_model_refresh(m));
    assert_true(score_one(p) == 3);
    fl_predictor_free(p);
    fl_model_close(m);
    net_free(&n);
}

static void a_version_with_other_inputs_is_refused(void **state)
{
    net n = net_of(program), other = net_of(wider);
    fl_predictor *p;
    fl_model *m;
    char dir[256];

    (void)state;
    save_number(&n, kit_path("inputs", dir), 1, 1);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    save_number(&other, dir, 2, 2);
    assert_int_equal(fl_model_refresh(m), FL_ERR_INVAL);
    assert_said("its input x");
    assert_true(score_one(p) == 1);
    fl_predictor_free(p);
    fl_model_close(m);
    net_free(&other);
    net_free(&n);
}

static void
a_directory_that_cannot_be_read_leaves_the_version_in_use(void **state)
{
    net n = net_of(program);
    fl_predictor *p;
    fl_model *m;
    char dir[256], gone[256];

    (void)state;
    save_number(&n, kit_path("moved", dir), 1, 1);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    assert_int_equal(rename(dir, kit_path("elsewhere", gone)), 0);
    assert_true(fl_model_refresh(m) != FL_OK);
    assert_said("no look for newer versions");
    assert_true(score_one(p) == 1);
    assert_int_equal(kit_stats(m).refused, 0);
    fl_predictor_free(p);
    fl_model_close(m);
    net_free(&n);
}

/* --- threads -------------------------------------------------------------- */

typedef struct scorer {
    fl_model *m;
    atomic_bool *is_over;
    fl_thread *thread;
    float last;
    uint64_t runs;
} scorer;

/* Scores never go back, and are always those of some version. */
static void score_on(void *arg)
{
    scorer *s = arg;
    fl_predictor *p;

    must(fl_predictor_new(&p, s->m));
    while (!atomic_load(s->is_over) || s->last < VERSIONS) {
        float y = score_one(p);

        assert_true(y == (float)(int)y && y >= s->last && y <= VERSIONS);
        s->last = y;
        s->runs++;
    }
    fl_predictor_free(p);
}

static void threads_score_while_versions_change(void **state)
{
    net n = net_of(program);
    scorer scorers[SCORERS];
    atomic_bool is_over = false;
    fl_model *m;
    char dir[256];

    (void)state;
    save_number(&n, kit_path("threads", dir), 1, 1);
    assert_ok(fl_model_open(&m, dir, .watch_ms = 1));
    for (int i = 0; i < SCORERS; i++) {
        scorers[i] = (scorer){ .m = m, .is_over = &is_over };
        assert_ok(fl_thread_start(&scorers[i].thread, "score", score_on,
                                  &scorers[i]));
    }
    for (int i = 2; i <= VERSIONS; i++)
        save_number(&n, dir, (float)i, 1);
    atomic_store(&is_over, true);
    for (int i = 0; i < SCORERS; i++) {
        fl_thread_join(scorers[i].thread);
        assert_true(scorers[i].last == VERSIONS);
        assert_true(scorers[i].runs > 0);
    }
    assert_int_equal(kit_stats(m).refused, 0);
    fl_model_close(m);
    net_free(&n);
}

/* --- deltas --------------------------------------------------------------- */

static void compare(kit_net *n, fl_predictor *p, uint32_t seed)
{
    float expected[KIT_BATCH];
    kit_batch b;
    fl_tensor t;

    kit_batch_draw(&b, seed);
    kit_expect(n, &b, expected);
    assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    assert_memory_equal(t.data, expected, sizeof(expected));
}

/* A model, and a predictor that was open before the deltas came. */
typedef struct chain {
    kit_net n;
    fl_model *m;
    fl_predictor *p;
    uint32_t epoch;
    char dir[256];
} chain;

static void chain_new(chain *c, const char *name, bool in_memory)
{
    fl_table *t;

    c->n = kit_net_new(&kit_in_table);
    kit_train(&c->n, 1, 10);
    must(fl_ctx_table(c->n.c, "emb", &t));
    c->epoch = fl_table_watch(t);
    must(kit_save(&c->n, kit_path(name, c->dir)));
    must(fl_model_open(&c->m, c->dir, .in_memory = in_memory));
    must(fl_predictor_new(&c->p, c->m));
}

static void chain_free(chain *c)
{
    fl_predictor_free(c->p);
    fl_model_close(c->m);
    kit_net_free(&c->n);
}

static void follow_a_chain(const char *name, bool in_memory)
{
    fl_predictor *p;
    fl_model *late;
    chain c;

    chain_new(&c, name, in_memory);
    for (uint32_t i = 0; i < 4; i++) {
        kit_train(&c.n, 50 + 10 * i, 2);
        c.epoch = kit_save_delta(&c.n, c.dir, c.epoch);
        assert_ok(fl_model_refresh(c.m));
        compare(&c.n, c.p, 900 + i);
        compare(&c.n, c.p, 1); /* rows of the base, too */
    }
    assert_int_equal(kit_stats(c.m).versions, 4);
    /* Who comes late takes the whole chain. */
    assert_ok(fl_model_open(&late, c.dir));
    assert_ok(fl_predictor_new(&p, late));
    compare(&c.n, p, 950);
    fl_predictor_free(p);
    fl_model_close(late);
    /* A whole version takes the chain's place. */
    kit_train(&c.n, 200, 2);
    assert_ok(kit_save(&c.n, c.dir));
    assert_ok(fl_model_refresh(c.m));
    compare(&c.n, c.p, 960);
    chain_free(&c);
}

static void a_chain_of_deltas_scores_as_the_table_does(void **state)
{
    (void)state;
    follow_a_chain("deltas", false);
    follow_a_chain("deltas_copied", true);
}

/* --- threads and deltas --------------------------------------------------- */

#define DELTAS 8

/* What a batch scores in each version, known before the version is there. */
typedef struct expected {
    fl_model *m;
    kit_batch b;
    float scores[DELTAS + 1][KIT_BATCH];
    atomic_int n;
} expected;

static void expect_next(expected *e, kit_net *n)
{
    int at = atomic_load(&e->n);

    kit_expect(n, &e->b, e->scores[at]);
    atomic_store(&e->n, at + 1);
}

static bool is_same(const float *a, const float *b)
{
    int i = 0;

    while (i < KIT_BATCH && a[i] == b[i])
        i++;
    return i == KIT_BATCH;
}

/* The version that gave these scores, `from` or a later one. */
static int version_of(expected *e, const fl_tensor *t, int from)
{
    int n = atomic_load(&e->n);

    while (from < n && !is_same(t->data, e->scores[from]))
        from++;
    assert_true(from < n);
    return from;
}

static void score_chain(void *arg)
{
    expected *e = arg;
    fl_predictor *p;
    int last = 0;

    must(fl_predictor_new(&p, e->m));
    while (last < DELTAS) {
        fl_tensor t;

        must(fl_predictor_run(p, e->b.feeds, 3, &t, 1));
        last = version_of(e, &t, last);
    }
    fl_predictor_free(p);
}

static void score_while_deltas_come(const char *name, bool in_memory)
{
    fl_thread *threads[SCORERS];
    expected e = { 0 };
    chain c;

    chain_new(&c, name, in_memory);
    must(fl_model_open(&e.m, c.dir, .in_memory = in_memory, .watch_ms = 1));
    kit_batch_draw(&e.b, 5);
    expect_next(&e, &c.n);
    for (int i = 0; i < SCORERS; i++)
        assert_ok(fl_thread_start(&threads[i], "score", score_chain, &e));
    for (uint32_t i = 0; i < DELTAS; i++) {
        kit_train(&c.n, 50 + 10 * i, 2);
        expect_next(&e, &c.n);
        c.epoch = kit_save_delta(&c.n, c.dir, c.epoch);
    }
    for (int i = 0; i < SCORERS; i++)
        fl_thread_join(threads[i]);
    assert_int_equal(kit_stats(e.m).refused, 0);
    fl_model_close(e.m);
    chain_free(&c);
}

static void threads_score_while_deltas_come(void **state)
{
    (void)state;
    score_while_deltas_come("chain_threads", false);
    score_while_deltas_come("chain_threads_copied", true);
}

static void several_deltas_between_two_looks_are_all_taken(void **state)
{
    chain c;

    (void)state;
    chain_new(&c, "several", false);
    for (uint32_t i = 0; i < 3; i++) {
        kit_train(&c.n, 70 + 10 * i, 1);
        c.epoch = kit_save_delta(&c.n, c.dir, c.epoch);
    }
    assert_ok(fl_model_refresh(c.m));
    compare(&c.n, c.p, 970);
    assert_int_equal(kit_stats(c.m).versions, 1);
    chain_free(&c);
}

static void a_row_that_went_has_its_first_value_again(void **state)
{
    uint64_t keys[] = { 3, 4, 5 };
    uint64_t before;
    fl_table *t;
    size_t n_removed;
    chain c;

    (void)state;
    chain_new(&c, "went", false);
    compare(&c.n, c.p, 980);
    before = kit_stats(c.m).missing_rows;
    must(fl_ctx_table(c.n.c, "emb", &t));
    fl_table_remove(t, keys, FL_LEN(keys), &n_removed);
    assert_true(n_removed > 0);
    c.epoch = kit_save_delta(&c.n, c.dir, c.epoch);
    assert_ok(fl_model_refresh(c.m));
    for (uint32_t seed = 980; seed < 985; seed++)
        compare(&c.n, c.p, seed);
    assert_true(kit_stats(c.m).missing_rows > before);
    chain_free(&c);
}

static void a_missing_link_is_named(void **state)
{
    char line[512];
    fl_model_version *v;
    fl_model *m;
    chain c;

    (void)state;
    chain_new(&c, "link", false);
    kit_train(&c.n, 80, 1);
    c.epoch = kit_save_delta(&c.n, c.dir, c.epoch);
    assert_ok(fl_version_open(&v, c.dir));
    snprintf(line, sizeof(line), "rm -r %s/%s", c.dir, v->manifest.base);
    fl_version_close(v);
    assert_int_equal(system(line), 0);
    assert_int_equal(fl_model_open(&m, c.dir), FL_ERR_NOTFOUND);
    assert_said("is a delta to");
    chain_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_version_is_taken_by_the_next_run),
        cmocka_unit_test(
            a_damaged_version_is_refused_once_and_the_old_one_stays),
        cmocka_unit_test(a_version_with_other_inputs_is_refused),
        cmocka_unit_test(
            a_directory_that_cannot_be_read_leaves_the_version_in_use),
        cmocka_unit_test(threads_score_while_versions_change),
        cmocka_unit_test(a_chain_of_deltas_scores_as_the_table_does),
        cmocka_unit_test(threads_score_while_deltas_come),
        cmocka_unit_test(several_deltas_between_two_looks_are_all_taken),
        cmocka_unit_test(a_row_that_went_has_its_first_value_again),
        cmocka_unit_test(a_missing_link_is_named),
    };

    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
