/* mode.h - how a job trains: the passes that distribute a program, and the
 * backend that its operators talk to. A mode is a const descriptor in its own
 * file plus one row in modes.def. */
#ifndef FL_MODE_MODE_H
#define FL_MODE_MODE_H

#include "mode/cluster.h"
#include "table/table.h"

typedef struct fl_mode fl_mode;

struct fl_mode {
    const char *name, *doc;
    bool needs_servers; /* without, it trains in one process */
    bool workers_serve; /* instead of servers: see fl_dist_config */
    bool trainers_meet; /* a step waits for the other trainers */
    bool server_adds;   /* see fl_dist_config */
    const char *passes; /* names of pass/passes.def, apart by spaces */
    /* Settings of the context that this mode reads and others do not, apart by
       spaces; NULL: none. */
    const char *settings;
    /* Refuses programs that the mode cannot train, with the reason; looks at
       the user's programs before the passes. May be NULL. */
    fl_status (*check)(const fl_conf *conf, const fl_program *main,
                       const fl_program *startup);
    /* The backend of a trainer, which takes the cluster; NULL in a mode without
       servers. */
    fl_comm *(*open)(fl_cluster *cluster);
    /* The table that a trainer updates itself, by its backend, NULL before the
       startup program; the function is NULL where servers do it. */
    fl_table *(*find_table)(fl_comm *backend, const char *name);
    const struct fl_mode_def *own; /* a user's, instead of open; else NULL */
};

/* Settings of modes in which what travels may be shorter than f32: values of a
   moment and gradients, which are not added up from message to message. */
#define FL_MODE_WIRE "wire_pull wire_push"

/* Settings of modes whose dense parameters are on servers, where dist_place puts
   them. */
#define FL_MODE_PLACES "min_block_size slice_var_up split_method"

#define FL_MODE(name) extern const fl_mode fl_mode_##name;
#include "mode/modes.def"
#undef FL_MODE

const fl_mode *fl_mode_find(const char *name); /* NULL when there is none */
size_t fl_mode_count(void);
const fl_mode *fl_mode_at(size_t i);
bool fl_mode_reads(const fl_mode *m, const char *setting);
/* Whether several processes train in it. */
bool fl_mode_is_of_jobs(const fl_mode *m);

#endif
