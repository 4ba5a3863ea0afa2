/* exporter.h - GET /metrics over HTTP, for Prometheus.
 *
 * A process with the setting `metrics` answers there, in a thread of its own. A
 * job's processes share the setting, so each adds its place in the job to the
 * port. Where there is a join token, a request shows the look token:
 * "Authorization: Bearer TOKEN". Needs libmicrohttpd; without it opening says so.
 * Owner thread only.
 */
#ifndef FL_RPC_METRICS_EXPORTER_H
#define FL_RPC_METRICS_EXPORTER_H

#include "base/vec.h"
#include "conf/conf.h"

typedef struct fl_exporter fl_exporter;

typedef struct fl_exporter_args {
    const fl_conf *conf;
    int place; /* that is added to the port */
    /* Writes all numbers; in the exporter's thread. */
    void (*write)(void *arg, fl_str *out);
    void *arg;
} fl_exporter_args;

/* *out is NULL when the setting is empty. */
FL_MUST_CHECK
fl_status fl_exporter_open(fl_exporter **out, const fl_exporter_args *a);
/* When it returns nothing is written any more; NULL is fine. */
void fl_exporter_close(fl_exporter *e);

/* "127.0.0.1:9100". */
const char *fl_exporter_address(const fl_exporter *e);

#endif
