/* st_writer.c - writing safetensors files: the header first, then columns that
 * grow side by side at their places. */
#include "ckpt/safetensors.h"

#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/file_writer.h"
#include "base/json.h"

/* Where the data begins: enough for any element and any vector. */
#define DATA_ALIGN 64
#define ELEMENT_MAX 8

typedef struct st_column {
    uint64_t offset, bytes;
    uint64_t done;
    XXH3_state_t *sum;
} st_column;

struct fl_st_writer {
    fl_file_writer *file;
    char *path;
    uint64_t file_bytes;
    size_t n;
    st_column *columns;
};

/* Places in the order of their elements' size, the widest first, so that all
   of them are aligned. Offsets are from the beginning of the data. */
static fl_status place_columns(fl_st_writer *w, const fl_st_tensor *tensors)
{
    uint64_t at = 0;

    for (size_t width = ELEMENT_MAX; width > 0; width /= 2)
        for (size_t i = 0; i < w->n; i++) {
            if (fl_st_type_bytes(tensors[i].type) != width)
                continue;
            FL_TRY(fl_st_tensor_bytes(&tensors[i], &w->columns[i].bytes));
            w->columns[i].offset = at;
            if (__builtin_add_overflow(at, w->columns[i].bytes, &at) ||
                at > INT64_MAX / 2)
                FL_FAIL(FL_ERR_INVAL, "%s would be larger than any file",
                        w->path);
        }
    w->file_bytes = at;
    return FL_OK;
}

static void print_tensor(fl_json *j, const fl_st_tensor *t, const st_column *c)
{
    fl_json_object(j, t->name);
    fl_json_text(j, "dtype", fl_st_type_text(t->type));
    fl_json_array(j, "shape");
    for (int i = 0; i < t->shape.rank; i++)
        fl_json_i64(j, NULL, t->shape.dim[i]);
    fl_json_end(j);
    fl_json_array(j, "data_offsets");
    fl_json_u64(j, NULL, c->offset);
    fl_json_u64(j, NULL, c->offset + c->bytes);
    fl_json_end(j);
    fl_json_end(j);
}

/* Eight bytes for the length, the JSON, spaces up to DATA_ALIGN. */
static void print_header(fl_str *out, const fl_st_writer *w,
                         const fl_st_tensor *tensors)
{
    fl_json j = { 0 };
    char *json;

    fl_json_object(&j, NULL);
    for (size_t i = 0; i < w->n; i++)
        print_tensor(&j, &tensors[i], &w->columns[i]);
    fl_json_end(&j);
    json = fl_json_take(&j);
    fl_str_addf(out, "%8s%s", "", json);
    while (out->len % DATA_ALIGN)
        fl_str_add(out, " ");
    for (size_t i = 0; i < 8; i++)
        out->data[i] = (char)((out->len - 8) >> (8 * i));
    fl_free(json);
}

static fl_status write_header(fl_st_writer *w, const fl_st_tensor *tensors)
{
    fl_str header = { 0 };
    fl_status st;

    print_header(&header, w, tensors);
    st = fl_file_writer_add_at(w->file, header.data, header.len, 0);
    for (size_t i = 0; i < w->n; i++)
        w->columns[i].offset += header.len;
    w->file_bytes += header.len;
    fl_str_release(&header);
    return st;
}

static void start_sums(fl_st_writer *w)
{
    for (size_t i = 0; i < w->n; i++) {
        w->columns[i].sum = XXH3_createState();
        FL_ASSERT(w->columns[i].sum);
        (void)XXH3_64bits_reset(w->columns[i].sum);
    }
}

fl_status fl_st_writer_open(fl_st_writer **out, const char *path,
                            const fl_st_tensor *tensors, size_t n)
{
    fl_st_writer *w = fl_alloc(sizeof(*w));
    fl_status st;

    *w = (fl_st_writer){ .path = fl_strdup(path),
                         .n = n,
                         .columns = fl_alloc(n * sizeof(*w->columns) + 1) };
    start_sums(w);
    st = place_columns(w, tensors);
    if (!st)
        st = fl_file_writer_open(&w->file, path);
    if (!st)
        st = write_header(w, tensors);
    if (st)
        fl_st_writer_drop(w);
    else
        *out = w;
    return st;
}

fl_status fl_st_writer_put(fl_st_writer *w, size_t i, const void *bytes,
                           size_t n)
{
    st_column *c = &w->columns[i];

    FL_ASSERT(i < w->n && n <= c->bytes - c->done);
    if (!n)
        return FL_OK;
    FL_TRY(fl_file_writer_add_at(w->file, bytes, n, c->offset + c->done));
    (void)XXH3_64bits_update(c->sum, bytes, n);
    c->done += n;
    return FL_OK;
}

static void writer_free(fl_st_writer *w)
{
    for (size_t i = 0; i < w->n; i++)
        XXH3_freeState(w->columns[i].sum);
    fl_free(w->columns);
    fl_free(w->path);
    fl_free(w);
}

fl_status fl_st_writer_commit(fl_st_writer *w, uint64_t *bytes, uint64_t *sums)
{
    fl_status st;

    for (size_t i = 0; i < w->n; i++) {
        FL_ASSERT(w->columns[i].done == w->columns[i].bytes);
        sums[i] = XXH3_64bits_digest(w->columns[i].sum);
    }
    *bytes = w->file_bytes;
    st = fl_file_writer_commit(w->file);
    writer_free(w);
    return st;
}

void fl_st_writer_drop(fl_st_writer *w)
{
    if (!w)
        return;
    fl_file_writer_drop(w->file);
    writer_free(w);
}
