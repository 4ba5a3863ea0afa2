/* inference.h - a program for prediction: what computes the targets and nothing
 * else. Owner thread only.
 */
#ifndef FL_SERVE_INFERENCE_H
#define FL_SERVE_INFERENCE_H

#include "ir/program.h"

typedef struct fl_names_list {
    const char *const *names;
    size_t n;
} fl_names_list;

/* A copy with names of its own, and its end. */
fl_names_list fl_names_copy(fl_names_list l);
void fl_names_free(fl_names_list l);

/* A copy for test that keeps only what the targets need. Fails when a target is
   not there, or when computing it would change a persistent variable: threads
   share these. */
FL_MUST_CHECK
fl_status fl_inference_program(fl_program **out, const fl_program *p,
                               fl_names_list targets);

/* Parameters that lie in a table of their name, as a job makes them of arrays
   that are read by ids, are looked up there. */
void fl_inference_use_tables(fl_program *p, fl_names_list tables);

/* The names of what such a program is fed with, in its order, borrowed from it.
   Freed with fl_free. */
const char **fl_inference_feeds(const fl_program *p, size_t *n);

/* Fails, and lists them all, when some of the feeds are not needed or some that
   are needed are not among them. */
FL_MUST_CHECK
fl_status fl_inference_check_feeds(const fl_program *p, fl_names_list feeds);

#endif
