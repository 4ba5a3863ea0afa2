/* role_env.c - the role that the environment gives.
 *
 * The variables are those that launchers set. All of them are read first and
 * only then compared, so that an error depends on what is set and not on the
 * order in which somebody looked. An error names the variable, its value and a
 * line that would be right.
 *
 *     PADDLE_PSERVERS_IP_PORT_LIST                 a job with servers
 *     else PADDLE_TRAINER_ENDPOINTS, PADDLE_CURRENT_ENDPOINT
 *     or PADDLE_TRAINING_ROLE                      a collective job
 *     else                                         one process
 */
#include <errno.h>

#include "flotilla/words.h"
#include "base/log.h"
#include "fleet/role.h"
#include "rpc/stream/address.h"

/* More processes than anybody starts: a larger number is a typing error. */
#define MEMBERS_MAX 1000000

#define ROLE "TRAINING_ROLE"
#define SERVERS "PADDLE_PSERVERS_IP_PORT_LIST"
#define N_WORKERS "PADDLE_TRAINERS_NUM"
#define WORKER_ID "PADDLE_TRAINER_ID"
#define WORKERS "PADDLE_TRAINER_ENDPOINTS"
#define SERVER_ID "PADDLE_PSERVER_ID"
#define CURRENT "PADDLE_CURRENT_ENDPOINT"
#define COLLECTIVE_ROLE "PADDLE_TRAINING_ROLE"
#define HOST "POD_IP"
#define PORT "PADDLE_PORT"

/* Texts of the environment; NULL when a variable is not set or empty. */
typedef struct env {
    fl_env_get get;
    void *arg;
    const char *role, *servers, *n_workers, *worker_id, *workers;
    const char *server_id, *host, *port, *current;
    const char *proof;  /* the variable that says which kind of job; or NULL */
    bool is_collective; /* the program asks for it */
} env;

static const char *read_one(const env *e, const char *name)
{
    const char *text = e->get(e->arg, name);

    return text && text[strspn(text, " \t\n")] ? text : NULL;
}

static void read_all(env *e)
{
    e->role = read_one(e, ROLE);
    e->servers = read_one(e, SERVERS);
    e->n_workers = read_one(e, N_WORKERS);
    e->worker_id = read_one(e, WORKER_ID);
    e->workers = read_one(e, WORKERS);
    e->server_id = read_one(e, SERVER_ID);
    e->host = read_one(e, HOST);
    e->port = read_one(e, PORT);
    e->current = read_one(e, CURRENT);
    e->proof = e->servers                     ? SERVERS
               : e->workers                   ? WORKERS
               : e->current                   ? CURRENT
               : read_one(e, COLLECTIVE_ROLE) ? COLLECTIVE_ROLE
                                              : NULL;
}

/* --- what there is no role for -------------------------------------------- */

static const char *const heter_names[] = {
    "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
    "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST",
    "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST",
    "PADDLE_STAGE_TRAINERS_NUM",
    "HETER_DEVICE_TYPE",
    "PADDLE_COORDINATOR_ENDPOINTS",
};

/* What a launcher of collective jobs sets beside the endpoints. */
static fl_status refuse_both(const env *e)
{
    static const char *const names[] = {
        COLLECTIVE_ROLE,           CURRENT,
        "PADDLE_RANK_IN_NODE",     "PADDLE_LOCAL_DEVICE_IDS",
        "PADDLE_WORLD_DEVICE_IDS",
    };

    if (e->servers && e->is_collective)
        FL_FAIL(
            FL_ERR_INVAL,
            "the program asks for a collective job, which contradicts " SERVERS
            "=%.80s: it was started as one with servers; leave "
            "--server_num out, or is_collective",
            e->servers);
    for (size_t i = 0; e->servers && i < FL_LEN(names); i++)
        if (read_one(e, names[i]))
            FL_FAIL(FL_ERR_INVAL,
                    "%s=%.80s belongs to collective jobs and contradicts "
                    "%s=%.80s, which belongs to jobs with parameter servers; "
                    "unset one of them",
                    names[i], read_one(e, names[i]), SERVERS, e->servers);
    return FL_OK;
}

