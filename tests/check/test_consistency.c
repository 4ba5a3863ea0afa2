/* test_consistency.c - what is online is what was trained, and faults of every
 * kind are found and named. */
#include "check_kit.h"

#include "ir/program.h"
#include "pass/pass.h"
#include "serve/edition.h"
#include "table/table.h"

/* --- a pass that computes something else ---------------------------------- */

static bool is_bad_pass_there;

fl_status __real_fl_passes_run(fl_program *p, const fl_pass_options *o);
fl_status __wrap_fl_passes_run(fl_program *p, const fl_pass_options *o);

/* The fused operator of the last layer gets another activation. */
static void spoil(fl_program *p)
{
    fl_attr other = { .type = FL_ATTR_STRING, .s = "tanh" };

    for (fl_op_node *n = fl_program_main(p)->last; n; n = n->prev)
        if (!strcmp(fl_node_type(n), "fc")) {
            must(fl_node_set_attr(n, "activation_type", &other));
            return;
        }
}

fl_status __wrap_fl_passes_run(fl_program *p, const fl_pass_options *o)
{
    FL_TRY(__real_fl_passes_run(p, o));
    if (is_bad_pass_there && o->optimize)
        spoil(p);
    return FL_OK;
}

/* --- models --------------------------------------------------------------- */

/* Two slots, each of which may look where it should not. */
typedef struct wiring {
    const char *slots[2], *tables[2];
    int width; /* of the hidden layer; 0: 16 */
    bool has_no_dropout;
} wiring;

static const wiring as_trained = { { "s0", "s1" }, { "emb", "emb" }, 0, 0 };

static const wiring two_tables = { { "s0", "s1" }, { "emb", "other" }, 0, 0 };

static fl_var *pooled(fl_ctx *c, fl_var *ids, const char *table)
{
    fl_layers_embedding_args args = kit_in_table;

    (void)c;
    args.param.name = table;
    return fl_layers_sequence_pool(
        fl_layers_embedding_with(ids, KIT_HEIGHT, KIT_WIDTH, &args), "sum");
}

static fl_var *find_ids(fl_var *const *ids, const char *name)
{
    return strcmp(name, "s0") ? ids[1] : ids[0];
}

static kit_net net_new(const wiring *w)
{
    kit_net n = { .c = make_ctx() };
    fl_var *ids[2], *in[3], *y, *hidden;
    static const char *const slots[] = { "s0", "s1" };

    n.e = make_executor(n.c);
    must(fl_ctx_set(n.c, "save_keep", "3"));
    fl_program_set_seed(fl_default_startup_program(n.c), 11);
    for (int i = 0; i < 2; i++)
        ids[i] = fl_layers_data(n.c, slots[i], FL_DTYPE_I64, 2,
                                (int64_t[]){ -1, 1 }, 1);
    in[0] = pooled(n.c, find_ids(ids, w->slots[0]), w->tables[0]);
    in[1] = pooled(n.c, find_ids(ids, w->slots[1]), w->tables[1]);
    in[2] = data2(n.c, "x", KIT_DENSE);
    y = data2(n.c, "y", 1);
    hidden = fl_layers_fc(fl_layers_concat(in, 3, 1), w->width ? w->width : 16,
                          .act = "relu");
    if (!w->has_no_dropout)
        hidden = fl_layers_dropout(hidden, 0.3);
    n.score = fl_layers_fc(hidden, 1, .act = "sigmoid");
    n.loss = fl_layers_mean(fl_layers_square_error_cost(n.score, y));
    must(
        fl_minimize(make_optimizer(n.c, "adam", "learning_rate=0.01"), n.loss));
    must(fl_run(n.e, fl_default_startup_program(n.c), NULL));
    return n;
}

static void save_trained(kit_net *n, const char *dir)
{
    must(fl_save_persistables(n->e, dir, NULL));
}

