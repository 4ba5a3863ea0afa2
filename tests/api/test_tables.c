/* test_tables.c - embeddings whose rows are in tables: they train like arrays,
 * and what only tables have. */
#include "api.h"
#include "../make.h"

#include <stdint.h>
#include <stdlib.h>

#define BATCH 16
#define MOST_IDS 4 /* of a sample, in one slot */
#define HEIGHT 50
#define WIDTH 8
#define STEPS 30

/* --- a small click model ------------------------------------------------- */

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *loss;
} net;

typedef struct batch {
    int64_t ids[2][BATCH * MOST_IDS], offsets[2][BATCH + 1];
    float label[BATCH];
    fl_feed feeds[3];
} batch;

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static fl_feed ragged(const char *name, int64_t *ids, const int64_t *offsets)
{
    fl_feed f = { name, fl_tensor_of(FL_DTYPE_I64, ids, 2,
                                     (int64_t[]){ offsets[BATCH], 1 }) };

    f.value.kind = FL_KIND_RAGGED;
    f.value.n_lod = 1;
    f.value.lod[0] = offsets;
    f.value.lod_len[0] = BATCH + 1;
    return f;
}

/* Ids repeat within a sample, a batch and over the slots. */
static void draw_batch(batch *b, uint32_t seed)
{
    seed += 1;
    for (int s = 0; s < 2; s++) {
        int64_t n = 0;

        for (int i = 0; i < BATCH; i++) {
            b->offsets[s][i] = n;
            for (uint32_t k = draw(&seed) % MOST_IDS + 1; k; k--)
                b->ids[s][n++] = (int64_t)(draw(&seed) % HEIGHT);
        }
        b->offsets[s][BATCH] = n;
        b->feeds[s] = ragged(s ? "s1" : "s0", b->ids[s], b->offsets[s]);
    }
    for (int i = 0; i < BATCH; i++)
        b->label[i] = (float)(b->ids[0][b->offsets[0][i]] % 2);
    b->feeds[2] = (fl_feed){ "y", fl_tensor_of(FL_DTYPE_F32, b->label, 2,
                                               (int64_t[]){ BATCH, 1 }) };
}

/* Two slots that share one embedding. */
static net new_net(const fl_layers_embedding_args *args)
{
    net n = { .c = make_ctx() };
    int64_t one[] = { -1, 1 };
    fl_var *ids[] = { fl_layers_data(n.c, "s0", FL_DTYPE_I64, 2, one, 1),
                      fl_layers_data(n.c, "s1", FL_DTYPE_I64, 2, one, 1) };
    fl_var *y = data2(n.c, "y", 1);
    fl_var *pooled[2];

    n.e = make_executor(n.c);
    fl_program_set_seed(fl_default_startup_program(n.c), 11);
    for (int i = 0; i < 2; i++)
        pooled[i] = fl_layers_sequence_pool(
            fl_layers_embedding_with(ids[i], HEIGHT, WIDTH, args), "sum");
    n.loss = fl_layers_mean(fl_layers_sigmoid_cross_entropy_with_logits(
        fl_layers_fc(
            fl_layers_fc(fl_layers_concat(pooled, 2, 1), 8, .act = "relu"),
            1, ),
        y));
    assert_non_null(n.loss);
    return n;
}

static void free_net(net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

static void train(net *n, int steps, float *losses)
{
    const char *fetch = fl_var_name(n->loss);
    fl_tensor out;
    batch b;

    for (int i = 0; i < steps; i++) {
        fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                                .fetches = &fetch, .n_fetches = 1, .out = &out);

        draw_batch(&b, (uint32_t)i);
        assert_ok(fl_run(n->e, fl_default_main_program(n->c), &a));
        losses[i] = *(float *)out.data;
    }
}

typedef struct how {
    const char *rule, *settings;
    fl_param_attr param;
} how;

static void losses_of(const how *h, bool table, float *losses)
{
    fl_layers_embedding_args args =
        FL_INIT(fl_layers_embedding_args, .is_sparse = true,
                .is_distributed = table, .param = h->param);
    net n;

    args.param.name = "emb";
    n = new_net(&args);
    assert_ok(fl_minimize(make_optimizer(n.c, h->rule, h->settings), n.loss));
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    train(&n, STEPS, losses);
    free_net(&n);
}

