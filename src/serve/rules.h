/* rules.h - the tables of a model, and what a key without a row has in each.
 *
 * That is the value which the table would give it: its first value, by the
 * table's settings and seed. Read-only once it is made; any thread.
 */
#ifndef FL_SERVE_RULES_H
#define FL_SERVE_RULES_H

#include "base/vec.h"
#include "table/table.h"

typedef FL_VEC(fl_table *) fl_rules; /* without rows */

/* Adds a table by its settings, the words of fl_table_new. */
FL_MUST_CHECK
fl_status fl_rules_add(fl_rules *r, const char *name, const char *settings,
                       uint64_t seed);
void fl_rules_release(fl_rules *r);

/* NULL when there is no such table. */
const fl_table *fl_rules_find(const fl_rules *r, const char *name);

/* The value of a key without a row. */
void fl_rules_first(const fl_table *rule, uint64_t key, float *out);

#endif
