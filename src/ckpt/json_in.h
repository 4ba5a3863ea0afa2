/* json_in.h - reading JSON of others: manifests, headers, positions of data.
 *
 * The text may be hostile: its size bounds the memory that it takes, and every
 * getter checks what it finds and names the place in its error. `where` is how
 * messages call the text, a path for example. Objects and arrays are those of
 * cJSON, to be walked with cJSON_ArrayForEach.
 *
 * Whole numbers are exact up to 2^53. Larger ones are written as text, in
 * decimal digits, and fl_json_in_u64 reads both.
 */
#ifndef FL_CKPT_JSON_IN_H
#define FL_CKPT_JSON_IN_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "tensor/tensor.h"

/* The text is one object, which is freed with cJSON_Delete. */
FL_MUST_CHECK
fl_status fl_json_in_parse(cJSON **out, const char *text, size_t len,
                           const char *where);

/* What an object has under a key; another type, or nothing, is an error. */
FL_MUST_CHECK
fl_status fl_json_in_object(const cJSON *from, const char *key,
                            const char *where, const cJSON **out);
FL_MUST_CHECK
fl_status fl_json_in_array(const cJSON *from, const char *key,
                           const char *where, const cJSON **out);
/* Borrowed from the object. */
FL_MUST_CHECK
fl_status fl_json_in_text(const cJSON *from, const char *key, const char *where,
                          const char **out);
FL_MUST_CHECK
fl_status fl_json_in_u64(const cJSON *from, const char *key, const char *where,
                         uint64_t *out);
/* Sixteen hexadecimal digits as text: a checksum. */
FL_MUST_CHECK
fl_status fl_json_in_hex(const cJSON *from, const char *key, const char *where,
                         uint64_t *out);

/* One value, an element of an array or of an object; `what` names it. */
FL_MUST_CHECK
fl_status fl_json_in_number(const cJSON *value, const char *what,
                            const char *where, uint64_t *out);

/* The array under "shape"; `name` is what has it. */
FL_MUST_CHECK
fl_status fl_json_in_shape(const cJSON *from, const char *name,
                           const char *where, fl_shape *out);

/* NULL: there is none. */
const cJSON *fl_json_in_find(const cJSON *from, const char *key);

#endif
