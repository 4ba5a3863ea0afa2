/* status.h - how every Flotilla function reports that the world failed.
 *
 * A function that can fail returns an fl_status. The sentence that explains it
 * is kept per thread: read it with fl_last_error() right after the failure.
 */
#ifndef FLOTILLA_STATUS_H
#define FLOTILLA_STATUS_H

#if defined(__GNUC__)
#define FL_API __attribute__((visibility("default")))
#define FL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define FL_API
#define FL_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Name, pinned number and text live in one place, so they cannot drift. */
#define FL_STATUS_MAP(X)                                                       \
    X(INVAL, 1, "bad argument or setting")                                     \
    X(NOMEM, 2, "no memory for data")                                          \
    X(IO, 3, "read or write refused by the system")                            \
    X(CORRUPT, 4, "bytes from a file or a peer do not parse")                  \
    X(NOTFOUND, 5, "no such name")                                             \
    X(TIMEOUT, 6, "no answer in time")                                         \
    X(CLOSED, 7, "shut down: stop, do not retry")                              \
    X(NUMERIC, 8, "a number is not finite or out of its range")

typedef enum fl_status {
    FL_OK = 0,
#define X(name, value, text) FL_ERR_##name = value,
    FL_STATUS_MAP(X)
#undef X
    /* Not an error: the operator will be woken when its answer is there. */
    FL_PENDING = 100
} fl_status;

/* The general meaning of a code, for example "no such name". */
FL_API const char *fl_status_text(fl_status st);

/* The sentence of this thread's last failure; "" when nothing failed yet. */
FL_API const char *fl_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
