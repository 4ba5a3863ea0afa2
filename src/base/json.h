/* json.h - writing JSON (RFC 8259), for everything that tells numbers to tools.
 *
 *     fl_json j = { 0 };
 *
 *     fl_json_object(&j, NULL);
 *     fl_json_text(&j, "name", "emb");
 *     fl_json_array(&j, "rows");
 *     fl_json_u64(&j, NULL, 12);
 *     fl_json_end(&j);
 *     fl_json_end(&j);
 *     text = fl_json_take(&j);             {"name":"emb","rows":[12]}
 *
 * A value has a key inside an object and NULL everywhere else. Owner thread
 * only.
 */
#ifndef FL_BASE_JSON_H
#define FL_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

#define FL_JSON_DEPTH_MAX 16

typedef struct fl_json {
    fl_str out;
    int depth;
    char open[FL_JSON_DEPTH_MAX]; /* '}' or ']', which ends each level */
    bool has_value;               /* the innermost level, before this one */
} fl_json;

void fl_json_object(fl_json *j, const char *key);
void fl_json_array(fl_json *j, const char *key);
void fl_json_end(fl_json *j); /* of the innermost object or array */

/* Bytes that are no UTF-8 become U+FFFD; NULL is null. */
void fl_json_text(fl_json *j, const char *key, const char *text);
void fl_json_u64(fl_json *j, const char *key, uint64_t value);
void fl_json_i64(fl_json *j, const char *key, int64_t value);
/* Shortest digits that read back as the same number; JSON has neither NaN nor
   infinity, so that both are null. */
void fl_json_f64(fl_json *j, const char *key, double value);
void fl_json_bool(fl_json *j, const char *key, bool value);
/* A whole value that is JSON already. */
void fl_json_raw(fl_json *j, const char *key, const char *json, size_t len);

/* Everything must have ended. The text is the caller's; the writer is empty. */
char *fl_json_take(fl_json *j);

#endif
