/* test_accessors.c - what every accessor must hold for every rule, and the
 * numbers of plain and ctr by hand. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

#include "table/row.h"

#define DIM_MAX 600
#define ROW_FLOATS (16 + (1 + FL_RULE_STATE_MAX) * DIM_MAX)
#define KEY 77

/* A table's worth of context with one row of memory. */
typedef struct fixture {
    fl_table_config config;
    fl_acc_ctx c;
    const fl_accessor *a;
    float row[ROW_FLOATS];
} fixture;

static void setup(fixture *f, const char *accessor, const char *rule,
                  uint32_t dim)
{
    memset(f, 0, sizeof(*f));
    f->config = (fl_table_config){ .name = "t",
                                   .dim = dim,
                                   .init = { FL_INIT_UNIFORM, -1, 1, 5 } };
    fl_table_config_ctr(&f->config);
    f->config.accessor = accessor;
    f->config.rule = rule;
    f->a = fl_accessor_of(&f->config, &f->c);
    for (int i = 0; i < fl_rule_n_params(f->c.rule); i++)
        f->config.p[i] = f->c.rule->params[i].value;
    assert_true(f->c.layout.bytes <= sizeof(f->row));
}

static void set_decay(fixture *f, double l1, double l2)
{
    f->config.l1 = l1;
    f->config.l2 = l2;
    f->a = fl_accessor_of(&f->config, &f->c);
}

static float *field(fixture *f, const char *name)
{
    for (int i = 0; i < f->c.layout.n_fields; i++)
        if (!strcmp(f->c.layout.fields[i].name, name))
            return f->row + f->c.layout.fields[i].offset / sizeof(float);
    fail_msg("no field %s", name);
    return NULL;
}

static double setting(const fl_rule *r, const char *name)
{
    for (int i = 0; i < fl_rule_n_params(r); i++)
        if (!strcmp(r->params[i].name, name))
            return r->params[i].value;
    fail_msg("%s has no setting %s", r->name, name);
    return 0;
}

static fl_hyper hyper(const fl_rule *r, double lr)
{
    fl_hyper h = { .lr = lr };

    for (int i = 0; i < fl_rule_n_params(r); i++)
        h.p[i] = r->params[i].value;
    for (int i = 0; i < fl_rule_n_scalars(r); i++)
        h.scalar[i] = r->scalars[i].first_from
                          ? setting(r, r->scalars[i].first_from)
                          : r->scalars[i].first;
    return h;
}

/* In [-1, 1). */
static float sample(uint64_t seed, size_t i)
{
    return (float)(2 * fl_rng_unit(seed, 1, i) - 1);
}

static bool push(fixture *f, bool is_short, const float *grad, float show,
                 float click)
{
    fl_hyper h = hyper(f->c.rule, 0.05);
    fl_push_item item = { grad, show, click };

    if (f->c.rule->prepare)
        f->c.rule->prepare(&h);
    return f->a->push(&f->c, f->row, is_short, &item, &h);
}

/* --- all accessors -------------------------------------------------------- */

static void accessors_are_found_by_name(void **state)
{
    (void)state;
    assert_true(fl_accessor_count() >= 2);
    for (size_t i = 0; i < fl_accessor_count(); i++) {
        const fl_accessor *a = fl_accessor_at(i);

        assert_ptr_equal(fl_accessor_find(a->name), a);
        assert_true(strlen(a->doc) > 0);
    }
    assert_null(fl_accessor_find("no_such_accessor"));
}

/* The fields tile the row from the header on; what is left is padding. */
static void check_layout(const char *accessor, const char *rule, uint32_t dim)
{
    fixture f;
    const fl_row_layout *l = &f.c.layout;
    uint32_t end = FL_ROW_HEADER_BYTES;
    bool short_ends_with_a_field = false;

    setup(&f, accessor, rule, dim);
    for (int i = 0; i < l->n_fields; i++) {
        assert_int_equal(l->fields[i].offset, end);
        assert_true(l->fields[i].len > 0);
        end += l->fields[i].len * 4;
        short_ends_with_a_field |= end == l->short_bytes;
        for (int j = 0; j < i; j++)
            assert_string_not_equal(l->fields[i].name, l->fields[j].name);
    }
    assert_int_equal(l->bytes % 4, 0);
    assert_true(l->bytes >= end && l->bytes - end <= 8);
    assert_true(l->bytes % 64 < 56);
    if (l->short_bytes) {
        assert_true(l->short_bytes < l->bytes);
        assert_true(short_ends_with_a_field);
        assert_non_null(f.a->grow);
    }
}

