/* overlay.h - rows of a table in memory: those that are newer than its mapped
 * files, or copies of these.
 *
 * Made from the one before it and the rows of a delta, and read-only from then
 * on, so that threads read without a lock while the next one is made. It knows
 * the values of keys, and keys that went. References are counted, any thread.
 */
#ifndef FL_SERVE_OVERLAY_H
#define FL_SERVE_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fl_overlay fl_overlay;

/* A copy of `before` (NULL: nothing) with room for n_more keys. */
FL_MUST_CHECK
fl_status fl_overlay_new(fl_overlay **out, const fl_overlay *before,
                         uint32_t dim, size_t n_more);
fl_overlay *fl_overlay_ref(fl_overlay *o); /* NULL is fine, here and below */
void fl_overlay_unref(fl_overlay *o);

/* While it is made, at most n_more calls in all: room for the key's new value;
   or the key went. */
float *fl_overlay_put(fl_overlay *o, uint64_t key);
void fl_overlay_drop(fl_overlay *o, uint64_t key);

/* Where the value of each of n keys lies, which is on its way into the cache;
   &fl_overlay_gone for a key that went, and NULL for one of which nothing is
   known: ask the files. Returns for how many it is one of the two. */
extern const float fl_overlay_gone;
size_t fl_overlay_find(const fl_overlay *o, const uint64_t *keys, size_t n,
                       const float **values);

/* Keys that will be looked for soon: what says where they are is on its way into
   the cache. */
void fl_overlay_ask(const fl_overlay *o, const uint64_t *keys, size_t n);

/* Calls fn for each key that has a row. */
void fl_overlay_each(const fl_overlay *o, void (*fn)(void *arg, uint64_t key),
                     void *arg);

size_t fl_overlay_len(const fl_overlay *o); /* keys, those that went too */

#endif
