/* role.c - lists of endpoints, and roles that the user defines. */
#include "fleet/role.h"

#include <ctype.h>

#include "rpc/stream/stream.h"

static char *trimmed(const char *at, size_t len)
{
    char *text;

    while (len && isspace((unsigned char)*at)) {
        at++;
        len--;
    }
    while (len && isspace((unsigned char)at[len - 1]))
        len--;
    text = fl_alloc(len + 1);
    memcpy(text, at, len);
    return text;
}

static fl_status add_server(fl_fleet_role *r, char *endpoint)
{
    for (size_t i = 0; i < r->servers.len; i++)
        if (!strcmp(r->servers.data[i], endpoint)) {
            (void)fl_err_set(FL_ERR_INVAL, "%s is there twice", endpoint);
            fl_free(endpoint);
            return FL_ERR_INVAL;
        }
    fl_vec_push(&r->servers, endpoint);
    return fl_address_check(endpoint);
}

fl_status fl_fleet_role_read_servers(fl_fleet_role *r, const char *text)
{
    fl_str all = { 0 };
    size_t len;

    for (;; text += len + 1) {
        fl_status st;

        len = strcspn(text, ",");
        st = add_server(r, trimmed(text, len));
        if (st) {
            fl_str_release(&all);
            return st;
        }
        fl_str_addf(&all, "%s%s", all.len ? "," : "",
                    r->servers.data[r->servers.len - 1]);
        if (!text[len])
            break;
    }
    r->server_endpoints = fl_str_take(&all);
    r->n_servers = (int)r->servers.len;
    return FL_OK;
}

fl_status fl_fleet_role_read_workers(fl_fleet_role *r, const char *text, int *n)
{
    fl_str all = { 0 };
    size_t len;
    int count = 0;

    for (;; text += len + 1) {
        char *endpoint;

        len = strcspn(text, ",");
        endpoint = trimmed(text, len);
        if (!*endpoint) {
            fl_free(endpoint);
            fl_str_release(&all);
            FL_FAIL(FL_ERR_INVAL, "worker %d has no address", count);
        }
        fl_str_addf(&all, "%s%s", count++ ? "," : "", endpoint);
        fl_free(endpoint);
        if (!text[len])
            break;
    }
    fl_free(r->worker_endpoints);
    r->worker_endpoints = fl_str_take(&all);
    *n = count;
    return FL_OK;
}

/* Calls for each of worker_endpoints, until it fails. */
static fl_status for_each_worker(const fl_fleet_role *r,
                                 fl_status (*fn)(void *arg, int i,
                                                 const char *at, size_t len),
                                 void *arg)
{
    const char *at = r->worker_endpoints ? r->worker_endpoints : "";

    for (int i = 0; *at; i++) {
        size_t len = strcspn(at, ",");

        FL_TRY(fn(arg, i, at, len));
        at += len + (at[len] == ',');
    }
    return FL_OK;
}

typedef struct wanted {
    const char *address;
    int i; /* where it is first; -1: nowhere */
} wanted;

static fl_status note_if_wanted(void *arg, int i, const char *at, size_t len)
{
    wanted *w = arg;

    if (w->i < 0 && strlen(w->address) == len && !memcmp(w->address, at, len))
        w->i = i;
    return FL_OK;
}

int fl_fleet_role_find_worker(const fl_fleet_role *r, const char *address)
{
    wanted w = { address, -1 };
    fl_status st = for_each_worker(r, note_if_wanted, &w);

    FL_ASSERT(!st);
    return w.i;
}

static fl_status check_listener(void *arg, int i, const char *at, size_t len)
{
    const fl_fleet_role *r = arg;
    char *address = trimmed(at, len);
    fl_status st = fl_address_check(address);

    if (!st && fl_fleet_role_find_worker(r, address) != i)
        st = fl_err_set(FL_ERR_INVAL, "%s is there twice", address);
    fl_free(address);
    return fl_err_ctx(st, "worker %d", i);
}

fl_status fl_fleet_role_check_listeners(const fl_fleet_role *r)
{
    return for_each_worker(r, check_listener, (void *)(uintptr_t)r);
}

void fl_fleet_role_make_single(fl_fleet_role *r)
{
    fl_fleet_role_release(r);
    *r = (fl_fleet_role){ .kind = FL_ROLE_WORKER,
                          .is_single = true,
                          .n_workers = 1,
                          .worker_endpoints = fl_strdup(""),
                          .server_endpoints = fl_strdup("") };
}

void fl_fleet_role_release(fl_fleet_role *r)
{
    for (size_t i = 0; i < r->servers.len; i++)
        fl_free(r->servers.data[i]);
    fl_vec_release(&r->servers);
    fl_free(r->worker_endpoints);
    fl_free(r->server_endpoints);
    r->worker_endpoints = r->server_endpoints = NULL;
}

/* --- defined by the user -------------------------------------------------- */

static bool is_empty(const char *text)
{
    return !text || !text[strspn(text, " \t\n")];
}