static void fields_tile_the_row(void **state)
{
    static const uint32_t dims[] = { 1, 2, 3, 8, 10, 13, 14, 15, 16, 33, 600 };

    (void)state;
    for (size_t a = 0; a < fl_accessor_count(); a++)
        for (size_t r = 0; r < fl_rule_count(); r++)
            for (size_t d = 0; d < FL_LEN(dims); d++)
                check_layout(fl_accessor_at(a)->name, fl_rule_at(r)->name,
                             dims[d]);
}

static void an_assigned_value_is_pulled(void **state)
{
    float value[5], got[5];

    (void)state;
    for (size_t i = 0; i < 5; i++)
        value[i] = sample(4, i);
    for (size_t a = 0; a < fl_accessor_count(); a++)
        for (size_t r = 0; r < fl_rule_count(); r++) {
            fixture f, fresh;

            setup(&f, fl_accessor_at(a)->name, fl_rule_at(r)->name, 5);
            setup(&fresh, fl_accessor_at(a)->name, fl_rule_at(r)->name, 5);
            fresh.a->assign(&fresh.c, KEY, fresh.row, value);
            for (size_t i = 0; i < ROW_FLOATS; i++)
                f.row[i] = 3;
            (void)push(&f, false, value, 2, 1);
            f.a->assign(&f.c, KEY, f.row, value);
            f.a->pull(&f.c, KEY, f.row, false, got);
            assert_memory_equal(got, value, sizeof(got));
            for (int i = 0; i < f.c.layout.n_fields; i++) {
                const fl_row_field *to = &f.c.layout.fields[i];

                assert_memory_equal((char *)f.row + to->offset,
                                    (char *)fresh.row + to->offset,
                                    to->len * sizeof(float));
            }
        }
}

/* --- rules on rows -------------------------------------------------------- */

typedef struct dense {
    float w[DIM_MAX], s[FL_RULE_STATE_MAX][DIM_MAX];
} dense;

/* One step of the rule on plain arrays, with the decay of the operator
   weight_decay. */
static void dense_step(dense *d, const fl_rule *r, const float *grad, size_t n,
                       double l1, double l2, const fl_hyper *h)
{
    float *const state[] = { d->s[0], d->s[1], d->s[2] };
    float g[DIM_MAX];

    for (size_t i = 0; i < n; i++) {
        float sign = (float)((d->w[i] > 0) - (d->w[i] < 0));
        float decay = (float)l2 * d->w[i] + (float)l1 * sign;

        g[i] = l1 != 0 || l2 != 0 ? grad[i] + decay : grad[i];
    }
    r->update_f32(d->w, state, g, n, h);
}

static void check_rule(const char *accessor, const fl_rule *r, bool flags,
                       double l1, double l2)
{
    const uint32_t dim = DIM_MAX;
    float grad[DIM_MAX], got[DIM_MAX];
    fl_hyper h = hyper(r, 0.05);
    fixture f;
    dense d = { 0 };

    setup(&f, accessor, r->name, dim);
    set_decay(&f, l1, l2);
    for (int k = 0; k < fl_rule_n_params(r); k++)
        if (r->params[k].is_flag)
            h.p[k] = flags;
    for (size_t i = 0; i < dim; i++)
        d.w[i] = i % 7 ? sample(2, i) : 0;
    for (int s = 0; s < fl_rule_n_states(r); s++)
        for (size_t i = 0; i < dim; i++)
            d.s[s][i] = (float)r->states[s].first;
    f.a->assign(&f.c, KEY, f.row, d.w);
    for (uint64_t step = 0; step < 5; step++) {
        fl_push_item item = { grad, 1, 0 };

        for (size_t i = 0; i < dim; i++)
            grad[i] = i % 5 ? sample(step + 10, i) : 0;
        if (r->prepare)
            r->prepare(&h);
        assert_false(f.a->push(&f.c, f.row, false, &item, &h));
        dense_step(&d, r, grad, dim, l1, l2, &h);
        if (r->advance)
            r->advance(&h);
    }
    f.a->pull(&f.c, KEY, f.row, false, got);
    assert_memory_equal(got, d.w, sizeof(got));
}

