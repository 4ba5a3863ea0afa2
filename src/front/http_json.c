/* http_json.c - nested arrays to tensors and back.
 *
 * The body of a request is bounded by who takes it in; cJSON's nodes take some
 * forty times its bytes at the most, and tensors less than that.
 */
#include "front/http_json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tensor/tensor.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* --- one number ----------------------------------------------------------- */

static fl_status not_that(const char *name, const char *what)
{
    FL_FAIL(FL_ERR_TYPE, "input %s: a value is not %s", name, what);
}

/* Digits, with a sign before them for a signed type. */
static bool read_digits(const char *text, bool is_signed, uint64_t *out)
{
    bool minus = is_signed && *text == '-';
    char *end;

    text += minus;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    *out = minus ? 0 - *out : *out;
    return !*end && !errno;
}

static fl_status read_whole(const char *name, const cJSON *item, bool is_signed,
                            uint64_t *out)
{
    double x = item->valuedouble;

    if (cJSON_IsString(item) && read_digits(item->valuestring, is_signed, out))
        return FL_OK;
    if (!cJSON_IsNumber(item) || x != floor(x) || fabs(x) > EXACT_MAX ||
        (x < 0 && !is_signed))
        return not_that(name, "a whole number (above 2^53 it is written as "
                              "text: \"9007199254740993\")");
    *out = x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
    return FL_OK;
}

static fl_status read_float(const char *name, const cJSON *item, double *out)
{
    if (!cJSON_IsNumber(item))
        return not_that(name, "a number");
    *out = item->valuedouble;
    return FL_OK;
}

static fl_status store_float(const fl_model_var *v, const cJSON *item, void *to,
                             size_t i)
{
    double x = 0;

    FL_TRY(read_float(v->name, item, &x));
    if (v->dtype == FL_DTYPE_F32)
        ((float *)to)[i] = (float)x;
    else if (v->dtype == FL_DTYPE_F16)
        ((uint16_t *)to)[i] = fl_half_of(x);
    else
        ((double *)to)[i] = x;
    return FL_OK;
}

/* The whole numbers of a type. */
typedef struct whole {
    int64_t least;
    uint64_t most;
    const char *text;
} whole;

static const whole wholes[] = {
    [FL_DTYPE_I64] = { INT64_MIN, INT64_MAX, "a whole number of 64 bits" },
    [FL_DTYPE_U64] = { 0, UINT64_MAX, "a whole number of 64 bits" },
    [FL_DTYPE_I32] = { INT32_MIN, INT32_MAX, "a whole number of 32 bits" },
    [FL_DTYPE_I16] = { INT16_MIN, INT16_MAX, "a whole number of 16 bits" },
    [FL_DTYPE_I8] = { INT8_MIN, INT8_MAX, "a whole number of 8 bits" },
    [FL_DTYPE_U8] = { 0, UINT8_MAX, "a number of its type" },
    [FL_DTYPE_BOOL] = { 0, 1, "a number of its type" },
};

static fl_status store_whole(const fl_model_var *v, const cJSON *item, void *to,
                             size_t i)
{
    const whole *w = &wholes[v->dtype];
    bool is_signed = w->least < 0;
    uint64_t x = 0;

    FL_TRY(read_whole(v->name, item, is_signed, &x));
    if (is_signed ? (int64_t)x < w->least || (int64_t)x > (int64_t)w->most
                  : x > w->most)
        return not_that(v->name, w->text);
    switch (fl_dtype_bytes(v->dtype)) {
    case 8:
        ((uint64_t *)to)[i] = x;
        break;
    case 4:
        ((uint32_t *)to)[i] = (uint32_t)x;
        break;
    case 2:
        ((uint16_t *)to)[i] = (uint16_t)x;
        break;
    default:
        ((uint8_t *)to)[i] = (uint8_t)x;
    }
    return FL_OK;
}

/* --- nested arrays -------------------------------------------------------- */

static size_t count_leaves(const cJSON *item)
{
    const cJSON *child;
    size_t n = 0;

    if (!cJSON_IsArray(item))
        return 1;
    cJSON_ArrayForEach(child, item) n += count_leaves(child);
    return n;
}