static float mean_of(const float *v, int n)
{
    float sum = 0;

    for (int i = 0; i < n; i++)
        sum += v[i];
    return sum / (float)n;
}

static void a_table_trains_like_an_array(void **state)
{
    static const how all[] = {
        { "sgd", "learning_rate=0.5", { .init = "uniform(-0.5,0.5)" } },
        { "sgd", "learning_rate=0.5", { .init = NULL } },
        { "adagrad", "learning_rate=0.1", { .init = "uniform(-0.5,0.5)" } },
        { "adam", "learning_rate=0.02", { .init = "uniform(-0.5,0.5)" } },
        { "adam", "learning_rate=0.02 beta1=0.5", { .init = "normal(0,1)" } },
        { "momentum",
          "learning_rate=0.1 momentum=0.5 use_nesterov=true lazy_mode=true",
          { .init = "uniform(-0.5,0.5)" } },
        { "ftrl", "learning_rate=0.1", { .init = "uniform(-0.5,0.5)" } },
        { "sgd",
          "learning_rate=0.5",
          { .init = "uniform(-1,1,seed=3)", .learning_rate = 0.25 } },
        { "sgd",
          "learning_rate=0.5",
          { .init = "uniform(-0.5,0.5)", .clip = "norm(0.05)" } },
        { "adam",
          "learning_rate=0.02 grad_clip=global_norm(0.1)",
          { .init = "uniform(-0.5,0.5)" } },
    };
    float array[STEPS], table[STEPS];

    (void)state;
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        losses_of(&all[k], false, array);
        losses_of(&all[k], true, table);
        for (int i = 0; i < STEPS; i++)
            if (!(table[i] - array[i] < 1e-5f && array[i] - table[i] < 1e-5f))
                fail_msg("case %zu (%s %s), step %d: %g, with an array %g", k,
                         all[k].rule, all[k].settings, i, table[i], array[i]);
        if (mean_of(table + STEPS - 10, 10) >= mean_of(table, 10))
            fail_msg("case %zu (%s %s) learns nothing", k, all[k].rule,
                     all[k].settings);
    }
}

static net adam_net(void)
{
    fl_layers_embedding_args args =
        FL_INIT(fl_layers_embedding_args, .is_distributed = true,
                .param = { .name = "emb" });
    net n = new_net(&args);

    assert_ok(
        fl_minimize(make_optimizer(n.c, "adam", "learning_rate=0.02"), n.loss));
    return n;
}

static void the_startup_program_starts_a_table_anew(void **state)
{
    net n = adam_net();
    float first[STEPS], second[STEPS];

    (void)state;
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    train(&n, STEPS, first);
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    train(&n, STEPS, second);
    assert_memory_equal(first, second, sizeof(first));
    free_net(&n);
}

static void a_program_with_a_table_prints_and_parses_back(void **state)
{
    net n = adam_net();
    fl_program *all[] = { fl_default_main_program(n.c),
                          fl_default_startup_program(n.c) };

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *a = fl_program_to_text(all[i]), *b;
        fl_program *p;

        assert_ok(fl_program_from_text(&p, n.c, a));
        b = fl_program_to_text(p);
        assert_string_equal(a, b);
        fl_text_free(a);
        fl_text_free(b);
        fl_program_free(p);
    }
    free_net(&n);
}

static void the_table_keeps_its_state_to_itself(void **state)
{
    net n = adam_net();
    char *text = fl_program_to_text(fl_default_main_program(n.c));
    char *start = fl_program_to_text(fl_default_startup_program(n.c));
    fl_tensor t;

    (void)state;
    assert_null(strstr(text, "emb_moment1"));
    assert_text_has(text, "param emb : f32[50,8] trainable table");
    assert_text_has(text, "op adam (Param=emb");
    assert_text_has(start, "settings=\"dim=8 height=50 optimizer=adam "
                           "beta1=0.9 beta2=0.999 epsilon=1e-08\"");
    assert_null(strstr(start, "Out=emb)"));
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    assert_int_equal(fl_scope_get(fl_current_scope(n.c), "emb", &t),
                     FL_ERR_NOTFOUND);
    fl_text_free(text);
    fl_text_free(start);
    free_net(&n);
}

