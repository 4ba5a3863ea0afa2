/* test_model.c - a table against a model of it: random calls to both, and
 * every value, epoch and count must agree to the bit.
 *
 *     usage: test_model [calls per run]
 *
 * The model is a list of rows per virtual shard, with everything that a row
 * has in fields of its own; it shares the update rules and the initialiser with
 * the table, nothing else. Gradients, shows and clicks are multiples of 1/64,
 * so that sums of them are exact in any order.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SEEDS 3
#define BATCH_MAX 700
#define DIM_MAX 40
#define RECENT 256
#define HOT 64 /* small ids that come again and again */
#define SCATTERED 4000

static uint64_t calls_per_run = 50000;

static const fl_table_config kinds[] = {
    { .accessor = "plain", .rule = "sgd", .dim = 1, .n_partitions = 1 },
    { .accessor = "plain",
      .rule = "adagrad",
      .p = { 1e-6 },
      .dim = 8,
      .n_partitions = 32,
      .lr_scale = 0.5 },
    { .accessor = "plain",
      .rule = "adam",
      .p = { 0.9, 0.999, 1e-8 },
      .dim = 3,
      .n_partitions = 4,
      .entry = { FL_ENTRY_COUNT, 3 } },
    { .accessor = "plain",
      .rule = "momentum",
      .p = { 0.9 },
      .dim = DIM_MAX,
      .n_partitions = 1,
      .entry = { FL_ENTRY_PROBABILITY, 0.4 },
      .l1 = 0.125,
      .l2 = 0.25 },
    { .accessor = "plain",
      .rule = "sgd",
      .dim = 5,
      .n_partitions = 16,
      .max_rows = 300 },
    { .accessor = "ctr",
      .rule = "adagrad",
      .p = { 1e-6 },
      .dim = 9,
      .n_partitions = 32 },
    { .accessor = "ctr",
      .rule = "adam",
      .p = { 0.9, 0.999, 1e-8 },
      .dim = 4,
      .n_partitions = 1,
      .entry = { FL_ENTRY_SHOW_CLICK, 1.5 },
      .max_rows = 500 },
    { .accessor = "ctr", .rule = "sgd", .dim = 1, .n_partitions = 1 },
};

/* --- the model ----------------------------------------------------------- */

typedef struct model_row {
    struct model_row *next;
    uint64_t key;
    bool is_candidate; /* counted in show and click, but without a row */
    bool is_short;
    uint32_t epoch;
    int unseen_days;
    float show, click;
    float w[DIM_MAX], state[FL_RULE_STATE_MAX][DIM_MAX];
} model_row;

typedef struct model {
    fl_table_config config;
    const fl_rule *rule;
    bool is_ctr;
    fl_hyper hyper;
    uint32_t epoch;
    model_row *shards[FL_TABLE_SHARDS];
    uint64_t n_rows, n_short, n_candidates;
} model;

/* The first value of a state or a scalar. */
static double first_of(const model *m, const fl_rule_state *s)
{
    for (int i = 0; s->first_from && i < fl_rule_n_params(m->rule); i++)
        if (!strcmp(m->rule->params[i].name, s->first_from))
            return m->config.p[i];
    return s->first;
}

static model_row *model_find(const model *m, uint64_t key)
{
    model_row *r = m->shards[fl_table_shard_of(key)];

    while (r && r->key != key)
        r = r->next;
    return r;
}

static model_row *model_row_of(const model *m, uint64_t key)
{
    model_row *r = model_find(m, key);

    return r && !r->is_candidate ? r : NULL;
}

static model_row *model_add(model *m, uint64_t key)
{
    model_row **head = &m->shards[fl_table_shard_of(key)];
    model_row *r = calloc(1, sizeof(*r));

    *r = (model_row){ .next = *head, .key = key };
    *head = r;
    return r;
}