/* An input that is being filled. */
typedef struct reader {
    const fl_model_var *var;
    fl_tensor *to;
    size_t n;     /* numbers so far */
    size_t width; /* numbers of one row */
    int64_t *off[FL_LOD_MAX];
} reader;

static fl_status read_leaves(reader *r, const cJSON *item)
{
    const cJSON *child;

    if (!cJSON_IsArray(item))
        return fl_dtype_is_float(r->var->dtype) || r->var->dtype == FL_DTYPE_F16
                   ? store_float(r->var, item, r->to->data, r->n++)
                   : store_whole(r->var, item, r->to->data, r->n++);
    cJSON_ArrayForEach(child, item) FL_TRY(read_leaves(r, child));
    return FL_OK;
}

static fl_status check_record(const reader *r, size_t n)
{
    if (r->var->n_lod ? n % r->width : n != r->width)
        FL_FAIL(FL_ERR_INVAL,
                "input %s: a record has %zu numbers; %s %zu are wanted",
                r->var->name, n, r->var->n_lod ? "rows of" : "exactly",
                r->width);
    return FL_OK;
}

static void end_list(reader *r, int level, int64_t end)
{
    FL_ASSERT(r->off[level]); /* make_room has seen to it */
    r->off[level][r->to->lod_len[level]++] = end;
}

/* The lists of one level of offsets; those of the last are rows. */
static fl_status read_level(reader *r, const cJSON *list, int level)
{
    bool is_last = level + 1 >= r->var->n_lod;
    const cJSON *child;

    if (!cJSON_IsArray(list))
        FL_FAIL(FL_ERR_TYPE, "input %s: a list is wanted", r->var->name);
    cJSON_ArrayForEach(child, list)
    {
        size_t before = r->n;

        FL_TRY(is_last ? read_leaves(r, child)
                       : read_level(r, child, level + 1));
        if (is_last)
            FL_TRY(check_record(r, r->n - before));
        if (level < r->var->n_lod)
            end_list(r, level,
                     is_last ? (int64_t)(r->n / r->width)
                             : r->to->lod_len[level + 1] - 1);
    }
    return FL_OK;
}

/* --- inputs --------------------------------------------------------------- */

static size_t row_width(const fl_model_var *v)
{
    int64_t n = fl_shape_count(&v->shape, 1, v->shape.rank);

    return v->shape.rank && n > 0 ? (size_t)n : 1;
}

/* Lists of a level are no more than there are values in the text. */
static size_t count_lists(const cJSON *item)
{
    const cJSON *child;
    size_t n = 1;

    cJSON_ArrayForEach(child, item) n +=
        cJSON_IsArray(child) ? count_lists(child) : 1;
    return n;
}

static fl_status make_room(reader *r, const cJSON *item, fl_arena *arena)
{
    size_t n = count_leaves(item), n_lists = count_lists(item) + 1;

    r->to->data =
        fl_arena_try_alloc(arena, (n + 1) * fl_dtype_bytes(r->var->dtype));
    for (int k = 0; k < r->var->n_lod; k++) {
        r->off[k] = fl_arena_try_alloc(arena, n_lists * sizeof(int64_t));
        if (!r->off[k])
            break;
        r->off[k][0] = 0;
        r->to->lod[k] = r->off[k];
        r->to->lod_len[k] = 1;
    }
    if (!r->to->data || (r->var->n_lod && !r->off[r->var->n_lod - 1]))
        FL_FAIL(FL_ERR_NOMEM, "no memory for input %s", r->var->name);
    return FL_OK;
}

static fl_status read_input(const fl_model_var *v, const cJSON *item,
                            fl_arena *arena, fl_feed *out)
{
    reader r = { .var = v, .to = &out->value, .width = row_width(v) };

    out->name = v->name;
    out->value = (fl_tensor){ .size = sizeof(fl_tensor),
                              .dtype = v->dtype,
                              .kind = v->n_lod ? FL_KIND_RAGGED : FL_KIND_DENSE,
                              .n_lod = v->n_lod,
                              .shape = v->shape };
    FL_TRY(make_room(&r, item, arena));
    FL_TRY(read_level(&r, item, 0));
    if (v->shape.rank)
        out->value.shape.dim[0] = (int64_t)(r.n / r.width);
    return FL_OK;
}

