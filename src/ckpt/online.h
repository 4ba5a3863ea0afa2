/* online.h - what a save for prediction may be a delta of: a version that
 * computes the same. Owner thread only.
 */
#ifndef FL_CKPT_ONLINE_H
#define FL_CKPT_ONLINE_H

#include "ckpt/version.h"

/* What is computed; all of it is borrowed. */
typedef struct fl_online {
    const char *const *feeds, *const *targets;
    size_t n_feeds, n_targets;
    const char *program; /* pruned, as text */
    size_t program_len;
} fl_online;

/* The version that counts in `dir`, the caller's, when the whole one that it
   stands on computes that; else NULL, and *why says what is in the way. */
fl_model_version *fl_online_base(const char *dir, const fl_online *o,
                                 const char **why);

#endif