/* Returns whether there was a row. */
static bool model_remove(model *m, uint64_t key)
{
    model_row **at = &m->shards[fl_table_shard_of(key)];
    bool was_row;
    model_row *r;

    while (*at && (*at)->key != key)
        at = &(*at)->next;
    r = *at;
    if (!r)
        return false;
    was_row = !r->is_candidate;
    m->n_rows -= was_row;
    m->n_short -= r->is_short;
    m->n_candidates -= r->is_candidate;
    *at = r->next;
    free(r);
    return was_row;
}

static void start_scalars(model *m)
{
    for (int i = 0; i < fl_rule_n_scalars(m->rule); i++)
        m->hyper.scalar[i] = first_of(m, &m->rule->scalars[i]);
}

static void model_clear(model *m)
{
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        while (m->shards[s])
            model_remove(m, m->shards[s]->key);
    start_scalars(m);
}

static void start_state(const model *m, model_row *r)
{
    for (int s = 0; s < fl_rule_n_states(m->rule); s++)
        for (uint32_t i = 0; i < m->config.dim; i++)
            r->state[s][i] = (float)first_of(m, &m->rule->states[s]);
}

/* What a key without a row answers with. */
static void first_value(const model *m, uint64_t key, float *out)
{
    if (m->is_ctr)
        memset(out, 0, m->config.dim * sizeof(*out));
    else
        fl_init_row(&m->config.init, key, out, m->config.dim);
}

/* Makes a row of a new key or of a candidate. */
static model_row *model_create(model *m, uint64_t key)
{
    model_row *r;

    model_remove(m, key);
    r = model_add(m, key);
    r->epoch = m->epoch;
    r->is_short = m->is_ctr && m->config.dim > 1;
    first_value(m, key, r->w);
    start_state(m, r);
    m->n_rows++;
    m->n_short += r->is_short;
    return r;
}

static void update(const model *m, model_row *r, uint32_t lo, uint32_t hi,
                   const float *grad, const fl_hyper *h)
{
    float *state[] = { r->state[0] + lo, r->state[1] + lo, r->state[2] + lo };
    float l1 = (float)m->config.l1, l2 = (float)m->config.l2;
    float g[DIM_MAX];

    for (uint32_t i = lo; i < hi; i++) {
        float sign = (float)((r->w[i] > 0) - (r->w[i] < 0));

        g[i] = grad[i];
        if (l1 != 0 || l2 != 0)
            g[i] += l2 * r->w[i] + l1 * sign;
    }
    m->rule->update_f32(r->w + lo, state, g + lo, hi - lo, h);
}

static double score(const model *m, double show, double click)
{
    return (show - click) * m->config.nonclk_coeff +
           click * m->config.click_coeff;
}

static void model_apply(model *m, model_row *r, const float *grad, float show,
                        float click, const fl_hyper *h)
{
    r->epoch = m->epoch;
    r->unseen_days = 0;
    if (!m->is_ctr) {
        update(m, r, 0, m->config.dim, grad, h);
        return;
    }
    r->show += show;
    r->click += click;
    update(m, r, 0, 1, grad, h);
    if (!r->is_short) {
        update(m, r, 1, m->config.dim, grad, h);
    } else if (score(m, r->show, r->click) >= m->config.embedx_threshold) {
        for (uint32_t i = 1; i < m->config.dim; i++)
            r->w[i] = (float)fl_init_value(&m->config.init, r->key, i);
        r->is_short = false;
        m->n_short--;
    }
}

/* Counts what was seen of a key without a row; true when it may have one. */
static bool model_admits(model *m, uint64_t key, uint32_t count, float show,
                         float click)
{
    const fl_entry *e = &m->config.entry;
    model_row *r = model_find(m, key);

    if (e->kind != FL_ENTRY_COUNT && e->kind != FL_ENTRY_SHOW_CLICK)
        return true;
    if (!r) {
        r = model_add(m, key);
        r->is_candidate = true;
        m->n_candidates++;
    }
    r->show += e->kind == FL_ENTRY_COUNT ? (float)count : show;
    r->click += click;
    if (e->kind == FL_ENTRY_COUNT ? r->show < e->limit
                                  : score(m, r->show, r->click) < e->limit)
        return false;
    model_remove(m, key);
    return true;
}

