/* test_store_cut.c - cuts of what a server holds: the version that deltas stand
 * on, and epochs that stay those of the other servers. */
#include "store_kit.h"

#include "ps/store/store_cut.h"

#define EMB "dim=2 optimizer=sgd init=constant(0)"
#define CTR "accessor=ctr dim=3 optimizer=sgd"

static const char declared[] =
    "seed 7\n" TABLE_TEXT("emb", EMB) TABLE_TEXT("ctr", CTR) SERVE_TEXT("");

static fl_conf conf;

static fl_store *open_store(void)
{
    fl_store *s = fl_store_new(&fl_ops, &conf);

    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    return s;
}

/* Takes a cut and gives the epochs of its tables. */
static fl_status cut(fl_store *s, const fl_store_cut_options *o,
                     fl_store_epochs *out)
{
    fl_store_cut *c = NULL;

    FL_TRY(fl_store_cut_begin(&c, s, o));
    fl_store_cut_epochs(c, out);
    fl_store_cut_end(c);
    return FL_OK;
}

static void a_store_stands_on_what_it_was_told(void **state)
{
    fl_store *s = open_store();
    fl_store_chain *chain = fl_store_chain_of(s, FL_STORE_TRAIN);
    fl_store_epochs epochs = { 0 };
    const char *why = fl_store_cut_why_whole(s, FL_STORE_TRAIN, "1");

    (void)state;
    assert_non_null(strstr(why, "nothing was saved yet"));
    assert_ok(cut(s, &(fl_store_cut_options){ .watch = true }, &epochs));
    fl_store_chain_set(chain, "/m", "000001-abcdef", &epochs);
    assert_null(fl_store_cut_why_whole(s, FL_STORE_TRAIN, "000001-abcdef"));
    assert_non_null(fl_store_cut_why_whole(s, FL_STORE_SERVE, "000001-abcdef"));
    why = fl_store_cut_why_whole(s, FL_STORE_TRAIN, "000002-abcdef");
    assert_non_null(strstr(why, "is not the last one"));
    assert_true(fl_store_chain_is_in(chain, "/m"));
    assert_false(fl_store_chain_is_in(chain, "/n"));
    fl_store_free(s);
}

/* Nobody has logged what changed in them. */
static void a_cut_that_does_not_log_is_no_base(void **state)
{
    fl_store *s = open_store();
    fl_store_epochs epochs = { 0 };

    (void)state;
    assert_ok(cut(s, &(fl_store_cut_options){ 0 }, &epochs));
    fl_store_chain_set(fl_store_chain_of(s, FL_STORE_TRAIN), "/m",
                       "000001-abcdef", &epochs);
    assert_non_null(
        strstr(fl_store_cut_why_whole(s, FL_STORE_TRAIN, "000001-abcdef"),
               "is not known"));
    fl_store_free(s);
}

/* One took its cut, one could not, one was not asked any more. */
static void epochs_stay_the_same_whoever_took_the_cut(void **state)
{
    fl_store *s[] = { open_store(), open_store(), open_store() };
    fl_store_epochs epochs[3] = { 0 };
    fl_store_chain unknown = { 0 };

    (void)state;
    fl_vec_push(&unknown.epochs, 1u);
    fl_vec_push(&unknown.epochs, 1u);
    assert_ok(cut(s[0], &(fl_store_cut_options){ 0 }, &epochs[0]));
    assert_error(
        cut(s[1], &(fl_store_cut_options){ .since = &unknown }, &epochs[1]),
        FL_ERR_NOTFOUND, "make a whole save first");
    fl_store_cut_skip(s[2]);
    for (int i = 0; i < 3; i++)
        assert_ok(cut(s[i], &(fl_store_cut_options){ 0 }, &epochs[i]));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(epochs[i].len, 2);
        assert_memory_equal(epochs[i].data, epochs[0].data,
                            2 * sizeof(uint32_t));
    }
    for (int i = 0; i < 3; i++) {
        fl_vec_release(&epochs[i]);
        fl_store_free(s[i]);
    }
    fl_store_chain_release(&unknown);
}

static int open_conf(void **state)
{
    (void)state;
    return fl_conf_init(&conf);
}

static int close_conf(void **state)
{
    (void)state;
    fl_conf_release(&conf);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_stands_on_what_it_was_told),
        cmocka_unit_test(a_cut_that_does_not_log_is_no_base),
        cmocka_unit_test(epochs_stay_the_same_whoever_took_the_cut),
    };

    return cmocka_run_group_tests(tests, open_conf, close_conf);
}
