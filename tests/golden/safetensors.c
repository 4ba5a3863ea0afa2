/* safetensors.c - reads the files the cases are kept in. */
#include "safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"

#define HEADER_MAX (64u << 20)
#define FILE_MAX (1l << 30)
#define NAME_MAX_BYTES 256

char *read_text(const char *path, pool *p, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *bytes = NULL;
    long n = -1;

    if (!f)
        return NULL;
    if (!fseek(f, 0, SEEK_END))
        n = ftell(f);
    if (n >= 0 && n <= FILE_MAX && !fseek(f, 0, SEEK_SET)) {
        bytes = pool_alloc(p, (size_t)n + 1);
        if (fread(bytes, 1, (size_t)n, f) != (size_t)n)
            bytes = NULL;
    }
    fclose(f);
    *len = bytes ? (size_t)n : 0;
    return bytes;
}

static bool parse_dtype(const char *s, fl_dtype *out)
{
    static const struct {
        const char *name;
        fl_dtype dtype;
    } types[] = {
        { "F32", FL_DTYPE_F32 },   { "F64", FL_DTYPE_F64 },
        { "I32", FL_DTYPE_I32 },   { "I64", FL_DTYPE_I64 },
        { "U64", FL_DTYPE_U64 },   { "U8", FL_DTYPE_U8 },
        { "BOOL", FL_DTYPE_BOOL },
    };

    for (size_t i = 0; s && i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(types[i].name, s)) {
            *out = types[i].dtype;
            return true;
        }
    return false;
}

static bool parse_dims(const cJSON *shape, st_tensor *t)
{
    const cJSON *d;

    t->numel = 1;
    cJSON_ArrayForEach(d, shape)
    {
        if (t->rank == FL_RANK_MAX || !cJSON_IsNumber(d) ||
            d->valuedouble < 0 || d->valuedouble > (double)FILE_MAX)
            return false;
        t->dims[t->rank] = (int64_t)d->valuedouble;
        t->numel *= t->dims[t->rank++];
        if (t->numel > FILE_MAX)
            return false;
    }
    return cJSON_IsArray(shape);
}

/* Copies the data: in the file it need not be aligned. */
static const char *read_tensor(const cJSON *item, const char *data,
                               size_t n_data, st_tensor *t, pool *p)
{
    const cJSON *offsets =
        cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const char *type =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    const cJSON *lo = cJSON_GetArrayItem(offsets, 0);
    const cJSON *hi = cJSON_GetArrayItem(offsets, 1);
    size_t bytes;

    t->name = pool_strdup(p, item->string);
    if (!parse_dtype(type, &t->dtype))
        return pool_printf(p, "tensor %s has an unknown type", t->name);
    if (!parse_dims(cJSON_GetObjectItemCaseSensitive(item, "shape"), t))
        return pool_printf(p, "tensor %s has an unusable shape", t->name);
    bytes = (size_t)t->numel * fl_dtype_bytes(t->dtype);
    if (!cJSON_IsNumber(lo) || !cJSON_IsNumber(hi) || lo->valuedouble < 0 ||
        hi->valuedouble > (double)n_data ||
        hi->valuedouble - lo->valuedouble != (double)bytes)
        return pool_printf(p, "tensor %s does not lie in the file", t->name);
    t->data = pool_alloc(p, bytes);
    memcpy(t->data, data + (size_t)lo->valuedouble, bytes);
    return NULL;
}

static void read_metas(const cJSON *item, st_file *f, pool *p)
{
    const cJSON *m;

    cJSON_ArrayForEach(m, item)
    {
        if (cJSON_IsString(m))
            POOL_PUSH(p, f->metas, f->n_metas,
                      ((st_meta){ pool_strdup(p, m->string),
                                  pool_strdup(p, m->valuestring) }));
    }
}

static const char *read_header(st_file *f, const cJSON *header,
                               const char *data, size_t n_data, pool *p)
{
    const char *wrong = NULL;
    const cJSON *item;

    cJSON_ArrayForEach(item, header)
    {
        st_tensor t = { 0 };

        if (!strcmp(item->string, "__metadata__")) {
            read_metas(item, f, p);
            continue;
        }
        wrong = read_tensor(item, data, n_data, &t, p);
        if (wrong)
            return wrong;
        POOL_PUSH(p, f->tensors, f->n_tensors, t);
    }
    return NULL;
}

const char *st_read(st_file *f, const char *path, pool *p)
{
    uint64_t n = 0;
    size_t len;
    char *bytes = read_text(path, p, &len);
    const char *wrong;
    cJSON *header;

    memset(f, 0, sizeof(*f));
    if (!bytes)
        return "the file cannot be read";
    for (int i = 7; i >= 0 && len >= 8; i--)
        n = n << 8 | (unsigned char)bytes[i];
    if (len < 8 || n > HEADER_MAX || n > len - 8)
        return "the header is longer than the file";
    header = cJSON_ParseWithLength(bytes + 8, (size_t)n);
    if (!cJSON_IsObject(header))
        wrong = "the header is no JSON object";
    else
        wrong = read_header(f, header, bytes + 8 + n, len - 8 - (size_t)n, p);
    cJSON_Delete(header);
    return wrong;
}

const st_tensor *st_find(const st_file *f, const char *fmt, ...)
{
    char name[NAME_MAX_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name))
            return &f->tensors[i];
    return NULL;
}

const char *st_meta_find(const st_file *f, const char *key)
{
    for (size_t i = 0; i < f->n_metas; i++)
        if (!strcmp(f->metas[i].key, key))
            return f->metas[i].value;
    return NULL;
}

static st_tensor widened(const st_tensor *t, pool *p)
{
    st_tensor wide = *t;
    double *numbers;

    if (t->dtype != FL_DTYPE_F32)
        return wide;
    numbers = pool_alloc(p, (size_t)t->numel * sizeof(*numbers) + 1);
    for (int64_t i = 0; i < t->numel; i++)
        numbers[i] = st_at(t, i);
    wide.dtype = FL_DTYPE_F64;
    wide.data = numbers;
    return wide;
}

st_file st_widened(const st_file *f, pool *p)
{
    st_file wide = *f;

    wide.tensors = pool_alloc(p, f->n_tensors * sizeof(*wide.tensors) + 1);
    for (size_t i = 0; i < f->n_tensors; i++)
        wide.tensors[i] = widened(&f->tensors[i], p);
    return wide;
}

fl_tensor st_view(const st_tensor *t)
{
    return fl_tensor_of(t->dtype, t->data, t->rank, t->dims);
}

bool st_is_offsets(const st_tensor *t, int64_t rows)
{
    const int64_t *at = t->data;

    if (t->dtype != FL_DTYPE_I64 || t->numel < 1 || at[0] != 0 ||
        at[t->numel - 1] > rows)
        return false;
    for (int64_t i = 1; i < t->numel; i++)
        if (at[i] < at[i - 1])
            return false;
    return true;
}

double st_at(const st_tensor *t, int64_t i)
{
    return number_at(t->dtype, t->data, i);
}
