/* refuse_kit.h - a server in a thread and a healthy trainer in the test's own,
 * which is asked after every attempt of somebody else.
 *
 * A second trainer has pushed and left before the test begins; what it sent
 * was kept, to be sent again.
 */
#ifndef FL_TESTS_PS_REFUSE_KIT_H
#define FL_TESTS_PS_REFUSE_KIT_H

#include "proxy_kit.h"
#include "raw_kit.h"

#define SETTINGS_MAX 1024

typedef struct house {
    job job; /* one server, two trainers; the second one is a thread */
    char settings[SETTINGS_MAX];
    proxy proxy;
    uint16_t port;
    fl_ctx *ctx;
    fl_job *ps;
    int table, n_checks;
} house;

static inline fl_status declare_house(fl_job *p, int *table)
{
    FL_TRY(fl_job_declare_table(p, "t", "dim=2 init=constant(1) optimizer=sgd",
                                table));
    return fl_job_start(p);
}

static inline fl_status push_row(fl_job *p, int table, uint64_t key)
{
    float grads[2] = { 2, -4 };

    return fl_job_push(
        p, table,
        &(fl_rows){ .keys = &key, .values = grads, .n = 1, .lr = 0.5 });
}

/* The session that is kept. For job_work. */
static inline fl_status visit(fl_job *p, int rank, told *t)
{
    int table;

    (void)rank;
    (void)t;
    FL_TRY(declare_house(p, &table));
    for (uint64_t key = 100; key < 110; key++)
        FL_TRY(push_row(p, table, key));
    return FL_OK;
}

static inline house *house_open(const char *settings)
{
    house *h = calloc(1, sizeof(*h));
    job *j = &h->job;

    assert_non_null(h);
    (void)snprintf(h->settings, sizeof(h->settings), "%s local_transport=off",
                   settings);
    job_init(j, 1, 2, h->settings, visit);
    h->port = (uint16_t)strtoul(strchr(j->servers, ':') + 1, NULL, 10);
    h->proxy.keeps = true;
    proxy_start(&h->proxy, j->servers, j->ways);
    assert_ok(fl_thread_start(&j->members[0].thread, "server", run_member,
                              &j->members[0]));
    assert_ok(fl_thread_start(&j->members[2].thread, "visitor", run_member,
                              &j->members[2]));
    h->ctx = make_ctx();
    assert_ok(set_all(h->ctx, h->settings));
    assert_ok(
        fl_job_connect(&h->ps, h->ctx, .servers = j->servers, .n_trainers = 2));
    assert_ok(declare_house(h->ps, &h->table));
    fl_thread_join(j->members[2].thread);
    proxy_stop(&h->proxy);
    return h;
}

/* The server has served to the end. */
static inline void house_close(house *h)
{
    assert_ok(fl_job_stop(h->ps));
    fl_job_free(h->ps);
    fl_thread_join(h->job.members[0].thread);
    job_check(&h->job);
    job_release(&h->job);
    fl_ctx_free(h->ctx);
    proxy_forget(&h->proxy);
    free(h);
}

static inline uint64_t house_hash(house *h)
{
    uint64_t hash;

    assert_ok(fl_job_hash(h->ps, &hash));
    return hash;
}

/* Nothing has changed since, and the healthy trainer is served. */
static inline void expect_healthy(house *h, uint64_t hash)
{
    uint64_t key = 1;
    float value[2];

    assert_true(house_hash(h) == hash);
    assert_ok(push_row(h->ps, h->table, key));
    h->n_checks++;
    assert_ok(fl_job_pull(h->ps, h->table, &key, 1, FL_PULL_ONLY, value));
    assert_true(value[0] == 1 - (float)h->n_checks);
    assert_true(value[1] == 1 + 2 * (float)h->n_checks);
}

/* --- attempts ------------------------------------------------------------- */

/* A trainer with other settings must not come in, even with a rank that is
   there; the sentence that it gets has these words. */
static inline void expect_refused(house *h, const char *settings,
                                  const char *words)
{
    uint64_t hash = house_hash(h);
    fl_ctx *c = make_ctx();
    fl_job *p;

    assert_ok(set_all(c, "local_transport=off connect_timeout_ms=2000"));
    assert_ok(set_all(c, settings));
    assert_true(fl_job_connect(&p, c, .servers = h->job.servers,
                               .n_trainers = 2) != FL_OK);
    if (!strstr(fl_last_error(), words))
        fail_msg("'%s' does not say '%s'", fl_last_error(), words);
    fl_ctx_free(c);
    expect_healthy(h, hash);
}

/* Bytes to which the server has nothing to say. */
static inline void expect_closed(house *h, const void *bytes, size_t n)
{
    uint64_t hash = house_hash(h);
    int fd = raw_dial(h->port);

    assert_true(fd >= 0);
    (void)raw_write(fd, bytes, n); /* it may be closed before the last byte */
    assert_true(raw_is_closed(fd));
    close(fd);
    expect_healthy(h, hash);
}

#endif
