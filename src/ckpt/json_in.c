/* json_in.c - reading JSON of others.
 *
 * cJSON makes a node of 64 bytes of every value, and two bytes of text are
 * enough for one. What this library writes needs a tenth of that by its size;
 * a text that needs more than NODE_RATIO is not one of ours.
 */
#include "ckpt/json_in.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Memory for nodes, by the bytes of the text; and what any text may take. */
#define NODE_RATIO 16
#define NODE_FREE_BYTES ((size_t)1 << 20)

#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* At most so many: commas and brackets in texts count, too. */
static size_t count_values(const char *text, size_t len)
{
    size_t n = 1;

    for (size_t i = 0; i < len; i++)
        n += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return n;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* How much of the text, from `at` on, is not space. */
static size_t count_more(const char *text, size_t len, size_t at)
{
    while (at < len && is_space(text[at]))
        at++;
    return len - at;
}

fl_status fl_json_in_parse(cJSON **out, const char *text, size_t len,
                           const char *where)
{
    const char *end = NULL;
    size_t more;
    cJSON *root;

    if (count_values(text, len) * sizeof(*root) / NODE_RATIO >
        len + NODE_FREE_BYTES / NODE_RATIO)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s has more values than its %zu bytes of JSON may have; it is "
                "none of ours",
                where, len);
    root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        FL_FAIL(FL_ERR_CORRUPT, "%s is no JSON object; the file is damaged",
                where);
    }
    more = count_more(text, len, (size_t)(end - text));
    if (more) {
        cJSON_Delete(root);
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: behind the JSON object are %zu bytes that do not belong "
                "there; the file is damaged",
                where, more);
    }
    *out = root;
    return FL_OK;
}

const cJSON *fl_json_in_find(const cJSON *from, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(from, key);
}

/* The value under a key, when it is of the type that `is_type` says. */
static fl_status get(const cJSON *from, const char *key, const char *where,
                     cJSON_bool (*is_type)(const cJSON *item),
                     const cJSON **out)
{
    const cJSON *item = fl_json_in_find(from, key);

    if (!item)
        FL_FAIL(FL_ERR_CORRUPT, "%s has no field \"%s\"", where, key);
    if (!is_type(item))
        FL_FAIL(FL_ERR_CORRUPT, "%s: the field \"%s\" is of another type",
                where, key);
    *out = item;
    return FL_OK;
}

fl_status fl_json_in_object(const cJSON *from, const char *key,
                            const char *where, const cJSON **out)
{
    return get(from, key, where, cJSON_IsObject, out);
}

fl_status fl_json_in_array(const cJSON *from, const char *key,
                           const char *where, const cJSON **out)
{
    return get(from, key, where, cJSON_IsArray, out);
}

fl_status fl_json_in_text(const cJSON *from, const char *key, const char *where,
                          const char **out)
{
    const cJSON *item;

    FL_TRY(get(from, key, where, cJSON_IsString, &item));
    *out = item->valuestring;
    return FL_OK;
}

/* Digits alone: strtoull would take signs and spaces, too. */
static bool read_digits(const char *text, int base, uint64_t *out)
{
    const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
    char *end;

    if (!*text || strspn(text, digits) != strlen(text))
        return false;
    errno = 0;
    *out = strtoull(text, &end, base);
    return errno == 0;
}

fl_status fl_json_in_number(const cJSON *value, const char *what,
                            const char *where, uint64_t *out)
{
    if (cJSON_IsString(value) && read_digits(value->valuestring, 10, out))
        return FL_OK;
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0) ||
        value->valuedouble > EXACT_MAX ||
        value->valuedouble != floor(value->valuedouble))
        FL_FAIL(FL_ERR_CORRUPT, "%s: \"%s\" is no number of 0, 1, 2, ...",
                where, what);
    *out = (uint64_t)value->valuedouble;
    return FL_OK;
}

fl_status fl_json_in_u64(const cJSON *from, const char *key, const char *where,
                         uint64_t *out)
{
    const cJSON *item = fl_json_in_find(from, key);

    if (!item)
        FL_FAIL(FL_ERR_CORRUPT, "%s has no field \"%s\"", where, key);
    return fl_json_in_number(item, key, where, out);
}

fl_status fl_json_in_hex(const cJSON *from, const char *key, const char *where,
                         uint64_t *out)
{
    const char *text;

    FL_TRY(fl_json_in_text(from, key, where, &text));
    if (strlen(text) != 16 || !read_digits(text, 16, out))
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: the field \"%s\" is no checksum of 16 hexadecimal digits",
                where, key);
    return FL_OK;
}

fl_status fl_json_in_shape(const cJSON *from, const char *name,
                           const char *where, fl_shape *out)
{
    const cJSON *dims, *d;
    uint64_t dim;

    FL_TRY(fl_json_in_array(from, "shape", where, &dims));
    out->rank = 0;
    cJSON_ArrayForEach(d, dims)
    {
        if (out->rank == FL_RANK_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "%s: tensor %s has more than %d dimensions",
                    where, name, FL_RANK_MAX);
        FL_TRY(fl_json_in_number(d, "shape", where, &dim));
        if ((double)dim > EXACT_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "%s: tensor %s is larger than any file",
                    where, name);
        out->dim[out->rank++] = (int64_t)dim;
    }
    return FL_OK;
}
