/* table.h - sparse rows by 64-bit id: a hashed table that grows with its data.
 *
 * A row is one flat unit: a small header, the value, the optimizer's state and,
 * by accessor, statistics. Rows are born when first seen, with values that
 * depend on seed, table and key alone. Any id is a key, 0 and 2^64-1 included.
 *
 * A table is cut into a few partitions by the top bits of the key's hash; a
 * request holds the lock of one partition for its part of the batch. A virtual
 * shard (of FL_TABLE_SHARDS) is a contiguous range of the hash order, so it can
 * be scanned, saved and moved alone. Any thread may call any function, except
 * that fl_table_destroy waits for nobody.
 */
#ifndef FL_TABLE_TABLE_H
#define FL_TABLE_TABLE_H

#include "base/rng.h"
#include "base/status.h"
#include "flotilla/experimental/scan.h"
#include "flotilla/table.h"
#include "optim/rule.h"

#define FL_TABLE_DIM_MAX 4096

/* When a key that is pushed gets a row. A key without one answers with its
   first value. */
typedef enum fl_entry_kind {
    FL_ENTRY_NONE,        /* at the first pull or push */
    FL_ENTRY_COUNT,       /* at the n-th push */
    FL_ENTRY_PROBABILITY, /* with probability p, decided once per key */
    FL_ENTRY_SHOW_CLICK   /* when the score of its shows and clicks reaches n */
} fl_entry_kind;

typedef struct fl_entry {
    fl_entry_kind kind;
    double limit; /* n or p */
} fl_entry;

/* What a table is. Texts are borrowed for the call of fl_table_create. */
typedef struct fl_table_config {
    const char *name;
    const char *settings; /* the words it was read from; NULL: none */
    uint64_t seed;        /* that was given with them */
    uint32_t dim;         /* width of the value, as the user sees it */
    uint64_t height;      /* 0: any id; else ids are below it */
    fl_init init; /* stream included: it makes the table's values its own */
    const char *accessor;        /* NULL: plain */
    const char *rule;            /* NULL: sgd */
    double p[FL_RULE_PARAM_MAX]; /* settings of the rule, all of them */
    double l1, l2;               /* decay, of the rows that are pushed */
    double lr_scale;             /* 0 stands for 1 */
    fl_entry entry;
    uint64_t max_rows; /* 0: no limit; keys beyond it get no row */
    int n_partitions;  /* 0: two per core; rounded to a power of two */
    int n_holders;     /* above 1: keys of one of so many ranges of hashes are
                          all that comes, and have so many partitions; not
                          among the words */
    bool keeps_known;  /* rows have what known.h needs; not among the words */
    /* Accessor ctr, defaults of fl_table_config_ctr. */
    double nonclk_coeff, click_coeff, embedx_threshold;
    double show_click_decay_rate, delete_threshold;
    double base_threshold, delta_threshold; /* of saves for serving */
    int delete_after_unseen_days, delta_keep_days;
} fl_table_config;

/* Fills the settings of the accessor ctr with their defaults. */
void fl_table_config_ctr(fl_table_config *c);

/* Reads the words of fl_table_new; seed 0 and up makes the stream of the
   first values together with the name. Both texts are borrowed. */
FL_MUST_CHECK
fl_status fl_table_config_parse(fl_table_config *out, const char *name,
                                const char *settings, uint64_t seed);

/* The settings of the rule from the next push on, as an update operator says
   them. Fails when the table was made for another rule. Any thread. */
FL_MUST_CHECK
fl_status fl_table_set_update(fl_table *t, const fl_update *u);

FL_MUST_CHECK
fl_status fl_table_create(fl_table **out, const fl_table_config *config);

/* All of fl_table_stats, for callers inside. */
void fl_table_count(fl_table *t, fl_table_stats *out);
void fl_table_destroy(fl_table *t);

/* Does anything here depend on the shows, clicks and counts of a push? */
bool fl_table_heeds_counts(const fl_table *t);

/* A push in parts, which several threads may make at once: it begins with the
   settings of its step, whereby the rule's scalars go one step on, also when no
   part follows. A part is merged, its keys are below the height and in no other
   part. */
void fl_table_begin_push(fl_table *t, double lr, fl_hyper *step);
FL_MUST_CHECK
fl_status fl_table_push_part(fl_table *t, const fl_rows *rows,
                             const fl_hyper *step);

/* Pulls without making rows, and says which keys have none: missing[i] is 1
   then. Keys may repeat. */
FL_MUST_CHECK
fl_status fl_table_peek(fl_table *t, const uint64_t *keys, size_t n, float *out,
                        uint8_t *missing);

#endif