/* --- the update as the program says it ------------------------------------ */

#define OF_EMB                                                                 \
    "(Param=emb, Grad=emb@GRAD, LearningRate=learning_rate_0) -> "             \
    "(ParamOut=emb)"

/* The program, in whose text the table's update is replaced. */
static fl_program *edit(fl_ctx *c, const char *update)
{
    static const char old[] = "op momentum " OF_EMB " {lazy_mode=true}";
    char *text = fl_program_to_text(fl_default_main_program(c));
    char *at = strstr(text, old);
    char edited[20000];
    fl_program *p;

    assert_non_null(at);
    snprintf(edited, sizeof(edited), "%.*s%s%s", (int)(at - text), text, update,
             at + strlen(old));
    fl_text_free(text);
    assert_ok(fl_program_from_text(&p, c, edited));
    return p;
}

/* Trains a net that was made with momentum=0.9 with the edited program. */
static fl_status train_edited(const char *update, int steps, float *losses)
{
    fl_layers_embedding_args args =
        FL_INIT(fl_layers_embedding_args, .is_distributed = true,
                .param = { .name = "emb" });
    net n = new_net(&args);
    const char *fetch = fl_var_name(n.loss);
    fl_status st = FL_OK;
    fl_program *p;
    fl_tensor out;
    batch b;

    assert_ok(fl_minimize(make_optimizer(n.c, "momentum", "learning_rate=0.1"),
                          n.loss));
    p = edit(n.c, update);
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    for (int i = 0; i < steps && !st; i++) {
        fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                                .fetches = &fetch, .n_fetches = 1, .out = &out);

        draw_batch(&b, (uint32_t)i);
        st = fl_run(n.e, p, &a);
        losses[i] = st ? 0 : *(float *)out.data;
    }
    fl_program_free(p);
    free_net(&n);
    return st;
}

static void attributes_of_an_update_decide_what_a_table_does(void **state)
{
    float as_made[STEPS], edited[STEPS], again[STEPS];

    (void)state;
    assert_ok(train_edited("op momentum " OF_EMB " {lazy_mode=true}", STEPS,
                           as_made));
    assert_ok(train_edited("op momentum " OF_EMB " {mu=0.1, lazy_mode=true}",
                           STEPS, edited));
    assert_ok(train_edited("op momentum " OF_EMB " {mu=0.1, lazy_mode=true}",
                           STEPS, again));
    assert_memory_equal(edited, again, sizeof(edited));
    assert_true(edited[0] == as_made[0] && edited[1] == as_made[1]);
    assert_true(edited[STEPS - 1] != as_made[STEPS - 1]);
}

static void a_table_made_for_another_rule_refuses_the_update(void **state)
{
    float losses[STEPS];

    (void)state;
    assert_int_equal(train_edited("op sgd " OF_EMB, 1, losses), FL_ERR_INVAL);
    assert_said("table emb was made with optimizer=momentum, but the program "
                "updates it with sgd");
}

/* --- one lookup ---------------------------------------------------------- */

/* The mean of the rows of `ids`, trained. */
typedef struct lookup {
    fl_ctx *c;
    fl_executor *e;
    fl_var *rows;
    fl_table *table;
} lookup;

