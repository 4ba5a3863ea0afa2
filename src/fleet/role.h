/* role.h - which process of a job this one is.
 *
 * Texts come in, from the environment or from the user, and are checked
 * against each other; nothing is looked up and nobody is asked. Storage is the
 * caller's, the texts in it are the role's. Owner thread only.
 */
#ifndef FL_FLEET_ROLE_H
#define FL_FLEET_ROLE_H

#include "base/vec.h"
#include "flotilla/fleet.h"

typedef struct fl_fleet_role {
    fl_role_kind kind;
    bool is_single;     /* this process is all there is */
    bool is_collective; /* no servers: workers have addresses, and serve */
    int index;          /* among workers, or among servers */
    int n_workers, n_servers;
    /* Apart by commas, without spaces; "" when there are none. */
    char *worker_endpoints, *server_endpoints;
    FL_VEC(char *) servers; /* the same, one by one */
} fl_fleet_role;

/* On failure *out is untouched. */
FL_MUST_CHECK
fl_status fl_fleet_role_of_args(fl_fleet_role *out, const fl_role_args *a);
void fl_fleet_role_release(fl_fleet_role *r);

/* --- the environment ------------------------------------------------------ */

/* The value of a variable, NULL when it is not set. Values stay as they are
   until the role is made. */
typedef const char *(*fl_env_get)(void *arg, const char *name);

FL_MUST_CHECK
fl_status fl_fleet_role_of_env(fl_fleet_role *out, fl_env_get get, void *arg);
/* The same for a program that asks for a collective job: without any variable
   it is one process, and variables of a job with servers are refused. */
FL_MUST_CHECK
fl_status fl_fleet_role_of_env_collective(fl_fleet_role *out, fl_env_get get,
                                          void *arg);
/* Whether nothing is given but is_collective: the environment says the rest. */
bool fl_fleet_role_asks_env(const fl_role_args *a);

/* --- what both are made of ------------------------------------------------ */

/* "host:port,host:port" into servers and server_endpoints. A fault is told
   without naming where the text is from. */
FL_MUST_CHECK
fl_status fl_fleet_role_read_servers(fl_fleet_role *r, const char *text);
/* Workers may leave ports out. Sets worker_endpoints; *n is their number. */
FL_MUST_CHECK
fl_status fl_fleet_role_read_workers(fl_fleet_role *r, const char *text,
                                     int *n);
/* Those of a collective job listen: each has a port, and an address of its own.
   Of what was read. */
FL_MUST_CHECK
fl_status fl_fleet_role_check_listeners(const fl_fleet_role *r);
/* The number of an address among worker_endpoints; -1: it is none of them. */
int fl_fleet_role_find_worker(const fl_fleet_role *r, const char *address);
void fl_fleet_role_make_single(fl_fleet_role *r);

#endif
