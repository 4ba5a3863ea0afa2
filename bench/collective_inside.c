/* collective_inside.c - a process that adds up with another by the built-in
 * engine. What the two say before their first call goes by a socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "coll/coll.h"
#include "collective_parts.h"
#include "harness.h"
#include "ps_process.h"

/* Small: only a meeting travels here. */
#define PART_MAX 4096

typedef struct member {
    fl_coll *c;
    int rank, fd;
} member;

/* A part as it travels: its length, or 0 for a receipt. */
static void put(int fd, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0)
        fprintf(stderr, "bench: a part is lost: %s\n", strerror(errno));
}

/* Ends in the thread that reads: an ending must not come from inside. */
typedef struct sent {
    fl_coll_out o;
    struct sent *next;
} sent;

static fl_mutex mu;
static sent *first, **end = &first;

static fl_status send_part(void *arg, const fl_coll_out *o)
{
    member *m = arg;
    uint8_t bytes[PART_MAX];
    sent *s = fl_alloc(sizeof *s);

    if (o->head_bytes + o->n > sizeof bytes)
        FL_FAIL(FL_ERR_INVAL, "a part of %zu bytes is not sent here", o->n);
    s->o = *o;
    fl_lock(&mu);
    *end = s;
    end = &s->next;
    fl_unlock(&mu);
    memcpy(bytes, o->head, o->head_bytes);
    if (o->n)
        memcpy(bytes + o->head_bytes, o->bytes, o->n);
    put(m->fd, bytes, o->head_bytes + o->n);
    return FL_OK;
}

static void give_receipt(void *arg, fl_status st)
{
    (void)st;
    put(((member *)arg)->fd, "", 1);
}

static void take_receipt(void)
{
    sent *s;

    fl_lock(&mu);
    s = first;
    first = s->next;
    if (!first)
        end = &first;
    fl_unlock(&mu);
    s->o.ended(s->o.arg, FL_OK);
    fl_free(s);
}

static void read_parts(void *arg)
{
    member *m = arg;
    _Alignas(64) uint8_t bytes[PART_MAX];
    ssize_t n;

    while ((n = recv(m->fd, bytes, sizeof bytes, 0)) > 0)
        if (n == 1)
            take_receipt();
        else
            fl_coll_on_part(m->c, !m->rank, bytes, (size_t)n,
                            (fl_coll_receipt){ give_receipt, m });
}

static void meet(void *arg)
{
    fl_coll_call a = { .kind = FL_COLL_BARRIER };

    bench_check(fl_coll_run(((member *)arg)->c, &a), "a barrier");
}

static void add_up(void *arg, float *data, float *out, size_t n)
{
    fl_coll_call a = { .kind = FL_COLL_ALLREDUCE, .in = data, .n = n };

    a.out = out;
    bench_check(fl_coll_run(((member *)arg)->c, &a), "an allreduce");
}

void collective_serve(const char *pipes, int rank, int fd)
{
    member m = { .rank = rank, .fd = fd };
    fl_coll_options o = { .rank = rank,
                          .n_ranks = PAIR,
                          .link = { send_part, &m } };
    crew_work w = { meet, add_up, &m };
    fl_thread *reader;

    fl_mutex_init(&mu);
    bench_check(fl_coll_new(&m.c, &o), "an engine");
    bench_check(fl_thread_start(&reader, "parts", read_parts, &m), "a thread");
    crew_serve(pipes, rank, &w);
    (void)shutdown(fd, SHUT_RDWR);
    fl_thread_join(reader);
    fl_coll_free(m.c);
}
