/* json.c - writing JSON. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD in UTF-8 */

/* --- text ----------------------------------------------------------------- */

static bool is_tail(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

/* The least code point that needs so many bytes: shorter forms of the same are
   not UTF-8. */
static bool is_in_range(uint32_t code, size_t len)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

    return code >= least[len] && code <= 0x10FFFF &&
           (code < 0xD800 || code > 0xDFFF);
}

/* Bytes of the character at s; 0: it is none. */
static size_t utf8_len(const unsigned char *s)
{
    size_t len = s[0] < 0x80           ? 1
                 : (s[0] >> 5) == 0x06 ? 2
                 : (s[0] >> 4) == 0x0E ? 3
                 : (s[0] >> 3) == 0x1E ? 4
                                       : 0;
    uint32_t code = len > 1 ? s[0] & (0xFFu >> (len + 1)) : s[0];

    for (size_t i = 1; i < len; i++) {
        if (!is_tail(s[i]))
            return 0;
        code = code << 6 | (s[i] & 0x3Fu);
    }
    return len && is_in_range(code, len) ? len : 0;
}

static void add_char(fl_str *out, const unsigned char *s, size_t len)
{
    if (!len)
        fl_str_add(out, REPLACEMENT);
    else if (*s == '"' || *s == '\\')
        fl_str_addf(out, "\\%c", *s);
    else if (*s < 0x20)
        fl_str_addf(out, "\\u%04x", *s);
    else
        fl_str_addf(out, "%.*s", (int)len, (const char *)s);
}

static void add_quoted(fl_str *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fl_str_add(out, "\"");
    while (*s) {
        size_t len = utf8_len(s);

        add_char(out, s, len);
        s += len ? len : 1;
    }
    fl_str_add(out, "\"");
}

/* --- levels --------------------------------------------------------------- */

/* What stands before a value. */
static void begin_value(fl_json *j, const char *key)
{
    FL_ASSERT(!key == !(j->depth && j->open[j->depth - 1] == '}'));
    if (j->has_value)
        fl_str_add(&j->out, ",");
    j->has_value = true;
    if (!key)
        return;
    add_quoted(&j->out, key);
    fl_str_add(&j->out, ":");
}

static void begin_level(fl_json *j, const char *key, const char *begin,
                        char end)
{
    begin_value(j, key);
    FL_ASSERT(j->depth < FL_JSON_DEPTH_MAX);
    j->open[j->depth++] = end;
    j->has_value = false;
    fl_str_add(&j->out, begin);
}

void fl_json_object(fl_json *j, const char *key)
{
    begin_level(j, key, "{", '}');
}

void fl_json_array(fl_json *j, const char *key)
{
    begin_level(j, key, "[", ']');
}

void fl_json_end(fl_json *j)
{
    FL_ASSERT(j->depth > 0);
    fl_str_addf(&j->out, "%c", j->open[--j->depth]);
    j->has_value = true;
}

char *fl_json_take(fl_json *j)
{
    FL_ASSERT(j->depth == 0);
    j->has_value = false;
    return fl_str_take(&j->out);
}

/* --- values --------------------------------------------------------------- */

void fl_json_text(fl_json *j, const char *key, const char *text)
{
    begin_value(j, key);
    if (text)
        add_quoted(&j->out, text);
    else
        fl_str_add(&j->out, "null");
}

void fl_json_u64(fl_json *j, const char *key, uint64_t value)
{
    begin_value(j, key);
    fl_str_addf(&j->out, "%" PRIu64, value);
}

void fl_json_i64(fl_json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    fl_str_addf(&j->out, "%" PRId64, value);
}

void fl_json_f64(fl_json *j, const char *key, double value)
{
    char text[32];

    begin_value(j, key);
    if (!isfinite(value)) {
        fl_str_add(&j->out, "null");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fl_str_add(&j->out, text);
}

void fl_json_bool(fl_json *j, const char *key, bool value)
{
    begin_value(j, key);
    fl_str_add(&j->out, value ? "true" : "false");
}

void fl_json_raw(fl_json *j, const char *key, const char *json, size_t len)
{
    begin_value(j, key);
    fl_str_addf(&j->out, "%.*s", (int)len, json);
}