static fl_status refuse_heter(const env *e)
{
    for (size_t i = 0; i < FL_LEN(heter_names); i++) {
        const char *text = read_one(e, heter_names[i]);

        if (text)
            FL_FAIL(FL_ERR_INVAL,
                    "%s=%.80s is for jobs with workers on several kinds of "
                    "devices or with a coordinator of their own, which do not "
                    "exist here; unset it",
                    heter_names[i], text);
    }
    return FL_OK;
}

/* --- numbers -------------------------------------------------------------- */

static fl_status read_number(const char *name, const char *text, long lo,
                             long hi, const char *example, int *out)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(text, &end, 10);
    if (end == text || *end || errno || v < lo || v > hi)
        FL_FAIL(FL_ERR_INVAL,
                "%s=%.80s is no whole number from %ld to %ld; for example "
                "%s=%s",
                name, text, lo, hi, name, example);
    *out = (int)v;
    return FL_OK;
}

static fl_status missing(const env *e, const char *name, const char *example)
{
    FL_FAIL(FL_ERR_INVAL,
            "%s is not set, and %s=%.200s says that this is a %s; for example "
            "%s=%s",
            name, e->proof, read_one(e, e->proof),
            e->servers ? "job with servers" : "collective job", name, example);
}

/* --- a job ---------------------------------------------------------------- */

static fl_status read_kind(fl_fleet_role *r, const env *e)
{
    static const char *const others[] = { "HETER_TRAINER", "COORDINATOR",
                                          "ALL" };
    static const char *const known[] = { "TRAINER", "PSERVER" };
    const char *nearest;

    if (!e->role)
        return missing(e, ROLE, "TRAINER (or PSERVER)");
    for (size_t i = 0; i < FL_LEN(known); i++)
        if (!strcmp(e->role, known[i])) {
            r->kind = i ? FL_ROLE_SERVER : FL_ROLE_WORKER;
            return FL_OK;
        }
    for (size_t i = 0; i < FL_LEN(others); i++)
        if (!strcmp(e->role, others[i]))
            FL_FAIL(FL_ERR_INVAL,
                    ROLE "=%s: jobs here have workers and servers only, no "
                         "such member; for example " ROLE "=TRAINER",
                    e->role);
    nearest = fl_nearest_name(e->role, known, FL_LEN(known));
    FL_FAIL(FL_ERR_INVAL,
            ROLE "=%.80s is no role; there are TRAINER and PSERVER, for "
                 "example " ROLE "=%s",
            e->role, nearest ? nearest : "TRAINER");
}

static fl_status read_workers(fl_fleet_role *r, const env *e)
{
    int n = 0;

    if (e->n_workers)
        FL_TRY(read_number(N_WORKERS, e->n_workers, 1, MEMBERS_MAX, "2",
                           &r->n_workers));
    if (!e->workers && !e->n_workers)
        return missing(e, N_WORKERS, "2");
    if (!e->workers) {
        r->worker_endpoints = fl_strdup("");
        return FL_OK;
    }
    FL_TRY(fl_err_ctx(fl_fleet_role_read_workers(r, e->workers, &n),
                      WORKERS "=%.200s (for example " WORKERS
                              "=127.0.0.1:6180,127.0.0.1:6181)",
                      e->workers));
    if (e->n_workers && n != r->n_workers)
        FL_FAIL(FL_ERR_INVAL,
                N_WORKERS "=%d contradicts " WORKERS "=%.200s, which are %d; "
                          "for example " N_WORKERS "=%d",
                r->n_workers, e->workers, n, n);
    r->n_workers = n;
    return FL_OK;
}