static void every_rule_on_a_row_is_the_dense_rule_to_the_bit(void **state)
{
    (void)state;
    for (size_t a = 0; a < fl_accessor_count(); a++)
        for (size_t i = 0; i < fl_rule_count(); i++) {
            const char *name = fl_accessor_at(a)->name;
            const fl_rule *r = fl_rule_at(i);

            if (r->whole)
                continue;
            check_rule(name, r, false, 0, 0);
            check_rule(name, r, false, 0, 0.25);
            check_rule(name, r, false, 0.1, 0);
            check_rule(name, r, false, 0.1, 0.25);
            check_rule(name, r, true, 0, 0);
        }
}

static void a_push_leaves_the_gradient_alone(void **state)
{
    float grad[3] = { 1, -2, 3 };
    const float was[3] = { 1, -2, 3 };
    fixture f;

    (void)state;
    setup(&f, "plain", "sgd", 3);
    set_decay(&f, 0, 0.5);
    f.a->create(&f.c, KEY, f.row);
    assert_false(push(&f, false, grad, 1, 0));
    assert_memory_equal(grad, was, sizeof(grad));
}

/* --- plain ---------------------------------------------------------------- */

static uint32_t plain_bytes(const char *rule, uint32_t dim)
{
    fixture f;

    setup(&f, "plain", rule, dim);
    assert_int_equal(f.c.layout.short_bytes, 0);
    assert_int_equal(f.c.layout.value, FL_ROW_HEADER_BYTES);
    return f.c.layout.bytes;
}

static void plain_rows_are_header_value_and_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        const fl_rule *r = fl_rule_at(i);
        uint32_t n = 1 + (uint32_t)fl_rule_n_states(r);

        assert_int_equal(plain_bytes(r->name, 8), 4 + 32 * n);
    }
    assert_int_equal(plain_bytes("sgd", 1), 8);
    assert_int_equal(plain_bytes("adagrad", 10), 84);
}

static void plain_rows_end_with_a_cache_line_when_close_to_it(void **state)
{
    (void)state;
    assert_int_equal(plain_bytes("sgd", 12), 52);
    assert_int_equal(plain_bytes("sgd", 13), 64);
    assert_int_equal(plain_bytes("sgd", 14), 64);
    assert_int_equal(plain_bytes("sgd", 15), 64);
    assert_int_equal(plain_bytes("sgd", 16), 68);
    assert_int_equal(plain_bytes("adam", 10), 128);
}

static void plain_rows_are_born_with_the_initialisers_values(void **state)
{
    float got[6], missing[6];
    fixture f;

    (void)state;
    setup(&f, "plain", "adam", 6);
    memset(f.row, 0x55, sizeof(f.row));
    f.a->create(&f.c, KEY, f.row);
    f.a->pull(&f.c, KEY, f.row, false, got);
    f.a->pull(&f.c, KEY, NULL, false, missing);
    assert_memory_equal(got, missing, sizeof(got));
    for (size_t i = 0; i < 6; i++) {
        assert_true(got[i] == (float)fl_init_value(&f.config.init, KEY, i));
        assert_true(field(&f, "moment1")[i] == 0);
        assert_true(field(&f, "moment2")[i] == 0);
    }
}

static void plain_rows_go_when_unseen_for_the_limit(void **state)
{
    fixture f;

    (void)state;
    setup(&f, "plain", "sgd", 2);
    f.a->create(&f.c, KEY, f.row);
    assert_true(f.a->keep(&f.c, f.row, false, 0, 3));
    assert_true(f.a->keep(&f.c, f.row, false, 2, 3));
    assert_false(f.a->keep(&f.c, f.row, false, 3, 3));
    assert_false(f.a->keep(&f.c, f.row, false, 4, 3));
    assert_true(f.a->keep(&f.c, f.row, false, 1000, 0));
}