static lookup new_lookup(const fl_layers_embedding_args *args, int64_t width)
{
    lookup l = { .c = make_ctx() };
    fl_var *ids =
        fl_layers_data(l.c, "ids", FL_DTYPE_U64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_layers_embedding_args mine = *args;

    l.e = make_executor(l.c);
    mine.is_distributed = true;
    mine.param.name = "emb";
    l.rows = fl_layers_embedding_with(ids, 0, width, &mine);
    if (!l.rows)
        fail_msg("%s", fl_last_error());
    assert_ok(fl_minimize(make_optimizer(l.c, "sgd", "learning_rate=1"),
                          fl_layers_reduce_sum(l.rows)));
    assert_ok(fl_run(l.e, fl_default_startup_program(l.c), NULL));
    assert_ok(fl_ctx_table(l.c, "emb", &l.table));
    return l;
}

static void free_lookup(lookup *l)
{
    fl_executor_free(l->e);
    fl_ctx_free(l->c);
}

/* The rows are valid until the next run. */
static const float *look(lookup *l, fl_program *p, uint64_t *ids, int64_t n)
{
    fl_feed feed = { "ids",
                     fl_tensor_of(FL_DTYPE_U64, ids, 2, (int64_t[]){ n, 1 }) };
    const char *fetch = fl_var_name(l->rows);
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    assert_ok(fl_run(l->e, p, &a));
    return out.data;
}

static const float *train_on(lookup *l, uint64_t *ids, int64_t n)
{
    return look(l, fl_default_main_program(l->c), ids, n);
}

static uint64_t count_rows(fl_table *t)
{
    fl_table_stats s = FL_INIT(fl_table_stats);

    assert_ok(fl_table_stats_get(t, &s));
    return s.rows;
}

static bool has_row(fl_table *t, uint64_t key)
{
    size_t n;

    fl_table_remove(t, &key, 1, &n);
    return n == 1;
}

static void padding_reads_zeros_and_is_never_pushed(void **state)
{
    int64_t padding = 7;
    lookup l = new_lookup(
        FL_OPTIONS(fl_layers_embedding_args, .padding_idx = &padding), 4);
    uint64_t ids[] = { 7, 3, 7, 4, 3 };
    const float *rows;

    (void)state;
    for (int s = 0; s < 3; s++) {
        rows = train_on(&l, ids, 5);
        for (int i = 0; i < 4; i++) {
            assert_true(rows[i] == 0 && rows[8 + i] == 0);
            assert_true(rows[4 + i] != 0);
        }
    }
    assert_int_equal(count_rows(l.table), 2);
    assert_false(has_row(l.table, 7));
    assert_true(has_row(l.table, 3));
    rows = train_on(&l, ids, 1);
    for (int i = 0; i < 4; i++)
        assert_true(rows[i] == 0);
    assert_int_equal(count_rows(l.table), 1);
    free_lookup(&l);
}

static void a_count_filter_admits_at_the_nth_push(void **state)
{
    lookup l = new_lookup(
        FL_OPTIONS(fl_layers_embedding_args, .entry = "count_filter_entry:3"),
        4);
    uint64_t once[] = { 1, 2 }, often[] = { 5, 5, 5, 6 };

    (void)state;
    (void)train_on(&l, once, 2);
    (void)train_on(&l, once, 2);
    assert_int_equal(count_rows(l.table), 0);
    (void)train_on(&l, once, 2);
    assert_int_equal(count_rows(l.table), 2);
    /* A key that is three times in a batch is pushed as seen three times. */
    (void)train_on(&l, often, 4);
    assert_int_equal(count_rows(l.table), 3);
    assert_true(has_row(l.table, 5));
    free_lookup(&l);
}

static void a_program_for_test_makes_no_rows(void **state)
{
    lookup l = new_lookup(FL_OPTIONS(fl_layers_embedding_args), 4);
    uint64_t known[] = { 1, 2 }, all[] = { 1, 2, 3, 4 };
    float want[16];
    fl_program *test;

    (void)state;
    assert_ok(fl_program_for_test(&test, fl_default_main_program(l.c)));
    (void)train_on(&l, known, 2);
    assert_ok(fl_table_pull(l.table, all, 4, FL_PULL_ONLY, want));
    for (int i = 0; i < 2; i++)
        assert_memory_equal(look(&l, test, all, 4), want, sizeof(want));
    assert_int_equal(count_rows(l.table), 2);
    fl_program_free(test);
    free_lookup(&l);
}

static void any_id_is_a_row(void **state)
{
    lookup l = new_lookup(FL_OPTIONS(fl_layers_embedding_args,
                                     .param = { .init = "constant(1)" }),
                          3);
    uint64_t ids[] = { 0,
                       UINT64_MAX,
                       UINT64_MAX - 1,
                       UINT64_C(1) << 63,
                       (UINT64_C(1) << 63) - 1,
                       0 };
    float rows[18];

    (void)state;
    (void)train_on(&l, ids, 6);
    assert_int_equal(count_rows(l.table), 5);
    assert_ok(fl_table_pull(l.table, ids, 6, FL_PULL_ONLY, rows));
    for (int i = 0; i < 18; i++) /* 0 is there twice: two gradients of 1 */
        assert_float_equal(rows[i], i < 3 || i >= 15 ? -1 : 0, 0);
    free_lookup(&l);
}

/* Unlike the rows of an array, which decay at every step. */
static void decay_acts_on_the_rows_that_are_pushed(void **state)
{
    lookup l = new_lookup(FL_OPTIONS(fl_layers_embedding_args,
                                     .param = { .init = "constant(1)",
                                                .regularizer = "l2(0.5)",
                                                .learning_rate = 0.5 }),
                          1);
    uint64_t ids[] = { 1, 2 };
    float rows[2];

    (void)state;
    (void)train_on(&l, ids, 2);
    assert_ok(fl_table_pull(l.table, ids, 2, FL_PULL_ONLY, rows));
    assert_float_equal(rows[0], 1 - 0.5 * (1 + 0.5), 0);
    assert_float_equal(rows[1], rows[0], 0);
    (void)train_on(&l, ids, 1);
    assert_ok(fl_table_pull(l.table, ids, 2, FL_PULL_ONLY, rows));
    assert_float_equal(rows[0], 0.25 - 0.5 * (1 + 0.5 * 0.25), 0);
    assert_float_equal(rows[1], 0.25, 0);
    free_lookup(&l);
}

static void a_height_is_a_limit_to_the_ids(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *y = fl_layers_embedding(i, 10, 4, .is_distributed = true);
    int64_t ids[] = { 9, 10 };
    fl_feed feed = { "i",
                     fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ 1, 1 }) };
    const char *fetch = fl_var_name(y);
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    feed.value.shape.dim[0] = 2;
    assert_int_equal(fl_run(e, fl_default_main_program(c), &a), FL_ERR_INVAL);
    assert_said("10");
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* --- several tables ------------------------------------------------------ */

