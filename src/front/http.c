/* http.c - requests over HTTP, by libmicrohttpd.
 *
 * An exchange takes the body in, asks the pool and is suspended until a scoring
 * thread has its answer; so one thread of the library serves many connections,
 * and their requests run as one batch. `answer` is written by the scoring thread
 * before it resumes the connection, and read by the library's thread after that.
 */
#include "front/http.h"

#include "base/status.h"

#ifdef FL_HAS_MICROHTTPD

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/prom.h"
#include "front/door.h"
#include "front/http_json.h"
#include "rpc/wire/frame.h"
#include "rpc/stream/address.h"

/* A body of JSON; cJSON makes forty times as much of it at the worst. */
#define BODY_MAX ((size_t)8 << 20)
#define ARENA_BYTES 4096
#define IDLE_SECONDS 60u

struct fl_http {
    fl_scoring *pool;
    char *token; /* "Bearer TOKEN"; NULL: none is asked for */
    struct MHD_Daemon *daemon;
    char address[FL_ADDRESS_MAX];
};

/* One request and its answer. */
typedef struct exchange {
    fl_score score; /* the first member */
    fl_http *http;
    struct MHD_Connection *conn;
    fl_pack body;
    bool is_asked, is_too_large;
    fl_arena arena;
    char *answer; /* NULL: none yet */
    unsigned code;
    const char *type;
} exchange;

typedef struct route {
    const char *method, *path;
    bool (*run)(exchange *x); /* true: it waits, and comes back */
} route;

/* --- answers -------------------------------------------------------------- */

static void set_answer(exchange *x, unsigned code, const char *type, char *text)
{
    fl_free(x->answer);
    x->answer = text;
    x->code = code;
    x->type = type;
}

static void set_error(exchange *x, unsigned code, const char *sentence)
{
    set_answer(x, code, "application/json", fl_http_error(sentence));
}

/* Who is at fault, by the status. */
static unsigned code_of(fl_status st)
{
    switch (st) {
    case FL_ERR_INVAL:
    case FL_ERR_TYPE:
    case FL_ERR_CORRUPT:
    case FL_ERR_NOTFOUND:
        return MHD_HTTP_BAD_REQUEST;
    case FL_ERR_BUSY:
    case FL_ERR_CLOSED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static enum MHD_Result queue_answer(exchange *x)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(x->answer), x->answer, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done;

    if (!r)
        return MHD_NO;
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, x->type);
    done = MHD_queue_response(x->conn, x->code, r);
    MHD_destroy_response(r);
    return done;
}

/* --- /predict ------------------------------------------------------------- */

static fl_model_stats stats_of(const exchange *x)
{
    fl_model_stats s = FL_INIT(fl_model_stats, .runs = 0);

    FL_ASSERT(!fl_model_stats_get(fl_scoring_model(x->http->pool), &s));
    return s;
}

static void on_scored(fl_score *s, fl_status st, const fl_tensor *outputs)
{
    exchange *x = (exchange *)s;
    fl_model_stats now = stats_of(x);
    size_t n;
    const fl_model_var *v = fl_scoring_outputs(x->http->pool, &n);

    if (st)
        set_error(x, code_of(st), fl_last_error());
    else
        set_answer(x, MHD_HTTP_OK, "application/json",
                   fl_http_write(v, outputs, n, now.version));
    MHD_resume_connection(x->conn);
}

static fl_status read_body(exchange *x)
{
    fl_scoring *pool = x->http->pool;
    const fl_model *m = fl_scoring_model(pool);
    size_t n_inputs, n;
    fl_feed *feeds;

    FL_TRY(fl_http_read((const char *)x->body.data, x->body.len, m, &x->arena,
                        &feeds, &n));
    (void)fl_model_inputs(m, &n_inputs);
    x->score.feeds = fl_arena_alloc(&x->arena, (n_inputs + 1) * sizeof(*feeds));
    x->score.done = on_scored;
    return fl_scoring_check(pool, feeds, n, &x->score);
}

static bool predict(exchange *x)
{
    fl_status st = read_body(x);

    if (st) {
        set_error(x, code_of(st), fl_last_error());
        return false;
    }
    /* Before the question: its answer may come at once. */
    MHD_suspend_connection(x->conn);
    st = fl_scoring_ask(x->http->pool, &x->score);
    if (st) {
        set_error(x, code_of(st), fl_last_error());
        MHD_resume_connection(x->conn);
    }
    return true;
}

