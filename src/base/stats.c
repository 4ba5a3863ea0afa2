/* stats.c - one snapshot of a module's counters. */
#include "base/stats.h"

#include <stdio.h>

#define NAME_MAX_BYTES 64

static void add_stat(fl_json *j, const fl_stat_def *d, uint64_t value)
{
    static const char *const units[] = { [FL_STAT_COUNT] = "",
                                         [FL_STAT_BYTES] = "_bytes",
                                         [FL_STAT_SECONDS] = "_seconds",
                                         [FL_STAT_GAUGE] = "" };
    char name[NAME_MAX_BYTES];

    (void)snprintf(name, sizeof(name), "%s%s", d->name, units[d->type]);
    if (d->type == FL_STAT_SECONDS)
        fl_json_f64(j, name, 1e-9 * (double)value);
    else
        fl_json_u64(j, name, value);
}

void fl_stats_add(const fl_stats_list *list, void *to, const void *from)
{
    const fl_stat *values = from;
    fl_stat *sums = to;

    for (size_t i = 0; i < list->n; i++)
        fl_stat_add(&sums[i], fl_stat_get(&values[i]));
}

void fl_stats_json(fl_json *j, const fl_stats_list *list, const void *stats)
{
    const fl_stat *values = stats;

    for (size_t i = 0; i < list->n; i++)
        add_stat(j, &list->defs[i], fl_stat_get(&values[i]));
}