static void tables_of_different_width_live_side_by_side(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *both[] = {
        fl_layers_sparse_embedding(i, 3, .param = { .name = "narrow" }),
        fl_layers_sparse_embedding(i, 9, .param = { .name = "wide" }),
    };
    fl_var *loss = fl_layers_reduce_sum(fl_layers_concat(both, 2, 1));
    int64_t ids[] = { 4, 5, 4 };
    fl_feed feed = { "i",
                     fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ 3, 1 }) };
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_table *narrow, *wide;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "adagrad", NULL), loss));
    assert_int_equal(fl_ctx_table(c, "wide", &wide), FL_ERR_NOTFOUND);
    assert_said("run the startup program first");
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    assert_ok(fl_ctx_table(c, "narrow", &narrow));
    assert_ok(fl_ctx_table(c, "wide", &wide));
    assert_int_equal(fl_table_dim(narrow), 3);
    assert_int_equal(fl_table_dim(wide), 9);
    assert_int_equal(count_rows(narrow), 2);
    assert_int_equal(count_rows(wide), 2);
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* What is learnt of ids that two tables are asked for, rows of both. */
static void learn_of_two(const char *without, float *out)
{
    int64_t ids[] = { 4, 5, 4, 9 };
    const uint64_t keys[] = { 9, 5, 4 };
    fl_feed feed = { "i",
                     fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ 4, 1 }) };
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *both[] = {
        fl_layers_sparse_embedding(i, 3, .param = { .name = "narrow" }),
        fl_layers_sparse_embedding(i, 9, .param = { .name = "wide" }),
    };
    fl_var *loss =
        fl_layers_reduce_sum(fl_layers_square(fl_layers_concat(both, 2, 1)));
    fl_table *narrow, *wide;

    assert_ok(fl_ctx_set(c, "passes", without));
    fl_program_set_seed(fl_default_startup_program(c), 11);
    assert_ok(fl_minimize(make_optimizer(c, "adagrad", NULL), loss));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int step = 0; step < STEPS; step++) {
        ids[0] = step % 7;
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
    }
    assert_ok(fl_ctx_table(c, "narrow", &narrow));
    assert_ok(fl_ctx_table(c, "wide", &wide));
    assert_ok(fl_table_pull(narrow, keys, 3, FL_PULL_ONLY, out));
    assert_ok(fl_table_pull(wide, keys, 3, FL_PULL_ONLY, out + 9));
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void tables_that_are_asked_together_learn_the_same_bits(void **state)
{
    float together[36], apart[36];

    (void)state;
    learn_of_two("", together);
    learn_of_two("opt_pull", apart);
    assert_memory_equal(together, apart, sizeof(apart));
}

