/* test_io.c - models saved and loaded in one process: bit for bit, strictly by
 * name, and what may be forgiven. */
#include "io_kit.h"
#include "../make.h"
#include "../sys_faults.h"
#include "../folder.h"

#include <stdint.h>

#include "ckpt/dense.h"
#include "ckpt/version.h"
#include "ir/program.h"
#include "optim/rule.h"

#define BATCH 8
#define HEIGHT 40
#define WIDTH 4

static char dir[FOLDER_BYTES], model[80];
static fl_str heard;

static void hear(void *arg, fl_log_level level, const char *area,
                 const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    fl_str_addf(&heard, "%s\n", text);
}

static int set_up(void **state)
{
    (void)state;
    if (!folder_make(dir, "io"))
        return -1;
    snprintf(model, sizeof(model), "%s/model", dir);
    fl_log_set(hear, NULL, FL_LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_remove(dir);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    fl_str_release(&heard);
    return 0;
}

/* --- a click model -------------------------------------------------------- */

typedef struct net {
    fl_ctx *c;
    fl_executor *e;
    fl_var *loss;
} net;

typedef struct plan {
    const char *optimizer, *settings;
    const char *table; /* name of its table; NULL: emb */
    int64_t width;     /* of the embedding; 0: WIDTH */
    bool has_no_table; /* dense layers alone */
} plan;

static fl_var *pooled(net *n, const plan *p)
{
    fl_var *ids =
        fl_layers_data(n->c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);

    return fl_layers_sequence_pool(
        fl_layers_embedding(ids, HEIGHT, p->width ? p->width : WIDTH,
                            .is_distributed = true,
                            .param = { .name = p->table ? p->table : "emb" }),
        "sum");
}

static net make_net(const plan *p)
{
    net n = { .c = make_ctx() };
    fl_var *x = data2(n.c, "x", 3), *y = data2(n.c, "y", 1), *parts[2];
    fl_var *h;

    n.e = make_executor(n.c);
    fl_program_set_seed(fl_default_startup_program(n.c), 5);
    parts[0] = x;
    parts[1] = p->has_no_table ? x : pooled(&n, p);
    h = fl_layers_fc(fl_layers_concat(parts, 2, 1), 5, .act = "tanh");
    n.loss = fl_layers_mean(fl_layers_sigmoid_cross_entropy_with_logits(
        fl_layers_fc(fl_layers_dropout(h, 0.2), 1, ), y));
    must(fl_minimize(make_optimizer(n.c, p->optimizer, p->settings), n.loss));
    must(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    return n;
}

static void free_net(net *n)
{
    fl_executor_free(n->e);
    fl_ctx_free(n->c);
}

/* Step `at` sees the same batch in every run. */
static float train_one(net *n, int at)
{
    const char *fetch = fl_var_name(n->loss);
    int64_t ids[2 * BATCH], offsets[BATCH + 1];
    float x[BATCH * 3], y[BATCH];
    fl_feed feeds[3];
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    for (int i = 0; i < BATCH; i++) {
        offsets[i] = 2 * i;
        ids[2 * i] = (at * 7 + i * 3) % HEIGHT;
        ids[2 * i + 1] = (at * 11 + i) % HEIGHT;
        y[i] = (float)((at + i) % 2);
        for (int k = 0; k < 3; k++)
            x[3 * i + k] = (float)((at + i * 5 + k * 3) % 17) / 17;
    }
    offsets[BATCH] = 2 * BATCH;
    feeds[0] = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, x, 2,
                                            (int64_t[]){ BATCH, 3 }) };
    feeds[1] = (fl_feed){ "y", fl_tensor_of(FL_DTYPE_F32, y, 2,
                                            (int64_t[]){ BATCH, 1 }) };
    feeds[2] = (fl_feed){ "ids", fl_tensor_ragged(FL_DTYPE_I64, ids, 2,
                                                  (int64_t[]){ 2 * BATCH, 1 },
                                                  offsets, BATCH) };
    if (!fl_program_var(fl_default_main_program(n->c), "ids"))
        a.n_feeds = 2;
    assert_ok(fl_run(n->e, fl_default_main_program(n->c), &a));
    return *(float *)out.data;
}

