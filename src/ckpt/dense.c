/* dense.c - dense variables of a version. */
#include "ckpt/dense.h"

#include <string.h>

#include "base/alloc.h"

/* --- saving --------------------------------------------------------------- */

static fl_status put_all(fl_st_writer *w, const fl_named_tensor *tensors,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes;

        FL_TRY(fl_tensor_bytes(&tensors[i].value, &bytes));
        FL_TRY(fl_st_writer_put(w, i, tensors[i].value.data, bytes));
    }
    return FL_OK;
}

static fl_status write_file(const char *path, const fl_st_tensor *plan,
                            const fl_named_tensor *tensors, size_t n,
                            fl_manifest_file *f, uint64_t *sums)
{
    fl_st_writer *w = NULL;
    fl_status st;

    FL_TRY(fl_st_writer_open(&w, path, plan, n));
    st = put_all(w, tensors, n);
    if (!st)
        return fl_st_writer_commit(w, &f->bytes, sums);
    fl_st_writer_drop(w);
    return st;
}

static fl_status check_kinds(const fl_named_tensor *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tensors[i].value.kind != FL_KIND_DENSE)
            FL_FAIL(FL_ERR_UNSUPPORTED,
                    "variable %s: a model keeps dense values, and this one has "
                    "offsets or row numbers; leave it out of what is saved",
                    tensors[i].name);
    return FL_OK;
}

fl_status fl_dense_save(const fl_model_version *v, fl_manifest *m,
                        const char *file, const fl_named_tensor *tensors,
                        size_t n)
{
    fl_st_tensor *plan = fl_alloc(n * sizeof(*plan) + 1);
    uint64_t *sums = fl_alloc(n * sizeof(*sums) + 1);
    fl_manifest_file f = { .name = file, .tensors = plan, .n_tensors = n };
    char *path = fl_version_file(v, file);
    fl_status st;

    for (size_t i = 0; i < n; i++) {
        plan[i] = (fl_st_tensor){ .name = tensors[i].name,
                                  .type = fl_st_type_of(tensors[i].value.dtype),
                                  .shape = tensors[i].value.shape };
    }
    st = check_kinds(tensors, n);
    if (!st)
        st = write_file(path, plan, tensors, n, &f, sums);
    if (!st)
        fl_manifest_add_tensors(m, &f, sums);
    fl_free(path);
    fl_free(sums);
    fl_free(plan);
    return st;
}

/* --- loading -------------------------------------------------------------- */

/* What both shapes have, from dimension d on; `each` is the size of an
   element. */
static void copy_common(char *to, const fl_shape *to_shape, const char *from,
                        const fl_shape *from_shape, int d, size_t each)
{
    int64_t n_to = 1, n_from = 1, n;

    if (d == to_shape->rank) {
        memcpy(to, from, each);
        return;
    }
    for (int i = d + 1; i < to_shape->rank; i++) {
        n_to *= to_shape->dim[i];
        n_from *= from_shape->dim[i];
    }
    n = to_shape->dim[d] < from_shape->dim[d] ? to_shape->dim[d]
                                              : from_shape->dim[d];
    if (d + 1 == to_shape->rank) {
        memcpy(to, from, (size_t)n * each);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        copy_common(to + (size_t)(i * n_to) * each, to_shape,
                    from + (size_t)(i * n_from) * each, from_shape, d + 1,
                    each);
}

void fl_dense_copy(const fl_tensor *to, const void *from,
                   const fl_shape *from_shape)
{
    copy_common(to->data, &to->shape, from, from_shape, 0,
                fl_st_type_bytes(fl_st_type_of(to->dtype)));
}

fl_status fl_dense_load(const fl_st_file *f, const fl_st_tensor *from,
                        const fl_tensor *to)
{
    FL_ASSERT(fl_st_type_of(to->dtype) == from->type &&
              to->shape.rank == from->shape.rank);
    FL_TRY(fl_st_verify(f, from, from->xxh3));
    if (!from->bytes || !fl_tensor_numel(to))
        return FL_OK;
    if (fl_shape_equal(&from->shape, &to->shape))
        memcpy(to->data, fl_st_bytes(f, from), from->bytes);
    else
        fl_dense_copy(to, fl_st_bytes(f, from), &from->shape);
    return FL_OK;
}
