/* skip_gram_pairs.c - what skip_gram draws, as lists: for networks of single
 * operators, which may do with the pairs what they like. */
#include "ops/helpers.h"
#include "ops/skip_gram_walk.h"

enum { WORDS, NOISE };
enum { INPUT, TARGET, NEGATIVES };

/* How many pairs there are is known after the run; there is room for windows
   that are all as wide as they can be. */
static fl_status pairs_infer(fl_infer *c)
{
    const fl_tensor *words = fl_infer_in(c, WORDS);
    int64_t n = c->running ? fl_shape_numel(&words->shape) *
                                 fl_int(c, FL_SKIP_GRAM_WINDOW) * 2
                           : -1;

    FL_TRY(fl_skip_gram_check(c));
    FL_TRY(fl_skip_gram_check_words(c, WORDS));
    FL_TRY(fl_skip_gram_check_ids(c, NOISE));
    for (int slot = INPUT; slot <= TARGET; slot++)
        fl_infer_dense(c, slot, FL_DTYPE_I64, 2, (int64_t[]){ n, 1 });
    fl_infer_dense(c, NEGATIVES, FL_DTYPE_I64, 2,
                   (int64_t[]){ n, fl_int(c, FL_SKIP_GRAM_NEGATIVES) });
    return FL_OK;
}

/* The pairs of a window behind those that were written. */
static size_t write_window(const fl_op_ctx *c, const fl_skip_gram_window *w,
                           size_t at)
{
    uint64_t *input = fl_out(c, INPUT), *target = fl_out(c, TARGET);
    uint64_t *negatives = fl_out(c, NEGATIVES);
    size_t k = w->n_targets - 1;

    for (size_t i = 0; i < w->n_in; i++, at++) {
        input[at] = w->in[i];
        target[at] = w->target[0];
        if (k)
            memcpy(negatives + at * k, w->target + 1, k * sizeof(*negatives));
    }
    return at;
}

static fl_status pairs_run(fl_op_ctx *c)
{
    fl_skip_gram_walk w;
    fl_skip_gram_step s;
    size_t n = 0;

    FL_TRY(fl_skip_gram_walk_init(&w, c, fl_in_t(c, WORDS), fl_in_t(c, NOISE)));
    FL_TRY(fl_skip_gram_step_init(&s, c, &w));
    while (fl_skip_gram_next(&w, &s))
        n = write_window(c, &s.rows, n);
    for (int slot = INPUT; slot <= NEGATIVES; slot++)
        fl_out_t(c, slot)->shape.dim[0] = (int64_t)n;
    return FL_OK;
}

static const fl_op_case pairs_cases[] = {
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9", "i64[5,1] below=9" } },
    { .in = { "i64[0,1] lod=[0,0] below=9", "i64[0,1] below=9" } },
    { .in = { "i64[1,1] lod=[0,1] below=9", "i64[0,1] below=9" } },
    { .in = { "i64[33,1] lod=[0,30,33] below=9",
              "i64[7,1] lod=[0,3,7] below=9" },
      .attrs = "{window=2, negatives=3, shared=true, seed=7}" },
    { .in = { "i64[7,1] lod=[0,7] below=9", "i64[0,1] below=9" },
      .attrs = "{negatives=0}" },
};

const fl_op fl_op_skip_gram_pairs = {
    .name = "skip_gram_pairs",
    .doc = "the pairs that skip_gram makes of the same words with the same "
           "attributes, as lists: Input, a word near Target, and Negatives, "
           "drawn from Noise; with shared they are the same for all pairs of "
           "a Target",
    .in = { { "Words", FL_SLOT_NO_GRAD }, { "Noise", FL_SLOT_NO_GRAD } },
    .out = { { "Input", 0 }, { "Target", 0 }, { "Negatives", 0 } },
    .attrs = { FL_SKIP_GRAM_ATTR_LIST },
    .infer = pairs_infer,
    .run = pairs_run,
    .cases = pairs_cases,
    .n_cases = FL_LEN(pairs_cases),
};