static void train(net *n, int from, int to)
{
    for (int i = from; i < to; i++)
        (void)train_one(n, i);
}

static void assert_same_rows(fl_table *a, fl_table *b)
{
    char *x = io_rows(a, dir), *y = io_rows(b, dir);

    assert_true(strlen(x) > 100);
    assert_string_equal(x, y);
    fl_free(x);
    fl_free(y);
}

/* All variables and all rows have the same bits. */
static void assert_same(net *a, net *b)
{
    fl_scope *sa = fl_current_scope(a->c), *sb = fl_current_scope(b->c);
    fl_table *ta, *tb;

    for (size_t i = 0; fl_scope_name(sa, i); i++) {
        fl_tensor x, y;

        assert_ok(fl_scope_get(sa, fl_scope_name(sa, i), &x));
        assert_ok(fl_scope_get(sb, fl_scope_name(sa, i), &y));
        assert_memory_equal(x.data, y.data,
                            (size_t)fl_tensor_numel(&x) *
                                fl_dtype_bytes(x.dtype));
    }
    assert_int_equal(fl_scope_step(sa), fl_scope_step(sb));
    if (fl_ctx_table(a->c, "emb", &ta))
        return;
    assert_ok(fl_ctx_table(b->c, "emb", &tb));
    assert_same_rows(ta, tb);
}

/* --- bit for bit ---------------------------------------------------------- */

/* Day 1, saved, loaded elsewhere, day 2; against both days in one go. */
static void check_going_on(const plan *p)
{
    net a = make_net(p), b = make_net(p);

    train(&a, 0, 4);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_load_persistables(b.e, model, NULL));
    assert_same(&a, &b);
    for (int i = 4; i < 8; i++)
        assert_true(train_one(&a, i) == train_one(&b, i));
    assert_same(&a, &b);
    free_net(&a);
    free_net(&b);
}

static void every_optimizer_goes_on_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        const fl_rule *r = fl_rule_at(i);
        plan p = { .optimizer = r->name,
                   .settings = fl_rule_find_param(r, "momentum") >= 0
                                   ? "learning_rate=0.1 momentum=0.9"
                                   : "learning_rate=0.1",
                   .has_no_table = r->whole };

        check_going_on(&p);
    }
}

/* Inputs, layers' outputs and gradients live for one batch; parameters, moments
   and rates, and the table apart from them, are what is saved. */
static void what_lives_for_one_batch_is_not_saved(void **state)
{
    net a = make_net(&(plan){ .optimizer = "adam" });
    fl_program *p = fl_default_main_program(a.c);
    const fl_manifest_file *f;
    fl_model_version *v = NULL;
    size_t n_state = 0;

    (void)state;
    train(&a, 0, 3);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_version_open(&v, model));
    f = fl_manifest_find_file(&v->manifest, FL_DENSE_FILE);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const fl_var *var = fl_program_var(p, f->tensors[i].name);

        assert_non_null(var);
        assert_true(var->flags & FL_VAR_PERSIST);
        n_state += !(var->flags & FL_VAR_PARAM);
    }
    assert_true(n_state > 0 && n_state < f->n_tensors);
    assert_non_null(fl_manifest_find_table(&v->manifest, "emb"));
    fl_version_close(v);
    free_net(&a);
}

static void the_programs_are_saved_as_text(void **state)
{
    net a = make_net(&(plan){ .optimizer = "sgd" });
    char *main_text = fl_program_to_text(fl_default_main_program(a.c));
    char *startup = fl_program_to_text(fl_default_startup_program(a.c));
    fl_model_version *v = NULL;
    fl_program *again;
    char *text;
    size_t len;

    (void)state;
    train(&a, 0, 3);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_version_open(&v, model));
    assert_int_equal(v->manifest.step, 3);
    assert_string_equal(v->manifest.mode, "local");
    assert_ok(fl_version_read(v, "program.txt", &text, &len));
    assert_string_equal(text, main_text);
    assert_ok(fl_program_from_text(&again, a.c, text));
    fl_program_free(again);
    fl_free(text);
    assert_ok(fl_version_read(v, "startup.txt", &text, &len));
    assert_string_equal(text, startup);
    fl_free(text);
    fl_version_close(v);
    fl_text_free(main_text);
    fl_text_free(startup);
    free_net(&a);
}

