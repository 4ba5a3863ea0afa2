/* scan.h - the rows of a table as they are in memory. Experimental: what a row
 * is made of may change with any version.
 */
#ifndef FLOTILLA_EXPERIMENTAL_SCAN_H
#define FLOTILLA_EXPERIMENTAL_SCAN_H

#include "flotilla/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A key belongs to one of so many virtual shards by its hash. */
#define FL_TABLE_SHARDS 1024

/* One row as a scan sees it; borrowed for the call. */
typedef struct fl_row_view {
    uint32_t size;
    uint64_t key;
    uint32_t epoch;
    const void *row;
    bool is_short; /* accessor ctr: the wide part has not grown yet */
} fl_row_view;

/* Returns false to stop. Must not call the table. */
typedef bool (*fl_row_fn)(void *arg, const fl_row_view *row);

/* Rows of one virtual shard changed in epoch `since` or later (0: all). Other
   partitions can be used meanwhile. */
FL_API FL_MUST_CHECK
fl_status fl_table_scan(fl_table *t, uint32_t shard, uint32_t since,
                        fl_row_fn fn, void *arg);

FL_API uint32_t fl_table_shard_of(uint64_t key);

#ifdef __cplusplus
}
#endif
#endif
