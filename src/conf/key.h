/* key.h - one row of keys.def as data: what conf.c and help.c are made of. */
#ifndef FL_CONF_KEY_H
#define FL_CONF_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FL_KEY_RANGE_MAX 96
#define FL_KEY_NUMBER_MAX 32
#define FL_KEY_ENV_MAX 80

typedef enum fl_key_type {
    FL_KEY_INT,
    FL_KEY_BOOL,
    FL_KEY_FLOAT,
    FL_KEY_STRING,
} fl_key_type;

typedef struct fl_key_value {
    union {
        int64_t i;
        bool b;
        double f;
        const char *s;
    };
} fl_key_value;

typedef struct fl_key {
    fl_key_type type;
    const char *name, *text;
    size_t offset; /* of the field in fl_conf */
    fl_key_value def, lo, hi;
} fl_key;

/* Every row of keys.def, in its order. */
extern const fl_key fl_keys[];
extern const size_t fl_n_keys;

/* NULL when there is none. */
const fl_key *fl_key_find(const char *name);

/* The variable of the environment, FLOTILLA_<NAME>. */
const char *fl_key_env(const fl_key *k, char buf[FL_KEY_ENV_MAX]);

/* A second variable, or NULL. */
const char *fl_key_alias(const fl_key *k);

const char *fl_key_type_text(const fl_key *k);

/* "1..1024", "true, false", "debug, info": what the key takes. */
const char *fl_key_range(const fl_key *k, char buf[FL_KEY_RANGE_MAX]);

/* The text of a string is borrowed by *out. */
FL_MUST_CHECK
fl_status fl_key_parse(const fl_key *k, const char *text, fl_key_value *out);

/* buf is used for numbers; a string is handed through. */
const char *fl_key_print(const fl_key *k, const fl_key_value *v,
                         char buf[FL_KEY_NUMBER_MAX]);

#endif
