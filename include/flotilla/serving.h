/* serving.h - a saved model for other processes: over the sockets of a job, and
 * over HTTP.
 *
 *     fl_serving_start(&s, ctx, model, .listen = "127.0.0.1:6200");
 *     ... until the end ...
 *     fl_serving_stop(s);
 *
 * Requests of many callers that wait run as one batch. Token, TLS and limits are
 * the settings of the context, as for parameter servers (docs/settings.md). What
 * goes over the wire is in docs/formats/predict.md.
 */
#ifndef FLOTILLA_SERVING_H
#define FLOTILLA_SERVING_H

#include "flotilla/job.h"
#include "flotilla/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- a server ------------------------------------------------------------ */

typedef struct fl_serving fl_serving;

typedef struct fl_serving_args {
    uint32_t size;
    const char *listen; /* "host:port" or "unix:path"; NULL: not so */
    const char *http;   /* "host:port"; NULL: not so */
    int n_threads;      /* that score; 0: one per core */
    size_t max_batch;   /* records that run as one batch; 0: 1024 */
} fl_serving_args;

/* Serves in threads of its own until it is stopped. The model stays the
   caller's, and goes after it. */
#define fl_serving_start(out, ctx, model, ...)                                 \
    fl_serving_start_with(out, ctx, model,                                     \
                          FL_OPTIONS(fl_serving_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_serving_start_with(fl_serving **out, fl_ctx *c, fl_model *m,
                                const fl_serving_args *args);
/* Requests that wait are told so; NULL is fine. */
FL_API void fl_serving_stop(fl_serving *s);

/* What callers dial, with the port that a 0 became; NULL when it does not
   listen so. */
FL_API const char *fl_serving_address(const fl_serving *s);
FL_API const char *fl_serving_http_address(const fl_serving *s);

/* --- rows of live servers ------------------------------------------------ */

/* For fl_model_options: rows come from the servers of a job that this process
   takes part in, as they are at that moment, and are only read. The servers
   answer for keys without a row, so none is counted as missing. The job stays
   the caller's, and goes after the model. */
FL_API FL_MUST_CHECK
fl_status fl_row_source_of_job(fl_row_source **out, fl_job *j);

/* The same for a process that takes no part in the job, whose server 0 is at
   `address`: the look token is enough. Keys without a row are counted as
   missing, and none is made. The job goes on as it does; when it ends, reads
   fail and say so. */
FL_API FL_MUST_CHECK
fl_status fl_row_source_of_servers(fl_row_source **out, fl_ctx *c,
                                   const char *address);

/* --- a caller ------------------------------------------------------------ */

typedef struct fl_remote_model fl_remote_model;

/* A model that another process serves. One thread at a time. */
FL_API FL_MUST_CHECK
fl_status fl_remote_model_open(fl_remote_model **out, fl_ctx *c,
                               const char *address);
FL_API void fl_remote_model_close(fl_remote_model *m);

/* Scores a batch: *outputs are the model's, by name, until the next run. Waits
   no longer than connect_timeout_ms and pending_timeout_ms together. */
FL_API FL_MUST_CHECK
fl_status fl_remote_model_run(fl_remote_model *m, const fl_feed *feeds,
                              size_t n_feeds, const fl_feed **outputs,
                              size_t *n_outputs);

#ifdef __cplusplus
}
#endif
#endif
