/* test_commit.c - the store's commit point: a message that mutates moves the
 * positions of what it changes by one, and no other message moves any. */
#include "store_kit.h"

#include "ps/store/store_inside.h"

#define DIM 2
#define KEY 7
#define FLOATS 3

static const char declared[] =
    TABLE_TEXT("a", "dim=2 init=constant(1) optimizer=sgd")
        TABLE_TEXT("b", "dim=2 init=constant(1) optimizer=sgd")
            SGD_START("w", "3") SERVE_TEXT("1") SGD_UPDATE("1", "w", "3");

/* --- a good request of every message that the store handles --------------- */

static void pack_floats(fl_pack *p, int n)
{
    for (int i = 0; i < n; i++)
        fl_pack_bytes(p, &(float){ 0.5f }, sizeof(float));
}

static void build_rows(fl_pack *p, uint16_t type)
{
    fl_rows_item it = { .table = 1, .rows.n = 1, .rows.lr = 1 };

    pack_rows_head(p, type, &it, 1);
    fl_pack_u64(p, KEY);
    if (type != FL_MSG_PULL)
        pack_floats(p, DIM);
}

static void build_blocks(fl_pack *p, uint16_t type)
{
    pack_blocks_head(p, type, (uint32_t[]){ 0 }, 1);
    if (type != FL_MSG_PULL_DENSE)
        pack_floats(p, FLOATS);
}

static void build_round_rows(fl_pack *p, uint16_t type)
{
    fl_pack_u64(p, 0);
    build_rows(p, type);
}

static void build_round_blocks(fl_pack *p, uint16_t type)
{
    fl_pack_u64(p, 0);
    build_blocks(p, type);
}

/* Of the round that the two before it are for. */
static void build_apply(fl_pack *p, uint16_t type)
{
    (void)type;
    fl_apply_pack(p, &(fl_apply_request){ .members = &(fl_round_member){ 0, 1 },
                                          .n_members = 1 });
}

static void build_table(fl_pack *p, uint16_t type)
{
    fl_pack_u32(p, 1);
    if (type == FL_MSG_SHRINK)
        fl_pack_u32(p, 0);
}

static void build_changed(fl_pack *p, uint16_t type)
{
    (void)type;
    (void)fl_fields_pack(p, fl_msg_changed_request.fields,
                         &(fl_changed_request){ .table = 1 });
}

static void build_peek(fl_pack *p, uint16_t type)
{
    (void)type;
    fl_pack_u32(p, 1);
    fl_pack_u32(p, 0);
    fl_pack_u64(p, 12345);
}

static void build_empty(fl_pack *p, uint16_t type)
{
    (void)p;
    (void)type;
}

typedef void (*build_fn)(fl_pack *p, uint16_t type);

/* In the order of types; APPLY behind what it applies. */
static const build_fn builders[FL_MSG_MAX] = {
    [FL_MSG_PULL] = build_rows,
    [FL_MSG_PUSH] = build_rows,
    [FL_MSG_ASSIGN] = build_rows,
    [FL_MSG_PULL_DENSE] = build_blocks,
    [FL_MSG_PUSH_DENSE] = build_blocks,
    [FL_MSG_ASSIGN_DENSE] = build_blocks,
    [FL_MSG_CLEAR] = build_table,
    [FL_MSG_SHRINK] = build_table,
    [FL_MSG_STATS] = build_empty,
    [FL_MSG_HASH] = build_empty,
    [FL_MSG_ROUND_PUSH] = build_round_rows,
    [FL_MSG_ROUND_DENSE] = build_round_blocks,
    [FL_MSG_APPLY] = build_apply,
    [FL_MSG_CHANGED] = build_changed,
    [FL_MSG_PEEK] = build_peek,
};

/* --- positions ------------------------------------------------------------ */

enum { TABLE_A, TABLE_B, BLOCK_W, DECLARED, KEPT, N_LOGS };

typedef struct positions {
    uint64_t of[N_LOGS];
} positions;

static positions look(const fl_store *s)
{
    const fl_store_schema *w = atomic_load(&s->schema);

    return (positions){ {
        [TABLE_A] = w ? atomic_load(&w->tables.data[0].log.position) : 0,
        [TABLE_B] = w ? atomic_load(&w->tables.data[1].log.position) : 0,
        [BLOCK_W] = w ? atomic_load(&w->blocks.data[0].log.position) : 0,
        [DECLARED] = atomic_load(&s->declared.position),
        [KEPT] = atomic_load(&s->kept.position),
    } };
}