static void parameters_alone_leave_state_and_step(void **state)
{
    plan p = { .optimizer = "adam" };
    net a = make_net(&p), b = make_net(&p);
    fl_tensor w, m;

    (void)state;
    train(&a, 0, 2);
    assert_ok(fl_save_params(a.e, model, NULL));
    assert_int_equal(fl_load_persistables(b.e, model, NULL), FL_ERR_INVAL);
    assert_said("fc_0.w_0_moment1_0 was not saved");
    assert_ok(fl_load_params(b.e, model, NULL));
    assert_int_equal(fl_scope_step(fl_current_scope(b.c)), 0);
    assert_ok(fl_scope_get(fl_current_scope(a.c), "fc_0.w_0", &w));
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0", &m));
    assert_memory_equal(w.data, m.data, 4);
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0_moment1_0", &m));
    assert_true(*(float *)m.data == 0);
    free_net(&a);
    free_net(&b);
}

static void a_scope_of_ones_own_is_saved_and_loaded(void **state)
{
    net a = make_net(&(plan){ .optimizer = "sgd", .has_no_table = true });
    fl_scope *mine = NULL;
    fl_tensor w;

    (void)state;
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_scope_new(&mine, NULL));
    assert_int_equal(
        fl_save_vars(a.e, model, NULL, FL_OPTIONS(fl_save_args, .scope = mine)),
        FL_ERR_NOTFOUND);
    assert_said("run the startup program first");
    assert_ok(fl_load_vars(a.e, model, NULL,
                           FL_OPTIONS(fl_load_args, .scope = mine)));
    assert_ok(fl_scope_get(mine, "fc_0.w_0", &w));
    assert_ok(fl_save_vars(a.e, model, NULL,
                           FL_OPTIONS(fl_save_args, .scope = mine)));
    fl_scope_free(mine);
    free_net(&a);
}

/* --- strict --------------------------------------------------------------- */

static void what_does_not_fit_is_all_listed_and_nothing_changes(void **state)
{
    net a = make_net(&(plan){ .optimizer = "sgd" });
    net b = make_net(&(plan){ .optimizer = "adam", .table = "embs" });
    fl_tensor w;
    float first;

    (void)state;
    train(&a, 0, 2);
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0", &w));
    first = *(float *)w.data;
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_int_equal(fl_load_persistables(b.e, model, NULL), FL_ERR_INVAL);
    assert_said("does not fit the program");
    assert_said("embs was not saved (the nearest is emb)");
    assert_text_has(fl_str_text(&heard), "fc_0.w_0_moment1_0 was not saved");
    assert_text_has(fl_str_text(&heard),
                    "emb was saved, but the program has none");
    assert_true(*(float *)w.data == first);
    assert_int_equal(fl_scope_step(fl_current_scope(b.c)), 0);
    free_net(&a);
    free_net(&b);
}

