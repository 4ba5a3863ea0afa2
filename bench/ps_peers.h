/* ps_peers.h - servers that keep rows by key, all with one face, so that they
 * take turns under the same harness.
 *
 * A server is a process with one thread, on a core of its own; the bench is its
 * only client. A row's value is PS_DIM floats. One thread.
 */
#ifndef BENCH_PS_PEERS_H
#define BENCH_PS_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_DIM 10
#define PS_BATCH 10000
#define PS_DEPTH 4 /* requests under way */
#define PS_ROW_BYTES (PS_DIM * sizeof(float))

/* What one request is about. */
typedef struct ps_batch {
    const uint64_t *keys; /* no key twice */
    const uint64_t *rows; /* their numbers, from 0: for who needs no keys */
    size_t n;             /* PS_BATCH at most */
    const float *grads;   /* [n, PS_DIM] of a push */
    const float *values;  /* the same, for who overwrites */
    float *out;           /* [n, PS_DIM] of a pull; borrowed until the next
                             PS_DEPTH batches have begun */
} ps_batch;

/* What the rows are. */
typedef struct ps_shape {
    size_t n_rows;
    const char *settings; /* of a table */
} ps_shape;

typedef struct ps_kind {
    const char *name;
    bool overwrites; /* a push brings values instead of gradients */
    /* Without rows; NULL when it is not installed. */
    void *(*open)(const ps_shape *s);
    /* All batches in order, PS_DEPTH of them under way; returns when the last
       one is answered. */
    void (*pull)(void *peer, const ps_batch *b, size_t n);
    void (*push)(void *peer, const ps_batch *b, size_t n);
    double (*cpu_seconds)(const void *peer); /* of the server */
    void (*close)(void *peer);
} ps_kind;

/* The table called directly; the library's server over the colocated path and
   over TCP; an array behind TCP without any protocol; Redis over a UNIX socket
   and over TCP. */
extern const ps_kind ps_direct, ps_local, ps_tcp, ps_flat, ps_redis,
    ps_redis_tcp;

/* Where ps_redis listens, as the library takes it: "unix:PATH". */
void ps_redis_address(const void *peer, char *out, size_t cap);

/* What the server processes run; the arguments are those of the program. */
int ps_library_serve(char **argv);
int ps_flat_serve(char **argv);
int ps_rpc_serve(char **argv);

/* Measures rows, and rpc alone. False when rows differ. */
bool bench_ps_rows(void);
void bench_ps_rpc(void);

#endif
