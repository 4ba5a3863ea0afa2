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
    bool is_single; /* no servers: this process is all there is */
    int index;      /* among workers, or among servers */
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

/* --- what both are made of ------------------------------------------------ */

/* "host:port,host:port" into servers and server_endpoints. A fault is told
   without naming where the text is from. */
FL_MUST_CHECK
fl_status fl_fleet_role_read_servers(fl_fleet_role *r, const char *text);
/* Workers may leave ports out. Sets worker_endpoints; *n is their number. */
FL_MUST_CHECK
fl_status fl_fleet_role_read_workers(fl_fleet_role *r, const char *text,
                                     int *n);
void fl_fleet_role_make_single(fl_fleet_role *r);

#endif
