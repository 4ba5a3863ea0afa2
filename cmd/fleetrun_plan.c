/* fleetrun_plan.c - who runs where, with which port.
 *
 * Every machine, and every task of a scheduler, makes the same plan from the
 * same options; then each starts what is its own. In a job without servers it
 * is the workers that listen.
 */
#include "fleetrun.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LOOPBACK "127.0.0.1"
/* Tasks of a cluster cannot look for free ports together: the name of their
   job says where in this range they begin. */
#define TASK_PORT_FIRST 20000
#define TASK_PORTS 10000
#define NAME_MAX_LEN 63 /* of the setting job */

static const char *role_name(run_role role)
{
    return role == RUN_SERVER ? "server" : "worker";
}

static proc *new_procs(room *r, int n_servers, int n_workers)
{
    int n = n_servers + n_workers;
    proc *procs = room_take(r, (size_t)n * sizeof(*procs));

    for (int i = 0; i < n; i++) {
        bool serves = i < n_servers;

        procs[i].role = serves ? RUN_SERVER : RUN_WORKER;
        procs[i].index = serves ? i : i - n_servers;
        procs[i].name =
            room_text(r, "%s %d", role_name(procs[i].role), procs[i].index);
    }
    return procs;
}

static int n_procs(const job *j)
{
    return j->n_servers + j->n_workers;
}

/* --- the lists of the options --------------------------------------------- */

typedef struct lists {
    const char *server_option; /* --servers or --endpoints */
    place *servers, *workers;  /* NULL: not given */
    int n_servers, n_workers;
} lists;

static int check_count(const char *list, int n, const char *option, int given)
{
    if (given && given != n)
        return run_misused("%s=%d, but %s names %d", option, given, list, n);
    return RUN_OK;
}

static int read_lists(lists *l, room *r, const run_options *o)
{
    const char *servers = o->servers ? o->servers : o->endpoints;
    int code = RUN_OK;

    *l = (lists){ .server_option = o->servers ? "--servers" : "--endpoints",
                  .n_servers = o->server_num,
                  .n_workers =
                      o->worker_num ? o->worker_num : o->nproc_per_node };
    if (o->servers && o->endpoints)
        return run_misused("--servers and --endpoints are the same; give one");
    if (servers)
        code = places_read(r, l->server_option, servers, &l->servers,
                           &l->n_servers);
    if (!code && servers)
        code = check_count(l->server_option, l->n_servers, "--server_num",
                           o->server_num);
    if (!code && o->workers)
        code =
            places_read(r, "--workers", o->workers, &l->workers, &l->n_workers);
    if (!code && o->workers)
        code = check_count("--workers", l->n_workers, "--worker_num",
                           o->worker_num);
    return code;
}

static int check_there_are(const lists *l)
{
    if (l->n_workers)
        return RUN_OK;
    return run_misused("--worker_num is missing; for example %s",
                       l->n_servers ? "--server_num=1 --worker_num=2"
                                    : "--worker_num=4, or --server_num=1 "
                                      "--worker_num=2 with servers");
}

static int check_other(const lists *l, run_role missing)
{
    bool serves = missing == RUN_SERVER;
    const place *other = serves ? l->workers : l->servers;
    int n = serves ? l->n_workers : l->n_servers;

    for (int i = 0; other && i < n; i++)
        if (!host_is_here(other[i].host))
            return run_misused("%s is missing: %s names %s, which is another "
                               "machine",
                               serves ? "--servers" : "--workers",
                               serves ? "--workers" : l->server_option,
                               other[i].host);
    return RUN_OK;
}

/* A list that is not given means this machine, if all of the other is here. */
static int fill_from_lists(job *j, const lists *l)
{
    int code =
        l->servers || !l->n_servers ? RUN_OK : check_other(l, RUN_SERVER);

    if (!code && !l->workers)
        code = check_other(l, RUN_WORKER);
    for (int i = 0; !code && i < n_procs(j); i++) {
        proc *p = &j->procs[i];
        bool serves = p->role == RUN_SERVER;
        const place *all = serves ? l->servers : l->workers;
        const place *other = serves ? l->workers : l->servers;

        if (all)
            p->at = all[p->index];
        else
            p->at.host = room_text(j->room, "%s",
                                   other           ? other[0].host
                                   : j->o->node_ip ? j->o->node_ip
                                                   : LOOPBACK);
    }
    return code;
}

/* A script without any number is one worker, as users of Python know it. */
static int plan_lists(job *j)
{
    lists l;
    int code = read_lists(&l, j->room, j->o);

    if (!code && !l.n_servers && !l.n_workers && options_are_script(j->o))
        l.n_workers = 1;
    if (!code)
        code = check_there_are(&l);
    if (code)
        return code;
    j->n_servers = l.n_servers;
    j->n_workers = l.n_workers;
    j->procs = new_procs(j->room, j->n_servers, j->n_workers);
    return fill_from_lists(j, &l);
}

