/* fake_comm.h - a backend for tests: rows in a list, plain descent; of dense
 * parameters it remembers what was asked.
 *
 * A new row of key k is k/2, k/2 + 1, k/2 + 2, ... It answers at once, or,
 * when slow, keeps the request until fake_answer. Owner thread only.
 */
#ifndef FL_TESTS_OPS_FAKE_COMM_H
#define FL_TESTS_OPS_FAKE_COMM_H

#include "base/vec.h"
#include "ir/comm.h"

#define FAKE_DIM_MAX 8
#define FAKE_KEYS_MAX 16
#define FAKE_PARAMS_MAX 4
#define FAKE_NAME_MAX 32

typedef struct fake_row {
    uint64_t key;
    float value[FAKE_DIM_MAX];
} fake_row;

typedef struct fake_table {
    char *name, *settings;
    uint64_t seed;
    uint32_t dim;
    FL_VEC(fake_row) rows;
} fake_table;

/* What the last push said of its keys. */
typedef struct fake_push {
    size_t n;
    uint64_t keys[FAKE_KEYS_MAX];
    bool has_counts, has_shows, has_clicks;
    uint32_t counts[FAKE_KEYS_MAX];
    float shows[FAKE_KEYS_MAX], clicks[FAKE_KEYS_MAX];
} fake_push;

/* What the last send, recv or barrier said. */
typedef struct fake_call {
    size_t n;
    char params[FAKE_PARAMS_MAX][FAKE_NAME_MAX];
    size_t lens[FAKE_PARAMS_MAX];
    float firsts[FAKE_PARAMS_MAX]; /* the first value of each, as it came */
    fl_worker_id worker;
    uint64_t samples;
} fake_call;

typedef struct fake_comm {
    fl_comm port;
    FL_VEC(fake_table) tables;
    bool slow;
    fl_comm_request *waiting; /* slow: the request to answer */
    fl_status (*answer)(struct fake_comm *c, fl_comm_request *r);
    size_t n_asked; /* keys of the last pull */
    fake_push last;
    fl_comm_call *waiting_call; /* slow: the call to answer */
    fl_status (*answer_call)(struct fake_comm *c, fl_comm_call *r);
    fake_call last_call;
    int n_sends, n_recvs, n_meets;
    char served[FAKE_NAME_MAX]; /* the endpoint, and how many blocks */
} fake_comm;

/* Freed with fl_comm_free(&c->port). */
fake_comm *fake_comm_new(void);

/* Does what the waiting request asks for and finishes it. */
void fake_answer(fake_comm *c);

/* NULL when there is none. */
fake_table *fake_find(fake_comm *c, const char *name);

float fake_first(uint64_t key, uint32_t i);

/* Element i of every parameter that is received. */
float fake_value(size_t i);

#endif