/* How many moved, each by one. */
static int count_moved(const positions *before, const positions *after)
{
    int n = 0;

    for (int i = 0; i < N_LOGS; i++) {
        assert_in_range(after->of[i] - before->of[i], 0, 1);
        n += after->of[i] != before->of[i];
    }
    return n;
}

static int send(fl_store *s, uint16_t type)
{
    positions before = look(s), after;
    answer a = { 0 };
    fl_pack p = { 0 };

    builders[type](&p, type);
    assert_ok(ask(s, type, &p, &a));
    answer_release(&a);
    after = look(s);
    assert_true(after.of[TABLE_A] == 0);
    return count_moved(&before, &after);
}

static fl_store *make(fl_conf *conf)
{
    assert_ok(fl_conf_init(conf));
    return fl_store_new(&fl_ops, conf);
}

static void release(fl_store *s, fl_conf *conf)
{
    fl_store_free(s);
    fl_conf_release(conf);
}

static void what_mutates_moves_a_position_and_nothing_else_does(void **state)
{
    fl_conf conf;
    fl_store *s = make(&conf);

    (void)state;
    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    for (uint16_t type = 0; type < FL_MSG_MAX; type++) {
        const fl_msg_def *m = fl_msg_find(type);
        int n;

        if (!m || !m->in_store)
            continue;
        if (!builders[type])
            fail_msg("write a request (%s) for this test", m->name);
        n = send(s, type);
        if ((n > 0) != m->mutates)
            fail_msg("%s moves %d positions", m->name, n);
    }
    release(s, &conf);
}

static void a_round_moves_the_tables_and_blocks_that_it_changes(void **state)
{
    fl_conf conf;
    fl_store *s = make(&conf);

    (void)state;
    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    assert_int_equal(send(s, FL_MSG_ROUND_PUSH), 1);
    assert_int_equal(send(s, FL_MSG_ROUND_DENSE), 1);
    assert_int_equal(send(s, FL_MSG_APPLY), 3);
    /* A repeated one changes nothing. */
    assert_int_equal(send(s, FL_MSG_APPLY), 0);
    release(s, &conf);
}

static void
the_first_declaration_is_a_change_and_the_same_again_is_none(void **state)
{
    fl_conf conf;
    fl_store *s = make(&conf);

    (void)state;
    assert_int_equal(fl_store_declare(s, "table", 5), FL_ERR_CORRUPT);
    assert_true(look(s).of[DECLARED] == 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(fl_store_declare(s, declared, strlen(declared)));
        assert_true(look(s).of[DECLARED] == 1);
    }
    release(s, &conf);
}

static void what_is_refused_moves_nothing(void **state)
{
    fl_rows_item it = { .table = 1, .rows.n = 1, .rows.lr = -1 };
    positions before, after;
    fl_conf conf;
    fl_store *s = make(&conf);
    fl_pack p = { 0 };
    answer a = { 0 };

    (void)state;
    assert_ok(fl_store_declare(s, declared, strlen(declared)));
    before = look(s);
    pack_rows_head(&p, FL_MSG_PUSH, &it, 1);
    fl_pack_u64(&p, KEY);
    pack_floats(&p, DIM);
    assert_int_equal(ask(s, FL_MSG_PUSH, &p, &a), FL_ERR_INVAL);
    (void)fl_fields_pack(&p, fl_msg_changed_request.fields,
                         &(fl_changed_request){ .table = 1, .cursor = 99 });
    assert_int_equal(ask(s, FL_MSG_CHANGED, &p, &a), FL_ERR_INVAL);
    fl_pack_u64(&p, UINT64_MAX);
    build_rows(&p, FL_MSG_ROUND_PUSH);
    assert_int_equal(ask(s, FL_MSG_ROUND_PUSH, &p, &a), FL_ERR_INVAL);
    after = look(s);
    assert_int_equal(count_moved(&before, &after), 0);
    release(s, &conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_mutates_moves_a_position_and_nothing_else_does),
        cmocka_unit_test(a_round_moves_the_tables_and_blocks_that_it_changes),
        cmocka_unit_test(
            the_first_declaration_is_a_change_and_the_same_again_is_none),
        cmocka_unit_test(what_is_refused_moves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
