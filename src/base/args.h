/* args.h - structs that cross the boundary of the library. They begin with
 * their size (flotilla/abi.h), and the caller's may be older or younger than
 * ours: what it does not have reads as zero, what we do not know must be zero.
 */
#ifndef FL_BASE_ARGS_H
#define FL_BASE_ARGS_H

#include "base/status.h"

#include <stddef.h>

/* Reads the caller's struct, NULL for one that says nothing, into `to`. */
#define FL_ARGS_READ(type, to, from)                                           \
    fl_args_read(1 ? (to) : (type *)NULL, sizeof(type),                        \
                 1 ? (from) : (const type *)NULL, #type)

/* Fills the caller's struct with `from`, as far as it goes. */
#define FL_ARGS_FILL(type, to, from)                                           \
    fl_args_fill(1 ? (to) : (type *)NULL, 1 ? (from) : (const type *)NULL,     \
                 sizeof(type), #type)

FL_MUST_CHECK
fl_status fl_args_read(void *to, size_t to_size, const void *from,
                       const char *type);
FL_MUST_CHECK
fl_status fl_args_fill(void *to, const void *from, size_t from_size,
                       const char *type);

#endif