static void save_online(kit_net *n, const char *dir, const char *const *feeds,
                        size_t n_feeds)
{
    const char *targets[] = { fl_var_name(n->score) };

    must(fl_save_inference_model(n->e, dir, .feeds = feeds, .n_feeds = n_feeds,
                                 .targets = targets, .n_targets = 1));
}

static fl_table *table_of(kit_net *n, const char *name)
{
    fl_table *t;

    must(fl_ctx_table(n->c, name, &t));
    return t;
}

/* A key that has a row in a table. */
static uint64_t seen_key(void)
{
    kit_batch b;

    kit_batch_draw(&b, 1);
    return (uint64_t)b.ids[0][0];
}

static void get_row(kit_net *n, const char *table, uint64_t key, float *out)
{
    must(fl_table_pull(table_of(n, table), &key, 1, FL_PULL_ONLY, out));
}

static void put_row(kit_net *n, const char *table, uint64_t key,
                    const float *value)
{
    must(fl_table_assign(table_of(n, table), &key, 1, value));
}

static bool has_row(kit_net *n, const char *table, uint64_t key)
{
    float value[KIT_WIDTH];
    uint8_t missing;

    must(fl_table_peek(table_of(n, table), &key, 1, value, &missing));
    return !missing;
}

/* A key that has a row in both tables. */
static uint64_t shared_key(kit_net *n)
{
    uint64_t key = 0;

    while (!has_row(n, "emb", key) || !has_row(n, "other", key))
        key++;
    return key;
}

static char trained[256], online[256];

/* Paths of a test of its own. */
static void name_models(const char *test)
{
    char name[64];

    snprintf(name, sizeof(name), "%s.trained", test);
    kit_path(name, trained);
    snprintf(name, sizeof(name), "%s.online", test);
    kit_path(name, online);
}

/* --- what is the same ----------------------------------------------------- */

static void a_model_for_prediction_is_what_was_trained(void **state)
{
    kit_net n = net_new(&as_trained);
    check_found found;

    (void)state;
    name_models("same");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    must(kit_save(&n, online));
    found = check_dir(trained, online);
    assert_consistent(&found);
    assert_int_equal(found.all[SCORES].compared, CHECK_BATCHES * KIT_BATCH);
    found = check_dir(online, online);
    assert_consistent(&found);
    kit_net_free(&n);
}

static void a_model_to_train_on_predicts_what_it_has_learned(void **state)
{
    kit_net n = net_new(&two_tables);
    fl_consistency_args how = FL_INIT(fl_consistency_args);
    const char *targets[] = { fl_var_name(n.score) };
    check_found found;
    fl_model *m;

    (void)state;
    name_models("itself");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    must(fl_model_open(&m, trained, .targets = targets, .n_targets = 1));
    found = check_model(trained, m, &how);
    assert_consistent(&found);
    fl_model_close(m);
    kit_net_free(&n);
}

static void a_sample_of_rows_is_drawn_by_its_seed(void **state)
{
    kit_net n = net_new(&as_trained);
    fl_consistency_args how = FL_INIT(fl_consistency_args, .sample = 20);
    uint64_t n_rows;
    check_found found, again;
    fl_model *m;

    (void)state;
    name_models("sample");
    kit_train(&n, 1, 10);
    must(kit_save(&n, online));
    n_rows = check_dir(online, online).all[ROWS].compared;
    must(fl_model_open(&m, online));
    found = check_model(online, m, &how);
    again = check_model(online, m, &how);
    assert_in_range(found.all[ROWS].compared, 5, n_rows / 2);
    assert_int_equal(found.all[ROWS].compared, again.all[ROWS].compared);
    fl_model_close(m);
    kit_net_free(&n);
}

/* Without labels the trained program cannot run as a whole. */
static void data_without_labels_is_enough(void **state)
{
    kit_net n = net_new(&as_trained);
    fl_consistency *c;
    check_found found;
    fl_model *m;

    (void)state;
    name_models("unlabelled");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    must(kit_save(&n, online));
    must(fl_model_open(&m, online));
    must(fl_consistency_open(&c, trained, m));
    must(check_score(c, m, 3));
    check_keep(c, &found);
    assert_same(&found, SCORES);
    assert_same(&found, PASSES);
    fl_consistency_close(c);
    fl_model_close(m);
    kit_net_free(&n);
}