/* --- /health and /metrics ------------------------------------------------- */

static bool health(exchange *x)
{
    fl_model_stats s = stats_of(x);
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_text(&j, "status", "ok");
    fl_json_text(&j, "version", s.version);
    fl_json_end(&j);
    set_answer(x, MHD_HTTP_OK, "application/json", fl_json_take(&j));
    return false;
}

/* What the counters of the pool are called there, in their order. */
static const fl_prom_def of_pool[] = {
    { "requests_total", FL_PROM_COUNTER, "Requests that were taken." },
    { "failed_total", FL_PROM_COUNTER, "Requests that had an error." },
    { "refused_total", FL_PROM_COUNTER, "Requests that were not taken." },
    { "batches_total", FL_PROM_COUNTER, "Batches that requests ran as." },
    { "records_total", FL_PROM_COUNTER, "Records that were scored." },
    { "answered_seconds_total", FL_PROM_COUNTER,
      "From asking to the answer, of all requests together." },
    { "waiting", FL_PROM_GAUGE, "Requests without an answer yet." },
};
_Static_assert(FL_LEN(of_pool) == FL_LEN(fl_scoring_stats_defs),
               "one per counter");

static void add_pool(fl_str *out, const fl_scoring_stats *stats)
{
    const fl_stats_list *l = &fl_scoring_stats_list;
    const fl_stat *at = (const fl_stat *)stats;

    for (size_t i = 0; i < l->n; i++) {
        bool is_time = l->defs[i].type == FL_STAT_SECONDS;

        fl_prom_one(out, &of_pool[i],
                    (double)fl_stat_get(&at[i]) / (is_time ? 1e9 : 1));
    }
}

static void add_model(fl_str *out, const fl_model_stats *s)
{
    static const fl_prom_def rows = { "rows_total", FL_PROM_COUNTER,
                                      "Rows that were looked up." };
    static const fl_prom_def missing = { "missing_rows_total", FL_PROM_COUNTER,
                                         "Rows that the model has not." };
    static const fl_prom_def taken = { "versions_taken_total", FL_PROM_COUNTER,
                                       "Versions that were served." };
    static const fl_prom_def refused = { "versions_refused_total",
                                         FL_PROM_COUNTER,
                                         "Versions that could not be." };
    static const fl_prom_def version = { "version", FL_PROM_GAUGE,
                                         "The version that is served; always "
                                         "1." };

    fl_prom_one(out, &rows, (double)s->rows);
    fl_prom_one(out, &missing, (double)s->missing_rows);
    fl_prom_one(out, &taken, (double)s->versions);
    fl_prom_one(out, &refused, (double)s->refused);
    fl_prom_begin(out, &version);
    fl_prom_add(out, &version, "id", s->version, 1);
}

static bool metrics(exchange *x)
{
    fl_model_stats s = stats_of(x);
    fl_str out = { 0 };

    add_pool(&out, fl_scoring_stats_of(x->http->pool));
    add_model(&out, &s);
    set_answer(x, MHD_HTTP_OK, FL_PROM_TYPE, fl_str_take(&out));
    return false;
}

/* --- requests ------------------------------------------------------------- */

static const route routes[] = {
    { MHD_HTTP_METHOD_POST, "/predict", predict },
    { MHD_HTTP_METHOD_GET, "/health", health },
    { MHD_HTTP_METHOD_GET, "/metrics", metrics },
};

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