static void another_shape_is_refused_or_asked_for(void **state)
{
    static const char *const names[] = { "emb", "fc_0.w_0" };
    net a = make_net(&(plan){ .optimizer = "adam" });
    net b = make_net(&(plan){ .optimizer = "adam", .width = 6 });
    float va[4], vb[6], first[6];
    fl_tensor wa, wb;
    fl_table *ta, *tb;
    uint64_t key = 3;

    (void)state;
    train(&a, 0, 4);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_int_equal(fl_load_persistables(b.e, model, NULL), FL_ERR_INVAL);
    assert_said("fc_0.w_0 is F32[9,5], but was saved as F32[7,5]");
    assert_said("emb is a table of rows of 6, but was saved as a table of rows "
                "of 4");
    assert_ok(fl_ctx_table(a.c, "emb", &ta));
    assert_ok(fl_ctx_table(b.c, "emb", &tb));
    assert_ok(fl_table_pull(tb, &key, 1, FL_PULL_ONLY, first));
    assert_ok(fl_load_vars(
        b.e, model, NULL,
        FL_OPTIONS(fl_load_args, .resizes = names, .n_resizes = 2)));
    assert_text_has(fl_str_text(&heard),
                    "loading fc_0.w_0: F32[7,5] becomes F32[9,5]");
    assert_ok(fl_table_pull(ta, &key, 1, FL_PULL_ONLY, va));
    assert_ok(fl_table_pull(tb, &key, 1, FL_PULL_ONLY, vb));
    assert_memory_equal(va, vb, sizeof(va));
    assert_memory_equal(vb + 4, first + 4, 2 * sizeof(float));
    assert_ok(fl_scope_get(fl_current_scope(a.c), "fc_0.w_0", &wa));
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0", &wb));
    assert_memory_equal(wa.data, wb.data, 7 * 5 * sizeof(float));
    (void)train_one(&b, 4);
    free_net(&a);
    free_net(&b);
}

static void another_optimizer_is_refused_or_asked_for(void **state)
{
    net a = make_net(&(plan){ .optimizer = "adagrad" });
    net b = make_net(&(plan){ .optimizer = "adam" });
    fl_tensor wa, wb;

    (void)state;
    train(&a, 0, 4);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_int_equal(fl_load_persistables(b.e, model, NULL), FL_ERR_INVAL);
    assert_said("fc_0.w_0_moment1_0 was not saved");
    assert_ok(fl_load_vars(b.e, model, NULL,
                           FL_OPTIONS(fl_load_args, .fresh_state = true)));
    assert_text_has(fl_str_text(&heard), "fc_0.w_0_moment1_0 begins anew");
    assert_ok(fl_scope_get(fl_current_scope(a.c), "fc_0.w_0", &wa));
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0", &wb));
    assert_memory_equal(wa.data, wb.data, 7 * 5 * sizeof(float));
    (void)train_one(&b, 4);
    free_net(&a);
    free_net(&b);
}

static void another_name_is_refused_or_asked_for(void **state)
{
    static const char *const renames[] = { "emb=embs" };
    static const char *const bad[] = { "embb=embs", "emb=embz", "emb" };
    static const char *const said[] = { "has no embb (the nearest is emb)",
                                        "has no embz (the nearest is embs)",
                                        "'emb' is no renaming: write old=new" };
    net a = make_net(&(plan){ .optimizer = "adam" });
    net b = make_net(&(plan){ .optimizer = "adam", .table = "embs" });
    float va[4], vb[4];
    fl_table *ta, *tb;
    uint64_t key = 3;

    (void)state;
    train(&a, 0, 4);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        assert_int_not_equal(
            fl_load_vars(
                b.e, model, NULL,
                FL_OPTIONS(fl_load_args, .renames = &bad[i], .n_renames = 1)),
            FL_OK);
        assert_said(said[i]);
    }
    assert_ok(fl_load_vars(
        b.e, model, NULL,
        FL_OPTIONS(fl_load_args, .renames = renames, .n_renames = 1)));
    assert_text_has(fl_str_text(&heard),
                    "loading embs from what was saved as emb");
    assert_ok(fl_ctx_table(a.c, "emb", &ta));
    assert_ok(fl_ctx_table(b.c, "embs", &tb));
    assert_ok(fl_table_pull(ta, &key, 1, FL_PULL_ONLY, va));
    assert_ok(fl_table_pull(tb, &key, 1, FL_PULL_ONLY, vb));
    assert_memory_equal(va, vb, sizeof(va));
    free_net(&a);
    free_net(&b);
}