static void a_table_can_be_made_without_a_program(void **state)
{
    fl_ctx *c = make_ctx();
    fl_table *t, *found;

    (void)state;
    assert_ok(fl_table_new(&t, c, "t", "dim=4, accessor=ctr"));
    assert_ok(fl_ctx_table(c, "t", &found));
    assert_ptr_equal(t, found);
    assert_int_equal(fl_table_new(&t, c, "t", "dim=4"), FL_ERR_EXISTS);
    assert_said("table t exists already");
    fl_ctx_free(c);
}

/* --- shows and clicks ---------------------------------------------------- */

static void shows_and_clicks_reach_the_table(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *show = data2(c, "show", 1), *click = data2(c, "click", 1);
    fl_var *y = fl_layers_sparse_embedding(
        i, 4, .accessor = "ctr", .show = show, .click = click,
        .entry = "show_click_entry:2", .param = { .name = "emb" });
    int64_t ids[] = { 1, 2, 3, 3 };
    float shows[] = { 9, 9, 1, 1 }, clicks[] = { 0, 3, 1, 1 };
    int64_t dims[] = { 4, 1 };
    fl_feed feeds[] = {
        { "i", fl_tensor_of(FL_DTYPE_I64, ids, 2, dims) },
        { "show", fl_tensor_of(FL_DTYPE_F32, shows, 2, dims) },
        { "click", fl_tensor_of(FL_DTYPE_F32, clicks, 2, dims) },
    };
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3);
    fl_table *t;

    (void)state;
    assert_non_null(y);
    assert_ok(fl_minimize(make_optimizer(c, "sgd", NULL), fl_layers_mean(y)));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    assert_ok(fl_ctx_table(c, "emb", &t));
    /* (show - click) * 0.1 + click: 0.9, 3.6 and, added up, 2. */
    assert_int_equal(count_rows(t), 2);
    assert_false(has_row(t, 1));
    assert_true(has_row(t, 2));
    assert_true(has_row(t, 3));
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* --- threads and replicas ------------------------------------------------ */

#define THREADS 4
#define BATCHES 40
#define PER_BATCH 25

typedef struct stream {
    uint64_t ids[THREADS][PER_BATCH];
    int n[THREADS]; /* batches handed out */
} stream;

/* Every thread brings ids of its own, and one that all have. */
static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    stream *s = arg;
    int k = s->n[thread]++;

    if (k == BATCHES)
        return false;
    for (int i = 0; i < PER_BATCH; i++)
        s->ids[thread][i] =
            i ? ((uint64_t)thread << 40) + (uint64_t)(k * PER_BATCH + i) : 0;
    feeds[0] = (fl_feed){ "ids", fl_tensor_of(FL_DTYPE_U64, s->ids[thread], 2,
                                              (int64_t[]){ PER_BATCH, 1 }) };
    return true;
}

static void hogwild_threads_lose_no_row_and_no_push(void **state)
{
    lookup l = new_lookup(FL_OPTIONS(fl_layers_embedding_args,
                                     .param = { .init = "constant(0)" }),
                          4);
    const char *feed = "ids";
    stream s = { .n = { 0 } };
    fl_hogwild_args a =
        FL_INIT(fl_hogwild_args, .n_threads = THREADS, .feed_names = &feed,
                .n_feeds = 1, .next = next_batch, .arg = &s);
    uint64_t common = 0;
    float row[4];

    (void)state;
    assert_ok(fl_run_hogwild(l.e, fl_default_main_program(l.c), &a));
    assert_int_equal(count_rows(l.table),
                     THREADS * BATCHES * (PER_BATCH - 1) + 1);
    assert_ok(fl_table_pull(l.table, &common, 1, FL_PULL_ONLY, row));
    for (int i = 0; i < 4; i++)
        assert_float_equal(row[i], -THREADS * BATCHES, 0);
    free_lookup(&l);
}