static uint64_t model_shrink(model *m, int limit)
{
    const fl_table_config *c = &m->config;
    uint64_t n = 0;

    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        for (model_row *r = m->shards[s], *next; r; r = next) {
            bool keep = !limit || r->unseen_days < limit;

            next = r->next;
            if (r->is_candidate)
                continue;
            if (m->is_ctr) {
                r->show *= (float)c->show_click_decay_rate;
                r->click *= (float)c->show_click_decay_rate;
                keep = score(m, r->show, r->click) >= c->delete_threshold &&
                       r->unseen_days <= c->delete_after_unseen_days;
            }
            if (!keep)
                n += model_remove(m, r->key);
        }
    return n;
}

static void model_end_day(model *m)
{
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        for (model_row *r = m->shards[s]; r; r = r->next)
            r->unseen_days++;
}

/* --- a run --------------------------------------------------------------- */

typedef struct run {
    fl_table *t;
    model m;
    fl_row_layout layout;
    uint64_t seed;    /* of the random numbers */
    uint64_t next_id; /* consecutive ids come one after the other */
    uint64_t recent[RECENT];
    size_t n;
    uint64_t keys[BATCH_MAX];
    float values[BATCH_MAX * DIM_MAX]; /* or gradients */
    float shows[BATCH_MAX], clicks[BATCH_MAX];
    uint32_t counts[BATCH_MAX];
} run;

static uint64_t below(run *r, uint64_t n)
{
    return draw(&r->seed) % n;
}

static uint64_t draw_key(run *r)
{
    static const uint64_t edges[] = { 0, 1, UINT64_MAX, UINT64_MAX - 1,
                                      UINT64_C(1) << 63 };
    uint64_t dice = below(r, 100);

    if (dice < 5)
        return edges[below(r, FL_LEN(edges))];
    if (dice < 35)
        return below(r, HOT);
    if (dice < 55)
        return r->recent[below(r, RECENT)];
    if (dice < 70)
        return fl_mix64(below(r, SCATTERED));
    if (dice < 85)
        return HOT + below(r, r->next_id + 1);
    return HOT + r->next_id++;
}

/* Many small batches and a few that touch a good part of the table. */
static void draw_keys(run *r)
{
    r->n = (size_t)below(r, below(r, 50) ? 12 : BATCH_MAX);
    for (size_t i = 0; i < r->n; i++) {
        r->keys[i] = draw_key(r);
        r->recent[below(r, RECENT)] = r->keys[i];
    }
}

static void drop_repeats(run *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        size_t k = 0;

        while (k < n && r->keys[k] != r->keys[i])
            k++;
        if (k == n)
            r->keys[n++] = r->keys[i];
    }
    r->n = n;
}

static void draw_values(run *r)
{
    for (size_t i = 0; i < r->n * r->m.config.dim; i++)
        r->values[i] = ((float)below(r, 256) - 128) / 64;
    for (size_t i = 0; i < r->n; i++) {
        r->counts[i] = 1 + (uint32_t)below(r, 2);
        r->shows[i] = (float)below(r, 64) / 64;
        r->clicks[i] = r->shows[i] * (float)below(r, 2);
    }
}

/* --- who got a row ------------------------------------------------------- */

typedef struct search {
    uint64_t key;
    bool found;
} search;

static bool is_it(void *arg, const fl_row_view *row)
{
    search *s = arg;

    s->found = row->key == s->key;
    return !s->found;
}

static bool table_has(run *r, uint64_t key)
{
    search s = { .key = key };

    assert_ok(fl_table_scan(r->t, fl_table_shard_of(key), 0, is_it, &s));
    return s.found;
}

