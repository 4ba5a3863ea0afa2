/* rows.c - rows of tables, by bits.
 *
 * Shard by shard: the keys that either side has, or a sample of them, are read
 * from both sides and compared. A source that cannot list its keys is asked for
 * those of the trained model alone.
 */
#include "check/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define AT_ONCE 4096
#define FIRSTS 16 /* keys whose first values are compared */

/* What one side has of some keys. */
typedef struct side {
    fl_row_source *rows;
    const fl_table *rule;
    float *values;
    uint8_t *missing;
} side;

/* One table. */
typedef struct comparison {
    fl_consistency *c;
    fl_finding *f;
    const char *table;
    uint32_t dim;
    uint64_t below; /* keys with a draw up to it are compared */
    FL_VEC(uint64_t) keys;
    side right, online;
} comparison;

/* --- keys ----------------------------------------------------------------- */

static void take_key(void *arg, uint64_t key)
{
    comparison *x = arg;

    if (fl_mix64(fl_hash_key(key) + x->c->args.seed) <= x->below)
        fl_vec_push(&x->keys, key);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void drop_repeats(comparison *x)
{
    size_t n = 0;

    if (x->keys.len)
        qsort(x->keys.data, x->keys.len, sizeof(*x->keys.data), by_value);
    for (size_t i = 0; i < x->keys.len; i++)
        if (!i || x->keys.data[i] != x->keys.data[i - 1])
            x->keys.data[n++] = x->keys.data[i];
    x->keys.len = n;
}

static fl_status list_keys(comparison *x, uint32_t shard)
{
    const side *all[] = { &x->right, &x->online };

    x->keys.len = 0;
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (all[i]->rows->ops->list)
            FL_TRY(all[i]->rows->ops->list(all[i]->rows, x->table, shard,
                                           take_key, x));
    drop_repeats(x);
    return FL_OK;
}

static void count_key(void *arg, uint64_t key)
{
    (void)key;
    ++*(uint64_t *)arg;
}

/* Of so many rows about `sample`. */
static fl_status choose_sample(comparison *x)
{
    uint64_t n = 0;
    double share;

    x->below = UINT64_MAX;
    if (!x->c->args.sample)
        return FL_OK;
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++)
        FL_TRY(x->right.rows->ops->list(x->right.rows, x->table, shard,
                                        count_key, &n));
    share = (double)x->c->args.sample / (double)(n ? n : 1);
    if (share < 1)
        x->below = (uint64_t)(share * (double)UINT64_MAX);
    return FL_OK;
}

/* --- values --------------------------------------------------------------- */

static fl_status read_side(const comparison *x, side *s, const uint64_t *keys,
                           size_t n)
{
    fl_source_read r = { .table = x->table,
                         .rule = s->rule,
                         .keys = keys,
                         .n = n,
                         .dim = x->dim,
                         .out = s->values,
                         .missing = s->missing };

    memset(s->missing, 0, n);
    return fl_err_ctx(s->rows->ops->read(s->rows, &r), "table %s", x->table);
}

static uint32_t bits_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static void tell_value(const comparison *x, uint64_t key, const float *right,
                       const float *online)
{
    fl_odd_row row = { x->online.rule, key, online };
    fl_str why = { 0 };
    uint32_t at = 0;

    while (bits_of(right[at]) == bits_of(online[at]))
        at++;
    if (!x->f->first)
        fl_blame_row(x->c, &row, &why);
    fl_finding_add(x->f,
                   "table %s row %" PRIu64 "[%" PRIu32
                   "]: %.9g was trained, %.9g is %s%s",
                   x->table, key, at, (double)right[at], (double)online[at],
                   x->c->where, fl_str_text(&why));
    fl_str_release(&why);
}

static void compare_one(const comparison *x, uint64_t key, size_t i)
{
    const float *right = x->right.values + i * x->dim;
    const float *online = x->online.values + i * x->dim;
    bool is_there = !x->online.missing[i];

    if (x->right.missing[i] && !is_there)
        return; /* a key that went */
    x->f->compared++;
    if (x->right.missing[i])
        fl_finding_add(x->f,
                       "table %s row %" PRIu64 ": it is %s and was not trained",
                       x->table, key, x->c->where);
    else if (!is_there)
        fl_finding_add(x->f, "table %s row %" PRIu64 ": there is none %s",
                       x->table, key, x->c->where);
    else if (memcmp(right, online, x->dim * sizeof(*right)))
        tell_value(x, key, right, online);
}

static fl_status compare_shard(comparison *x)
{
    for (size_t lo = 0; lo < x->keys.len; lo += AT_ONCE) {
        const uint64_t *keys = x->keys.data + lo;
        size_t n = x->keys.len - lo < AT_ONCE ? x->keys.len - lo : AT_ONCE;

        FL_TRY(read_side(x, &x->right, keys, n));
        FL_TRY(read_side(x, &x->online, keys, n));
        for (size_t i = 0; i < n; i++)
            compare_one(x, keys[i], i);
    }
    return FL_OK;
}

/* What keys have before they have a row. */
static void compare_rules(comparison *x)
{
    for (uint64_t key = 0; key < FIRSTS; key++) {
        fl_rules_first(x->right.rule, key, x->right.values);
        fl_rules_first(x->online.rule, key, x->online.values);
        if (!memcmp(x->right.values, x->online.values,
                    x->dim * sizeof(*x->right.values)))
            continue;
        fl_finding_add(x->f,
                       "table %s: a key without a row has other first values "
                       "online than in training, key %" PRIu64
                       " %.9g and not %.9g",
                       x->table, key, (double)x->online.values[0],
                       (double)x->right.values[0]);
        return;
    }
}

/* --- tables --------------------------------------------------------------- */

static void side_init(side *s, uint32_t dim)
{
    s->values = fl_alloc((size_t)AT_ONCE * dim * sizeof(*s->values));
    s->missing = fl_alloc(AT_ONCE);
}

static void side_release(side *s)
{
    fl_free(s->values);
    fl_free(s->missing);
}

static fl_status compare_all(comparison *x)
{
    compare_rules(x);
    FL_TRY(choose_sample(x));
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++) {
        FL_TRY(list_keys(x, shard));
        FL_TRY(compare_shard(x));
    }
    return FL_OK;
}

static fl_status compare_table(fl_consistency *c, const fl_table *rule)
{
    const char *name = fl_table_name(rule);
    const fl_table *right = fl_rules_find(&c->trained->rules, name);
    comparison x = { .c = c,
                     .f = &c->findings[FL_CHECK_ROWS],
                     .table = name,
                     .dim = fl_table_dim(rule),
                     .right = { c->trained->files, right, NULL, NULL },
                     .online = { c->rows, rule, NULL, NULL } };
    fl_status st;

    if (!right || fl_table_dim(right) != x.dim)
        return FL_OK; /* names.c has told */
    side_init(&x.right, x.dim);
    side_init(&x.online, x.dim);
    st = compare_all(&x);
    side_release(&x.right);
    side_release(&x.online);
    fl_vec_release(&x.keys);
    return st;
}

fl_status fl_check_rows(fl_consistency *c)
{
    for (size_t i = 0; i < c->online->rules.len; i++)
        FL_TRY(compare_table(c, c->online->rules.data[i]));
    return FL_OK;
}
