/* import_rows.c - SelectedRows of PaddlePaddle 1.8 become tables of a version.
 *
 * A server saved the rows that it had, in the order of their coming. They go
 * through a table of their own, which brings them into the order of the hash, a
 * few at a time: values in a file lie at any address. What rows that are not
 * there begin with, and how rows are updated, the file does not say: it is for
 * the program that loads them.
 */
#include "api/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/table_file.h"

#define ROWS_AT_ONCE 1024

static fl_status check_rows(const fl_p18_var *v)
{
    const fl_tensor *t = &v->value.tensor;
    char text[FL_SHAPE_TEXT_MAX];

    if (t->dtype == FL_DTYPE_F32 && t->shape.rank == 2 && t->shape.dim[1] > 0 &&
        t->shape.dim[1] <= FL_TABLE_DIM_MAX)
        return FL_OK;
    FL_FAIL(FL_ERR_UNSUPPORTED,
            "variable %s has rows that are %s%s; those of a table are "
            "f32[rows,1..%d]",
            v->name, fl_dtype_text(t->dtype), fl_shape_text(&t->shape, text),
            FL_TABLE_DIM_MAX);
}

static fl_status put_rows(fl_table *t, const fl_p18_value *v)
{
    uint32_t dim = (uint32_t)v->tensor.shape.dim[1];
    uint64_t keys[ROWS_AT_ONCE];
    float *values =
        fl_alloc(sizeof(keys) / sizeof(*keys) * dim * sizeof(float));
    fl_restore_rows r = { .kind = FL_CUT_FULL,
                          .keys = keys,
                          .columns = { { values, dim } } };
    fl_status st = FL_OK;

    for (uint64_t at = 0; !st && at < v->n_rows; at += r.n) {
        r.n = v->n_rows - at < ROWS_AT_ONCE ? (size_t)(v->n_rows - at)
                                            : ROWS_AT_ONCE;
        memcpy(keys, v->rows + at * sizeof(*keys), r.n * sizeof(*keys));
        memcpy(values,
               (const uint8_t *)v->tensor.data + at * dim * sizeof(float),
               r.n * dim * sizeof(float));
        st = fl_table_restore_rows(t, &r);
    }
    fl_free(values);
    return st;
}

static fl_status check_once(fl_table *t, const fl_p18_var *v)
{
    fl_table_stats s = FL_INIT(fl_table_stats);

    fl_table_count(t, &s);
    if (s.rows != v->value.n_rows)
        FL_FAIL(FL_ERR_CORRUPT,
                "variable %s has %" PRIu64 " rows for %" PRIu64
                " ids: one is there twice",
                v->name, v->value.n_rows, s.rows);
    return FL_OK;
}

static fl_status write(const fl_model_version *v, fl_manifest *m, fl_table *t)
{
    fl_table_save_options save = { .last = FL_SHARDS - 1 };
    fl_status st;

    FL_TRY(fl_table_cut_begin(&save.cut, t, &(fl_cut_options){ 0 }));
    st = fl_table_file_write(v, m, &save);
    fl_table_cut_end(save.cut);
    return st;
}

fl_status fl_import_rows(const fl_model_version *v, fl_manifest *m,
                         const fl_p18_var *rows)
{
    fl_table_config config;
    fl_table *t = NULL;
    char settings[64];
    fl_status st;

    FL_TRY(check_rows(rows));
    snprintf(settings, sizeof(settings), "dim=%" PRId64 ", init=constant(0)",
             rows->value.tensor.shape.dim[1]);
    FL_TRY(fl_table_config_parse(&config, rows->name, settings, 0));
    FL_TRY(fl_table_create(&t, &config));
    st = fl_table_reserve(t, 0, FL_SHARDS - 1, rows->value.n_rows);
    if (!st)
        st = put_rows(t, &rows->value);
    if (!st)
        st = check_once(t, rows);
    if (!st)
        st = write(v, m, t);
    fl_table_destroy(t);
    return st;
}
