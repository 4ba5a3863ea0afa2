/* lockstep.h - threads of one trainer that meet after every batch: the backend
 * of the modes that have them meet (sync, half_async).
 *
 * Gradients that a thread hands over stay where they are until it meets the
 * others. The last one to come merges them, in the order of threads and parts,
 * and the mode exchanges the result with the servers; when that is over all of
 * them go on. The mode is a few functions: see fl_lockstep_ops.
 *
 * A gradient of n threads is their sum by weight. Replicas are one thread whose
 * pushes come in parts, each with its scale; their dense gradients come once,
 * merged.
 *
 * An error is for good: whoever meets, pushes or sends later gets it at once.
 */
#ifndef FL_MODE_LOCKSTEP_H
#define FL_MODE_LOCKSTEP_H

#include "conf/weigh.h"
#include "mode/cluster.h"

typedef struct fl_lockstep fl_lockstep;

/* What the threads of this trainer made of their batches, as one gradient.
   The memory is borrowed until fl_lockstep_end. */
typedef struct fl_merged {
    const fl_job_push_item *items; /* one per table pushed to, keys or not */
    const uint32_t *dims;          /* by item */
    size_t n_items;
    const fl_cluster_blocks *grads;
    uint64_t samples; /* of all threads */
} fl_merged;

/* What a mode adds. All functions get the mode's own struct. */
typedef struct fl_lockstep_ops {
    const char *name; /* for messages */
    /* Pulls of up to so many bytes for a batch behind the one that is trained
       wait for the mode to take them, in every exchange that does not fail. */
    uint64_t held_bytes;
    /* Begins the exchange and does not wait for its end, at which the mode
       calls fl_lockstep_end, from any thread, exactly once. By then the memory
       of fl_lockstep_params has fresh values, unless there was an error. Called
       by a training thread. */
    void (*exchange)(void *mode, const fl_merged *merged);
    /* The number of the step that a thread begins. */
    uint64_t (*step)(void *mode);
    void (*free)(void *mode);
} fl_lockstep_ops;

/* Takes the cluster and the mode; fl_comm_free of the port frees them. */
fl_lockstep *fl_lockstep_new(fl_cluster *cluster, const fl_lockstep_ops *ops,
                             void *mode, fl_weighing how);
fl_comm *fl_lockstep_port(fl_lockstep *l);

/* What stands behind the port, for a mode that has more, or less, of it: before
   the port is used. */
fl_comm_data *fl_lockstep_data(fl_lockstep *l);
fl_comm_life *fl_lockstep_life(fl_lockstep *l);
/* The mode of a port. */
void *fl_lockstep_mode(const fl_comm *port);
/* An exchange has failed. */
bool fl_lockstep_failed(fl_lockstep *l);

/* All dense parameters, and the memory of this backend for their values. For
   the mode, during an exchange. */
const fl_cluster_blocks *fl_lockstep_params(const fl_lockstep *l);

/* For the mode, during an exchange: the pulls that were held are taken before the
   last request of it leaves, as the next ones may come when that is answered, and
   sent behind it. Servers take requests in their order. */
typedef FL_VEC(fl_comm_request *) fl_pull_list;
fl_pull_list fl_lockstep_take_pulls(fl_lockstep *l);
void fl_lockstep_send_pulls(fl_lockstep *l, fl_pull_list *pulls);

/* The exchange is over: all who wait go on, with this thread's last error if
   there was one. */
void fl_lockstep_end(fl_lockstep *l, fl_status st);

#endif
