/* table_map.h - the table of a saved version, searched where it lies.
 *
 * Opening maps the files and looks at their headers: a table of any size opens
 * in milliseconds, and a prediction reads keys and values only, never state.
 * Keys are found by interpolation, since they are in the order of their hash,
 * which is as good as random. Bytes of a damaged file may give wrong values
 * (fl_version_verify finds out), but nothing outside of the files is read.
 *
 * Any thread may ask. The version may be closed before the map is.
 */
#ifndef FL_CKPT_TABLE_MAP_H
#define FL_CKPT_TABLE_MAP_H

#include "ckpt/version.h"
#include "table/accessor.h"

typedef struct fl_table_map fl_table_map;

/* What fl_table_map_find says of keys that have no row; GONE: a delta says that
   there is none any more. Anything below is a row's number. */
#define FL_MAP_NONE UINT64_MAX
#define FL_MAP_GONE (UINT64_MAX - 1)

FL_MUST_CHECK
fl_status fl_table_map_open(fl_table_map **out, const fl_model_version *v,
                            const char *name);
void fl_table_map_close(fl_table_map *m); /* NULL is fine */

/* Settings as of fl_table_config_parse; texts are the map's. */
const fl_table_config *fl_table_map_config(const fl_table_map *m);
uint64_t fl_table_map_rows(const fl_table_map *m);

/* The numbers of the keys' rows; keys may repeat. */
void fl_table_map_find(const fl_table_map *m, const uint64_t *keys, size_t n,
                       uint64_t *rows);

/* The value of a row that was found, into out [dim]. */
void fl_table_map_value(const fl_table_map *m, uint64_t row, float *out);

/* Where the values of n keys lie, for as long as the map does; they are on their
   way into the cache. Those that lie nowhere as they are, and those of keys
   without a row, are written to room [n, dim]. Returns how many had no row. */
size_t fl_table_map_look(const fl_table_map *m, const uint64_t *keys, size_t n,
                         float *room, const float **values);

/* The row numbers of all rows of a shard, as keys: fn is called with each
   key and its row, in the order of the hash, short rows behind the others;
   keys that a delta took away come with FL_MAP_GONE. */
typedef void (*fl_map_fn)(void *arg, uint64_t key, uint64_t row);
void fl_table_map_each(const fl_table_map *m, uint32_t shard, fl_map_fn fn,
                       void *arg);

#endif