static void a_list_loads_and_saves_less(void **state)
{
    static const char *const names[] = { "fc_0.w_0" }, *const bad[] = {
        "fc_0.w_1"
    };
    net a = make_net(&(plan){ .optimizer = "sgd", .has_no_table = true });
    net b = make_net(&(plan){ .optimizer = "adam" });
    fl_tensor wa, wb;

    (void)state;
    train(&a, 0, 4);
    assert_int_equal(
        fl_save_vars(a.e, model, NULL,
                     FL_OPTIONS(fl_save_args, .names = bad, .n_names = 1)),
        FL_ERR_NOTFOUND);
    assert_said("no persistent variable of that name; the nearest is fc_0.");
    assert_ok(
        fl_save_vars(a.e, model, NULL,
                     FL_OPTIONS(fl_save_args, .names = names, .n_names = 1)));
    assert_int_equal(
        fl_load_vars(b.e, model, NULL,
                     FL_OPTIONS(fl_load_args, .names = bad, .n_names = 1)),
        FL_ERR_NOTFOUND);
    assert_said("has no variable fc_0.w_1");
    assert_int_equal(
        fl_load_vars(b.e, model, NULL,
                     FL_OPTIONS(fl_load_args, .names = names, .n_names = 1)),
        FL_ERR_INVAL);
    assert_said("fc_0.w_0 is F32[7,5], but was saved as F32[6,5]");
    free_net(&b);
    b = make_net(&(plan){ .optimizer = "adam", .has_no_table = true });
    assert_ok(
        fl_load_vars(b.e, model, NULL,
                     FL_OPTIONS(fl_load_args, .names = names, .n_names = 1)));
    assert_ok(fl_scope_get(fl_current_scope(a.c), "fc_0.w_0", &wa));
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0", &wb));
    assert_memory_equal(wa.data, wb.data, 6 * 5 * sizeof(float));
    assert_int_equal(fl_scope_step(fl_current_scope(b.c)), 0);
    free_net(&a);
    free_net(&b);
}

/* --- versions ------------------------------------------------------------- */

static void saving_again_adds_a_version_and_keeps_as_many_as_asked(void **state)
{
    net a = make_net(&(plan){ .optimizer = "sgd" });
    fl_model_version *v = NULL;
    char first[FL_VERSION_ID_MAX];

    (void)state;
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_version_open(&v, model));
    memcpy(first, v->id, sizeof(first));
    fl_version_close(v);
    assert_ok(
        fl_save_vars(a.e, model, NULL, FL_OPTIONS(fl_save_args, .keep = 2)));
    assert_ok(fl_version_open_id(&v, model, first));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_int_equal(fl_version_open_id(&v, model, first), FL_ERR_NOTFOUND);
    free_net(&a);
}

static void the_folder_of_a_version_is_a_model(void **state)
{
    plan p = { .optimizer = "adagrad" };
    net a = make_net(&p), b = make_net(&p);
    char copy[96];
    fl_model_version *v = NULL;

    (void)state;
    train(&a, 0, 3);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_version_open(&v, model));
    snprintf(copy, sizeof(copy), "%s/copy", dir);
    assert_int_equal(rename(v->path, copy), 0);
    fl_version_close(v);
    assert_ok(fl_load_persistables(b.e, copy, NULL));
    assert_same(&a, &b);
    free_net(&a);
    free_net(&b);
}

static void a_damaged_model_changes_nothing(void **state)
{
    plan p = { .optimizer = "adagrad" };
    net a = make_net(&p), b = make_net(&p);
    fl_model_version *v = NULL;
    fl_tensor w;
    float before;
    char *path;
    FILE *f;

    (void)state;
    train(&a, 0, 3);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_version_open(&v, model));
    path = fl_version_file(v, "tables/emb/0000-1023.safetensors");
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -3, SEEK_END), 0);
    assert_int_equal(fputs("x", f) < 0, 0);
    assert_int_equal(fclose(f), 0);
    assert_ok(fl_scope_get(fl_current_scope(b.c), "fc_0.w_0", &w));
    before = *(float *)w.data;
    assert_int_equal(fl_load_persistables(b.e, model, NULL), FL_ERR_CORRUPT);
    assert_said("has the checksum");
    assert_true(*(float *)w.data == before);
    fl_free(path);
    fl_version_close(v);
    free_net(&a);
    free_net(&b);
}

/* --- deltas --------------------------------------------------------------- */

static void save_delta(net *n)
{
    assert_ok(fl_save_vars(n->e, model, NULL,
                           FL_OPTIONS(fl_save_args, .delta = true)));
}