static void replicas_train_tables(void **state)
{
    net n = adam_net(), alone = adam_net();
    fl_compiled_program *cp = make_compiled(fl_default_main_program(n.c));
    fl_build_strategy reduce =
        FL_INIT(fl_build_strategy, .reduce_strategy = FL_REPLICA_REDUCE);
    fl_exec_strategy two = FL_INIT(fl_exec_strategy, .n_replicas = 2);
    const char *fetch = fl_var_name(n.loss);
    float losses[STEPS];
    fl_tensor out[2];
    batch b;

    (void)state;
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    assert_ok(fl_run(alone.e, fl_default_startup_program(alone.c), NULL));
    train(&alone, STEPS, losses);
    assert_ok(fl_compiled_program_with_data_parallel(cp, fetch, &reduce, &two));
    for (int i = 0; i < STEPS; i++) {
        fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                                .fetches = &fetch, .n_fetches = 1, .out = out);

        draw_batch(&b, (uint32_t)i);
        assert_ok(fl_run_compiled(n.e, cp, &a));
        assert_float_equal((*(float *)out[0].data + *(float *)out[1].data) / 2,
                           losses[i], 1e-4);
    }
    fl_compiled_program_free(cp);
    free_net(&n);
    free_net(&alone);
}

static void replicas_read_tables(void **state)
{
    net n = adam_net();
    fl_exec_strategy two = FL_INIT(fl_exec_strategy, .n_replicas = 2);
    const char *fetch = fl_var_name(n.loss);
    fl_compiled_program *cp;
    fl_tensor out[2];
    fl_program *test;
    float losses[2], mean;
    fl_run_args a = FL_INIT(fl_run_args, .n_feeds = 3, .fetches = &fetch,
                            .n_fetches = 1, .out = out);
    batch b;

    (void)state;
    assert_ok(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    train(&n, 2, losses);
    assert_ok(fl_program_for_test(&test, fl_default_main_program(n.c)));
    draw_batch(&b, 2);
    a.feeds = b.feeds;
    assert_ok(fl_run(n.e, test, &a));
    mean = *(float *)out[0].data;
    cp = make_compiled(test);
    assert_ok(fl_compiled_program_with_data_parallel(cp, NULL, NULL, &two));
    assert_ok(fl_run_compiled(n.e, cp, &a));
    assert_float_equal((*(float *)out[0].data + *(float *)out[1].data) / 2,
                       mean, 1e-6);
    fl_compiled_program_free(cp);
    fl_program_free(test);
    free_net(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_trains_like_an_array),
        cmocka_unit_test(the_startup_program_starts_a_table_anew),
        cmocka_unit_test(a_program_with_a_table_prints_and_parses_back),
        cmocka_unit_test(the_table_keeps_its_state_to_itself),
        cmocka_unit_test(attributes_of_an_update_decide_what_a_table_does),
        cmocka_unit_test(a_table_made_for_another_rule_refuses_the_update),
        cmocka_unit_test(padding_reads_zeros_and_is_never_pushed),
        cmocka_unit_test(a_count_filter_admits_at_the_nth_push),
        cmocka_unit_test(a_program_for_test_makes_no_rows),
        cmocka_unit_test(any_id_is_a_row),
        cmocka_unit_test(decay_acts_on_the_rows_that_are_pushed),
        cmocka_unit_test(a_height_is_a_limit_to_the_ids),
        cmocka_unit_test(tables_of_different_width_live_side_by_side),
        cmocka_unit_test(tables_that_are_asked_together_learn_the_same_bits),
        cmocka_unit_test(a_table_can_be_made_without_a_program),
        cmocka_unit_test(shows_and_clicks_reach_the_table),
        cmocka_unit_test(hogwild_threads_lose_no_row_and_no_push),
        cmocka_unit_test(replicas_train_tables),
        cmocka_unit_test(replicas_read_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
