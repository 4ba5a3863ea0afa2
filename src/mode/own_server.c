/* own_server.c - the server of a job that is a part of one of its trainers. */
#include "mode/own_server.h"

#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/vec.h"
#include "conf/patience.h"
#include "ps/options.h"
#include "rpc/stream/address.h"

static bool is_same_host(const char *a, const char *b)
{
    fl_address x, y;

    if (fl_address_parse(&x, a) || fl_address_parse(&y, b))
        return false;
    return x.is_unix == y.is_unix && !strcmp(x.host, y.host);
}

/* Workers of one machine share its cores, and they train as well. */
static int count_loops(const fl_dist_config *d)
{
    int n = 0;

    for (int i = 0; i < d->n_servers; i++)
        n += is_same_host(d->servers[i], d->servers[d->rank]);
    return n && fl_cpu_count() > n ? fl_cpu_count() / n : 1;
}

fl_status fl_own_server_open(fl_server **out, const fl_own_server_args *a)
{
    const fl_dist_config *d = &a->dist->config;
    fl_server_options o = fl_server_options_of(a->conf);

    o.servers = d->servers;
    o.n_servers = d->n_servers;
    o.n_trainers = d->n_trainers;
    o.rank = d->rank;
    o.are_workers = true;
    o.restart_timeout_ms = fl_patience_ms(a->conf, FL_JOB_OF_WORKERS);
    o.ops = a->dist->main->ops;
    o.model = a->model;
    o.plan = a->plan;
    if (!o.n_loops)
        o.n_loops = count_loops(d);
    FL_TRY(fl_server_check_door(&o));
    return fl_err_ctx(fl_server_new(out, a->net, NULL, &o), "worker %d",
                      d->rank);
}

fl_status fl_own_server_serve_out(fl_server *s, const fl_dist *d)
{
    return fl_err_ctx(fl_server_wait_result(s), "worker %d", d->config.rank);
}

void fl_own_server_give_up(fl_server *s, const fl_dist *d)
{
    fl_str why = { 0 };

    fl_str_addf(&why,
                "worker %d (%s) ended before the job was over, and what it "
                "held is gone: see why it ended, and start the job again",
                d->config.rank, d->config.servers[d->config.rank]);
    fl_server_give_up(s, fl_str_text(&why));
    fl_str_release(&why);
}

void fl_own_server_close(fl_server *s)
{
    if (s && fl_server_wait(s))
        FL_INFO("ps", "%s", fl_last_error());
    fl_server_free(s);
}
