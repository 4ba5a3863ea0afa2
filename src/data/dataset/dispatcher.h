/* dispatcher.h - somebody who says which file is read next, so that processes
 * can share a list of files. Without one all files are read, in their order.
 *
 * A pass over the files is known by its number, from 1 on. Files are known by
 * their place in the list, which is the same in all processes. Any thread, but
 * next is asked by one at a time.
 */
#ifndef FL_DATA_DATASET_DISPATCHER_H
#define FL_DATA_DATASET_DISPATCHER_H

#include <stdint.h>

#include "base/status.h"

#define FL_DISPATCHER_NONE UINT64_MAX        /* there is no more */
#define FL_DISPATCHER_LATER (UINT64_MAX - 1) /* there may be: ask again */

typedef struct fl_dispatcher {
    /* A file, or one of the above; may wait for a short while. */
    fl_status (*next)(void *arg, uint64_t pass, uint64_t n_files,
                      uint64_t *file);
    /* All records of a file were handed on; or the pass is over, and there will
       be no more of them. */
    fl_status (*finished)(void *arg, uint64_t pass, uint64_t n_files,
                          uint64_t file);
    void (*free)(void *arg);
    void *arg;
} fl_dispatcher;

#endif
