/* test_linear.c - a server reads, checks and runs a declaration with work in
 * proportion to its size.
 */
#include "store_kit.h"
#include "../work_kit.h"

#define FEW 250

static void add_start(fl_str *out, int i)
{
    fl_str_addf(out,
                "var v%d : f32[1] persist\n"
                "op fill_constant () -> (Out=v%d) {shape=[1]}\n",
                i, i);
}

static void add_table(fl_str *out, int i)
{
    fl_str_addf(out, TABLE_TEXT("t%d", "dim=1 partitions=1"), i);
}

/* State that several updates of one block use. */
static void add_update(fl_str *out, int i)
{
    fl_str_addf(out,
                "  op sgd (Param=v%d, Grad=v0, LearningRate=v1) -> "
                "(ParamOut=v%d) @optimize\n",
                i, i);
}

/* Temporaries: each read by the next, and the first one by all. */
static void add_temporary(fl_str *out, int i)
{
    fl_str_addf(out, "  op sum (X=[a%d,a0]) -> (Out=a%d)\n", i, i + 1);
}

typedef void (*add_fn)(fl_str *out, int i);

static void add_n(fl_str *out, add_fn add, int n)
{
    for (int i = 0; add && i < n; i++)
        add(out, i);
}

/* A declaration of one block, with n of each. */
static void declare(add_fn start, add_fn update, int n)
{
    fl_conf conf;
    fl_str text = { 0 };
    fl_store *s;

    assert_ok(fl_conf_init(&conf));
    s = fl_store_new(&fl_ops, &conf);
    fl_str_add(&text, SGD_START("w", "1"));
    add_n(&text, start, n);
    fl_str_add(&text, SERVE_TEXT("1") "block 1 parent 0\n"
                                      "  var w@GRAD : f32[1] data\n"
                                      "  op scale (X=w@GRAD) -> (Out=a0)\n");
    add_n(&text, update, n);
    fl_str_add(&text, "  op sgd (Param=w, Grad=a0, LearningRate=w_lr) -> "
                      "(ParamOut=w) @optimize\nend\n");
    work = 0;
    assert_ok(fl_store_declare(s, fl_str_text(&text), text.len));
    fl_store_free(s);
    fl_str_release(&text);
    fl_conf_release(&conf);
}

/* n blocks instead. */
static void declare_blocks(int n)
{
    fl_conf conf;
    fl_str text = { 0 };
    fl_store *s;

    assert_ok(fl_conf_init(&conf));
    s = fl_store_new(&fl_ops, &conf);
    add_n(&text, add_start, n);
    for (int i = 0; i < n; i++)
        fl_str_addf(&text,
                    "block %d parent 0\n"
                    "  var v%d@GRAD : f32[1] data\n"
                    "  op sgd (Param=v%d, Grad=v%d@GRAD, LearningRate=v0) -> "
                    "(ParamOut=v%d) @optimize\n"
                    "end\n",
                    i + 1, i, i, i, i);
    fl_str_add(&text, "op listen_and_serv () -> () {optimize_blocks=[");
    for (int i = 0; i < n; i++)
        fl_str_addf(&text, "%s%d", i ? "," : "", i + 1);
    fl_str_add(&text, "]} @rpc\n");
    work = 0;
    assert_ok(fl_store_declare(s, fl_str_text(&text), text.len));
    fl_store_free(s);
    fl_str_release(&text);
    fl_conf_release(&conf);
}

static void declare_variables(int n)
{
    declare(add_start, NULL, n);
}

static void declare_state(int n)
{
    declare(add_start, add_update, n);
}

static void declare_temporaries(int n)
{
    declare(NULL, add_temporary, n);
}

static void declare_tables(int n)
{
    declare(add_table, NULL, n);
}

static void work_grows_with_a_declaration_and_not_with_its_square(void **state)
{
    static const work_case all[] = { { "variables", declare_variables },
                                     { "state", declare_state },
                                     { "temporaries", declare_temporaries },
                                     { "tables", declare_tables },
                                     { "blocks", declare_blocks } };

    (void)state;
    work_is_linear(all, FL_LEN(all), FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_grows_with_a_declaration_and_not_with_its_square),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