/* Where max_rows or chance decides who gets a row, the table is asked, after
   the call; the model only sees to it that the limit is kept and used. */
static bool gets_row(run *r, uint64_t key)
{
    const fl_table_config *c = &r->m.config;
    bool has;

    if (!c->max_rows && c->entry.kind != FL_ENTRY_PROBABILITY)
        return true;
    has = table_has(r, key);
    if (c->max_rows && r->m.n_rows + r->n < c->max_rows)
        assert_true(has);
    return has;
}

static void check_limit(run *r)
{
    uint64_t max = r->m.config.max_rows;

    assert_true(!max || r->m.n_rows <= max);
}

/* --- calls --------------------------------------------------------------- */

static void check_value(const model *m, uint64_t key, const float *got)
{
    const model_row *r = model_row_of(m, key);
    float want[DIM_MAX];

    first_value(m, key, want);
    if (r)
        memcpy(want, r->w, m->config.dim * sizeof(*want));
    if (r && r->is_short)
        memset(want + 1, 0, (m->config.dim - 1) * sizeof(*want));
    assert_memory_equal(got, want, m->config.dim * sizeof(*want));
}

static void check_values(const run *r)
{
    for (size_t i = 0; i < r->n; i++)
        check_value(&r->m, r->keys[i], r->values + i * r->m.config.dim);
}

static void call_pull_create(run *r)
{
    draw_keys(r);
    assert_ok(fl_table_pull(r->t, r->keys, r->n, FL_PULL_CREATE, r->values));
    for (size_t i = 0; i < r->n; i++)
        if (r->m.config.entry.kind == FL_ENTRY_NONE &&
            !model_row_of(&r->m, r->keys[i]) && gets_row(r, r->keys[i]))
            model_create(&r->m, r->keys[i]);
    check_limit(r);
    check_values(r);
}

static void call_pull_only(run *r)
{
    draw_keys(r);
    assert_ok(fl_table_pull(r->t, r->keys, r->n, FL_PULL_ONLY, r->values));
    check_values(r);
}

/* Adds up what comes for one key, from its first place in the batch on. */
typedef struct sum {
    float grad[DIM_MAX], show, click;
    uint32_t count;
} sum;

static void add_up(const run *r, const fl_rows *a, size_t first, sum *s)
{
    uint32_t dim = r->m.config.dim;

    *s = (sum){ 0 };
    for (size_t i = first; i < r->n; i++) {
        if (r->keys[i] != r->keys[first])
            continue;
        for (uint32_t d = 0; d < dim; d++)
            s->grad[d] += r->values[i * dim + d];
        s->show += a->shows ? a->shows[i] : 1;
        s->click += a->clicks ? a->clicks[i] : 0;
        s->count += a->counts ? a->counts[i] : 1;
    }
}

static bool came_before(const run *r, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (r->keys[k] == r->keys[i])
            return true;
    return false;
}

static void model_push(run *r, const fl_rows *a)
{
    model *m = &r->m;
    fl_hyper h;

    m->hyper.lr = a->lr * m->config.lr_scale;
    if (m->rule->prepare)
        m->rule->prepare(&m->hyper);
    h = m->hyper;
    if (m->rule->advance)
        m->rule->advance(&m->hyper);
    for (size_t i = 0; i < r->n; i++) {
        model_row *row = model_row_of(m, r->keys[i]);
        sum s;

        if (!a->merged && came_before(r, i))
            continue;
        add_up(r, a, i, &s);
        if (!row && model_admits(m, r->keys[i], s.count, s.show, s.click) &&
            gets_row(r, r->keys[i]))
            row = model_create(m, r->keys[i]);
        if (row)
            model_apply(m, row, s.grad, s.show, s.click, &h);
    }
    check_limit(r);
}

