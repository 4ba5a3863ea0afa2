/* alloc.h - the only place that calls the system allocator.
 *
 * fl_alloc is for small metadata: it never returns NULL (it reports and
 * aborts). fl_try_alloc is for anything sized by data or by a peer: it returns
 * NULL, and the caller turns that into FL_ERR_NOMEM. Any thread may call.
 */
#ifndef FL_BASE_ALLOC_H
#define FL_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory; aborts with a message when there is none. */
void *fl_alloc(size_t bytes);
void *fl_realloc(void *p, size_t bytes);
char *fl_strdup(const char *s);
void fl_free(void *p);

/* Memory sized by data: 64-byte aligned, not zeroed, NULL when there is none.
   Blocks of 2 MB and more lie on huge pages where the system has them.
   Freed with fl_data_free, which takes the same size. */
void *fl_try_alloc(size_t bytes);
void fl_data_free(void *p, size_t bytes);

/* Zeros that take memory only where they are touched, for arrays that fill up
   over time; NULL when there is no room. Counted like fl_try_alloc. */
void *fl_try_map(size_t bytes);
void fl_unmap(void *p, size_t bytes);

/* The bytes [done, upto) of a map are not needed any more: gives whole huge
   pages back and returns how far it came, the next `done`. */
size_t fl_map_forget(void *p, size_t bytes, size_t done, size_t upto);

/* Bytes that fl_try_alloc has handed out and not got back, in this process. */
size_t fl_data_bytes(void);

/* Number of fl_try_alloc calls that this process has made. */
uint64_t fl_data_calls(void);

/* True when a * b does not fit; else stores the product. */
bool fl_mul_overflow(size_t a, size_t b, size_t *out);

/* Test hook: the n-th fl_try_alloc of this thread from now on returns NULL,
   once. 0 switches it off. */
void fl_alloc_fail_after(uint64_t n);

#endif
