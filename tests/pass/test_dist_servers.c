/* test_dist_servers.c - programs of servers, and what text cases cannot show of
 * distribution: runs of what is cut, operators of a test's own, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "flotilla/executor.h"
#include "ops/ops.h"
#include "pass/dist.h"
#include "table/table.h"
#include "../make.h"

#define ALL                                                                    \
    "dist_sparse dist_pull dist_place dist_server dist_send dist_recv "        \
    "dist_startup"
#define HEIGHT 20
#define WIDTH 4
#define ROWS 9
#define SEED 11

/* Gradients are fed, so that the text is short. */
static const char main_text[] =
    "var ids : i64[-1,1] data\n"
    "var g : f32[9,4] data\n"
    "param emb : f32[20,4] init=xavier trainable\n"
    "param w : f32[9,4] init=xavier trainable\n"
    "param b : f32[2] init=constant(0) trainable\n"
    "var lr : f32[1] persist\n"
    "var m : f32[9,4] persist\n"
    "op lookup_table (W=emb, Ids=ids) -> (Out=e) {is_sparse=true}\n"
    "op mean (X=e) -> (Out=loss)\n"
    "op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} @backward\n"
    "op mean_grad (X=e, Out@GRAD=loss@GRAD) -> (X@GRAD=e@GRAD) @backward\n"
    "op lookup_table_grad (W=emb, Ids=ids, Out@GRAD=e@GRAD) -> "
    "(W@GRAD=emb@GRAD) {is_sparse=true} @backward\n"
    "op scale (X=g) -> (Out=w@GRAD) @backward\n"
    "op fill_constant () -> (Out=b@GRAD) {shape=[2], value=3} @backward\n"
    "op sgd (Param=emb, Grad=emb@GRAD, LearningRate=lr) -> (ParamOut=emb) "
    "@optimize\n"
    "op adagrad (Param=w, Grad=w@GRAD, LearningRate=lr, Moment=m) -> "
    "(ParamOut=w, MomentOut=m) @optimize\n"
    "op sgd (Param=b, Grad=b@GRAD, LearningRate=lr) -> (ParamOut=b) "
    "@optimize\n";

static const char startup_text[] =
    "seed 11\n"
    "param emb : f32[20,4] trainable\n"
    "param w : f32[9,4] trainable\n"
    "param b : f32[2] trainable\n"
    "var lr : f32[1] persist\n"
    "var m : f32[9,4] persist\n"
    "op truncated_gaussian_random () -> (Out=emb) {shape=[20,4], std=0.3}\n"
    "op gaussian_random () -> (Out=w) {shape=[9,4], mean=0.1, std=0.7}\n"
    "op uniform_random () -> (Out=b) {shape=[2], seed=5}\n"
    "op fill_constant () -> (Out=lr) {shape=[1], value=0.1}\n"
    "op fill_constant () -> (Out=m) {shape=[9,4], value=0.5}\n";

static const char *const servers[] = { "one:1", "two:2" };

static fl_dist_config config(void)
{
    return (fl_dist_config){ .mode = "sync",
                             .servers = servers,
                             .n_servers = 2,
                             .n_trainers = 1,
                             .min_block_size = 4,
                             .slice_var_up = true,
                             .round_robin = true };
}

static fl_program *parse_with(const char *text, const fl_op_set *ops)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static fl_status try_distribute(const fl_dist_config *c, const fl_op_set *ops,
                                const char *text, const char *passes,
                                const fl_dump_place *dump, fl_dist **out)
{
    fl_program *main = parse_with(text, ops);
    fl_program *startup = parse_with(startup_text, ops);
    fl_status st = fl_dist_new(out, c, main, startup, passes, dump);

    fl_program_free(main);
    fl_program_free(startup);
    return st;
}

static fl_dist *distribute(const fl_dist_config *c, const char *passes)
{
    fl_dist *d = NULL;

    if (try_distribute(c, &fl_ops, main_text, passes, NULL, &d))
        fail_msg("%s", fl_last_error());
    return d;
}

/* --- programs of servers -------------------------------------------------- */

