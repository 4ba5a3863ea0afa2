/* status.h - the inside of error reporting: set a message once, where it
 * happens, and pass the code up.
 *
 * The last error is thread-local. It crosses threads in exactly two places,
 * both explicit: a pool join and an RPC reply; both carry an fl_err.
 */
#ifndef FL_BASE_STATUS_H
#define FL_BASE_STATUS_H

#include "flotilla/status.h"

#include <stdarg.h>
#include <stdbool.h>

#define FL_ERR_TEXT_MAX 1024
#define FL_ERR_NAME_MAX 128 /* of what an error is about */

/* Not an error, and never seen by the library's users: the operator will be
   woken when its answer is there. */
#define FL_PENDING ((fl_status)100)

#define FL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Where in a program: see fl_error_place. Empty names: nowhere. */
typedef struct fl_err_place {
    uint64_t op_tag, var_tag;
    bool is_feed;
    char op[FL_ERR_NAME_MAX], var[FL_ERR_NAME_MAX];
} fl_err_place;

/* An error that can be carried to another thread. Storage is the caller's. */
typedef struct fl_err {
    fl_status status;
    fl_err_place place;
    char text[FL_ERR_TEXT_MAX];
} fl_err;

/* Puts "context: " before this thread's sentence; FL_OK passes untouched. */
fl_status fl_err_ctx(fl_status st, const char *fmt, ...) FL_PRINTF(2, 3);

/* Notes the operator, or the variable, that this thread's error is about. The
   first to say so is the nearest; FL_OK passes untouched. */
fl_status fl_err_at_op(fl_status st, uint64_t tag, const char *type);
fl_status fl_err_at_var(fl_status st, uint64_t tag, const char *name);
fl_status fl_err_at_feed(fl_status st, uint64_t tag, const char *name);

/* Copies this thread's error out, to be given to another thread. */
void fl_err_save(fl_err *out, fl_status st);

/* Makes a saved error this thread's own and returns its status. */
fl_status fl_err_restore(const fl_err *e);

/* This thread's error, whatever it is, while it does somebody else's work. */
void fl_err_keep(fl_err *out);
void fl_err_put_back(const fl_err *e);

/* Prints to stderr and aborts: for FL_ASSERT and for metadata allocation. */
_Noreturn void fl_die(const char *file, int line, const char *fmt, ...)
    FL_PRINTF(3, 4);

/* Returns st itself, not what fl_err_set gives back: a compiler then sees that
   a failure is never FL_OK. */
#define FL_FAIL(st, ...)                                                       \
    do {                                                                       \
        (void)fl_err_set((st), __VA_ARGS__);                                   \
        return (st);                                                           \
    } while (0)

#define FL_TRY(expr)                                                           \
    do {                                                                       \
        fl_status fl_try_st = (expr);                                          \
        if (fl_try_st)                                                         \
            return fl_try_st;                                                  \
    } while (0)

/* We failed, not the world: always on. */
#define FL_ASSERT(cond)                                                        \
    do {                                                                       \
        if (!(cond))                                                           \
            fl_die(__FILE__, __LINE__, "assertion failed: %s", #cond);         \
    } while (0)

/* Cannot happen and is hot: checked in debug builds only. */
#ifdef NDEBUG
#define FL_DEBUG_ASSERT(cond) ((void)0)
#else
#define FL_DEBUG_ASSERT(cond) FL_ASSERT(cond)
#endif

#define FL_LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