/* --- ctr ------------------------------------------------------------------ */

static const float no_grad[DIM_MAX];

static void ctr_rows_have_a_short_and_a_wide_part(void **state)
{
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 9);
    assert_int_equal(f.c.layout.short_bytes, 4 + 12 + 4);
    assert_int_equal(f.c.layout.bytes, 20 + 8 * 4);
    setup(&f, "ctr", "adam", 9);
    assert_int_equal(f.c.layout.short_bytes, 4 + 12 + 3 * 4);
    assert_int_equal(f.c.layout.bytes, 128); /* 28 + 3 * 8 * 4 = 124 */
    setup(&f, "ctr", "adam", 1);
    assert_int_equal(f.c.layout.short_bytes, 0);
    assert_int_equal(f.c.layout.bytes, 28);
}

static void ctr_keys_without_a_row_are_zero(void **state)
{
    float got[4] = { 1, 1, 1, 1 };
    const float zero[4] = { 0 };
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 4);
    f.a->pull(&f.c, KEY, NULL, false, got);
    assert_memory_equal(got, zero, sizeof(got));
}

static void ctr_short_rows_train_their_first_weight_alone(void **state)
{
    const float grad[3] = { 2, 7, 7 };
    float got[3] = { 1, 1, 1 };
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 3);
    memset(f.row, 0x55, sizeof(f.row));
    f.a->create(&f.c, KEY, f.row);
    f.a->pull(&f.c, KEY, f.row, true, got);
    assert_true(got[0] == 0 && got[1] == 0 && got[2] == 0);
    assert_false(push(&f, true, grad, 1, 0));
    f.a->pull(&f.c, KEY, f.row, true, got);
    assert_true(got[0] == -(0.05f * 2) && got[1] == 0 && got[2] == 0);
}

static void ctr_pushes_stay_inside_a_short_row(void **state)
{
    float guard;
    fixture f;

    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        setup(&f, "ctr", fl_rule_at(i)->name, 4);
        memset(f.row, 0x55, sizeof(f.row));
        guard = f.row[f.c.layout.short_bytes / sizeof(float)];
        f.a->create(&f.c, KEY, f.row);
        assert_false(push(&f, true, no_grad, 1, 0));
        assert_true(f.a->keep(&f.c, f.row, true, 0, 0) == false);
        assert_true(f.row[f.c.layout.short_bytes / sizeof(float)] == guard);
    }
}

static void ctr_counts_shows_clicks_and_the_delta(void **state)
{
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 3);
    f.a->create(&f.c, KEY, f.row);
    assert_false(push(&f, true, no_grad, 3, 1));
    assert_true(*field(&f, "show") == 3);
    assert_true(*field(&f, "click") == 1);
    /* (3 - 1) * 0.1 + 1 * 1 */
    assert_float_equal(*field(&f, "delta_score"), 1.2, 1e-6);
    assert_false(push(&f, true, no_grad, 10, 0));
    assert_true(*field(&f, "show") == 13);
    assert_float_equal(*field(&f, "delta_score"), 2.2, 1e-6);
}

/* Pushes until the row grows; -1 when it does not in `max` pushes. */
static int pushes_to_grow(fixture *f, float show, float click, int max)
{
    f->a->create(&f->c, KEY, f->row);
    for (int n = 1; n <= max; n++)
        if (push(f, true, no_grad, show, click))
            return n;
    return -1;
}

static void ctr_rows_grow_when_the_score_reaches_the_threshold(void **state)
{
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 3);
    assert_int_equal(pushes_to_grow(&f, 1, 1, 50), 10);   /* clicks alone */
    assert_int_equal(pushes_to_grow(&f, 1, 0, 500), 100); /* shows alone */
    assert_int_equal(pushes_to_grow(&f, 6, 1, 50), 7);    /* 1.5 each */
    assert_int_equal(pushes_to_grow(&f, 0, 0, 50), -1);
    f.config.embedx_threshold = 0;
    assert_int_equal(pushes_to_grow(&f, 0, 0, 50), 1);
}

