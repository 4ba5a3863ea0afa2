/* added.h - descriptors that programs add to a list of ours: operators, rules,
 * formats. They are never removed, so that who has read the number may read the
 * entries below it. Any thread. */
#ifndef FL_BASE_ADDED_H
#define FL_BASE_ADDED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/status.h"

#define FL_ADDED_MAX 256

typedef struct fl_added {
    pthread_mutex_t lock; /* of who adds */
    atomic_size_t n;
    const void *all[FL_ADDED_MAX];
} fl_added;
#define FL_ADDED_EMPTY                                                         \
    (fl_added)                                                                 \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER                                      \
    }

static inline size_t fl_added_count(const fl_added *a)
{
    return atomic_load_explicit(&a->n, memory_order_acquire);
}

static inline const void *fl_added_at(const fl_added *a, size_t i)
{
    return a->all[i];
}

/* What is to be added. */
typedef struct fl_addition {
    const void *item;
    const char *what, *name; /* "operator", "cube" */
    /* The one that has the name now, ours or one that was added; NULL: none. */
    const void *(*find)(const char *name);
} fl_addition;

/* An item that is there is FL_OK, another one of its name FL_ERR_EXISTS. */
FL_MUST_CHECK
fl_status fl_added_push(fl_added *a, const fl_addition *add);

/* Fails unless the caller's descriptor is as long as ours: what is experimental
   is built for one version. */
FL_MUST_CHECK
fl_status fl_added_check_size(const char *what, size_t size, size_t ours);

#endif