static void push(run *r, bool merged)
{
    fl_rows a = { .keys = r->keys,
                  .values = r->values,
                  .n = r->n,
                  .lr = (double)(1 + below(r, 8)) / 64,
                  .merged = merged };

    draw_values(r);
    if (below(r, 4)) {
        a.shows = r->shows;
        a.clicks = r->clicks;
        a.counts = r->counts;
    }
    assert_ok(fl_table_push(r->t, &a));
    model_push(r, &a);
}

static void call_push_merged(run *r)
{
    draw_keys(r);
    drop_repeats(r);
    push(r, true);
}

static void call_push(run *r)
{
    draw_keys(r);
    push(r, false);
}

/* State and statistics start anew; of equal keys the last one stays. */
static void call_assign(run *r)
{
    uint32_t dim = r->m.config.dim;

    draw_keys(r);
    r->n = r->n % 20;
    draw_values(r);
    assert_ok(fl_table_assign(r->t, r->keys, r->n, r->values));
    for (size_t i = 0; i < r->n; i++) {
        model_row *row = model_row_of(&r->m, r->keys[i]);

        if (!row && (!r->m.config.max_rows || gets_row(r, r->keys[i])))
            row = model_create(&r->m, r->keys[i]);
        if (!row) {
            model_remove(&r->m, r->keys[i]);
            continue;
        }
        r->m.n_short -= row->is_short;
        row->is_short = false;
        row->epoch = r->m.epoch;
        row->unseen_days = 0;
        row->show = row->click = 0;
        memcpy(row->w, r->values + i * dim, dim * sizeof(float));
        start_state(&r->m, row);
    }
    check_limit(r);
}

static void call_remove(run *r)
{
    size_t n_removed, n = 0;

    draw_keys(r);
    fl_table_remove(r->t, r->keys, r->n, &n_removed);
    for (size_t i = 0; i < r->n; i++)
        n += model_remove(&r->m, r->keys[i]);
    assert_int_equal(n_removed, n);
}

static void call_advance_epoch(run *r)
{
    assert_int_equal(fl_table_advance_epoch(r->t), ++r->m.epoch);
    assert_int_equal(fl_table_epoch(r->t), r->m.epoch);
}

static void call_end_day(run *r)
{
    fl_table_end_day(r->t);
    model_end_day(&r->m);
    r->m.epoch = fl_table_epoch(r->t); /* a new day may be a new epoch */
}

static void call_shrink(run *r)
{
    int limit = (int)below(r, 6);
    uint64_t n_removed;

    assert_ok(fl_table_shrink(r->t, limit, &n_removed));
    assert_int_equal(n_removed, model_shrink(&r->m, limit));
}

/* --- scans --------------------------------------------------------------- */

typedef struct scan {
    const run *r;
    uint32_t shard, since;
    uint64_t n;
} scan;

static float field(const run *r, const void *row, const char *name)
{
    float value = 0;

    for (int i = 0; i < r->layout.n_fields; i++)
        if (!strcmp(r->layout.fields[i].name, name))
            memcpy(&value, (const char *)row + r->layout.fields[i].offset,
                   sizeof(value));
    return value;
}

static bool check_row(void *arg, const fl_row_view *view)
{
    scan *s = arg;
    const model_row *row = model_row_of(&s->r->m, view->key);

    assert_non_null(row);
    assert_int_equal(fl_table_shard_of(view->key), s->shard);
    assert_int_equal(view->epoch, row->epoch);
    assert_int_equal(view->is_short, row->is_short);
    assert_true(view->epoch >= s->since);
    if (s->r->m.is_ctr) {
        assert_true(field(s->r, view->row, "show") == row->show);
        assert_true(field(s->r, view->row, "click") == row->click);
    }
    s->n++;
    return true;
}

