/* test_programs.c - forward programs of published networks for which there is
 * no data to learn from: their texts parse, infer and run. */
#include "api.h"
#include "../make.h"

#include <math.h>

#define BATCH 3
#define VALUES_MAX 128
#define TEXT_MAX (64 << 10)

/* A tree of 26 nodes: [item, layer, parent, child, child]. */
static const int64_t tree[26][5] = {
    { 0, 0, 0, 1, 2 },   { 0, 1, 0, 3, 4 },   { 0, 1, 0, 5, 6 },
    { 0, 2, 1, 7, 8 },   { 0, 2, 1, 9, 10 },  { 0, 2, 2, 11, 12 },
    { 0, 2, 2, 13, 0 },  { 0, 3, 3, 14, 15 }, { 0, 3, 3, 16, 17 },
    { 0, 3, 4, 18, 19 }, { 0, 3, 4, 20, 21 }, { 0, 3, 5, 22, 23 },
    { 12, 3, 5, 0, 0 },  { 13, 3, 6, 0, 0 },  { 0, 4, 7, 24, 25 },
    { 15, 4, 7, 0, 0 },  { 16, 4, 8, 0, 0 },  { 17, 4, 8, 0, 0 },
    { 18, 4, 9, 0, 0 },  { 19, 4, 9, 0, 0 },  { 20, 4, 10, 0, 0 },
    { 21, 4, 10, 0, 0 }, { 22, 4, 11, 0, 0 }, { 23, 4, 11, 0, 0 },
    { 24, 5, 14, 0, 0 }, { 25, 5, 14, 0, 0 },
};

/* The path of each of 12 items, and the nodes of the layers. */
static const int64_t travel[12][4] = {
    { 1, 3, 7, 14 },  { 1, 3, 7, 15 },  { 1, 3, 8, 16 },  { 1, 3, 8, 17 },
    { 1, 4, 9, 18 },  { 1, 4, 9, 19 },  { 1, 4, 10, 20 }, { 1, 4, 10, 21 },
    { 2, 5, 11, 22 }, { 2, 5, 11, 23 }, { 2, 5, 12, 0 },  { 2, 6, 13, 0 },
};
static const int64_t layer[23] = { 1,  2,  3,  4,  5,  6,  7,  8,
                                   9,  10, 11, 12, 13, 14, 15, 16,
                                   17, 18, 19, 20, 21, 22, 23 };
static const int64_t item[BATCH] = { 0, 11, 4 };
static const int64_t start[BATCH][2] = { { 1, 2 }, { 1, 2 }, { 1, 2 } };

/* What is fed to integers, by name; floats get any numbers. */
static const struct {
    const char *name;
    const int64_t *values;
} known[] = {
    { "tree", tree[0] }, { "travel", travel[0] }, { "layer", layer },
    { "item", item },    { "start", start[0] },
};

static char text[TEXT_MAX];

static const char *read_text(const char *name)
{
    char path[512];
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s.txt", getenv("PROGRAMS"), name);
    f = fopen(path, "r");
    if (!f)
        fail_msg("cannot read %s", path);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static const void *values_of(const char *name, float *any)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(known[i].name, name))
            return known[i].values;
    for (int i = 0; i < VALUES_MAX; i++)
        any[i] = (float)((i * 37 + name[strlen(name) - 1]) % 11) / 11;
    return any;
}

/* Feeds every variable of the program that is data, a batch of three rows. */
static size_t feed_all(fl_program *p, fl_feed *feeds, float (*any)[VALUES_MAX])
{
    const fl_block *b = fl_program_block(p, 0);
    size_t n = 0;

    for (const fl_var *v = fl_block_next_var(b, NULL); v;
         v = fl_block_next_var(b, v)) {
        fl_shape s = fl_var_shape(v);
        fl_var_def def = { .size = sizeof(def) };

        assert_ok(fl_var_look(v, &def));
        if (!def.is_data)
            continue;
        s.dim[0] = s.dim[0] < 0 ? BATCH : s.dim[0];
        feeds[n].name = fl_var_name(v);
        feeds[n].value = fl_tensor_of(
            fl_var_dtype(v), values_of(fl_var_name(v), any[n]), s.rank, s.dim);
        n++;
    }
    return n;
}

typedef struct rig {
    fl_ctx *ctx;
    fl_executor *exe;
} rig;

static rig run_text(const char *name, const char *const *fetches,
                    fl_tensor *out, size_t n_fetches)
{
    static float any[16][VALUES_MAX];
    rig r = { .ctx = make_ctx() };
    fl_program *p = fl_default_main_program(r.ctx);
    fl_feed feeds[16];
    size_t n;

    r.exe = make_executor(r.ctx);
    assert_ok(fl_program_add(p, read_text(name)));
    assert_ok(fl_run(r.exe, fl_default_startup_program(r.ctx), NULL));
    n = feed_all(p, feeds, any);
    assert_ok(fl_run(r.exe, p,
                     &FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = n,
                              .fetches = fetches, .n_fetches = n_fetches,
                              .out = out)));
    return r;
}

static void close_rig(rig *r)
{
    fl_executor_free(r->exe);
    fl_ctx_free(r->ctx);
}

static void dssm_gives_a_probability_for_each_document(void **state)
{
    static const char *const fetches[] = { "cost", "probability" };
    fl_tensor out[2];
    rig r = run_text("dssm", fetches, out, 2);
    const float *p = out[1].data;
    double cost = 0;

    (void)state;
    assert_int_equal(out[1].shape.dim[0], BATCH);
    assert_int_equal(out[1].shape.dim[1], 5);
    for (int i = 0; i < BATCH; i++)
        cost -= log(p[5 * i]);
    assert_true(fabs(cost - *(const float *)out[0].data) < 1e-4);
    close_rig(&r);
}

static void tdm_learns_from_paths_and_drawn_nodes(void **state)
{
    static const char *const fetches[] = { "cost", "accuracy", "real" };
    fl_tensor out[3];
    rig r = run_text("tdm_train", fetches, out, 3);

    (void)state;
    assert_true(isfinite(*(const float *)out[0].data));
    assert_true(*(const float *)out[1].data <= 1);
    /* Of three items one ends before the last layer, with its 1 + 3 nodes. */
    assert_int_equal(out[2].shape.dim[0], 3 * 11 - 4);
    close_rig(&r);
}

static void tdm_finds_items_from_the_root_down(void **state)
{
    static const char *const fetches[] = { "recommended", "is_item_2",
                                           "nodes_2" };
    fl_tensor out[3];
    rig r = run_text("tdm_search", fetches, out, 3);

    (void)state;
    for (int i = 0; i < 2 * BATCH; i++) {
        int64_t node = ((const int64_t *)out[2].data)[i];

        assert_int_equal(((const int64_t *)out[0].data)[i], tree[node][0]);
        assert_int_equal(((const int64_t *)out[1].data)[i], tree[node][0] != 0);
    }
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dssm_gives_a_probability_for_each_document),
        cmocka_unit_test(tdm_learns_from_paths_and_drawn_nodes),
        cmocka_unit_test(tdm_finds_items_from_the_root_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