/* The kind of the version that counts, and how many rows it has. */
static void assert_version(fl_manifest_kind kind, uint64_t rows)
{
    fl_model_version *v = NULL;

    assert_ok(fl_version_open(&v, model));
    assert_ok(fl_version_verify(v));
    assert_int_equal(v->manifest.kind, kind);
    assert_int_equal(fl_manifest_find_table(&v->manifest, "emb")->rows, rows);
    fl_version_close(v);
}

static uint64_t count_rows(net *n)
{
    fl_table_stats s = FL_INIT(fl_table_stats);
    fl_table *t;

    assert_ok(fl_ctx_table(n->c, "emb", &t));
    assert_ok(fl_table_stats_get(t, &s));
    return s.rows;
}

static void a_chain_of_deltas_loads_as_the_whole(void **state)
{
    plan p = { .optimizer = "adam" };
    net a = make_net(&p), b = make_net(&p);
    uint64_t key = 3;
    fl_table *t;
    size_t n;

    (void)state;
    train(&a, 0, 6);
    save_delta(&a);
    assert_text_has(fl_str_text(&heard),
                    "the save is a whole one: there is no version yet");
    assert_version(FL_MANIFEST_FULL, count_rows(&a));
    (void)train_one(&a, 6);
    save_delta(&a);
    assert_version(FL_MANIFEST_DELTA, 2 * BATCH);
    assert_ok(fl_ctx_table(a.c, "emb", &t));
    fl_table_remove(t, &key, 1, &n);
    assert_int_equal(n, 1);
    save_delta(&a);
    assert_version(FL_MANIFEST_DELTA, 0);
    assert_ok(fl_load_persistables(b.e, model, NULL));
    assert_same(&a, &b);
    train(&a, 7, 9);
    train(&b, 7, 9);
    assert_same(&a, &b);
    free_net(&a);
    free_net(&b);
}

static void a_loaded_model_goes_on_with_deltas(void **state)
{
    plan p = { .optimizer = "adagrad" };
    net a = make_net(&p), b = make_net(&p), c = make_net(&p);

    (void)state;
    train(&a, 0, 6);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_load_vars(b.e, model, NULL,
                           FL_OPTIONS(fl_load_args, .delta = true)));
    (void)train_one(&b, 6);
    save_delta(&b);
    assert_version(FL_MANIFEST_DELTA, 2 * BATCH);
    assert_ok(fl_load_persistables(c.e, model, NULL));
    assert_same(&b, &c);
    free_net(&a);
    free_net(&b);
    free_net(&c);
}

static void a_delta_that_cannot_be_is_a_whole_save(void **state)
{
    plan p = { .optimizer = "sgd" };
    net a = make_net(&p), b = make_net(&p);

    (void)state;
    train(&a, 0, 2);
    train(&b, 0, 2);
    save_delta(&a);
    save_delta(&b); /* a's version counts, b knows nothing of it */
    assert_text_has(fl_str_text(&heard), "not the last one of this context");
    assert_version(FL_MANIFEST_FULL, count_rows(&b));
    assert_ok(fl_run(b.e, fl_default_startup_program(b.c), NULL));
    save_delta(&b); /* the startup program emptied the table */
    assert_text_has(fl_str_text(&heard), "since the last version is not known");
    assert_version(FL_MANIFEST_FULL, 0);
    free_net(&a);
    free_net(&b);
}

/* Whatever a save that failed did to the log of changes. */
static void a_delta_behind_a_save_that_failed_has_everything(void **state)
{
    plan p = { .optimizer = "adagrad" };
    net a = make_net(&p), b = make_net(&p);

    (void)state;
    train(&a, 0, 4);
    save_delta(&a);
    for (int at = 1; at < 40; at += 3) {
        (void)train_one(&a, 3 + at);
        faults_begin(FAULT_FAIL, at);
        (void)!fl_save_vars(a.e, model, NULL,
                            FL_OPTIONS(fl_save_args, .delta = true));
        fl_sys_replace(NULL);
        (void)train_one(&a, 4 + at);
        save_delta(&a);
        assert_ok(fl_load_persistables(b.e, model, NULL));
        assert_same(&a, &b);
    }
    free_net(&a);
    free_net(&b);
}

