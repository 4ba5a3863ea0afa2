/* exporter.c - GET /metrics over HTTP, by libmicrohttpd. */
#include "rpc/metrics/exporter.h"

#include "base/status.h"

#ifdef FL_HAS_MICROHTTPD

#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/prom.h"
#include "rpc/stream/address.h"
#include "rpc/wire/auth.h"

#define IDLE_SECONDS 60u
#define PORT_MAX 65535
#define BEARER "Bearer "

struct fl_exporter {
    fl_exporter_args a;
    char *token; /* "Bearer TOKEN"; NULL: none is asked for */
    struct MHD_Daemon *daemon;
    char address[FL_ADDRESS_MAX];
};

/* --- requests ------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *conn, unsigned code,
                              const char *type, fl_str *text)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        text->len, text->data, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done = MHD_NO;

    if (r) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        done = MHD_queue_response(conn, code, r);
        MHD_destroy_response(r);
    }
    fl_str_release(text);
    return done;
}

static enum MHD_Result refuse(struct MHD_Connection *conn, unsigned code,
                              const char *sentence)
{
    fl_str text = { 0 };

    fl_str_addf(&text, "%s\n", sentence);
    return answer(conn, code, "text/plain", &text);
}

/* In a time that does not depend on where they differ. */
static bool is_equal(const char *a, const char *b)
{
    size_t n = strlen(a);
    unsigned char differs = 0;

    if (n != strlen(b))
        return false;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

static bool may_ask(const fl_exporter *e, struct MHD_Connection *conn)
{
    const char *shown = MHD_lookup_connection_value(
        conn, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

    return !e->token || (shown && is_equal(shown, e->token));
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *conn,
                                  const char *path, const char *method,
                                  const char *version, const char *data,
                                  size_t *n, void **of_conn)
{
    const fl_exporter *e = arg;
    fl_str text = { 0 };

    (void)version, (void)data;
    /* The first call is for the head alone. */
    if (!*of_conn) {
        *of_conn = arg;
        return MHD_YES;
    }
    if (*n) {
        *n = 0;
        return MHD_YES;
    }
    if (!may_ask(e, conn))
        return refuse(conn, MHD_HTTP_UNAUTHORIZED,
                      "the look token is missing or another: Authorization: "
                      "Bearer TOKEN, which `flotilla look-token` prints");
    if (strcmp(path, "/metrics") != 0)
        return refuse(conn, MHD_HTTP_NOT_FOUND, "there is /metrics");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return refuse(conn, MHD_HTTP_METHOD_NOT_ALLOWED, "GET /metrics");
    e->a.write(e->a.arg, &text);
    return answer(conn, MHD_HTTP_OK, FL_PROM_TYPE, &text);
}

/* --- opening -------------------------------------------------------------- */

static fl_status check_door(const fl_conf *conf, const fl_address *a)
{
    if (conf->join_token[0] || conf->allow_no_token ||
        fl_address_is_loopback(a))
        return FL_OK;
    FL_FAIL(
        FL_ERR_INVAL,
        "setting metrics: there is no join token, and %s is beyond the "
        "loopback: anybody could ask; set join_token or join_token_file, or "
        "allow_no_token=true",
        conf->metrics);
}

/* A port of 0 is any that is free. */
static fl_status place_of(const fl_exporter_args *a, fl_address *out)
{
    FL_TRY(
        fl_err_ctx(fl_address_parse(out, a->conf->metrics), "setting metrics"));
    if (out->is_unix)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "setting metrics: %s is no HOST:PORT, which HTTP needs",
                a->conf->metrics);
    if (out->port + a->place > PORT_MAX)
        FL_FAIL(
            FL_ERR_INVAL,
            "setting metrics: port %u and %d more, for this process's place "
            "in the job, is above %d",
            out->port, a->place, PORT_MAX);
    if (out->port)
        out->port = (uint16_t)(out->port + a->place);
    return check_door(a->conf, out);
}

static fl_status listen_at(fl_exporter *e, fl_address *a)
{
    fl_place places[FL_PLACES_MAX];
    const union MHD_DaemonInfo *info;
    size_t n;

    FL_TRY(fl_address_look_up(a, FL_LOOKUP_NAMES, places, &n));
    e->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD |
            (places[0].sa.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0u),
        a->port, NULL, NULL, on_request, e, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)&places[0].sa, MHD_OPTION_CONNECTION_TIMEOUT,
        IDLE_SECONDS, MHD_OPTION_END);
    if (!e->daemon)
        FL_FAIL(FL_ERR_IO,
                "cannot listen at %s:%u for /metrics; is the port taken by "
                "another process? The setting metrics says where",
                a->host, a->port);
    info = MHD_get_daemon_info(e->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info)
        a->port = info->port;
    fl_address_text(a, e->address);
    FL_INFO("metrics", "http://%s/metrics", e->address);
    return FL_OK;
}

static void set_token(fl_exporter *e)
{
    char look[FL_LOOK_TOKEN_BYTES];
    fl_str text = { 0 };

    if (!e->a.conf->join_token[0])
        return;
    fl_auth_look_token(e->a.conf->join_token, look);
    fl_str_addf(&text, BEARER "%s", look);
    e->token = fl_str_take(&text);
}

fl_status fl_exporter_open(fl_exporter **out, const fl_exporter_args *a)
{
    fl_exporter *e;
    fl_address at;
    fl_status st;
    fl_err why;

    *out = NULL;
    if (!a->conf->metrics[0])
        return FL_OK;
    FL_TRY(place_of(a, &at));
    e = fl_alloc(sizeof(*e));
    e->a = *a;
    set_token(e);
    st = listen_at(e, &at);
    if (!st) {
        *out = e;
        return FL_OK;
    }
    fl_err_save(&why, st);
    fl_exporter_close(e);
    return fl_err_restore(&why);
}

void fl_exporter_close(fl_exporter *e)
{
    if (!e)
        return;
    if (e->daemon)
        MHD_stop_daemon(e->daemon);
    fl_free(e->token);
    fl_free(e);
}

const char *fl_exporter_address(const fl_exporter *e)
{
    return e->address;
}

#else

fl_status fl_exporter_open(fl_exporter **out, const fl_exporter_args *a)
{
    *out = NULL;
    if (!a->conf->metrics[0])
        return FL_OK;
    FL_FAIL(FL_ERR_UNSUPPORTED,
            "setting metrics: this library was built without libmicrohttpd, "
            "which HTTP needs; install libmicrohttpd-dev and build it again");
}

void fl_exporter_close(fl_exporter *e)
{
    (void)e;
}

const char *fl_exporter_address(const fl_exporter *e)
{
    (void)e;
    return NULL;
}

#endif
