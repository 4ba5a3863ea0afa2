/* precision.h - which products are computed in bf16, as the settings say. */
#ifndef FL_PASS_PRECISION_H
#define FL_PASS_PRECISION_H

#include <stdbool.h>

#include "base/status.h"
#include "conf/conf.h"

/* Lists have names of operators, layers and variables, apart by commas. They are
   read where is_bf16 is set. */
typedef struct fl_precision {
    bool is_bf16;
    const char *allow, *deny;
} fl_precision;

/* What the settings mean on this machine. Says once per process what was chosen,
   unless it is f32 because somebody said so. The lists are the settings'. */
fl_precision fl_precision_of(const fl_conf *conf);

/* The same by name, without lists; NULL: f32. */
FL_MUST_CHECK
fl_status fl_precision_named(const char *name, fl_precision *out);

/* For the keys of what was made with them; copies are freed by release. */
bool fl_precision_equal(const fl_precision *a, const fl_precision *b);
fl_precision fl_precision_copy(const fl_precision *p);
void fl_precision_release(fl_precision *p);

#endif
