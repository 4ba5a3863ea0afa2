/* prom.h - numbers for Prometheus, in its text format 0.0.4
 * (docs/formats/metrics.md). Names begin with "flotilla_"; counters end in
 * "_total", and what has a unit says it: "_bytes", "_seconds". Owner thread only.
 *
 *     static const fl_prom_def rows = { "table_rows", FL_PROM_GAUGE,
 *                                       "Rows of a table." };
 *     fl_prom_begin(&out, &rows);
 *     fl_prom_add(&out, &rows, "table", "emb", 12);
 */
#ifndef FL_BASE_PROM_H
#define FL_BASE_PROM_H

#include "base/vec.h"

#define FL_PROM_TYPE "text/plain; version=0.0.4"

typedef enum fl_prom_type { FL_PROM_COUNTER, FL_PROM_GAUGE } fl_prom_type;

typedef struct fl_prom_def {
    const char *name; /* without the prefix */
    fl_prom_type type;
    const char *help;
} fl_prom_def;

/* What it is; its values follow. */
void fl_prom_begin(fl_str *out, const fl_prom_def *d);

/* One value, with a label unless its name is NULL. */
void fl_prom_add(fl_str *out, const fl_prom_def *d, const char *label,
                 const char *text, double value);

/* Both, for what has one value. */
void fl_prom_one(fl_str *out, const fl_prom_def *d, double value);

/* What process this is, in labels of a gauge that is 1. */
void fl_prom_process(fl_str *out, const char *job, const char *role, int rank);

#endif
