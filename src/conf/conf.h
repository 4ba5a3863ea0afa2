/* conf.h - the settings of one context: a typed field per row of keys.def.
 *
 * Read the fields freely; change them through fl_conf_set alone, which keeps
 * them in range. Strings belong to the conf. Owner thread only while it is
 * set; any thread may read it when nobody sets.
 */
#ifndef FL_CONF_CONF_H
#define FL_CONF_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "flotilla/program.h"

#define FL_CONF_TEXT_MAX 32

typedef int64_t fl_conf_int;
typedef bool fl_conf_bool;
typedef double fl_conf_float;
typedef char *fl_conf_string; /* never NULL between init and release */

typedef struct fl_conf {
#define FL_KEY(type, name, ...) fl_conf_##type name;
#include "conf/keys.def"
#undef FL_KEY
    char text[FL_CONF_TEXT_MAX]; /* what fl_conf_get handed out */
} fl_conf;

/* Defaults, then the environment: FLOTILLA_<NAME>, and CPU_NUM for cpu_num. A
   variable that is set to nothing counts as not set. On a bad value the conf
   is empty, and the message names variable, value and range. */
FL_MUST_CHECK
fl_status fl_conf_init(fl_conf *conf);
void fl_conf_release(fl_conf *conf);

/* A bad value leaves the setting as it was. */
FL_MUST_CHECK
fl_status fl_conf_set(fl_conf *conf, const char *name, const char *value);

/* The value as text that fl_conf_set takes; NULL, with an error set, when
   there is no such setting. Valid until the next get or set. */
const char *fl_conf_get(fl_conf *conf, const char *name);

/* All settings for a terminal, or the whole of docs/settings.md. Freed with
   fl_free. */
char *fl_conf_help(fl_help_form form);

#endif