static void a_grown_ctr_row_keeps_its_start_and_gets_first_values(void **state)
{
    const float grad[4] = { 2, 1, 1, 1 };
    float got[4], before;
    fixture f;

    (void)state;
    setup(&f, "ctr", "adagrad", 4);
    memset(f.row, 0x55, sizeof(f.row));
    f.a->create(&f.c, KEY, f.row);
    assert_true(push(&f, true, grad, 10, 10));
    before = *field(&f, "embed_w");
    f.a->grow(&f.c, KEY, f.row);
    f.a->pull(&f.c, KEY, f.row, false, got);
    assert_true(before != 0 && got[0] == before);
    assert_true(*field(&f, "show") == 10 && *field(&f, "embed_state0") == 4);
    for (size_t col = 1; col < 4; col++) {
        assert_true(got[col] == (float)fl_init_value(&f.config.init, KEY, col));
        assert_true(field(&f, "embedx_state0")[col - 1] == 0);
    }
    assert_false(push(&f, false, grad, 10, 10));
    assert_true(field(&f, "embedx_state0")[2] == 1);
}

static void ctr_values_of_width_one_are_never_short(void **state)
{
    const float grad[1] = { 2 };
    float got[1];
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 1);
    f.a->create(&f.c, KEY, f.row);
    assert_false(push(&f, false, grad, 1000, 1000));
    f.a->pull(&f.c, KEY, f.row, false, got);
    assert_true(got[0] == -(0.05f * 2));
}

static bool ctr_keep(fixture *f, float show, float click, int unseen_days)
{
    f->a->create(&f->c, KEY, f->row);
    *field(f, "show") = show;
    *field(f, "click") = click;
    return f->a->keep(&f->c, f->row, true, unseen_days, 0);
}

static void ctr_shrinking_decays_shows_and_clicks(void **state)
{
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 3);
    assert_true(ctr_keep(&f, 100, 10, 0));
    assert_float_equal(*field(&f, "show"), 98, 1e-4);
    assert_float_equal(*field(&f, "click"), 9.8, 1e-5);
}

static void ctr_rows_go_by_score_or_by_unseen_days(void **state)
{
    fixture f;

    (void)state;
    setup(&f, "ctr", "sgd", 3);
    assert_false(ctr_keep(&f, 8, 0, 0)); /* 0.784 < 0.8 */
    assert_true(ctr_keep(&f, 9, 0, 0));  /* 0.882 */
    assert_true(ctr_keep(&f, 1, 1, 0));  /* 0.98 */
    assert_true(ctr_keep(&f, 100, 10, 30));
    assert_false(ctr_keep(&f, 100, 10, 31));
    f.config.delete_threshold = 0;
    assert_true(ctr_keep(&f, 0, 0, 30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accessors_are_found_by_name),
        cmocka_unit_test(fields_tile_the_row),
        cmocka_unit_test(an_assigned_value_is_pulled),
        cmocka_unit_test(every_rule_on_a_row_is_the_dense_rule_to_the_bit),
        cmocka_unit_test(a_push_leaves_the_gradient_alone),
        cmocka_unit_test(plain_rows_are_header_value_and_state),
        cmocka_unit_test(plain_rows_end_with_a_cache_line_when_close_to_it),
        cmocka_unit_test(plain_rows_are_born_with_the_initialisers_values),
        cmocka_unit_test(plain_rows_go_when_unseen_for_the_limit),
        cmocka_unit_test(ctr_rows_have_a_short_and_a_wide_part),
        cmocka_unit_test(ctr_keys_without_a_row_are_zero),
        cmocka_unit_test(ctr_short_rows_train_their_first_weight_alone),
        cmocka_unit_test(ctr_pushes_stay_inside_a_short_row),
        cmocka_unit_test(ctr_counts_shows_clicks_and_the_delta),
        cmocka_unit_test(ctr_rows_grow_when_the_score_reaches_the_threshold),
        cmocka_unit_test(a_grown_ctr_row_keeps_its_start_and_gets_first_values),
        cmocka_unit_test(ctr_values_of_width_one_are_never_short),
        cmocka_unit_test(ctr_shrinking_decays_shows_and_clicks),
        cmocka_unit_test(ctr_rows_go_by_score_or_by_unseen_days),
    };

    return cmocka_run_group_tests_name("accessors", tests, NULL, NULL);
}