/* --- planted faults ------------------------------------------------------- */

static void a_stale_row_is_found(void **state)
{
    kit_net n = net_new(&as_trained);
    uint64_t key = seen_key();
    float old[KIT_WIDTH];
    char words[128];
    check_found found;
    fl_model_version *v;

    (void)state;
    name_models("stale");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    must(fl_version_open(&v, trained));
    get_row(&n, "emb", key, old);
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    put_row(&n, "emb", key, old);
    must(kit_save(&n, online));
    found = check_dir(trained, online);
    snprintf(words, sizeof(words), "table emb row %d[0]: ", (int)key);
    assert_found(&found, ROWS, words);
    snprintf(words, sizeof(words), "that is what version %s had", v->id);
    assert_found(&found, ROWS, words);
    assert_int_equal(found.all[ROWS].different, 1);
    assert_same(&found, NAMES);
    assert_same(&found, PROGRAM);
    assert_same(&found, PARAMETERS);
    fl_version_close(v);
    kit_net_free(&n);
}

/* A network that was written anew to be put online, with the trained values. */
static void put_online(const wiring *w, const char *const *feeds,
                       size_t n_feeds)
{
    kit_net n = net_new(w);

    must(fl_load_persistables(n.e, trained, NULL));
    save_online(&n, online, feeds, n_feeds);
    kit_net_free(&n);
}

static void two_swapped_slots_are_found(void **state)
{
    static const wiring swapped = { { "s1", "s0" }, { "emb", "emb" }, 0, 0 };
    const char *feeds[] = { "s0", "s1", "x" };
    kit_net n = net_new(&as_trained);
    check_found found;

    (void)state;
    name_models("swapped");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    put_online(&swapped, feeds, 3);
    found = check_dir(trained, online);
    assert_found(&found, PROGRAM,
                 "operator 0: Ids of lookup_table was s0 in training and is s1 "
                 "online");
    assert_found(&found, SCORES, "it begins at operator ");
    assert_same(&found, NAMES);
    assert_same(&found, PARAMETERS);
    assert_same(&found, ROWS);
    kit_net_free(&n);
}

/* The same feeds in another order: files without names of slots are read so. */
static void slots_in_another_order_are_found(void **state)
{
    const char *feeds[] = { "s1", "s0", "x" };
    kit_net n = net_new(&as_trained);
    char other[256];
    check_found found;

    (void)state;
    name_models("order");
    kit_train(&n, 1, 5);
    must(kit_save(&n, trained));
    save_online(&n, kit_path("order.other", other), feeds, 3);
    found = check_dir(trained, other);
    assert_found(&found, NAMES, "slot 0 is s0 in the trained model and s1");
    assert_same(&found, PROGRAM);
    kit_net_free(&n);
}

static void a_missing_slot_is_found(void **state)
{
    static const wiring without = { { "s0", "s0" }, { "emb", "emb" }, 0, 0 };
    const char *feeds[] = { "s0", "x" };
    kit_net n = net_new(&as_trained);
    check_found found;

    (void)state;
    name_models("missing");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    put_online(&without, feeds, 2);
    found = check_dir(trained, online);
    assert_found(&found, NAMES,
                 "slot s1: the trained program takes it, the one that is "
                 "online does not");
    assert_found(&found, PROGRAM, "was s1 in training and is s0 online");
    kit_net_free(&n);
}

/* Dropout of this kind scales in test mode, so leaving it out is no matter of
   taste. */
