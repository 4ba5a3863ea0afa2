/* stats.h - named and typed counters of a module, listed in one place.
 *
 *     #define FL_PUMP_STATS(X)     \
 *         X(lines, COUNT)          \
 *         X(read, BYTES)           \
 *         X(waited, SECONDS)
 *     FL_STATS(fl_pump_stats, FL_PUMP_STATS)
 *
 * makes a struct of atomic counters and the list of their names and types,
 * fl_pump_stats_list; whoever counts adds to a field (fl_stat_add), and one
 * function writes all of them (fl_stats_json). A name has its unit behind it
 * there: "lines", "read_bytes", "waited_seconds". Seconds are counted in
 * nanoseconds. A gauge is the one that also falls. Any thread.
 */
#ifndef FL_BASE_STATS_H
#define FL_BASE_STATS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/json.h"

typedef enum fl_stat_type {
    FL_STAT_COUNT,
    FL_STAT_BYTES,
    FL_STAT_SECONDS,
    FL_STAT_GAUGE
} fl_stat_type;

typedef _Atomic uint64_t fl_stat;

typedef struct fl_stat_def {
    const char *name;
    fl_stat_type type;
} fl_stat_def;

typedef struct fl_stats_list {
    const fl_stat_def *defs; /* in the order of the struct's fields */
    size_t n;
} fl_stats_list;

#define FL_STAT_FIELD_(name, type) fl_stat name;
#define FL_STAT_DEF_(name, type) { #name, FL_STAT_##type },
#define FL_STATS(struct_name, list)                                            \
    typedef struct struct_name {                                               \
        list(FL_STAT_FIELD_)                                                   \
    } struct_name;                                                             \
    static const fl_stat_def struct_name##_defs[] = { list(FL_STAT_DEF_) };    \
    __attribute__((unused)) static const fl_stats_list struct_name##_list = {  \
        struct_name##_defs, sizeof(struct_name##_defs) / sizeof(fl_stat_def)   \
    };                                                                         \
    _Static_assert(sizeof(struct_name) == sizeof(struct_name##_defs) /         \
                                              sizeof(fl_stat_def) *            \
                                              sizeof(fl_stat),                 \
                   "one counter per row")

/* Counters order nothing else in memory. */
static inline void fl_stat_add(fl_stat *s, uint64_t n)
{
    atomic_fetch_add_explicit(s, n, memory_order_relaxed);
}

/* Of a gauge. */
static inline void fl_stat_sub(fl_stat *s, uint64_t n)
{
    atomic_fetch_sub_explicit(s, n, memory_order_relaxed);
}

static inline uint64_t fl_stat_get(const fl_stat *s)
{
    return atomic_load_explicit(s, memory_order_relaxed);
}

/* Adds every counter of a struct to those of another of its kind; added to
   zeros, that is a snapshot. */
void fl_stats_add(const fl_stats_list *list, void *to, const void *from);

/* Adds every counter of the struct to the object that is open. */
void fl_stats_json(fl_json *j, const fl_stats_list *list, const void *stats);

#endif
