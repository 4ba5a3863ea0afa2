/* table.h - sparse rows by 64-bit id: hashed tables that grow with their data.
 *
 * Embeddings with is_distributed train on such tables (layers.h); here they can
 * be made, looked into and looked after. A table belongs to its context. Any
 * thread may call any function.
 *
 * A row is one flat unit: a small header, the value, the optimizer's state and,
 * by accessor, statistics. Rows are born when first seen, with values that
 * depend on seed, table and key alone. Any id is a key, 0 and 2^64-1 included.
 */
#ifndef FLOTILLA_TABLE_H
#define FLOTILLA_TABLE_H

#include "flotilla/program.h"
#include "flotilla/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_table fl_table;

/* Makes a table, which belongs to the context. Settings are words like those of an optimizer:
     dim=10                            width of the value, needed
     init=uniform(-1,1)                first values; the default is xavier with
                                       the fans of [height, dim], or of
                                       [dim, dim] when any id is a key
     height=1000                       ids are below it; 0, the default: any
     optimizer=adam, beta1=0.9, ...    update rule and its settings
     accessor=ctr                      or plain, the default
     entry=count_filter_entry:5        probability_entry:0.3,
                                       show_click_entry:10; none by default
     max_rows=1000000  partitions=4  lr_scale=0.5  regularization=l2(0.01)
     nonclk_coeff= click_coeff= embedx_threshold= show_click_decay_rate=
     delete_threshold= delete_after_unseen_days=
     base_threshold= delta_threshold= delta_keep_days=    of the accessor ctr
   A table of that name must not exist. */
FL_API FL_MUST_CHECK
fl_status fl_table_new(fl_table **out, fl_ctx *c, const char *name,
                       const char *settings);

/* The table of that name; run the startup program first. */
FL_API FL_MUST_CHECK
fl_status fl_ctx_table(fl_ctx *c, const char *name, fl_table **out);

FL_API const char *fl_table_name(const fl_table *t);
FL_API uint32_t fl_table_dim(const fl_table *t);

/* --- rows by key --------------------------------------------------------- */

typedef enum fl_pull_kind { FL_PULL_CREATE, FL_PULL_ONLY } fl_pull_kind;

/* Values of n keys (repeats are fine) into out [n, dim]. FL_PULL_CREATE makes
   rows for new keys when the entry policy is none; FL_PULL_ONLY never does. */
FL_API FL_MUST_CHECK
fl_status fl_table_pull(fl_table *t, const uint64_t *keys, size_t n,
                        fl_pull_kind kind, float *out);

/* Updates rows by the gradients of one push. */
FL_API FL_MUST_CHECK
fl_status fl_table_push(fl_table *t, const fl_rows *rows);

/* Overwrites values (initial values, a load); makes rows as needed, whatever
   the entry policy. State and statistics start anew. */
FL_API FL_MUST_CHECK
fl_status fl_table_assign(fl_table *t, const uint64_t *keys, size_t n,
                          const float *values);

/* Adds to values; makes rows as needed, whatever the entry policy, with their
   first value and what is added. State and statistics stay. Keys may
   repeat. */
FL_API FL_MUST_CHECK
fl_status fl_table_add(fl_table *t, const uint64_t *keys, size_t n,
                       const float *deltas);

/* Keys without a row are no error. *n_removed may be NULL. */
FL_API void fl_table_remove(fl_table *t, const uint64_t *keys, size_t n,
                            size_t *n_removed);

/* Drops all rows and gives their memory back. */
FL_API void fl_table_clear(fl_table *t);

/* --- epochs -------------------------------------------------------------- */

/* The epoch that pushes stamp on rows, from 1; advancing it starts a new
   one. */
FL_API uint32_t fl_table_epoch(const fl_table *t);
FL_API uint32_t fl_table_advance_epoch(fl_table *t);

/* --- forgetting ---------------------------------------------------------- */

/* A day is over: rows not pushed since count one unseen day more. */
FL_API void fl_table_end_day(fl_table *t);

/* Removes what the accessor no longer keeps. plain: rows unseen for
   `unseen_days` or more (0: none). ctr: shows and clicks decay, then rows with
   a score below delete_threshold or unseen for more than
   delete_after_unseen_days go; unseen_days is not used. */
FL_API FL_MUST_CHECK
fl_status fl_table_shrink(fl_table *t, int unseen_days, uint64_t *n_removed);

/* --- accounting ---------------------------------------------------------- */

typedef struct fl_table_stats {
    uint32_t size;
    uint64_t rows, short_rows; /* short ones are among the rows */
    uint64_t candidates;       /* keys seen but not admitted yet */
    uint64_t refused;          /* keys that got no row for max_rows */
    uint64_t waited;           /* parts of batches that another one held up */
    uint64_t index_bytes, row_bytes, candidate_bytes;
    uint64_t slots_moved;          /* by growing and shrinking, in all */
    uint64_t most_moved_in_a_call; /* by one pull or push */
} fl_table_stats;

FL_API FL_MUST_CHECK
fl_status fl_table_stats_get(fl_table *t, fl_table_stats *out);

/* --- text, for debugging ------------------------------------------------- */

/* One line per row: key, epoch, the fields of the accessor by name. Load reads
   what dump wrote into a table with the same configuration; the rows of lines
   before a bad one stay. */
FL_API FL_MUST_CHECK
fl_status fl_table_dump(fl_table *t, const char *path);
FL_API FL_MUST_CHECK
fl_status fl_table_load(fl_table *t, const char *path);

#ifdef __cplusplus
}
#endif
#endif
