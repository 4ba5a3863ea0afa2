/* test_ragged.c - networks over sequences in the executor: offsets that
 * operators make, sums that shares leave for each other, memory that stays. */
#include "net.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "../make.h"

#define SEQUENCES 150
#define LONGEST 7
#define WIDTH 5
#define STEPS 4

typedef struct batch {
    int64_t ids[SEQUENCES * LONGEST], offsets[SEQUENCES + 1];
    fl_feed feed;
} batch;

/* n sequences of 0 to LONGEST - 1 ids; longer in batch 0 than in any other. */
static void fill(batch *b, int no, int n)
{
    int64_t at = 0;

    b->offsets[0] = 0;
    for (int s = 0; s < n; s++) {
        int64_t len = no ? (s * 3 + no) % (LONGEST - 1) : s % LONGEST;

        for (int64_t k = 0; k < len; k++, at++)
            b->ids[at] = (at * 7 + no) % NET_ROWS;
        b->offsets[s + 1] = at;
    }
    b->feed = (fl_feed){ "ids", fl_tensor_ragged(FL_DTYPE_I64, b->ids, 2,
                                                 (int64_t[]){ at, 1 },
                                                 b->offsets, n) };
}

/* A recurrent layer, a convolution over it, every row beside the last of its
   sequence, and all of it twice. */
static fl_var *build(fl_ctx *c)
{
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);
    fl_var *rows = fl_layers_embedding(ids, NET_ROWS, 3 * WIDTH, );
    fl_var *h = fl_layers_dynamic_gru(rows, WIDTH, );
    fl_var *conv = fl_layers_sequence_conv(h, WIDTH, .act = "tanh");
    fl_var *last =
        fl_layers_sequence_expand_as(fl_layers_sequence_last_step(h), ids);
    fl_var *both = fl_layers_sequence_concat((fl_var *[]){ conv, last }, 2);
    fl_var *twice = fl_layers_sequence_expand(both, ids, 0);
    fl_var *loss = fl_layers_mean(fl_layers_square(twice));
    fl_optimizer *o = make_optimizer(c, "sgd", "learning_rate=0.5");

    assert_non_null(loss);
    assert_ok(fl_minimize(o, loss));
    return loss;
}

static float *train(const char *threads, size_t *n)
{
    fl_ctx *c = make_ctx();
    fl_executor *e;
    const char *fetch;
    fl_tensor out;
    float *w;
    batch *b = malloc(sizeof(*b));

    assert_ok(fl_ctx_set(c, "num_threads", threads));
    assert_ok(fl_ctx_set(c, "slice_min_elements", "1"));
    e = make_executor(c);
    fetch = fl_var_name(build(c));
    net_start(c, e);
    for (int i = 0; i < STEPS; i++) {
        fl_run_args a = FL_INIT(fl_run_args, .feeds = &b->feed, .n_feeds = 1,
                                .fetches = &fetch, .n_fetches = 1, .out = &out);

        fill(b, i, SEQUENCES);
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
    }
    w = net_copy(c, "gru_0.w_0", n);
    fl_executor_free(e);
    fl_ctx_free(c);
    free(b);
    return w;
}

static void any_number_of_threads_gives_the_same_weights(void **state)
{
    size_t n, m;
    float *one = train("1", &n), *many;

    (void)state;
    for (int i = 2; i < 5; i++) {
        many = train((const char *[]){ "2", "3", "4" }[i - 2], &m);
        assert_int_equal(n, m);
        assert_memory_equal(one, many, n * sizeof(float));
        free(many);
    }
    free(one);
}

static void a_repeated_step_over_sequences_asks_for_no_memory(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *fetch = fl_var_name(build(c));
    uint64_t calls = 0;
    batch *b = malloc(sizeof(*b));
    fl_tensor out;

    (void)state;
    net_start(c, e);
    for (int i = 0; i < 12; i++) {
        fl_run_args a = FL_INIT(fl_run_args, .feeds = &b->feed, .n_feeds = 1,
                                .fetches = &fetch, .n_fetches = 1, .out = &out);

        fill(b, i, i ? SEQUENCES - i : SEQUENCES);
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
        if (i == 2)
            calls = fl_data_calls();
    }
    assert_int_equal(fl_data_calls(), calls);
    fl_executor_free(e);
    fl_ctx_free(c);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_weights),
        cmocka_unit_test(a_repeated_step_over_sequences_asks_for_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