static fl_status read_worker(fl_fleet_role *r, const env *e)
{
    if (!e->worker_id)
        return missing(e, WORKER_ID, "0");
    FL_TRY(
        read_number(WORKER_ID, e->worker_id, 0, MEMBERS_MAX, "0", &r->index));
    if (r->index >= r->n_workers)
        FL_FAIL(FL_ERR_INVAL,
                WORKER_ID "=%d contradicts %s, by which there are %d: workers "
                          "count from 0, for example " WORKER_ID "=%d",
                r->index, e->n_workers ? N_WORKERS : WORKERS, r->n_workers,
                r->n_workers - 1);
    return FL_OK;
}

/* The server at POD_IP:PADDLE_PORT; -1 when it is none of the list. */
static fl_status find_here(const fl_fleet_role *r, const env *e, int *out)
{
    int port;

    *out = -1;
    FL_TRY(read_number(PORT, e->port, 1, 65535, "6170", &port));
    for (int i = 0; i < r->n_servers; i++) {
        fl_address a;

        FL_TRY(fl_address_parse(&a, r->servers.data[i]));
        if (!a.is_unix && a.port == port && !strcmp(a.host, e->host))
            *out = i;
    }
    return FL_OK;
}

static fl_status read_server_id(fl_fleet_role *r, const env *e)
{
    FL_TRY(
        read_number(SERVER_ID, e->server_id, 0, MEMBERS_MAX, "0", &r->index));
    if (r->index >= r->n_servers)
        FL_FAIL(FL_ERR_INVAL,
                SERVER_ID "=%d contradicts " SERVERS "=%.200s, which are %d: "
                          "servers count from 0, for example " SERVER_ID "=%d",
                r->index, e->servers, r->n_servers, r->n_servers - 1);
    return FL_OK;
}

/* The number wins over an address that is not in the list: inside of a
   container an address is often another one than outside. */
static fl_status read_server(fl_fleet_role *r, const env *e)
{
    bool has_place = e->host && e->port;
    int here = -1;

    if (has_place)
        FL_TRY(find_here(r, e, &here));
    if (e->server_id) {
        FL_TRY(read_server_id(r, e));
        if (here >= 0 && here != r->index)
            FL_FAIL(FL_ERR_INVAL,
                    SERVER_ID "=%d contradicts " HOST "=%s and " PORT "=%s, "
                              "which are server %d of " SERVERS
                              "; for example " SERVER_ID "=%d",
                    r->index, e->host, e->port, here, here);
        return FL_OK;
    }
    if (!has_place)
        return missing(e, e->host ? PORT : HOST,
                       e->host ? "6170" : "127.0.0.1 (with " PORT "=6170)");
    if (here < 0)
        FL_FAIL(FL_ERR_INVAL,
                HOST "=%.80s and " PORT "=%s are no server of " SERVERS
                     "=%.200s; take an address of that list, for example " HOST
                     " and " PORT " of %s, or give " SERVER_ID "=0",
                e->host, e->port, e->servers, r->servers.data[0]);
    r->index = here;
    return FL_OK;
}

static fl_status read_job(fl_fleet_role *r, const env *e)
{
    FL_TRY(fl_err_ctx(fl_fleet_role_read_servers(r, e->servers),
                      SERVERS "=%.200s (for example " SERVERS
                              "=127.0.0.1:6170,127.0.0.1:6171)",
                      e->servers));
    FL_TRY(read_kind(r, e));
    FL_TRY(read_workers(r, e));
    return r->kind == FL_ROLE_WORKER ? read_worker(r, e) : read_server(r, e);
}

/* --- a collective job ----------------------------------------------------- */