/* No row comes twice: as many come as the model has. */
static void check_shard(const run *r, uint32_t shard, uint32_t since)
{
    scan s = { r, shard, since, 0 };
    uint64_t n = 0;

    assert_ok(fl_table_scan(r->t, shard, since, check_row, &s));
    for (const model_row *row = r->m.shards[shard]; row; row = row->next)
        n += !row->is_candidate && row->epoch >= since;
    assert_int_equal(s.n, n);
}

static void call_scan(run *r)
{
    uint32_t since = (uint32_t)below(r, r->m.epoch + 2);

    check_shard(r, (uint32_t)below(r, FL_TABLE_SHARDS), 0);
    check_shard(r, fl_table_shard_of(draw_key(r)), 0);
    check_shard(r, fl_table_shard_of(draw_key(r)), since);
    check_shard(r, fl_table_shard_of(draw_key(r)), r->m.epoch);
}

/* Everything there is, both ways. */
static void check_all(run *r)
{
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++) {
        check_shard(r, shard, 0);
        for (const model_row *row = r->m.shards[shard]; row; row = row->next) {
            assert_ok(
                fl_table_pull(r->t, &row->key, 1, FL_PULL_ONLY, r->values));
            check_value(&r->m, row->key, r->values);
        }
    }
}

static void call_clear(run *r)
{
    check_all(r);
    fl_table_clear(r->t);
    model_clear(&r->m);
    check_all(r);
}

/* --- the test ------------------------------------------------------------ */

static const struct {
    void (*call)(run *r);
    uint64_t share; /* of 10 000 calls */
} calls[] = {
    { call_pull_create, 2600 }, { call_pull_only, 2000 },
    { call_push_merged, 1700 }, { call_push, 1800 },
    { call_assign, 200 },       { call_remove, 600 },
    { call_scan, 800 },         { call_advance_epoch, 160 },
    { call_end_day, 90 },       { call_shrink, 48 },
    { call_clear, 2 },
};

static void check_counts(const run *r)
{
    fl_table_stats s = stats_of(r->t);

    assert_int_equal(s.rows, r->m.n_rows);
    assert_int_equal(s.short_rows, r->m.n_short);
    assert_int_equal(s.candidates, r->m.n_candidates);
}

static void init_run(run *r, size_t kind, uint64_t seed)
{
    fl_table_config *c = &r->m.config;

    *r = (run){ .seed = seed };
    *c = kinds[kind];
    c->name = "model";
    c->init = (fl_init){ .kind = FL_INIT_UNIFORM,
                         .a = -1,
                         .b = 1,
                         .stream = fl_rng_stream(seed, c->name) };
    c->lr_scale = c->lr_scale ? c->lr_scale : 1;
    c->nonclk_coeff = 0.125;
    c->click_coeff = 1;
    c->embedx_threshold = 0.75;
    c->show_click_decay_rate = 0.5;
    c->delete_threshold = 0.125;
    c->delete_after_unseen_days = 4;
    r->m.rule = fl_rule_find(c->rule);
    r->m.is_ctr = !strcmp(c->accessor, "ctr");
    r->m.epoch = 1;
    memcpy(r->m.hyper.p, c->p, sizeof(c->p));
    start_scalars(&r->m);
    r->layout = row_layout(c);
    assert_ok(fl_table_create(&r->t, c));
}

static void call_something(run *r)
{
    uint64_t dice = below(r, 10000);
    size_t i = 0;

    while (dice >= calls[i].share)
        dice -= calls[i++].share;
    calls[i].call(r);
}

static void check_kind(size_t kind)
{
    run *r = malloc(sizeof(*r));

    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        init_run(r, kind, seed);
        for (uint64_t i = 0; i < calls_per_run; i++) {
            call_something(r);
            check_counts(r);
        }
        check_all(r);
        model_clear(&r->m);
        fl_table_destroy(r->t);
    }
    free(r);
}

static void any_calls_leave_what_the_model_says(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < FL_LEN(kinds); kind++)
        check_kind(kind);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_calls_leave_what_the_model_says),
    };

    if (argc > 1)
        calls_per_run = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
