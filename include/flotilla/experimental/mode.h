/* mode.h - a way of your own to train with parameter servers. Experimental: it
 * may change with any version.
 *
 * A mode is the passes that distribute a program, and a few functions that are
 * called in its place: where a program pulls rows, pushes gradients, sends and
 * receives dense parameters, and ends a batch. A function that is left out does
 * the plain thing, at once, with the servers. So a mode may change one of them
 * and leave the rest (examples/own_mode.c).
 *
 * Functions run in training threads, several at a time, and may wait. Memory is
 * borrowed for the call.
 */
#ifndef FLOTILLA_EXPERIMENTAL_MODE_H
#define FLOTILLA_EXPERIMENTAL_MODE_H

#include "flotilla/dist.h"
#include "flotilla/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Texts and functions must live as long as the context. */
typedef struct fl_mode_def {
    uint32_t size;
    const char *name, *doc;
    /* Apart by spaces, NULL: those of async. docs/modes.md has the passes of
       every mode and what they do. */
    const char *passes;
    /* The servers add up what is pushed instead of updating. */
    bool server_adds;

    /* The state of a trainer, which the others get; NULL is fine. */
    void *(*open)(fl_job *job);
    void (*close)(void *mode);

    /* Keys of rows are all different, and their width is set. */
    fl_status (*pull)(void *mode, const char *table, const fl_rows *rows,
                      fl_pull_kind kind, float *out);
    fl_status (*push)(void *mode, const char *table, const fl_rows *rows);
    /* The gradient of a parameter; with server_adds the parameter itself. */
    fl_status (*send)(void *mode, const fl_param_values *v);
    /* Fresh values, where the program has a recv. */
    fl_status (*recv)(void *mode, const fl_param_values *v, size_t n);
    /* The end of a batch, where the program has a send_barrier. */
    fl_status (*barrier)(void *mode, uint64_t samples);
    /* Everything is to be applied when it returns; then the trainer leaves. */
    fl_status (*stop)(void *mode);
} fl_mode_def;

/* For fl_transpile(.mode = name) and fl_fleet_use_mode in this context. A name
   that exists is refused. */
FL_API FL_MUST_CHECK
fl_status fl_ctx_add_mode(fl_ctx *c, const fl_mode_def *def);

/* --- the plain thing, with the job of the mode; all of them wait ---------------------- */

FL_API FL_MUST_CHECK
fl_status fl_mode_pull(fl_job *j, const char *table, const fl_rows *rows,
                       fl_pull_kind kind, float *out);
/* The values times their scale. */
FL_API FL_MUST_CHECK
fl_status fl_mode_push(fl_job *j, const char *table, const fl_rows *rows);
FL_API FL_MUST_CHECK
fl_status fl_mode_send(fl_job *j, const fl_param_values *v);
FL_API FL_MUST_CHECK
fl_status fl_mode_recv(fl_job *j, const fl_param_values *v, size_t n);
/* All dense parameters of the job, into the scope of this trainer. */
FL_API FL_MUST_CHECK
fl_status fl_mode_recv_all(fl_job *j);
FL_API FL_MUST_CHECK
fl_status fl_mode_barrier(fl_job *j, const char *name, uint64_t generation);

#ifdef __cplusplus
}
#endif
#endif