static fl_status check_collective_role(const env *e)
{
    if (e->role && strcmp(e->role, "TRAINER"))
        FL_FAIL(FL_ERR_INVAL,
                ROLE "=%.80s, but " SERVERS " is not set: a collective job has "
                     "workers alone; for example " ROLE "=TRAINER",
                e->role);
    if (!e->workers)
        return missing(e, WORKERS, "127.0.0.1:6170,127.0.0.1:6171");
    return FL_OK;
}

/* By its number, by its address, or by both, which must be the same one. */
static fl_status read_peer(fl_fleet_role *r, const env *e)
{
    int here = e->current ? fl_fleet_role_find_worker(r, e->current) : -1;

    if (e->current && here < 0)
        FL_FAIL(FL_ERR_INVAL,
                CURRENT "=%.80s is no worker of " WORKERS "=%.200s; take an "
                        "address of that list",
                e->current, e->workers);
    if (e->worker_id)
        FL_TRY(read_worker(r, e));
    else if (e->current)
        r->index = here;
    else
        return missing(e, WORKER_ID, "0");
    if (e->current && here != r->index)
        FL_FAIL(FL_ERR_INVAL,
                WORKER_ID "=%d contradicts " CURRENT "=%.80s, which is worker "
                          "%d of " WORKERS "; for example " WORKER_ID "=%d",
                r->index, e->current, here, here);
    return FL_OK;
}

static fl_status read_collective(fl_fleet_role *r, const env *e)
{
    r->kind = FL_ROLE_WORKER;
    r->is_collective = true;
    r->server_endpoints = fl_strdup("");
    FL_TRY(check_collective_role(e));
    FL_TRY(read_workers(r, e));
    FL_TRY(fl_err_ctx(fl_fleet_role_check_listeners(r),
                      WORKERS "=%.200s (for example " WORKERS
                              "=127.0.0.1:6170,127.0.0.1:6171)",
                      e->workers));
    return read_peer(r, e);
}

/* --- one process ---------------------------------------------------------- */

static fl_status read_single(fl_fleet_role *r, const env *e)
{
    if (e->role && strcmp(e->role, "TRAINER"))
        FL_FAIL(FL_ERR_INVAL,
                ROLE "=%.80s, but " SERVERS " is not set: only a single "
                     "process has no servers; for example " SERVERS
                     "=127.0.0.1:6170,127.0.0.1:6171",
                e->role);
    if (e->is_collective && e->n_workers && strcmp(e->n_workers, "1"))
        FL_FAIL(FL_ERR_INVAL,
                N_WORKERS "=%.20s, but " WORKERS " is not set: the workers of "
                          "a collective job listen, each at an address of its "
                          "own; for example " WORKERS
                          "=127.0.0.1:6170,127.0.0.1:6171",
                e->n_workers);
    if (e->n_workers && strcmp(e->n_workers, "1"))
        FL_WARN("fleet", "%s=%s, but %s is not set: this process trains alone",
                N_WORKERS, e->n_workers, SERVERS);
    fl_fleet_role_make_single(r);
    return FL_OK;
}

static fl_status read_role(fl_fleet_role *r, env *e)
{
    read_all(e);
    FL_TRY(refuse_both(e));
    FL_TRY(refuse_heter(e));
    if (e->servers)
        return read_job(r, e);
    return e->proof ? read_collective(r, e) : read_single(r, e);
}

static fl_status role_of(fl_fleet_role *out, env *e)
{
    fl_fleet_role r = { 0 };
    fl_status st = read_role(&r, e);

    if (st) {
        fl_fleet_role_release(&r);
        return fl_err_ctx(st, "role from the environment");
    }
    *out = r;
    return FL_OK;
}

fl_status fl_fleet_role_of_env(fl_fleet_role *out, fl_env_get get, void *arg)
{
    return role_of(out, &(env){ .get = get, .arg = arg });
}

fl_status fl_fleet_role_of_env_collective(fl_fleet_role *out, fl_env_get get,
                                          void *arg)
{
    return role_of(out,
                   &(env){ .get = get, .arg = arg, .is_collective = true });
}
