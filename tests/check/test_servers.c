/* test_servers.c FLOTILLA - a model against the servers of a job that is running:
 * by the library, and by the command. */
#include "../api/job_kit.h"
#include "check_kit.h"

#include <sys/wait.h>

#include "flotilla/serving.h"
#include "table/table.h"

/* Of the job that has ports, where somebody else may have left one. */
#define TOKEN "sesame-open"

static const char *const params[] = { "fc_0.w_0", "fc_0.b_0", "fc_1.w_0",
                                      "fc_1.b_0" };
static kit_net net;
static char model[256];
static const char *flotilla;

/* --- a job that holds what was trained ------------------------------------ */

static void hold_rows(fl_job *p, int table)
{
    fl_table *t;

    must(fl_ctx_table(net.c, "emb", &t));
    for (uint64_t key = 0; key < KIT_HEIGHT; key++) {
        float value[KIT_WIDTH];
        uint8_t missing;

        must(fl_table_peek(t, &key, 1, value, &missing));
        if (!missing)
            assert_ok(fl_job_assign(p, table, &key, 1, value));
    }
}

static void hold_model(fl_job *p, int *table, int dense[4])
{
    fl_tensor w[FL_LEN(params)];

    assert_ok(fl_job_declare_table(p, "emb", "dim=8", table));
    for (size_t i = 0; i < FL_LEN(params); i++) {
        must(fl_scope_get(fl_current_scope(net.c), params[i], &w[i]));
        assert_ok(fl_job_declare_dense(p, params[i],
                                       (size_t)fl_tensor_numel(&w[i]), "sgd",
                                       "learning_rate=0.1", &dense[i]));
    }
    assert_ok(fl_job_start(p));
    for (size_t i = 0; i < FL_LEN(params); i++)
        assert_ok(fl_job_assign_dense(p, dense[i], w[i].data));
    hold_rows(p, *table);
}

static check_found look(const job *j)
{
    fl_consistency_args how = FL_INIT(fl_consistency_args);
    fl_ctx *c = new_ctx(j);
    fl_row_source *rows;
    check_found found;
    fl_model *m;

    must(fl_row_source_of_servers(&rows, c, j->servers));
    must(fl_model_open(&m, model, .rows = rows));
    found = check_model(model, m, &how);
    fl_model_close(m);
    fl_ctx_free(c);
    return found;
}

/* --- by the library ------------------------------------------------------- */

static void change_and_look(job *j, fl_job *p, int rank)
{
    float value[KIT_WIDTH] = { 7 }, b[16];
    uint64_t key;
    kit_batch batch;
    check_found found;
    int table, dense[FL_LEN(params)];

    (void)rank;
    hold_model(p, &table, dense);
    j->servers[strcspn(j->servers, ",")] = '\0'; /* server 0 knows the others */
    found = look(j);
    assert_consistent(&found);
    assert_int_equal(found.all[PARAMETERS].compared, 2 * FL_LEN(params));

    kit_batch_draw(&batch, 1);
    key = (uint64_t)batch.ids[0][0];
    assert_ok(fl_job_assign(p, table, &key, 1, value));
    assert_ok(fl_job_pull_dense(p, dense[1], b));
    b[5] += 1;
    assert_ok(fl_job_assign_dense(p, dense[1], b));
    found = look(j);
    assert_found(&found, ROWS, "7 is online (servers)");
    assert_int_equal(found.all[ROWS].different, 1);
    assert_found(&found, PARAMETERS, "variable fc_0.b_0[5]: ");
    assert_found(&found, PARAMETERS, "is online (servers); 1 of 16 numbers");

    assert_ok(fl_job_clear(p, table));
    found = look(j);
    assert_found(&found, ROWS, ": there is none online (servers)");
    assert_int_equal(found.all[ROWS].different, found.all[ROWS].compared);
}

static void what_differs_on_live_servers_is_found(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = change_and_look };

    (void)state;
    net = kit_net_new(&kit_in_table);
    kit_train(&net, 1, 3);
    must(kit_save(&net, kit_path("live", model)));
    name_servers(&j);
    run_job(&j);
    assert_all_well(&j);
    kit_net_free(&net);
}