#define TABLE_UPDATE(number)                                                   \
    "block " number " parent 0\n"                                              \
    "  param emb : f32[20,4] trainable table\n"                                \
    "  var emb@GRAD : f32[20,4] data\n"                                        \
    "  var emb@RATE : f32[1] data\n"                                           \
    "  op sgd (Param=emb, Grad=emb@GRAD, LearningRate=emb@RATE) -> "           \
    "(ParamOut=emb) @optimize\n"                                               \
    "end\n"

static const char first_program[] =
    "param w.block0 : f32[5,4] trainable\n"
    "var lr : f32[1] persist\n"
    "var m.block0 : f32[5,4] persist\n"
    "param b : f32[2] trainable\n"
    "op listen_and_serv () -> () {endpoint=one:1, optimize_blocks=[1,2], "
    "table_blocks=[3], from_rows=[0,0]} @rpc\n"
    "block 1 parent 0\n"
    "  var w.block0@GRAD : f32[5,4] data\n"
    "  op adagrad (Param=w.block0, Grad=w.block0@GRAD, LearningRate=lr, "
    "Moment=m.block0) -> (ParamOut=w.block0, MomentOut=m.block0) @optimize\n"
    "end\n"
    "block 2 parent 0\n"
    "  var b@GRAD : f32[2] data\n"
    "  op sgd (Param=b, Grad=b@GRAD, LearningRate=lr) -> (ParamOut=b) "
    "@optimize\n"
    "end\n" TABLE_UPDATE("3");

#define TABLE                                                                  \
    "op init_table () -> () {table=emb, settings=\"dim=4 height=20 "           \
    "init=truncated_normal(0,0.3)\"}\n"

static const char first_startup[] =
    "seed 11\n"
    "param w.block0 : f32[5,4] trainable\n"
    "var lr : f32[1] persist\n"
    "var m.block0 : f32[5,4] persist\n"
    "param b : f32[2] trainable\n" TABLE
    "op gaussian_random () -> (Out=w.block0) {shape=[5,4], mean=0.1, std=0.7, "
    "of=w}\n"
    "op fill_constant () -> (Out=lr) {shape=[1], value=0.1}\n"
    "op fill_constant () -> (Out=m.block0) {shape=[5,4], value=0.5}\n"
    "op uniform_random () -> (Out=b) {shape=[2], seed=5}\n";

static void expect_program(const fl_program *p, const char *want)
{
    char *text = fl_program_print(p);

    assert_string_equal(text, want);
    fl_free(text);
}

static void a_server_has_a_block_for_each_of_its_dense_blocks(void **state)
{
    fl_dist_config c = config();
    fl_dist *d = distribute(&c, ALL);

    (void)state;
    expect_program(d->servers.data[0].main, first_program);
    expect_program(d->servers.data[0].startup, first_startup);
    fl_dist_free(d);
}

static void a_server_without_blocks_serves_tables(void **state)
{
    static const char *const many[] = { "one:1", "two:2", "three:3" };
    fl_dist_config c = config();
    fl_dist *d;

    (void)state;
    c.servers = many;
    c.n_servers = 3;
    c.slice_var_up = false;
    d = distribute(&c, ALL);
    expect_program(d->servers.data[2].main,
                   "op listen_and_serv () -> () {endpoint=three:3, "
                   "table_blocks=[1]} @rpc\n" TABLE_UPDATE("1"));
    expect_program(d->servers.data[2].startup, "seed 11\n" TABLE);
    fl_dist_free(d);
}

/* What trainers declare is what the programs say now, without an address. */
static void a_declaration_is_the_printed_programs(void **state)
{
    fl_dist_config c = config();
    fl_dist *d = distribute(&c, ALL);
    fl_op_node *fill;
    char *text;

    (void)state;
    assert_int_equal(fl_dist_print_server(d, 0, &text), FL_OK);
    assert_string_equal(text, d->servers.data[0].declared);
    assert_non_null(strstr(text, "op listen_and_serv () -> () "
                                 "{optimize_blocks=[1,2], "
                                 "table_blocks=[3], from_rows=[0,0]} "
                                 "@rpc\n"));
    fl_free(text);
    fill = fl_program_main(d->servers.data[0].startup)->last->prev->prev;
    fill->attrs[fl_op_find_attr(fill->def, "value")].f = 0.7;
    assert_int_equal(fl_dist_print_server(d, 0, &text), FL_OK);
    assert_non_null(strstr(text, "(Out=lr) {shape=[1], value=0.7}\n"));
    assert_null(strstr(d->servers.data[0].declared, "value=0.7"));
    fl_free(text);
    fl_dist_free(d);
}