static void a_missing_operator_is_found(void **state)
{
    static const wiring without = { { "s0", "s1" }, { "emb", "emb" }, 0, true };
    const char *feeds[] = { "s0", "s1", "x" };
    kit_net n = net_new(&as_trained);
    check_found found;

    (void)state;
    name_models("operator");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    put_online(&without, feeds, 3);
    found = check_dir(trained, online);
    assert_found(&found, PROGRAM, "op dropout -> dropout_0.tmp_0 was trained");
    assert_found(&found, SCORES, "in training");
    assert_same(&found, PARAMETERS);
    kit_net_free(&n);
}

static void a_variable_of_another_shape_is_found(void **state)
{
    static const wiring wide = { { "s0", "s1" }, { "emb", "emb" }, 24, false };
    kit_net n = net_new(&as_trained), other = net_new(&wide);
    check_found found;

    (void)state;
    name_models("shape");
    save_trained(&n, trained);
    must(kit_save(&other, online));
    found = check_dir(trained, online);
    assert_found(&found, NAMES,
                 "variable fc_0.w_0: f32[19,16] was trained, f32[19,24] is "
                 "online");
    kit_net_free(&n);
    kit_net_free(&other);
}

static void a_rounded_parameter_is_found(void **state)
{
    kit_net n = net_new(&as_trained);
    check_found found;
    fl_tensor w;
    uint32_t bits;

    (void)state;
    name_models("rounded");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    must(fl_scope_get(fl_current_scope(n.c), "fc_1.w_0", &w));
    memcpy(&bits, (float *)w.data + 3, sizeof(bits));
    bits = (bits + 0x8000) & 0xffff0000;
    memcpy((float *)w.data + 3, &bits, sizeof(bits));
    must(kit_save(&n, online));
    found = check_dir(trained, online);
    assert_found(&found, PARAMETERS, "variable fc_1.w_0[3,0]: ");
    assert_found(&found, PARAMETERS, "; 1 of 16 numbers differ");
    assert_int_equal(found.all[PARAMETERS].different, 1);
    assert_same(&found, ROWS);
    kit_net_free(&n);
}

static void another_tables_row_is_found(void **state)
{
    kit_net n = net_new(&two_tables);
    float value[KIT_WIDTH];
    check_found found;
    char words[64];
    uint64_t key;

    (void)state;
    name_models("foreign");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    key = shared_key(&n);
    get_row(&n, "other", key, value);
    put_row(&n, "emb", key, value);
    must(kit_save(&n, online));
    found = check_dir(trained, online);
    snprintf(words, sizeof(words), "table emb row %d[0]: ", (int)key);
    assert_found(&found, ROWS, words);
    assert_found(&found, ROWS, "that is the row of this key in table other");
    assert_int_equal(found.all[ROWS].different, 1);
    kit_net_free(&n);
}

static void a_row_that_nobody_trained_is_found(void **state)
{
    kit_net n = net_new(&as_trained);
    uint64_t key = KIT_HEIGHT - 1;
    float value[KIT_WIDTH] = { 0 };
    check_found found;

    (void)state;
    name_models("extra");
    kit_train(&n, 1, 2);
    fl_table_remove(table_of(&n, "emb"), &key, 1, NULL);
    save_trained(&n, trained);
    put_row(&n, "emb", key, value);
    must(kit_save(&n, online));
    found = check_dir(trained, online);
    assert_found(&found, ROWS,
                 "table emb row 199: it is online (files) and was not trained");
    kit_net_free(&n);
}

