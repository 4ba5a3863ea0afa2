/* dist.h - one program made into those of trainers and servers.
 *
 * A mode names the passes that do it, in order; that list is the transpiler.
 * They work on an fl_dist: the trainer's two programs, which start as copies of
 * the user's, and what the servers are going to hold, which the passes fill in.
 *
 *     canon_*        what Fluid writes with many operators becomes one
 *     dist_sparse    lookups with is_sparse, of nce too, become those of tables
 *     dist_pull      one pull and one push per table and batch (also alone)
 *     dist_place     dense parameters cut into blocks, blocks dealt to servers
 *     dist_server    the programs of the servers
 *     dist_send      gradients are sent, the update leaves the trainer
 *     dist_recv      a barrier behind the sends, and fresh parameters
 *     dist_geo       parameters are handed over at the end of a batch
 *     dist_startup   first values come from the servers
 *     dist_collective   gradients are added up over the workers
 *
 * Owner thread only.
 */
#ifndef FL_PASS_DIST_H
#define FL_PASS_DIST_H

#include "pass/pass.h"

/* A dense parameter is cut along its rows into contiguous ranges. */
typedef struct fl_dist_block {
    const char *name;  /* "w" when it is the only one, else "w.block0" */
    uint64_t from_row; /* rows of a parameter of one dimension are single */
    uint64_t n_rows;   /* numbers */
    uint64_t from, n;  /* in floats */
    int server;
    uint32_t number; /* among the blocks of its server */
} fl_dist_block;

typedef struct fl_dist_param {
    const char *name;
    fl_shape shape;
    uint64_t n; /* floats */
    size_t first_block, n_blocks;
} fl_dist_param;

typedef struct fl_dist_table {
    const char *name;
    const char *settings; /* as the startup program has them */
    uint32_t dim;         /* its number is its place in the list */
} fl_dist_table;

/* A counter of the user's program that the global step stands for. */
typedef struct fl_dist_counter {
    const char *name;
    int64_t first; /* what it is before the first step */
} fl_dist_counter;

/* What a server runs: block 0 of the startup program makes tables and gives
   dense blocks their first values, that of the main program serves; the other
   blocks of the latter are the updates of its dense blocks and of its tables. */
typedef struct fl_dist_server {
    fl_program *startup, *main;
    char *declared; /* both as they came out of the passes, in one text */
} fl_dist_server;

typedef struct fl_dist_config {
    const char *mode;           /* for messages */
    const char *const *servers; /* their addresses */
    int n_servers, n_trainers, rank;
    uint64_t min_block_size; /* floats */
    bool slice_var_up;       /* false: one block per parameter */
    bool round_robin;        /* else blocks are dealt by a hash of their name */
    bool server_adds;        /* servers add up what comes instead of updating */
    uint64_t bucket_bytes;   /* gradients that travel as one; 0: each alone */
    uint64_t last_bucket_bytes; /* the same for those that come last */
    uint64_t merge_steps;       /* batches that make one update; 0: as it was */
    uint64_t local_steps;       /* parameters are averaged instead of gradients,
                             once in so many steps; 0: they are not */
    bool workers_serve;         /* server i is a part of trainer i */
    const char *wire_pull, *wire_push; /* how values and gradients travel; NULL:
                                          f32 */
    bool updates_alike; /* trainers do, on what all of them computed */
} fl_dist_config;

struct fl_dist {
    fl_dist_config config; /* with texts of its own, in the arena */
    fl_arena arena;
    fl_program *main, *startup; /* of a trainer; owned */
    FL_VEC(fl_dist_param) params;
    FL_VEC(fl_dist_block) blocks;
    FL_VEC(fl_dist_table) tables;
    FL_VEC(fl_dist_counter) counters;
    FL_VEC(fl_dist_server) servers; /* empty without the pass dist_server */
};

/* Copies the programs and runs the named passes (apart by spaces) over them,
   with the verifier after each and texts where `dump` says (NULL: none). */
FL_MUST_CHECK
fl_status fl_dist_new(fl_dist **out, const fl_dist_config *config,
                      const fl_program *main, const fl_program *startup,
                      const char *passes, const fl_dump_place *dump);
/* Without programs: the caller fills in what the servers are going to hold. */
fl_dist *fl_dist_new_empty(const fl_dist_config *config);
void fl_dist_free(fl_dist *d);

/* Both programs of a server as one, printed: it runs the one and then the
   other. The address of the server is left out. Freed with fl_free. */
FL_MUST_CHECK
fl_status fl_dist_print_server(const fl_dist *d, int server, char **text);

/* NULL when there is none of that name. */
const fl_dist_param *fl_dist_find_param(const fl_dist *d, const char *name);

/* The table's place in the list; -1 when there is none of that name. */
int fl_dist_find_table(const fl_dist *d, const char *name);

/* The place of an address in the list of servers. */
FL_MUST_CHECK
fl_status fl_dist_find_server(const fl_dist *d, const char *endpoint,
                              int *server);

#endif