/* --- first values --------------------------------------------------------- */

/* Runs a startup program and copies what a variable got. */
static void first_values(const char *text, const char *name, float *out,
                         size_t n)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *p = NULL;
    fl_tensor t;

    if (fl_program_from_text(&p, c, text) || fl_run(e, p, NULL) ||
        fl_scope_get(fl_current_scope(c), name, &t))
        fail_msg("%s", fl_last_error());
    assert_int_equal(fl_tensor_numel(&t), n);
    memcpy(out, t.data, n * sizeof(*out));
    fl_executor_free(e);
    fl_program_free(p);
    fl_ctx_free(c);
}

static void blocks_start_with_the_numbers_of_the_whole(void **state)
{
    float whole[ROWS * WIDTH], part[ROWS * WIDTH];
    fl_dist_config c = config();
    fl_dist *d = distribute(&c, ALL);
    const fl_dist_param *w = fl_dist_find_param(d, "w");

    (void)state;
    first_values(startup_text, "w", whole, ROWS * WIDTH);
    assert_int_equal(w->n_blocks, 2);
    for (size_t i = 0; i < w->n_blocks; i++) {
        const fl_dist_block *b = &d->blocks.data[w->first_block + i];
        const fl_dist_server *server = &d->servers.data[b->server];
        char *text = fl_program_print(server->startup);

        first_values(text, b->name, part, b->n);
        assert_memory_equal(part, whole + b->from, b->n * sizeof(float));
        fl_free(text);
    }
    fl_dist_free(d);
}

static void a_table_starts_with_the_numbers_of_the_array(void **state)
{
    float whole[HEIGHT * WIDTH], rows[HEIGHT * WIDTH];
    uint64_t keys[HEIGHT];
    fl_dist_config c = config();
    fl_dist *d = distribute(&c, ALL);
    fl_table_config tc;
    fl_table *t = NULL;

    (void)state;
    for (uint64_t i = 0; i < HEIGHT; i++)
        keys[i] = i;
    first_values(startup_text, "emb", whole, HEIGHT * WIDTH);
    assert_int_equal(fl_dist_find_table(d, "emb"), 0);
    assert_int_equal(fl_dist_find_table(d, "w"), -1);
    assert_int_equal(d->tables.data[0].dim, WIDTH);
    if (fl_table_config_parse(&tc, "emb", d->tables.data[0].settings, SEED) ||
        fl_table_create(&t, &tc) || fl_table_pull(t, keys, HEIGHT, true, rows))
        fail_msg("%s", fl_last_error());
    assert_memory_equal(rows, whole, sizeof(rows));
    fl_table_destroy(t);
    fl_dist_free(d);
}

/* --- names ---------------------------------------------------------------- */

static void a_server_is_found_by_its_address(void **state)
{
    fl_dist_config c = config();
    fl_dist *d = distribute(&c, ALL);
    int server = -1;

    (void)state;
    for (int i = 0; i < c.n_servers; i++) {
        assert_int_equal(fl_dist_find_server(d, c.servers[i], &server), FL_OK);
        assert_int_equal(server, i);
    }
    assert_int_equal(fl_dist_find_server(d, "elsewhere:1", &server),
                     FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), "elsewhere:1 is none of the"));
    assert_int_equal(server, c.n_servers - 1);
    fl_dist_free(d);
}

/* --- placement ------------------------------------------------------------ */

/* An update that looks at the whole parameter. */
static fl_status nothing(fl_infer *c)
{
    fl_tensor_like(c->out[0].t[0], c->in[0].t[0]);
    return FL_OK;
}