static bool may_ask(const exchange *x)
{
    const char *shown = MHD_lookup_connection_value(
        x->conn, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

    return !x->http->token || (shown && is_equal(shown, x->http->token));
}

static bool dispatch(exchange *x, const char *method, const char *path)
{
    bool has_path = false;

    for (size_t i = 0; i < FL_LEN(routes); i++) {
        if (strcmp(routes[i].path, path))
            continue;
        has_path = true;
        if (!strcmp(routes[i].method, method))
            return routes[i].run(x);
    }
    set_error(x, has_path ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND,
              has_path ? "another method is used here: POST for /predict, GET "
                         "for the others"
                       : "there is /predict, /health and /metrics");
    return false;
}

/* True: the answer comes later. */
static bool start(exchange *x, const char *method, const char *path)
{
    if (!may_ask(x))
        set_error(x, MHD_HTTP_UNAUTHORIZED,
                  "the join token is missing or another: Authorization: "
                  "Bearer TOKEN");
    else if (x->is_too_large)
        set_error(x, MHD_HTTP_CONTENT_TOO_LARGE,
                  "the body is larger than 8 MB; ask for fewer records at a "
                  "time");
    else
        return dispatch(x, method, path);
    return false;
}

static void take_body(exchange *x, const char *data, size_t n)
{
    x->is_too_large = x->is_too_large || x->body.len + n > BODY_MAX;
    if (!x->is_too_large)
        fl_pack_bytes(&x->body, data, n);
}

static exchange *exchange_new(fl_http *h, struct MHD_Connection *conn)
{
    exchange *x = fl_alloc(sizeof(*x));

    x->http = h;
    x->conn = conn;
    fl_arena_init(&x->arena, ARENA_BYTES);
    return x;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *conn,
                                  const char *path, const char *method,
                                  const char *version, const char *data,
                                  size_t *n, void **of_conn)
{
    exchange *x = *of_conn;

    (void)version;
    if (!x) {
        *of_conn = exchange_new(arg, conn);
        return MHD_YES;
    }
    if (*n) {
        take_body(x, data, *n);
        *n = 0;
        return MHD_YES;
    }
    if (!x->is_asked) {
        x->is_asked = true;
        if (start(x, method, path))
            return MHD_YES;
    }
    return queue_answer(x);
}

static void on_completed(void *arg, struct MHD_Connection *conn, void **of_conn,
                         enum MHD_RequestTerminationCode why)
{
    exchange *x = *of_conn;

    (void)arg, (void)conn, (void)why;
    if (!x)
        return;
    fl_arena_release(&x->arena);
    fl_pack_release(&x->body);
    fl_free(x->answer);
    fl_free(x);
    *of_conn = NULL;
}

/* --- opening -------------------------------------------------------------- */

static fl_status listen_at(fl_http *h, const char *listen)
{
    fl_place places[FL_PLACES_MAX];
    fl_address a;
    size_t n;
    const union MHD_DaemonInfo *info;

    FL_TRY(fl_address_parse(&a, listen));
    if (a.is_unix)
        FL_FAIL(FL_ERR_UNSUPPORTED, "%s: HTTP is for HOST:PORT", listen);
    FL_TRY(fl_address_look_up(&a, FL_LOOKUP_NAMES, places, &n));
    h->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            (places[0].sa.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0u),
        a.port, NULL, NULL, on_request, h, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)&places[0].sa, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, h, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
        MHD_OPTION_END);
    if (!h->daemon)
        FL_FAIL(FL_ERR_IO,
                "cannot listen at %s for HTTP; is the port taken by another "
                "process?",
                listen);
    info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info)
        a.port = info->port;
    fl_address_text(&a, h->address);
    return FL_OK;
}

fl_status fl_http_open(fl_http **out, fl_scoring *pool, const fl_conf *conf,
                       const char *listen)
{
    fl_http *h;
    fl_status st;

    FL_TRY(fl_door_check(conf, listen));
    h = fl_alloc(sizeof(*h));
    h->pool = pool;
    if (conf->join_token[0]) {
        fl_str token = { 0 };

        fl_str_addf(&token, "Bearer %s", conf->join_token);
        h->token = fl_str_take(&token);
    }
    st = listen_at(h, listen);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_http_close(h);
        return fl_err_restore(&why);
    }
    *out = h;
    return FL_OK;
}

void fl_http_close(fl_http *h)
{
    if (!h)
        return;
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    fl_free(h->token);
    fl_free(h);
}

const char *fl_http_address(const fl_http *h)
{
    return h->address;
}

#else

fl_status fl_http_open(fl_http **out, fl_scoring *pool, const fl_conf *conf,
                       const char *listen)
{
    (void)out, (void)pool, (void)conf;
    FL_FAIL(FL_ERR_UNSUPPORTED,
            "%s: this library was built without libmicrohttpd, which HTTP "
            "needs; install libmicrohttpd-dev and build it again",
            listen);
}

void fl_http_close(fl_http *h)
{
    (void)h;
}

const char *fl_http_address(const fl_http *h)
{
    (void)h;
    return NULL;
}

#endif
