/* geo_touched.h - which rows of a table were trained since the last exchange.
 *
 * Every push appends its keys. The list is bounded by the rows that there are:
 * before it grows, keys that it has twice are dropped. An exchange cuts off
 * what has come so far, and new keys begin a new list. Any thread.
 */
#ifndef FL_MODE_GEO_TOUCHED_H
#define FL_MODE_GEO_TOUCHED_H

#include "base/buf.h"
#include "base/thread.h"
#include "kernel/unique.h"

typedef struct fl_geo_keys {
    uint64_t *data;
    size_t n, cap; /* keys */
} fl_geo_keys;

/* What uniting keys needs; memory is kept, since fresh pages cost more than the
   work on them. */
typedef struct fl_geo_uniter {
    fl_unique unique;
    fl_geo_keys other;
    fl_buf index;
} fl_geo_uniter;

void fl_geo_uniter_release(fl_geo_uniter *u);

/* Keeps each key once, in order of first appearance. */
FL_MUST_CHECK
fl_status fl_geo_keys_unite(fl_geo_keys *k, fl_geo_uniter *u);

typedef struct fl_geo_touched {
    fl_mutex mu;
    fl_geo_keys keys;     /* guarded by mu */
    fl_geo_keys spare;    /* a list for later; guarded by mu */
    fl_geo_uniter uniter; /* guarded by mu */
} fl_geo_touched;

void fl_geo_touched_init(fl_geo_touched *t);
void fl_geo_touched_release(fl_geo_touched *t);

FL_MUST_CHECK
fl_status fl_geo_touched_note(fl_geo_touched *t, const uint64_t *keys,
                              size_t n);

/* What has been noted becomes the caller's, with keys that stand twice. */
fl_geo_keys fl_geo_touched_cut(fl_geo_touched *t);

/* Takes the memory of a list that was cut off, for a later one. */
void fl_geo_touched_give_back(fl_geo_touched *t, fl_geo_keys *keys);

#endif