/* The second of two deltas was put on the base at once. */
static void a_skipped_delta_is_found(void **state)
{
    kit_net n = net_new(&as_trained);
    char ids[3][FL_EDITION_ID_MAX], line[2048], words[256];
    uint64_t key = seen_key();
    float value[KIT_WIDTH] = { 1, 2, 3 };
    check_found found;
    uint32_t epoch;

    (void)state;
    name_models("skipped");
    kit_train(&n, 1, 5);
    epoch = fl_table_watch(table_of(&n, "emb"));
    must(kit_save(&n, trained));
    must(fl_edition_newest(trained, ids[0]));
    put_row(&n, "emb", key, value);
    epoch = kit_save_delta(&n, trained, epoch);
    must(fl_edition_newest(trained, ids[1]));
    put_row(&n, "emb", key + 1, value);
    kit_save_delta(&n, trained, epoch);
    must(fl_edition_newest(trained, ids[2]));
    snprintf(line, sizeof(line),
             "cp -r %s %s && rm -r %s/%s && sed -i s/%s/%s/ "
             "%s/%s/MANIFEST.json",
             trained, online, online, ids[1], ids[1], ids[0], online, ids[2]);
    assert_int_equal(system(line), 0);
    found = check_dir(trained, online);
    snprintf(words, sizeof(words), "table emb row %d[0]: 1 was trained",
             (int)key);
    assert_found(&found, ROWS, words);
    snprintf(words, sizeof(words),
             "that is what version %s had, and version %s, which came after",
             ids[0], ids[1]);
    assert_found(&found, ROWS, words);
    assert_int_equal(found.all[ROWS].different, 1);
    kit_net_free(&n);
}

static void fusion_that_changes_a_number_is_found(void **state)
{
    kit_net n = net_new(&as_trained);
    check_found found;

    (void)state;
    name_models("fusion");
    kit_train(&n, 1, 5);
    save_trained(&n, trained);
    must(kit_save(&n, online));
    is_bad_pass_there = true;
    found = check_dir(trained, online);
    is_bad_pass_there = false;
    assert_found(&found, PASSES, "record 0, ");
    assert_found(&found, PASSES,
                 "it begins at operator fc, which computes fc_1.tmp_");
    assert_true(found.all[PASSES].largest > 0.01);
    assert_int_equal(found.all[PASSES].different, found.all[PASSES].compared);
    assert_same(&found, SCORES);
    assert_same(&found, PROGRAM);
    kit_net_free(&n);
}

/* --- what cannot be compared ---------------------------------------------- */

static void faults_are_named(void **state)
{
    kit_net n = net_new(&as_trained);
    fl_consistency *c;
    fl_tensor score;
    kit_batch b;
    fl_model *m;

    (void)state;
    name_models("faults");
    must(kit_save(&n, online));
    must(fl_model_open(&m, online));
    assert_int_not_equal(fl_consistency_open(&c, "/nowhere", m), FL_OK);
    assert_said("the trained model /nowhere");
    must(fl_consistency_open(&c, online, m));
    kit_batch_draw(&b, 1);
    assert_int_equal(fl_consistency_add(c, b.feeds, 1, KIT_BATCH, &score, 1),
                     FL_ERR_NOTFOUND);
    assert_said("the program takes s1, which is no slot of the data");
    assert_int_equal(fl_consistency_add(c, b.feeds, 3, KIT_BATCH, &score, 2),
                     FL_ERR_INVAL);
    assert_said("the model has 1 outputs, and there are 2");
    fl_consistency_close(c);
    fl_model_close(m);
    kit_net_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_for_prediction_is_what_was_trained),
        cmocka_unit_test(a_model_to_train_on_predicts_what_it_has_learned),
        cmocka_unit_test(a_sample_of_rows_is_drawn_by_its_seed),
        cmocka_unit_test(data_without_labels_is_enough),
        cmocka_unit_test(a_stale_row_is_found),
        cmocka_unit_test(two_swapped_slots_are_found),
        cmocka_unit_test(slots_in_another_order_are_found),
        cmocka_unit_test(a_missing_slot_is_found),
        cmocka_unit_test(a_missing_operator_is_found),
        cmocka_unit_test(a_variable_of_another_shape_is_found),
        cmocka_unit_test(a_rounded_parameter_is_found),
        cmocka_unit_test(another_tables_row_is_found),
        cmocka_unit_test(a_row_that_nobody_trained_is_found),
        cmocka_unit_test(a_skipped_delta_is_found),
        cmocka_unit_test(fusion_that_changes_a_number_is_found),
        cmocka_unit_test(faults_are_named),
    };

    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
