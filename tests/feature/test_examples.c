/* test_examples.c - the table of examples in docs/features.md is so: each row
 * becomes a program, which gives what the row says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../api/api.h"
#include "../make.h"
#include "feature/feature.h"

#define VALUES_MAX 32
#define FIELD_MAX 160
#define FIELDS 4

enum { CALL, X_FIELD, Y_FIELD, RESULT };

/* A column of a row: "category: 1,2 - 3", or a result without its kind. */
typedef struct values {
    fl_slot_kind kind;
    bool is_list;
    double x[VALUES_MAX];
    int64_t offsets[VALUES_MAX];
    size_t n, n_records;
} values;

static void read_values(const char *text, values *out)
{
    *out = (values){ .kind = strncmp(text, "number", 6) ? FL_SLOT_IDS
                                                        : FL_SLOT_FLOATS };
    out->is_list = strchr(text, ',') || strstr(text, " -");
    if (strchr(text, ':'))
        text = strchr(text, ':') + 1;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t len = strcspn(text, " ");
        const char *end = text + len;

        while (text < end && strncmp(text, "- ", 2) && strcmp(text, "-")) {
            char *next;

            out->x[out->n++] = strtod(text, &next);
            text = next + (*next == ',');
        }
        text = end;
        out->offsets[++out->n_records] = (int64_t)out->n;
    }
}

/* A column as it is fed; the memory is the caller's. */
static fl_feed feed_of(const char *name, const values *v, void *room)
{
    int64_t dims[] = { (int64_t)v->n, 1 };
    fl_feed f = { .name = name };

    for (size_t i = 0; i < v->n; i++)
        if (v->kind == FL_SLOT_FLOATS)
            ((float *)room)[i] = (float)v->x[i];
        else
            ((int64_t *)room)[i] = (int64_t)v->x[i];
    f.value = fl_tensor_of(
        v->kind == FL_SLOT_FLOATS ? FL_DTYPE_F32 : FL_DTYPE_I64, room, 2, dims);
    if (v->is_list) {
        f.value.kind = FL_KIND_RAGGED;
        f.value.n_lod = 1;
        f.value.lod[0] = v->offsets;
        f.value.lod_len[0] = (int64_t)v->n_records + 1;
    }
    return f;
}

static double value_at(const fl_tensor *t, size_t i)
{
    return t->dtype == FL_DTYPE_F32 ? (double)((const float *)t->data)[i]
                                    : (double)((const int64_t *)t->data)[i];
}

static void compare(const char *call, const fl_tensor *got, const values *want)
{
    char all[1024] = "";

    for (int64_t i = 0; i < fl_tensor_numel(got); i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), " %.17g",
                 value_at(got, (size_t)i));
    if (fl_tensor_numel(got) != (int64_t)want->n)
        fail_msg("%s gives%s", call, all);
    for (size_t i = 0; i < want->n; i++)
        if (fabs(value_at(got, i) - want->x[i]) > 1e-5 * fabs(want->x[i]))
            fail_msg("%s gives%s, not %g at %zu", call, all, want->x[i], i);
    for (size_t i = 0; got->n_lod && i <= want->n_records; i++)
        assert_int_equal(got->lod[0][i], want->offsets[i]);
}

static fl_slot slot_of(const char *name, const values *v)
{
    return (fl_slot){ .name = name, .kind = v->kind, .width = !v->is_list };
}

static void run_row(const char *const field[FIELDS])
{
    int64_t room[2][VALUES_MAX];
    values in[2], want;
    fl_slot slots[2];
    fl_feed feeds[2];
    size_t n = 1 + (*field[Y_FIELD] != '\0');
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_feature_column column = FL_INIT(fl_feature_column);
    fl_features *f = NULL;
    fl_tensor out = { 0 };
    char text[FIELD_MAX + 16];

    for (size_t i = 0; i < n; i++) {
        read_values(field[X_FIELD + i], &in[i]);
        slots[i] = slot_of(i ? "y" : "x", &in[i]);
        feeds[i] = feed_of(slots[i].name, &in[i], room[i]);
    }
    read_values(field[RESULT], &want);
    snprintf(text, sizeof(text), "z = %s", field[CALL]);
    assert_ok(fl_features_new(&f, text, slots, n, .label = NULL));
    assert_ok(fl_features_build(f, c));
    assert_ok(fl_features_column_at(f, fl_features_n_columns(f) - 1, &column));
    assert_string_equal(column.name, "z");
    assert_int_equal(column.width, !in[0].is_list);
    assert_ok(fl_run(
        e, fl_default_main_program(c),
        FL_OPTIONS(fl_run_args, .feeds = feeds, .n_feeds = n,
                   .fetches = FL_ARRAY(const char *, fl_var_name(column.var)),
                   .n_fetches = 1, .out = &out)));
    assert_int_equal(out.dtype, column.kind == FL_SLOT_FLOATS ? FL_DTYPE_F32
                                                              : FL_DTYPE_I64);
    compare(field[CALL], &out, &want);
    fl_features_free(f);
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* Cuts "| `call` | x | y | result |" in place. */
static bool cut_row(char *line, const char *field[FIELDS])
{
    char *at = line + 1;

    if (strncmp(line, "| `", 3) || strstr(line, "(t,"))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        char *bar = strchr(at, '|');

        if (!bar)
            return false;
        *bar = '\0';
        at += strspn(at, " `");
        for (char *end = bar; end > at && strchr(" `", end[-1]);)
            *--end = '\0';
        field[i] = at;
        at = bar + 1;
    }
    return strstr(field[X_FIELD], ": ") != NULL;
}

static void mark_used(const char *call, bool *is_used)
{
    for (size_t i = 0; i < fl_feature_count; i++) {
        const char *name = fl_feature_all[i]->name;
        size_t len = strlen(name);

        for (const char *at = call; (at = strstr(at, name)); at += len)
            is_used[i] |=
                at[len] == '(' && (at == call || strchr("( ,", at[-1]));
    }
}

static void the_examples_of_the_page_are_so(void **state)
{
    bool *is_used = calloc(fl_feature_count, sizeof(*is_used));
    const char *field[FIELDS];
    FILE *page = fopen(getenv("PAGE"), "r");
    char line[512];

    (void)state;
    assert_non_null(page);
    while (fgets(line, sizeof(line), page))
        if (cut_row(line, field)) {
            run_row(field);
            mark_used(field[CALL], is_used);
        }
    for (size_t i = 0; i < fl_feature_count; i++)
        if (!is_used[i])
            fail_msg("%s has no example in docs/features.md",
                     fl_feature_all[i]->name);
    fclose(page);
    free(is_used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_page_are_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