static const fl_model_var *find_var(const fl_model_var *v, size_t n,
                                    const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(v[i].name, name))
            return &v[i];
    return NULL;
}

static fl_status read_inputs(const cJSON *root, const fl_model_var *inputs,
                             size_t n_inputs, fl_arena *arena, fl_feed **feeds,
                             size_t *n_feeds)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(root, "inputs"), *item;
    size_t n = 0;

    if (!cJSON_IsObject(all))
        FL_FAIL(FL_ERR_INVAL, "the body is to be {\"inputs\": {NAME: VALUES, "
                              "...}}");
    *feeds = fl_arena_alloc(arena, ((size_t)cJSON_GetArraySize(all) + 1) *
                                       sizeof(**feeds));
    cJSON_ArrayForEach(item, all)
    {
        const fl_model_var *v = find_var(inputs, n_inputs, item->string);

        if (!v)
            FL_FAIL(FL_ERR_NOTFOUND, "the model has no input %s", item->string);
        FL_TRY(read_input(v, item, arena, &(*feeds)[n++]));
    }
    *n_feeds = n;
    return FL_OK;
}

fl_status fl_http_read(const char *body, size_t len, const fl_model *m,
                       fl_arena *arena, fl_feed **feeds, size_t *n_feeds)
{
    size_t n_inputs;
    const fl_model_var *inputs = fl_model_inputs(m, &n_inputs);
    cJSON *root = cJSON_ParseWithLength(body, len);
    fl_status st;

    if (!root)
        FL_FAIL(FL_ERR_CORRUPT, "the body is no JSON");
    st = read_inputs(root, inputs, n_inputs, arena, feeds, n_feeds);
    cJSON_Delete(root);
    return st;
}

/* --- outputs -------------------------------------------------------------- */

static void write_number(fl_json *j, const fl_tensor *t, size_t i)
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        fl_json_f64(j, NULL, (double)((const float *)t->data)[i]);
        break;
    case FL_DTYPE_F64:
        fl_json_f64(j, NULL, ((const double *)t->data)[i]);
        break;
    case FL_DTYPE_F16:
        fl_json_f64(j, NULL,
                    (double)fl_half_value(((const uint16_t *)t->data)[i]));
        break;
    case FL_DTYPE_U64:
        fl_json_u64(j, NULL, ((const uint64_t *)t->data)[i]);
        break;
    case FL_DTYPE_I64:
    case FL_DTYPE_I32:
        fl_json_i64(j, NULL, fl_id_at(t, (int64_t)i));
        break;
    case FL_DTYPE_I16:
        fl_json_i64(j, NULL, ((const int16_t *)t->data)[i]);
        break;
    case FL_DTYPE_I8:
        fl_json_i64(j, NULL, ((const int8_t *)t->data)[i]);
        break;
    case FL_DTYPE_U8:
    case FL_DTYPE_BOOL:
        fl_json_u64(j, NULL, ((const uint8_t *)t->data)[i]);
        break;
    }
}

/* Arrays as deep as the shape; *at is the next number. */
static void write_values(fl_json *j, const char *key, const fl_tensor *t,
                         int axis, size_t *at)
{
    fl_json_array(j, key);
    for (int64_t i = 0; i < t->shape.dim[axis]; i++)
        if (axis + 1 < t->shape.rank)
            write_values(j, NULL, t, axis + 1, at);
        else
            write_number(j, t, (*at)++);
    fl_json_end(j);
}

char *fl_http_write(const fl_model_var *vars, const fl_tensor *values, size_t n,
                    const char *version)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_object(&j, "outputs");
    for (size_t i = 0; i < n; i++) {
        fl_tensor t = values[i];
        size_t at = 0;

        if (!t.shape.rank)
            t.shape = (fl_shape){ .rank = 1, .dim = { 1 } };
        write_values(&j, vars[i].name, &t, 0, &at);
    }
    fl_json_end(&j);
    fl_json_text(&j, "version", version);
    fl_json_end(&j);
    return fl_json_take(&j);
}

char *fl_http_error(const char *sentence)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_text(&j, "error", sentence);
    fl_json_end(&j);
    return fl_json_take(&j);
}
