/* status.h - how every Flotilla function reports that the world failed.
 *
 * A function that can fail returns an fl_status. The sentence that explains it
 * is kept per thread: read it with fl_last_error() right after the failure.
 */
#ifndef FLOTILLA_STATUS_H
#define FLOTILLA_STATUS_H

#include <stdbool.h>

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

/* Where in a program it happened, for who keeps the lines of a script under the
   tags of what they build (fl_op_args, fl_var_args). Borrowed like the
   sentence. */
typedef struct fl_error_place {
    uint32_t size;
    uint64_t op_tag;  /* of the operator, or of the one it is the gradient of */
    const char *op;   /* its type; NULL: no operator */
    uint64_t var_tag; /* of the variable */
    const char *var;  /* its name; NULL: no variable */
    bool is_feed;     /* what was fed for it does not fit */
} fl_error_place;

/* False, and nothing written, when the failure has no such place. */
FL_API bool fl_last_error_place(fl_error_place *out);

/* Its code, for what returns NULL on failure: layers and lookups. */
FL_API fl_status fl_last_status(void);

/* For functions of yours that the library calls: keeps the sentence as this
   thread's last error, and returns `st`. */
FL_API fl_status fl_err_set(fl_status st, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* --- ending early --------------------------------------------------------- */

typedef enum fl_interrupt_kind {
    /* Passes over data end behind the batches that are under way, files are not
       read on, a server ends its job in order: all stays usable. */
    FL_INTERRUPT_SOON,
    /* Requests to servers fail as well, and their job is lost for this process:
       for what did not end soon. */
    FL_INTERRUPT_NOW
} fl_interrupt_kind;

/* Ends with FL_ERR_CLOSED what the threads of this process do at this moment,
   whatever context it belongs to. Any thread, but not a signal handler. */
FL_API void fl_interrupt(fl_interrupt_kind kind);

/* Is this a child of fork whose parent had threads of the library? They are not
   here, and what waits for them waits for ever: such a process neither runs
   anything nor frees what its parent made. */
FL_API bool fl_is_cut_off(void);

#ifdef __cplusplus
}
#endif
#endif