/* The same numbers on every node. */
typedef struct nodes {
    const char *option; /* --cluster_node_ips or --ips */
    place *all;
    int n, n_servers, n_workers;
} nodes;

static int read_nodes(nodes *l, const job *j)
{
    const run_options *o = j->o;

    *l = (nodes){ .option = o->ips ? "--ips" : "--cluster_node_ips",
                  .n_servers = o->server_num,
                  .n_workers = o->nproc_per_node ? o->nproc_per_node
                               : o->ips          ? 1
                                                 : o->worker_num };
    if (o->servers || o->endpoints || o->workers)
        return run_misused("%s says where all processes are; leave out "
                           "--servers, --endpoints and --workers",
                           l->option);
    return places_read(j->room, l->option,
                       o->ips ? o->ips : o->cluster_node_ips, &l->all, &l->n);
}

static int put_on_node(const job *j, proc *p, const nodes *l)
{
    int first = j->o->start_port ? j->o->start_port : PORT_FIRST;
    bool serves = p->role == RUN_SERVER;
    int n = serves ? l->n_servers : l->n_workers;
    const place *node = &l->all[p->index / n];

    if (node->port)
        return run_misused("%s: %s has a port; the ports begin with "
                           "--start_port on every node",
                           l->option, node->host);
    p->at.host = node->host;
    if (l->n > 1 || j->o->start_port)
        p->at.port = first + (serves ? 0 : l->n_servers) + p->index % n;
    return RUN_OK;
}

static int plan_nodes(job *j)
{
    nodes l;
    int code = read_nodes(&l, j);

    if (!code)
        code = check_there_are(
            &(lists){ .n_servers = l.n_servers, .n_workers = l.n_workers });
    if (code)
        return code;
    j->n_servers = l.n * l.n_servers;
    j->n_workers = l.n * l.n_workers;
    j->procs = new_procs(j->room, j->n_servers, j->n_workers);
    for (int i = 0; !code && i < n_procs(j); i++)
        code = put_on_node(j, &j->procs[i], &l);
    return code;
}

/* --- which of them are here ----------------------------------------------- */

static bool names_hosts(const run_options *o)
{
    return o->servers || o->endpoints || o->workers || o->cluster_node_ips ||
           o->ips;
}

static int mark_here(job *j)
{
    const char *self = j->o->node_ip ? j->o->node_ip : getenv("POD_IP");
    int n_here = 0;

    /* Nobody has named a host: then POD_IP is no matter. */
    if (!names_hosts(j->o))
        self = j->procs[0].at.host;
    for (int i = 0; i < n_procs(j); i++) {
        proc *p = &j->procs[i];
        const char *last = i ? j->procs[i - 1].at.host : NULL;

        /* Looking a name up may take its time. */
        if (last && !strcmp(last, p->at.host))
            p->is_here = j->procs[i - 1].is_here;
        else if (self && *self)
            p->is_here = !strcmp(self, p->at.host);
        else
            p->is_here = host_is_here(p->at.host);
        n_here += p->is_here;
    }
    if (n_here)
        return RUN_OK;
    if (self && *self)
        return run_failed("no process of the job is at %s (%s); %s is at %s",
                          self, j->o->node_ip ? "--node_ip" : "POD_IP",
                          j->procs[0].name, j->procs[0].at.host);
    return run_failed("no process of the job is on this machine: none of the "
                      "hosts, such as %s, is one of its names or addresses; "
                      "--node_ip says which one it is",
                      j->procs[0].at.host);
}

static bool is_all_here(const job *j)
{
    for (int i = 0; i < n_procs(j); i++)
        if (!j->procs[i].is_here)
            return false;
    return true;
}

/* --- ports ---------------------------------------------------------------- */

static const proc *find_at(const job *j, const place *at, int but)
{
    for (int i = 0; i < n_procs(j); i++) {
        const place *p = &j->procs[i].at;

        if (i != but && p->port == at->port && p->host && at->host &&
            !strcmp(p->host, at->host))
            return &j->procs[i];
    }
    return NULL;
}

/* A port that somebody was given is passed over. */
static int count_from(job *j, int first)
{
    for (int i = 0; i < n_procs(j); i++) {
        place *at = &j->procs[i].at;

        for (int n = 0; !at->port || (n && find_at(j, at, i)); n++)
            at->port = first + i + n;
        if (at->port > 65535)
            return run_misused("%s would get port %d; choose a smaller "
                               "--start_port",
                               j->procs[i].name, at->port);
    }
    return RUN_OK;
}