/* Trains until the version that counts is a delta, and gives its base. */
static void train_until_delta(net *a, char base[64])
{
    fl_model_version *v = NULL;

    for (int i = 0; *base == '\0'; i++) {
        (void)train_one(a, i % 20);
        if (fl_version_open(&v, model))
            continue;
        if (v->manifest.kind == FL_MANIFEST_DELTA)
            snprintf(base, 64, "%s", v->manifest.base);
        fl_version_close(v);
    }
}

static void deltas_come_by_themselves_and_stand_on_whole_saves(void **state)
{
    plan p = { .optimizer = "adagrad" };
    net a = make_net(&p), b = make_net(&p);
    fl_model_version *v = NULL;
    char base[64] = "", whole[64];

    (void)state;
    assert_ok(fl_ctx_set(a.c, "save_dir", model));
    assert_ok(fl_ctx_set(a.c, "save_delta_every_ms", "1"));
    train_until_delta(&a, base);
    assert_ok(fl_load_persistables(b.e, model, NULL));
    assert_same(&a, &b);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_version_open(&v, model));
    snprintf(whole, sizeof(whole), "%s", v->id);
    fl_version_close(v);
    base[0] = '\0';
    train_until_delta(&a, base);
    assert_string_equal(base, whole);
    assert_ok(fl_load_persistables(b.e, model, NULL));
    assert_same(&a, &b);
    free_net(&a);
    free_net(&b);
}

static void a_missing_link_is_named(void **state)
{
    net a = make_net(&(plan){ .optimizer = "sgd" });
    fl_model_version *v = NULL;
    char base[160];

    (void)state;
    train(&a, 0, 2);
    save_delta(&a);
    assert_ok(fl_version_open(&v, model));
    snprintf(base, sizeof(base), "%s/%s", model, v->id);
    fl_version_close(v);
    (void)train_one(&a, 2);
    save_delta(&a);
    io_remove(base);
    assert_int_equal(fl_load_persistables(a.e, model, NULL), FL_ERR_NOTFOUND);
    assert_said("is a delta, and its base is needed");
    assert_said(base);
    free_net(&a);
}

/* --- where it makes no sense ---------------------------------------------- */

static void calls_that_make_no_sense_say_what_to_call(void **state)
{
    net a = make_net(&(plan){ .optimizer = "sgd" });
    fl_ctx *other = make_ctx();

    (void)state;
    assert_int_equal(
        fl_save_persistables(a.e, model, fl_default_main_program(other)),
        FL_ERR_INVAL);
    assert_said("take an executor of its context");
    assert_int_equal(fl_load_persistables(a.e, dir, NULL), FL_ERR_NOTFOUND);
    assert_said("is no model");
    fl_ctx_free(other);
    free_net(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_optimizer_goes_on_bit_for_bit),
        TEST(what_lives_for_one_batch_is_not_saved),
        TEST(the_programs_are_saved_as_text),
        TEST(parameters_alone_leave_state_and_step),
        TEST(a_scope_of_ones_own_is_saved_and_loaded),
        TEST(what_does_not_fit_is_all_listed_and_nothing_changes),
        TEST(another_shape_is_refused_or_asked_for),
        TEST(another_optimizer_is_refused_or_asked_for),
        TEST(another_name_is_refused_or_asked_for),
        TEST(a_list_loads_and_saves_less),
        TEST(saving_again_adds_a_version_and_keeps_as_many_as_asked),
        TEST(the_folder_of_a_version_is_a_model),
        TEST(a_damaged_model_changes_nothing),
        TEST(a_chain_of_deltas_loads_as_the_whole),
        TEST(a_loaded_model_goes_on_with_deltas),
        TEST(a_delta_that_cannot_be_is_a_whole_save),
        TEST(a_delta_behind_a_save_that_failed_has_everything),
        TEST(deltas_come_by_themselves_and_stand_on_whole_saves),
        TEST(a_missing_link_is_named),
        TEST(calls_that_make_no_sense_say_what_to_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