static const fl_op whole_update = {
    .name = "whole_update",
    .in = { { "Param", FL_OP_SLOT_STATE },
            { "Grad", 0 },
            { "LearningRate", 0 } },
    .out = { { "ParamOut", 0 } },
    .flags = FL_OP_WHOLE,
    .infer = nothing,
};

static const fl_op *find_op(const char *name)
{
    return strcmp(name, "whole_update") ? fl_ops.find(name) : &whole_update;
}

static const char whole_text[] =
    "var g : f32[9,4] data\n"
    "param w : f32[9,4] init=xavier trainable\n"
    "var lr : f32[1] persist\n"
    "op scale (X=g) -> (Out=w@GRAD) @backward\n"
    "op whole_update (Param=w, Grad=w@GRAD, LearningRate=lr) -> (ParamOut=w) "
    "@optimize\n";

static void an_update_of_the_whole_keeps_a_parameter_in_one_block(void **state)
{
    fl_op_set ops = fl_ops;
    fl_dist_config c = config();
    fl_dist *d = NULL;

    (void)state;
    ops.find = find_op;
    if (try_distribute(&c, &ops, whole_text,
                       "dist_place dist_server dist_send dist_recv", NULL, &d))
        fail_msg("%s", fl_last_error());
    assert_int_equal(fl_dist_find_param(d, "w")->n_blocks, 1);
    assert_non_null(strstr(d->servers.data[0].declared, "  op whole_update "));
    fl_dist_free(d);

    /* Where the trainers update, servers may cut. */
    c.server_adds = true;
    if (try_distribute(&c, &ops, whole_text,
                       "dist_place dist_server dist_geo dist_startup", NULL,
                       &d))
        fail_msg("%s", fl_last_error());
    assert_int_equal(fl_dist_find_param(d, "w")->n_blocks, 2);
    fl_dist_free(d);
}

static void no_table_has_an_update_without_a_rule(void **state)
{
    static const char text[] =
        "var ids : i64[-1,1] data\n"
        "var g : f32[20,4] data\n"
        "param emb : f32[20,4] init=xavier trainable\n"
        "var lr : f32[1] persist\n"
        "op lookup_table (W=emb, Ids=ids) -> (Out=e) {is_sparse=true}\n"
        "op whole_update (Param=emb, Grad=g, LearningRate=lr) -> "
        "(ParamOut=emb) @optimize\n";
    fl_op_set ops = fl_ops;
    fl_dist_config c = config();
    fl_dist *d = NULL;

    (void)state;
    ops.find = find_op;
    assert_int_equal(try_distribute(&c, &ops, text, "dist_sparse", NULL, &d),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "op whole_update -> emb"));
    assert_non_null(strstr(fl_last_error(), "tables do not have this update"));
}

static void a_hash_of_the_name_chooses_the_first_server(void **state)
{
    fl_dist_config c = config();
    fl_dist *d;

    (void)state;
    c.round_robin = false;
    d = distribute(&c, "dist_sparse dist_place");
    assert_int_equal(d->blocks.len, 3);
    for (size_t i = 0; i < d->params.len; i++) {
        const fl_dist_param *p = &d->params.data[i];

        for (size_t k = 0; k < p->n_blocks; k++)
            assert_int_equal(
                d->blocks.data[p->first_block + k].server,
                ((size_t)fl_server_of(fl_hash_str(p->name), 2) + k) % 2);
    }
    fl_dist_free(d);
}

static void shards_are_given_out_in_contiguous_ranges(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < 1000; key++) {
        assert_int_equal(fl_shard_of(key), fl_table_shard_of(key));
        assert_int_equal(fl_server_of(key, 1), 0);
        assert_int_equal(fl_server_of(key, 4), fl_shard_of(key) / 256);
    }
}

static void texts_of_the_settings_are_copied(void **state)
{
    char address[] = "one:1", mode[] = "sync";
    const char *list[] = { address };
    fl_dist_config c = config();
    fl_dist *d;

    (void)state;
    c.servers = list;
    c.n_servers = 1;
    c.mode = mode;
    d = distribute(&c, ALL);
    address[0] = mode[0] = 'X';
    list[0] = NULL;
    assert_string_equal(d->config.servers[0], "one:1");
    assert_string_equal(d->config.mode, "sync");
    assert_null(fl_dist_find_param(d, "emb"));
    fl_dist_free(d);
}