static int use_free_ports(job *j)
{
    int n = n_procs(j);
    int *taken = room_take(j->room, (size_t)n * sizeof(*taken));

    for (int i = 0; i < n; i++)
        taken[i] = j->procs[i].at.port;
    for (int i = 0; i < n; i++) {
        if (!taken[i])
            taken[i] = port_find(taken, n);
        if (!taken[i])
            return run_failed("no free port was found for %s; give "
                              "--start_port",
                              j->procs[i].name);
        j->procs[i].at.port = taken[i];
    }
    return RUN_OK;
}

static int check_twice(const job *j)
{
    for (int i = 0; i < n_procs(j); i++) {
        const proc *p = &j->procs[i], *other = find_at(j, &p->at, i);

        if (other)
            return run_misused("%s and %s have the same address %s:%d", p->name,
                               other->name, p->at.host, p->at.port);
    }
    return RUN_OK;
}

/* Workers beside servers do not, unless a program of another kind does. */
static bool listens(const job *j, const proc *p)
{
    return p->role == RUN_SERVER || !j->n_servers;
}

static int check_free(const job *j, const proc *p)
{
    const char *list = j->o->servers     ? "one in --servers"
                       : j->o->endpoints ? "one in --endpoints"
                       : j->o->workers   ? "one in --workers"
                                         : "--start_port";

    if (!listens(j, p) || port_is_free(p->at.port))
        return RUN_OK;
    return run_failed("port %d of %s is in use on this machine; choose another "
                      "%s",
                      p->at.port, p->name, list);
}

static int choose_ports(job *j)
{
    bool has_places = j->o->servers || j->o->endpoints || j->o->workers;
    int code;

    if (is_all_here(j) && !j->o->start_port && !has_places)
        code = use_free_ports(j);
    else
        code = count_from(j, j->o->start_port ? j->o->start_port : PORT_FIRST);
    if (!code)
        code = check_twice(j);
    for (int i = 0; !code && i < n_procs(j); i++)
        if (j->procs[i].is_here)
            code = check_free(j, &j->procs[i]);
    return code;
}

/* --- names ---------------------------------------------------------------- */

static char *list_of(const job *j, run_role role, int n)
{
    size_t bytes = 1, len = 0;
    char *list;

    for (int i = 0; i < n; i++) {
        const place *at = &plan_proc(j, role, i)->at;

        if (!at->host)
            return NULL;
        bytes += strlen(at->host) + sizeof(":65535,");
    }
    list = room_take(j->room, bytes);
    for (int i = 0; i < n; i++) {
        const place *at = &plan_proc(j, role, i)->at;

        len += (size_t)snprintf(list + len, bytes - len, "%s%s:%d",
                                i ? "," : "", at->host, at->port);
    }
    return list;
}

/* FNV-1a: no secret, only the same on every machine. */
static uint64_t hash_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}
#define HASH_FIRST UINT64_C(14695981039346656037)

/* Two jobs must never talk to each other. On one machine the name is drawn; on
   several the addresses make it, which no other job has at that time. */
static void name_job(job *j, const char *given)
{
    const char *set = getenv("FLOTILLA_JOB");
    uint64_t h = 0;

    if (set && *set) {
        j->name = room_text(j->room, "%s", set);
    } else if (given && strlen(given) <= NAME_MAX_LEN) {
        j->name = room_text(j->room, "%s", given);
    } else if (given) {
        j->name =
            room_text(j->room, "job-%016" PRIx64, hash_text(HASH_FIRST, given));
    } else {
        if (!is_all_here(j) || getrandom(&h, sizeof(h), 0) != sizeof(h))
            h = hash_text(hash_text(HASH_FIRST, j->server_list),
                          j->worker_list ? j->worker_list : "");
        j->name = room_text(j->room, "run-%016" PRIx64, h);
    }
}

static int finish(job *j, const char *name)
{
    int code = RUN_OK;

    j->server_list = list_of(j, RUN_SERVER, j->n_servers);
    j->worker_list = list_of(j, RUN_WORKER, j->n_workers);
    name_job(j, name);
    if (is_all_here(j))
        code = key_make(j);
    return code ? code : env_fill(j);
}

/* What a worker that serves has held is gone with it. */
static int check_restart(const job *j)
{
    if (j->n_servers || !j->o->max_restart || j->o->resume)
        return RUN_OK;
    return run_misused("--max_restart=%d: a worker of a job without servers is "
                       "not started again alone, since what it held is gone; "
                       "with --resume the whole job is",
                       j->o->max_restart);
}

int plan_here(job *j, room *r, const run_options *o)
{
    int code;

    *j = (job){ .room = r, .o = o };
    code = o->cluster_node_ips || o->ips ? plan_nodes(j) : plan_lists(j);
    if (!code)
        code = check_restart(j);
    if (!code)
        code = mark_here(j);
    if (!code)
        code = choose_ports(j);
    return code ? code : finish(j, NULL);
}

/* --- a task of a cluster -------------------------------------------------- */

