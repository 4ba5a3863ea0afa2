/* endpoints.c - the list of a job's servers, and the net. */
#include "dist/endpoints.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "dist/job_key.h"

/* --- the list of servers -------------------------------------------------- */

static fl_status add_server(fl_endpoints *e, const char *at, size_t len)
{
    char *address;

    while (len && isspace((unsigned char)*at)) {
        at++;
        len--;
    }
    while (len && isspace((unsigned char)at[len - 1]))
        len--;
    address = fl_alloc(len + 1);
    memcpy(address, at, len);
    fl_vec_push(&e->servers, address);
    FL_TRY(fl_address_check(address));
    for (size_t i = 0; i + 1 < e->servers.len; i++)
        if (!strcmp(e->servers.data[i], address))
            FL_FAIL(FL_ERR_INVAL, "%s is there twice", address);
    return FL_OK;
}

static fl_status read_servers(fl_endpoints *e, const char *text)
{
    if (!text || !*text)
        FL_FAIL(FL_ERR_INVAL,
                "there are none; give \"host:port,host:port\", the same to all "
                "members");
    for (;;) {
        size_t len = strcspn(text, ",");

        FL_TRY(add_server(e, text, len));
        if (!text[len])
            return FL_OK;
        text += len + 1;
    }
}

/* --- the net -------------------------------------------------------------- */

static fl_status open_tls(fl_endpoints *e, const fl_conf *conf)
{
    fl_tls_files files = { conf->tls_ca, conf->tls_cert, conf->tls_key };
    int n = !!*files.ca + !!*files.cert + !!*files.key;

    if (!n)
        return FL_OK;
    if (n < 3)
        FL_FAIL(FL_ERR_INVAL,
                "setting %s is empty: TLS needs tls_ca, tls_cert and tls_key, "
                "or none of them",
                !*files.ca     ? "tls_ca"
                : !*files.cert ? "tls_cert"
                               : "tls_key");
    return fl_tls_new(&e->tls, &files);
}

static fl_local_use local_use(const fl_conf *conf)
{
    return !strcmp(conf->local_transport, "off")     ? FL_LOCAL_OFF
           : !strcmp(conf->local_transport, "force") ? FL_LOCAL_FORCE
                                                     : FL_LOCAL_AUTO;
}

static fl_status open_net(fl_endpoints *e, const fl_conf *conf)
{
    fl_socket_options o = { .local = local_use(conf),
                            .job = fl_hash_str(conf->job) };

    FL_TRY(open_tls(e, conf));
    o.tls = e->tls;
    return fl_net_sockets(&e->net, &o);
}

fl_status fl_endpoints_open(fl_endpoints *out, fl_conf *conf,
                            const char *servers)
{
    fl_endpoints e = { 0 };
    fl_status st =
        fl_err_ctx(read_servers(&e, servers), "servers of job %s", conf->job);

    if (!st)
        st = fl_job_key_load(conf);
    if (!st)
        st = open_net(&e, conf);
    if (st) {
        fl_endpoints_close(&e);
        return st;
    }
    *out = e;
    return FL_OK;
}

void fl_endpoints_close(fl_endpoints *e)
{
    for (size_t i = 0; i < e->servers.len; i++)
        fl_free(e->servers.data[i]);
    fl_vec_release(&e->servers);
    fl_net_free_sockets(e->net);
    fl_tls_free(e->tls);
    e->net = NULL;
    e->tls = NULL;
}
