/* redis.h - rows of a saved model in Redis, for processes that score elsewhere.
 *
 *     fl_redis_export("models/ctr", NULL, .address = "127.0.0.1:6379");
 *
 *     fl_row_source_of_redis(&rows, .address = "127.0.0.1:6379");
 *     fl_model_open(&m, "models/ctr", .rows = rows);
 *
 * What is written there is in docs/formats/redis.md. Without hiredis, which the
 * library is built with when it is there, everything here is refused with
 * FL_ERR_UNSUPPORTED.
 */
#ifndef FLOTILLA_REDIS_H
#define FLOTILLA_REDIS_H

#include "flotilla/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_redis_args {
    uint32_t size;
    const char *address;  /* "host:port" or "unix:path" */
    const char *name;     /* of the model there; NULL: "model" */
    const char *password; /* NULL: none */
    int timeout_ms;       /* to connect, and for each answer; 0: 5000 */
} fl_redis_args;

typedef struct fl_redis_report {
    uint32_t size;
    uint64_t rows, bytes;      /* that were written */
    uint64_t gone;             /* rows of a delta that are no more */
    uint64_t removed_versions; /* old ones, and what dead exports left */
    bool is_delta;             /* only what changed was written */
} fl_redis_report;

/* Brings the rows of a model (a directory, whose CURRENT counts, or a version)
   to Redis and makes readers use them by changing one key; then the version
   that was there before is removed. A delta is brought alone when Redis has its
   base. After an error readers have what they had. report may be NULL. */
#define fl_redis_export(path, report, ...)                                     \
    fl_redis_export_with(path, report, FL_OPTIONS(fl_redis_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_redis_export_with(const char *path, fl_redis_report *report,
                               const fl_redis_args *args);

/* For fl_model_options. One round trip for each batch and table; every thread
   that reads has a connection of its own. */
#define fl_row_source_of_redis(out, ...)                                       \
    fl_row_source_of_redis_with(out, FL_OPTIONS(fl_redis_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_row_source_of_redis_with(fl_row_source **out,
                                      const fl_redis_args *args);

#ifdef __cplusplus
}
#endif
#endif