/* A parameter that the job keeps under another name is none. */
static void hold_rows_alone(job *j, fl_job *p, int rank)
{
    check_found found;
    int table;

    (void)rank;
    assert_ok(fl_job_declare_table(p, "emb", "dim=8", &table));
    assert_ok(fl_job_start(p));
    hold_rows(p, table);
    found = look(j);
    assert_found(&found, PARAMETERS,
                 "variable fc_0.w_0: there is none online (servers)");
    assert_same(&found, ROWS);
}

static void a_parameter_that_servers_lack_is_found(void **state)
{
    job j = { .n_servers = 1, .n_trainers = 1, .train = hold_rows_alone };

    (void)state;
    net = kit_net_new(&kit_in_table);
    kit_train(&net, 1, 3);
    must(kit_save(&net, kit_path("alone", model)));
    name_servers(&j);
    run_job(&j);
    assert_all_well(&j);
    kit_net_free(&net);
}

/* --- by the command ------------------------------------------------------- */

static void write_records(const char *path)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = 0; i < 50; i++)
        fprintf(f, "2 %d %d 1 %d 3 0.5 %d 0.25\n", i, i + 1, i * 3, i % 3);
    assert_int_equal(fclose(f), 0);
}

/* The exit code of a command line, whose output goes to a file. */
static int command(const char *args, const char *address, const char *out)
{
    char line[2048], records[256];
    int code;

    snprintf(line, sizeof(line),
             "%s %s %s --data %s --set join_token=" TOKEN " >%s 2>&1", flotilla,
             args, address, kit_path("records", records), out);
    code = system(line);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static void expect_words(const char *path, const char *words)
{
    char text[8192] = "";
    FILE *f = fopen(path, "r");
    size_t n;

    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    if (!strstr(text, words))
        fail_msg("'%s' has no '%s'", text, words);
}

static void run_commands(job *j, fl_job *p, int rank)
{
    char said[256], consistency[512], predict[512], files[256], line[1024];
    float value[KIT_WIDTH] = { 7 };
    uint64_t key = 1;
    int table, dense[FL_LEN(params)];

    (void)rank;
    hold_model(p, &table, dense);
    kit_path("said", said);
    kit_path("files", files);
    j->servers[strcspn(j->servers, ",")] = '\0';
    snprintf(consistency, sizeof(consistency),
             "consistency %s --against servers --servers", model);
    snprintf(predict, sizeof(predict), "predict %s --servers", model);
    assert_int_equal(command(consistency, j->servers, said), 0);
    expect_words(said, "rows: the same, ");
    expect_words(said, "passes: the same, 50 records, largest difference ");
    assert_int_equal(command(predict, j->servers, said), 0);
    snprintf(predict, sizeof(predict), "predict %s", model);
    assert_int_equal(command(predict, "", files), 0);
    snprintf(line, sizeof(line), "cmp %s %s", said, files);
    assert_int_equal(system(line), 0);

    assert_ok(fl_job_assign(p, table, &key, 1, value));
    assert_int_equal(command(consistency, j->servers, said), 3);
    expect_words(said, "rows: different, 1 of ");
    expect_words(said, "table emb row 1[0]: ");
}

static void the_command_compares_a_model_with_a_running_job(void **state)
{
    job j = { .n_servers = 2,
              .n_trainers = 1,
              .settings = { { "join_token", TOKEN } },
              .train = run_commands };
    char records[256];

    (void)state;
    net = kit_net_new(&kit_in_table);
    kit_train(&net, 1, 8);
    must(kit_save(&net, kit_path("command", model)));
    write_records(kit_path("records", records));
    name_ports(&j);
    run_job(&j);
    assert_all_well(&j);
    kit_net_free(&net);
}

static int setup(void **state)
{
    return make_folder(state) || kit_setup(state);
}

static int teardown(void **state)
{
    return remove_folder(state) || kit_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_on_live_servers_is_found),
        cmocka_unit_test(a_parameter_that_servers_lack_is_found),
        cmocka_unit_test(the_command_compares_a_model_with_a_running_job),
    };

    if (argc != 2)
        return 2;
    flotilla = argv[1];
    return cmocka_run_group_tests(tests, setup, teardown);
}