/* --- names ---------------------------------------------------------------- */

static void expect_refusal(const fl_dist_config *c, const char *passes,
                           const char *piece)
{
    fl_dist *d = NULL;

    assert_int_not_equal(
        try_distribute(c, &fl_ops, main_text, passes, NULL, &d), FL_OK);
    assert_non_null(strstr(fl_last_error(), piece));
}

static void what_cannot_distribute_is_refused(void **state)
{
    fl_dist_config c = config();

    (void)state;
    expect_refusal(&c, "dist_sparse dist_pul", "did you mean dist_pull?");
    expect_refusal(&c, "opt_dce", "opt_dce distributes nothing");
    c.n_servers = 0;
    expect_refusal(&c, ALL, "there is no server");
}

static void an_error_names_the_pass(void **state)
{
    fl_dist_config c = config();

    (void)state;
    expect_refusal(&c, "dist_place", "pass dist_place: ");
}

/* --- dumps ---------------------------------------------------------------- */

/* Reads a file of the directory, which must be there, and removes it. */
static char *take_file(const char *dir, const char *name)
{
    char path[256];
    char *text = NULL;
    size_t len;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (fl_file_read(path, 1 << 16, &text, &len))
        fail_msg("%s", fl_last_error());
    unlink(path);
    return text;
}

static void remove_folder(const char *dir, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(rmdir(path), 0);
}

static void each_change_is_written_with_all_its_programs(void **state)
{
    static const char *const names[] = {
        "main/00-input.txt",       "startup/00-input.txt",
        "main/01-dist_sparse.txt", "startup/01-dist_sparse.txt",
        "main/02-dist_place.txt",  "startup/02-dist_place.txt",
        "main/03-dist_server.txt", "startup/03-dist_server.txt",
    };
    fl_dist_config c = config();
    char base[] = "/tmp/flotilla-dist-XXXXXX", dir[64];
    int n = 0;
    fl_dist *d = NULL;

    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(dir, sizeof(dir), "%s/01-distribute", base);
    if (try_distribute(&c, &fl_ops, main_text,
                       "dist_sparse dist_place dist_server dist_server",
                       &(fl_dump_place){ base, "", "distribute", &n }, &d))
        fail_msg("%s", fl_last_error());
    for (size_t i = 0; i < FL_LEN(names); i++)
        fl_free(take_file(dir, names[i]));
    for (size_t i = 0; i < d->servers.len; i++) {
        char name[64], *text;

        (void)snprintf(name, sizeof(name), "server-%zu/03-dist_server.txt", i);
        text = take_file(dir, name);
        assert_string_equal(text, d->servers.data[i].declared);
        fl_free(text);
        *strchr(name, '/') = '\0';
        remove_folder(dir, name);
    }
    remove_folder(dir, "main");
    remove_folder(dir, "startup");
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(rmdir(base), 0);
    fl_dist_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_has_a_block_for_each_of_its_dense_blocks),
        cmocka_unit_test(a_server_without_blocks_serves_tables),
        cmocka_unit_test(a_declaration_is_the_printed_programs),
        cmocka_unit_test(blocks_start_with_the_numbers_of_the_whole),
        cmocka_unit_test(a_table_starts_with_the_numbers_of_the_array),
        cmocka_unit_test(a_server_is_found_by_its_address),
        cmocka_unit_test(an_update_of_the_whole_keeps_a_parameter_in_one_block),
        cmocka_unit_test(no_table_has_an_update_without_a_rule),
        cmocka_unit_test(a_hash_of_the_name_chooses_the_first_server),
        cmocka_unit_test(shards_are_given_out_in_contiguous_ranges),
        cmocka_unit_test(texts_of_the_settings_are_copied),
        cmocka_unit_test(what_cannot_distribute_is_refused),
        cmocka_unit_test(an_error_names_the_pass),
        cmocka_unit_test(each_change_is_written_with_all_its_programs),
    };

    return cmocka_run_group_tests_name("dist_servers", tests, NULL, NULL);
}
