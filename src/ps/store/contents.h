/* contents.h - what a server holds, as the programs that it runs say it.
 *
 * init_table adds a table, operators give dense parameters their first values
 * in a scope, and listen_and_serv names the blocks that update them. A server
 * that was made by transpiling runs such programs by the executor of its
 * context; one that was started by hand is sent a program and runs it here.
 * Owner thread only.
 */
#ifndef FL_PS_STORE_CONTENTS_H
#define FL_PS_STORE_CONTENTS_H

#include "base/map.h"
#include "base/vec.h"
#include "conf/conf.h"
#include "exec/scope.h"
#include "ir/comm.h"
#include "ir/program.h"

typedef struct fl_contents_table {
    char *name, *settings;
    uint64_t seed;
} fl_contents_table;

typedef struct fl_contents {
    FL_VEC(fl_contents_table *) tables;
    fl_map by_name;                 /* of tables */
    fl_scope *scope;                /* borrowed */
    const fl_comm_service *service; /* borrowed; NULL: it does not serve yet */
    const char *model; /* that it begins with, borrowed; NULL: none */
    const char *plan;  /* what of it (ckpt/load_plan.h); NULL: all */
} fl_contents;

/* A table of that name begins anew. */
FL_MUST_CHECK
fl_status fl_contents_add_table(fl_contents *c, const char *name,
                                const char *settings, uint64_t seed);
void fl_contents_release(fl_contents *c);

/* Runs a program that a peer has sent, and hands over what it says when it
   serves: `take` returns at once. What acts on anything but a server's contents
   is refused. */
FL_MUST_CHECK
fl_status fl_contents_run(const fl_program *p, const fl_conf *conf,
                          fl_status (*take)(void *arg, const fl_contents *c),
                          void *arg);

#endif
