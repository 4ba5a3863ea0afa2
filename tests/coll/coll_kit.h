/* coll_kit.h - some ranks in one process and one thread, and a way between them
 * that brings parts and receipts in an order drawn from a seed. What goes from
 * one rank to another keeps its order.
 */
#ifndef FL_TESTS_COLL_COLL_KIT_H
#define FL_TESTS_COLL_COLL_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/vec.h"
#include "coll/coll.h"

#define KIT_RANKS 16

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

typedef struct kit kit;

typedef struct kit_rank {
    kit *k;
    int rank;
    fl_coll *c;
    int n_done;
    fl_status st; /* of the last one that failed */
    char text[FL_ERR_TEXT_MAX];
} kit_rank;

typedef struct kit_part {
    fl_coll_out o;
    int from;
} kit_part;

struct kit {
    int n;
    uint64_t dice;
    kit_rank ranks[KIT_RANKS];
    FL_VEC(kit_part) ways[KIT_RANKS][KIT_RANKS]; /* from, to */
    size_t first[KIT_RANKS][KIT_RANKS];
    FL_VEC(kit_part) taken; /* receipts that are on their way back */
    bool is_cut[KIT_RANKS]; /* its parts do not arrive */
    size_t n_under_way, most_under_way;
};

typedef struct kit_receipt {
    kit *k;
    kit_part part;
} kit_receipt;

static inline uint64_t kit_draw(kit *k, uint64_t n)
{
    return fl_mix64(k->dice++) % n;
}

static inline fl_status kit_send(void *arg, const fl_coll_out *o)
{
    kit_rank *r = arg;
    kit_part p = { *o, r->rank };

    fl_vec_push(&r->k->ways[r->rank][o->to], p);
    if (++r->k->n_under_way > r->k->most_under_way)
        r->k->most_under_way = r->k->n_under_way;
    return FL_OK;
}

static inline void kit_meet(kit *k);

static inline void kit_open(kit *k, int n, uint64_t seed)
{
    memset(k, 0, sizeof(*k));
    k->n = n;
    k->dice = seed << 32;
    for (int i = 0; i < n; i++) {
        fl_coll_options o = { .rank = i,
                              .n_ranks = n,
                              .machine = "",
                              .link = { kit_send, &k->ranks[i] } };

        k->ranks[i].k = k;
        k->ranks[i].rank = i;
        assert_ok(fl_coll_new(&k->ranks[i].c, &o));
    }
    kit_meet(k);
}

static inline void kit_taken(void *arg, fl_status st)
{
    kit_receipt *r = arg;

    (void)st;
    fl_vec_push(&r->k->taken, r->part);
    fl_free(r);
}

static inline void kit_bring(kit *k, kit_part p)
{
    size_t n = p.o.head_bytes + p.o.n;
    uint8_t *bytes = fl_try_alloc(n);
    kit_receipt *r = fl_alloc(sizeof(*r));

    *r = (kit_receipt){ k, p };
    memcpy(bytes, p.o.head, p.o.head_bytes);
    if (p.o.n)
        memcpy(bytes + p.o.head_bytes, p.o.bytes, p.o.n);
    fl_coll_on_part(k->ranks[p.o.to].c, p.from, bytes, n,
                    (fl_coll_receipt){ kit_taken, r });
    fl_data_free(bytes, n);
}

static inline bool kit_bring_one(kit *k)
{
    int n = k->n * k->n, first = (int)kit_draw(k, (uint64_t)n);

    for (int i = 0; i < n; i++) {
        int from = (first + i) % n / k->n, to = (first + i) % n % k->n;
        size_t *at = &k->first[from][to];

        if (*at == k->ways[from][to].len || k->is_cut[from])
            continue;
        kit_bring(k, k->ways[from][to].data[(*at)++]);
        return true;
    }
    return false;
}

static inline bool kit_give_back_one(kit *k)
{
    kit_part p;
    size_t i;

    if (!k->taken.len)
        return false;
    i = (size_t)kit_draw(k, k->taken.len);
    p = k->taken.data[i];
    k->taken.data[i] = k->taken.data[--k->taken.len];
    k->n_under_way--;
    p.o.ended(p.o.arg, FL_OK);
    return true;
}

/* Until nothing moves any more. */
static inline void kit_run(kit *k)
{
    bool is_moving = true;

    while (is_moving)
        is_moving = kit_draw(k, 3) == 0
                        ? kit_give_back_one(k) || kit_bring_one(k)
                        : kit_bring_one(k) || kit_give_back_one(k);
}

static inline void kit_done(void *arg, fl_status st)
{
    kit_rank *r = arg;

    r->n_done++;
    if (!st)
        return;
    r->st = st;
    (void)snprintf(r->text, sizeof(r->text), "%s", fl_last_error());
}

static inline void kit_begin(kit *k, int rank, fl_coll_call call)
{
    call.done = kit_done;
    call.arg = &k->ranks[rank];
    fl_coll_begin(k->ranks[rank].c, &call);
}

/* Before the first call ranks find out about each other; here that is over. */
static inline void kit_meet(kit *k)
{
    for (int i = 0; i < k->n; i++)
        kit_begin(k, i,
                  (fl_coll_call){ .kind = FL_COLL_BARRIER,
                                  .ring = FL_COLL_RING_MAX - 1 });
    kit_run(k);
    k->most_under_way = 0;
    for (int i = 0; i < k->n; i++) {
        assert_int_equal(k->ranks[i].n_done, 1);
        k->ranks[i].n_done = 0;
    }
}

/* All of them, n_done times, and well. */
static inline void kit_expect_done(kit *k, int n_done)
{
    for (int i = 0; i < k->n; i++) {
        if (k->ranks[i].st)
            fail_msg("rank %d: %s", i, k->ranks[i].text);
        assert_int_equal(k->ranks[i].n_done, n_done);
    }
}

static inline void kit_close(kit *k)
{
    for (int i = 0; i < k->n; i++)
        fl_coll_free(k->ranks[i].c);
    /* What was under way ends after the engines. */
    for (int i = 0; i < k->n; i++)
        for (int j = 0; j < k->n; j++) {
            for (size_t p = k->first[i][j]; p < k->ways[i][j].len; p++)
                k->ways[i][j].data[p].o.ended(k->ways[i][j].data[p].o.arg,
                                              FL_ERR_CLOSED);
            fl_vec_release(&k->ways[i][j]);
        }
    for (size_t i = 0; i < k->taken.len; i++)
        k->taken.data[i].o.ended(k->taken.data[i].o.arg, FL_OK);
    fl_vec_release(&k->taken);
}

/* A number that rank r brings at place i: small, so that sums are exact. */
static inline int kit_value(int rank, size_t i)
{
    return (int)((fl_mix64(i * 31 + (uint64_t)rank * 7919) >> 20) % 9) - 4;
}

#endif
