/* vec.h - growing arrays of anything, and of characters.
 *
 *     FL_VEC(int) v = {0};
 *     fl_vec_push(&v, 3);      v.data[0] == 3, v.len == 1
 *     fl_vec_release(&v);
 *
 * For metadata: growing aborts without memory. Owner thread only.
 */
#ifndef FL_BASE_VEC_H
#define FL_BASE_VEC_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/status.h"

#define FL_VEC(T)                                                              \
    struct {                                                                   \
        T *data;                                                               \
        size_t len, cap;                                                       \
    }

#define fl_vec_push(v, item)                                                   \
    do {                                                                       \
        if ((v)->len == (v)->cap)                                              \
            (v)->data = fl_vec_grow((v)->data, &(v)->cap, sizeof(*(v)->data)); \
        (v)->data[(v)->len++] = (item);                                        \
    } while (0)

#define fl_vec_release(v)                                                      \
    do {                                                                       \
        fl_free((v)->data);                                                    \
        (v)->data = NULL;                                                      \
        (v)->len = (v)->cap = 0;                                               \
    } while (0)

/* Doubles the capacity; used by fl_vec_push. */
void *fl_vec_grow(void *data, size_t *cap, size_t item_bytes);

/* A string under construction. data is always NUL-terminated once non-NULL. */
typedef struct fl_str {
    char *data;
    size_t len, cap;
} fl_str;

void fl_str_add(fl_str *s, const char *text);
void fl_str_addf(fl_str *s, const char *fmt, ...) FL_PRINTF(2, 3);
void fl_str_release(fl_str *s);

/* The text so far, "" when empty; borrowed. */
const char *fl_str_text(const fl_str *s);

/* The text becomes the caller's, freed with fl_free; s is empty afterwards. */
char *fl_str_take(fl_str *s);

#endif