/* Without servers there is one process, and it can only be worker 0. */
static fl_status check_single(const fl_role_args *a, int n_workers)
{
    if (a->role == FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL, "a server needs server_endpoints, for example "
                              "\"127.0.0.1:6170,127.0.0.1:6171\"");
    if (n_workers > 1)
        FL_FAIL(FL_ERR_INVAL,
                "%d workers need servers: server_endpoints is empty; give it, "
                "for example \"127.0.0.1:6170\", set is_collective for a job "
                "without servers, or leave worker_num 1 for a single process",
                n_workers);
    if (a->current_id)
        FL_FAIL(FL_ERR_INVAL,
                "current_id %d: without server_endpoints there is one process, "
                "whose current_id is 0",
                a->current_id);
    return FL_OK;
}

static fl_status count_workers(fl_fleet_role *r, const fl_role_args *a)
{
    int n = 0;

    r->n_workers = a->worker_num;
    if (is_empty(a->worker_endpoints)) {
        r->worker_endpoints = fl_strdup("");
        return FL_OK;
    }
    FL_TRY(fl_err_ctx(fl_fleet_role_read_workers(r, a->worker_endpoints, &n),
                      "worker_endpoints"));
    if (a->worker_num && a->worker_num != n)
        FL_FAIL(FL_ERR_INVAL,
                "worker_num %d contradicts worker_endpoints, which are %d; "
                "give one of them",
                a->worker_num, n);
    r->n_workers = n;
    return FL_OK;
}

static fl_status check_job(const fl_fleet_role *r)
{
    bool is_server = r->kind == FL_ROLE_SERVER;
    int n = is_server ? r->n_servers : r->n_workers;

    if (r->n_workers < 1)
        FL_FAIL(FL_ERR_INVAL,
                "worker_num %d: a job needs its number of workers, the same "
                "for every process, for example .worker_num = 2",
                r->n_workers);
    if (r->index < 0 || r->index >= n)
        FL_FAIL(FL_ERR_INVAL,
                "current_id %d is no %s of this job, which has %d: they count "
                "from 0",
                r->index, is_server ? "server" : "worker", n);
    return FL_OK;
}

bool fl_fleet_role_asks_env(const fl_role_args *a)
{
    return a->is_collective && !a->role && !a->current_id && !a->worker_num &&
           !a->worker_endpoints && !a->server_endpoints;
}

/* All processes are workers; one alone needs no address. */
static fl_status check_collective(const fl_role_args *a, int n_workers)
{
    if (a->role == FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "role FL_ROLE_SERVER: a collective job has workers alone; "
                "leave is_collective false, or be a worker");
    if (!is_empty(a->server_endpoints))
        FL_FAIL(FL_ERR_INVAL,
                "server_endpoints %.80s contradicts is_collective: such a job "
                "has workers alone; give one of them",
                a->server_endpoints);
    if (n_workers > 1 && is_empty(a->worker_endpoints))
        FL_FAIL(FL_ERR_INVAL,
                "worker_endpoints is empty: the %d workers of a collective job "
                "listen, each at an address of its own; give them, for example "
                "\"127.0.0.1:6170,127.0.0.1:6171\"",
                n_workers);
    if (is_empty(a->worker_endpoints) && a->current_id)
        FL_FAIL(FL_ERR_INVAL,
                "current_id %d: without worker_endpoints there is one process, "
                "whose current_id is 0",
                a->current_id);
    return FL_OK;
}

static fl_status read_collective(fl_fleet_role *r, const fl_role_args *a)
{
    FL_TRY(check_collective(a, r->n_workers));
    if (is_empty(a->worker_endpoints)) {
        fl_fleet_role_make_single(r);
        return FL_OK;
    }
    r->is_collective = true;
    r->server_endpoints = fl_strdup("");
    FL_TRY(fl_err_ctx(fl_fleet_role_check_listeners(r), "worker_endpoints"));
    return check_job(r);
}

static fl_status read_args(fl_fleet_role *r, const fl_role_args *a)
{
    if (a->role && a->role != FL_ROLE_WORKER && a->role != FL_ROLE_SERVER)
        FL_FAIL(FL_ERR_INVAL,
                "role %d: there are FL_ROLE_WORKER and FL_ROLE_SERVER",
                (int)a->role);
    r->kind = a->role ? a->role : FL_ROLE_WORKER;
    r->index = a->current_id;
    FL_TRY(count_workers(r, a));
    if (a->is_collective)
        return read_collective(r, a);
    if (is_empty(a->server_endpoints)) {
        FL_TRY(check_single(a, r->n_workers));
        fl_fleet_role_make_single(r);
        return FL_OK;
    }
    FL_TRY(fl_err_ctx(fl_fleet_role_read_servers(r, a->server_endpoints),
                      "server_endpoints"));
    return check_job(r);
}

fl_status fl_fleet_role_of_args(fl_fleet_role *out, const fl_role_args *a)
{
    fl_fleet_role r = { 0 };
    fl_status st = fl_err_ctx(read_args(&r, a), "role");

    if (st) {
        fl_fleet_role_release(&r);
        return st;
    }
    *out = r;
    return FL_OK;
}
