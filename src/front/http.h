/* http.h - a model over HTTP (docs/formats/predict.md):
 *
 *     POST /predict   {"inputs": {"ids": [[1, 2], [3]], "x": [[0.5], [1]]}}
 *     GET  /health    whether it serves, and which version
 *     GET  /metrics   counters as text, for Prometheus
 *
 * Needs libmicrohttpd; without it opening says so. Where there is a join token,
 * a request shows it: "Authorization: Bearer TOKEN". Owner thread only.
 */
#ifndef FL_FRONT_HTTP_H
#define FL_FRONT_HTTP_H

#include "conf/conf.h"
#include "front/scoring.h"

typedef struct fl_http fl_http;

/* The pool and the settings are the caller's and stay. */
FL_MUST_CHECK
fl_status fl_http_open(fl_http **out, fl_scoring *pool, const fl_conf *conf,
                       const char *listen);
/* Stops taking requests, then waits for those under way: the pool answers them
   or was stopped. NULL is fine. */
void fl_http_close(fl_http *h);

const char *fl_http_address(const fl_http *h);

#endif