static int check_task_options(const run_options *o, const task *t)
{
    if (o->cluster_node_ips || o->ips || o->nproc_per_node)
        return run_misused("%s is not taken inside of a task of %s: the tasks "
                           "are where they are, and each is one process",
                           o->cluster_node_ips ? "--cluster_node_ips"
                           : o->ips            ? "--ips"
                                               : "--nproc_per_node",
                           t->system);
    if (o->max_restart)
        return run_misused("--max_restart is not taken inside of a task of "
                           "%s, which starts tasks itself",
                           t->system);
    if (o->trace)
        return run_misused("--trace is not taken inside of a task of %s: set "
                           "FLOTILLA_TRACE to a folder for all tasks, and "
                           "`flotilla trace` puts their timelines together",
                           t->system);
    if (o->status == STATUS_YES)
        return run_misused("--status is not taken inside of a task of %s: "
                           "the task becomes the program; `flotilla status` "
                           "asks server 0, or worker 0 where there are none",
                           t->system);
    return RUN_OK;
}

/* What is left of the tasks are workers, when nobody says how many. */
static int count_task(job *j, const task *t, lists *l)
{
    int code = check_task_options(j->o, t);

    if (!code)
        code = read_lists(l, j->room, j->o);
    if (!code && !l->n_workers && t->size > l->n_servers)
        l->n_workers = t->size - l->n_servers;
    if (!code)
        code = check_there_are(l);
    if (code)
        return code;
    if (t->size && l->n_servers + l->n_workers != t->size)
        return run_failed("%s has started %d tasks, but %d servers and %d "
                          "workers make %d",
                          t->system, t->size, l->n_servers, l->n_workers,
                          l->n_servers + l->n_workers);
    if (t->rank >= l->n_servers + l->n_workers)
        return run_failed("this is task %d of %s, but %d servers and %d "
                          "workers need tasks 0 to %d",
                          t->rank, t->system, l->n_servers, l->n_workers,
                          l->n_servers + l->n_workers - 1);
    return RUN_OK;
}

static int fill_task(job *j, const task *t, const lists *l)
{
    for (int i = 0; i < n_procs(j); i++) {
        proc *p = &j->procs[i];
        const place *all = p->role == RUN_SERVER ? l->servers : l->workers;
        const char *host = task_host(t, j->room, i);

        p->is_here = i == t->rank;
        if (all)
            p->at = all[p->index];
        else if (host)
            p->at.host = room_text(j->room, "%s", host);
        else if (listens(j, p))
            return run_failed("%s does not say on which hosts the %ss are: "
                              "give --%ss=host:port,..., or FLOTILLA_HOSTS "
                              "with a host per task",
                              t->system, role_name(p->role),
                              role_name(p->role));
    }
    return RUN_OK;
}

static int check_own_host(const job *j, const task *t)
{
    const proc *p = &j->procs[t->rank];
    const char *list = p->role == RUN_WORKER ? j->o->workers
                       : j->o->servers       ? j->o->servers
                                             : j->o->endpoints;

    if (list && !host_is_here(p->at.host))
        return run_failed("task %d of %s is %s at %s, which is not this "
                          "machine: the lists must be in the order of the "
                          "tasks",
                          t->rank, t->system, p->name, p->at.host);
    return RUN_OK;
}

int plan_task(job *j, room *r, const run_options *o, const task *t)
{
    const char *set = getenv("FLOTILLA_JOB");
    const char *name = set && *set ? set : t->job;
    int first = PORT_FIRST, code;
    lists l;

    *j = (job){ .room = r, .o = o };
    code = count_task(j, t, &l);
    if (code)
        return code;
    j->n_servers = l.n_servers;
    j->n_workers = l.n_workers;
    j->procs = new_procs(r, j->n_servers, j->n_workers);
    if (o->start_port)
        first = o->start_port;
    else if (name)
        first =
            TASK_PORT_FIRST + (int)(hash_text(HASH_FIRST, name) % TASK_PORTS);
    code = fill_task(j, t, &l);
    if (!code)
        code = check_own_host(j, t);
    if (!code)
        code = count_from(j, first);
    if (!code)
        code = check_twice(j);
    if (!code)
        code = check_free(j, &j->procs[t->rank]);
    return code ? code : finish(j, t->job);
}

/* --- showing -------------------------------------------------------------- */

void plan_print(const job *j)
{
    printf("job %s\n", j->name);
    for (int i = 0; i < n_procs(j); i++) {
        const proc *p = &j->procs[i];

        printf("%-12s %s:%d%s\n", p->name, p->at.host ? p->at.host : "?",
               p->at.port, p->is_here ? "" : " (elsewhere)");
    }
    fputs("program     ", stdout);
    for (char **word = j->words; *word; word++)
        printf(" %s", *word);
    putchar('\n');
    fflush(stdout);
}
