/* source.h - where rows of a model come from.
 *
 * Behind it stand the mapped files of a version, or something that is reached
 * over a network and was handed in. What a key without a row has is said by the
 * table's rule, which comes with the question. Any thread may read, at any time;
 * a read may wait for the world, but not for ever: it fails and names its peer.
 */
#ifndef FL_SERVE_SOURCE_H
#define FL_SERVE_SOURCE_H

#include "flotilla/predict.h"
#include "serve/rules.h"

/* Keys of one table and the room for their values; for `read` they are all
   different. */
typedef struct fl_source_read {
    const char *table;
    const fl_table *rule;
    const uint64_t *keys;
    size_t n;
    uint32_t dim;
    float *out;       /* [n, dim] */
    size_t n_missing; /* keys without a row, counted by the read */
    /* For `find`: keys of the one that follows, and whether those of this one
       came with the one before. */
    const uint64_t *next;
    size_t n_next;
    bool is_asked;
    uint8_t *missing; /* [n] zeros: 1 where a key has no row; NULL: not asked */
} fl_source_read;

/* One key of a list. */
typedef void (*fl_source_key_fn)(void *arg, uint64_t key);

typedef struct fl_row_source_ops {
    const char *name; /* for messages: "files" */
    fl_status (*read)(fl_row_source *s, fl_source_read *r);
    /* The keys of one virtual shard that have a row, in any order; one may come
       twice, or have none any more. NULL: it cannot tell. */
    fl_status (*list)(fl_row_source *s, const char *table, uint32_t shard,
                      fl_source_key_fn fn, void *arg);
    /* The numbers of a dense parameter of that shape, FL_ERR_NOTFOUND when it
       has none of that name. NULL: it has rows alone. */
    fl_status (*dense)(fl_row_source *s, const char *name,
                       const fl_shape *shape, float *out);
    /* Where the rows lie, for as long as the source does; r->out has those that
       lie nowhere. NULL: they are not in this process. */
    fl_status (*find)(fl_row_source *s, fl_source_read *r, const float **rows);
    void (*free)(fl_row_source *s);
} fl_row_source_ops;

struct fl_row_source {
    const fl_row_source_ops *ops;
};

/* Key i has no row. */
static inline void fl_source_missing(fl_source_read *r, size_t i)
{
    fl_rules_first(r->rule, r->keys[i], r->out + i * r->dim);
    r->n_missing++;
    if (r->missing)
        r->missing[i] = 1;
}

/* NULL is fine. */
static inline void fl_row_source_free(fl_row_source *s)
{
    if (s)
        s->ops->free(s);
}

#endif
