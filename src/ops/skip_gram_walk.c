/* skip_gram_walk.c - windows and negatives by counter.
 *
 *     key    = bits of (stream, place of the word): its upper half draws how
 *              far the window goes
 *     draw i = lower (even i) or upper half of mix(key + (1 + i / 2) C)
 */
#include "ops/skip_gram_walk.h"

#include "base/hash.h"
#include "base/rng.h"

#define DRAW_STEP 0x9e3779b97f4a7c15u

static fl_status check_range(const fl_infer *c, int attr, int64_t lo,
                             int64_t hi)
{
    int64_t v = fl_int(c, attr);

    if (v < lo || v > hi)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s=%lld is not in %lld..%lld",
                c->node->def->name, c->node->def->attrs[attr].name,
                (long long)v, (long long)lo, (long long)hi);
    return FL_OK;
}

fl_status fl_skip_gram_check(const fl_infer *c)
{
    FL_TRY(check_range(c, FL_SKIP_GRAM_WINDOW, 1, FL_SKIP_GRAM_WINDOW_MAX));
    return check_range(c, FL_SKIP_GRAM_NEGATIVES, 0,
                       FL_SKIP_GRAM_NEGATIVES_MAX);
}

fl_status fl_skip_gram_check_ids(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_I64 && t->dtype != FL_DTYPE_U64)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be i64 or u64", c->node->def->name,
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_skip_gram_check_words(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_skip_gram_check_ids(c, slot));
    if (fl_infer_in(c, slot)->n_lod != 1)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must be sentences, one level of sequences",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_skip_gram_walk_init(fl_skip_gram_walk *w, const fl_op_ctx *c,
                                 const fl_tensor *words, const fl_tensor *noise)
{
    *w = (fl_skip_gram_walk){
        .x = fl_tensor_ids(words),
        .y = fl_tensor_ids(words),
        .noise = fl_tensor_ids(noise),
        .starts = words->lod[0],
        .n_words = (size_t)fl_tensor_numel(words),
        .n_noise = (size_t)fl_tensor_numel(noise),
        .dim = 1,
        .window = (uint32_t)fl_int(c, FL_SKIP_GRAM_WINDOW),
        .negatives = (uint32_t)fl_int(c, FL_SKIP_GRAM_NEGATIVES),
        .shared = fl_bool(c, FL_SKIP_GRAM_SHARED),
        .stream = fl_op_stream_of(c, "skip_gram", fl_int(c, FL_SKIP_GRAM_SEED),
                                  FL_STREAM_MOVING),
    };
    if (w->n_noise >= UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "op %s: %zu words to draw from are too many",
                c->node->def->name, w->n_noise);
    if (w->n_words > 1 && w->negatives && !w->n_noise)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %zu words, and none to draw negatives from; feed some "
                "or say negatives=0",
                c->node->def->name, w->n_words);
    return FL_OK;
}

size_t fl_skip_gram_inputs_max(const fl_skip_gram_walk *w)
{
    return w->shared ? 2 * (size_t)w->window : 1;
}

fl_status fl_skip_gram_step_init(fl_skip_gram_step *s, fl_op_ctx *c,
                                 const fl_skip_gram_walk *w)
{
    /* One more: the word in the middle is written and not counted. */
    s->in = fl_scratch(c, (1 + fl_skip_gram_inputs_max(w)) * sizeof(*s->in));
    s->target = fl_scratch(c, (1 + (size_t)w->negatives) * sizeof(*s->target));
    return s->in && s->target ? FL_OK : FL_NOMEM(c);
}

/* In [0, n). */
static uint32_t below(uint32_t bits, uint32_t n)
{
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* The next word that has another one in its window. */
static bool next_middle(fl_skip_gram_walk *w)
{
    while (w->word < w->n_words) {
        size_t i = w->word++, k;

        while (i >= (size_t)w->starts[w->sentence + 1])
            w->sentence++;
        w->key = fl_rng_row_bits(fl_rng_row(w->stream, i), 0);
        k = 1 + (size_t)below((uint32_t)(w->key >> 32), w->window);
        w->lo = (size_t)w->starts[w->sentence];
        w->hi = (size_t)w->starts[w->sentence + 1];
        w->lo = i - w->lo > k ? i - k : w->lo;
        w->hi = w->hi - i > k + 1 ? i + k + 1 : w->hi;
        w->middle = i;
        w->at = w->lo;
        w->n_drawn = 0;
        if (w->hi - w->lo > 1)
            return true;
    }
    return false;
}

/* What is written is of the type of some fields: these are read once. */
static void draw_negatives(fl_skip_gram_walk *w, uint64_t *out)
{
    const uint64_t *noise = w->noise, key = w->key, dim = w->dim;
    const uint32_t n_noise = (uint32_t)w->n_noise, n = w->negatives;
    uint64_t bits = w->bits, at = w->n_drawn;

    for (uint32_t k = 0; k < n; k++, at++) {
        bits = at % 2 ? bits >> 32 : fl_mix64(key + (1 + at / 2) * DRAW_STEP);
        out[k] = noise[below((uint32_t)bits, n_noise)] * dim;
    }
    w->bits = bits;
    w->n_drawn = at;
}

/* The words from w->at on that have a place in the next window. */
static size_t take_inputs(fl_skip_gram_walk *w, uint64_t *out)
{
    const uint64_t *x = w->x, dim = w->dim;
    const size_t hi = w->hi, middle = w->middle;
    size_t n = 0, most = fl_skip_gram_inputs_max(w), at = w->at;

    for (; at < hi && n < most; at++) {
        out[n] = x[at] * dim;
        n += at != middle;
    }
    w->at = at;
    return n;
}

bool fl_skip_gram_next(fl_skip_gram_walk *w, fl_skip_gram_step *s)
{
    size_t n;

    w->at += w->at == w->middle;
    if (w->at >= w->hi && !next_middle(w))
        return false;
    n = take_inputs(w, s->in);
    s->target[0] = w->y[w->middle] * w->dim;
    draw_negatives(w, s->target + 1);
    s->rows = (fl_skip_gram_window){ .in = s->in,
                                     .target = s->target,
                                     .n_in = n,
                                     .n_targets = 1 + (size_t)w->negatives };
    return true;
}
