/* fake_comm.h - a table backend for tests: rows in a list, plain descent.
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

typedef struct fake_comm {
    fl_comm port;
    FL_VEC(fake_table) tables;
    bool slow;
    fl_comm_request *waiting; /* slow: the request to answer */
    fl_status (*answer)(struct fake_comm *c, fl_comm_request *r);
    size_t n_asked; /* keys of the last pull */
    fake_push last;
} fake_comm;

/* Freed with fl_comm_free(&c->port). */
fake_comm *fake_comm_new(void);

/* Does what the waiting request asks for and finishes it. */
void fake_answer(fake_comm *c);

/* NULL when there is none. */
fake_table *fake_find(fake_comm *c, const char *name);

float fake_first(uint64_t key, uint32_t i);

#endif
