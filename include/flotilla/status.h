/* status.h - how every Flotilla function reports that the world failed.
 *
 * A function that can fail returns an fl_status. The sentence that explains it
 * is kept per thread: read it with fl_last_error() right after the failure.
 */
#ifndef FLOTILLA_STATUS_H
#define FLOTILLA_STATUS_H

#include "flotilla/abi.h"

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
    X(NUMERIC, 8, "a number is not finite or out of its range")                \
    X(EXISTS, 9, "the name is taken")                                          \
    X(BUSY, 10, "in use by somebody else: try again later")                    \
    X(UNSUPPORTED, 11, "this version cannot do that")                          \
    X(TYPE, 12, "a value of another type than is taken")

typedef enum fl_status {
    FL_OK = 0,
#define X(name, value, text) FL_ERR_##name = value,
    FL_STATUS_MAP(X)
#undef X
} fl_status;

/* The general meaning of a code, for example "no such name". */
FL_API const char *fl_status_text(fl_status st);

/* The sentence of this thread's last failure; "" when nothing failed yet. */
FL_API const char *fl_last_error(void);

/* Its code, for what returns NULL on failure: layers and lookups. */
FL_API fl_status fl_last_status(void);

#ifdef __cplusplus
}
#endif
#endif
