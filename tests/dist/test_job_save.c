/* test_job_save.c - a job without programs that is saved, by a trainer and from
 * outside, and servers that begin with a model or load one. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/thread.h"
#include "ckpt/version.h"
#include "dist_kit.h"
#include "../folder.h"

#define HANGS_S 60
#define SERVERS_MAX 3
#define KEYS 300
#define DIM 3
#define DENSE 5

static char folder[FOLDER_BYTES];

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

static int make_folder(void **state)
{
    (void)state;
    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    return folder_make(folder, "byhand") ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- servers -------------------------------------------------------------- */

typedef struct server {
    const char *addresses, *model;
    int rank;
    fl_thread *thread;
    kit_text text;
} server;

typedef struct servers {
    char addresses[256];
    server all[SERVERS_MAX];
    int n;
} servers;

static void serve(void *arg)
{
    server *s = arg;
    fl_ctx *c;

    if (fl_ctx_new(&c) ||
        fl_job_serve(c, .servers = s->addresses, .rank = s->rank,
                     .n_trainers = 1, .model = s->model))
        snprintf(s->text, sizeof(s->text), "%s", fl_last_error());
    fl_ctx_free(c);
}

static servers *start_servers(int n, const char *model)
{
    servers *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->n = n;
    kit_addresses(w->addresses, sizeof(w->addresses), n);
    for (int i = 0; i < n; i++) {
        w->all[i] = (server){ w->addresses, model, .rank = i };
        assert_ok(
            fl_thread_start(&w->all[i].thread, "server", serve, &w->all[i]));
    }
    return w;
}

static void end_servers(servers *w)
{
    for (int i = 0; i < w->n; i++) {
        fl_thread_join(w->all[i].thread);
        assert_string_equal(w->all[i].text, "");
    }
    free(w);
}

/* --- a trainer ------------------------------------------------------------ */

typedef struct values {
    float rows[KEYS * DIM], dense[DENSE];
} values;

typedef struct trainer {
    fl_ctx *ctx;
    fl_job *job;
    int table, dense;
    uint64_t keys[KEYS];
} trainer;

static void connect(trainer *t, const servers *w)
{
    assert_ok(fl_ctx_new(&t->ctx));
    assert_ok(fl_job_connect(&t->job, t->ctx, .servers = w->addresses));
    assert_ok(
        fl_job_declare_table(t->job, "emb", "dim=3 optimizer=adam", &t->table));
    assert_ok(fl_job_declare_dense(t->job, "w", DENSE, "adam",
                                   "learning_rate=0.1", &t->dense));
    assert_ok(fl_job_start(t->job));
    for (uint64_t i = 0; i < KEYS; i++)
        t->keys[i] = i * 7919;
}

static void push(trainer *t, int n)
{
    float grads[KEYS * DIM], dense[DENSE];

    for (int step = 0; step < n; step++) {
        fl_rows rows = {
            .keys = t->keys, .n = KEYS, .values = grads, .dim = DIM, .lr = 0.1
        };

        for (int i = 0; i < KEYS * DIM; i++)
            grads[i] = (float)((i + step) % 7) - 3;
        for (int i = 0; i < DENSE; i++)
            dense[i] = (float)(i - step);
        assert_ok(fl_job_push(t->job, t->table, &rows));
        assert_ok(fl_job_push_dense(t->job, t->dense, dense));
    }
}

static void pull(trainer *t, values *out)
{
    assert_ok(
        fl_job_pull(t->job, t->table, t->keys, KEYS, FL_PULL_ONLY, out->rows));
    assert_ok(fl_job_pull_dense(t->job, t->dense, out->dense));
}

static void leave(trainer *t)
{
    assert_ok(fl_job_stop(t->job));
    fl_job_free(t->job);
    fl_ctx_free(t->ctx);
}

/* --- tests ---------------------------------------------------------------- */

/* The values after 3 pushes and a save to dir, and those after 2 more. */
static void make_model(const char *dir, values *saved, values *later)
{
    servers *w = start_servers(2, NULL);
    trainer t = { 0 };

    connect(&t, w);
    push(&t, 3);
    assert_ok(fl_job_save(t.job, dir));
    pull(&t, saved);
    push(&t, 2);
    pull(&t, later);
    leave(&t);
    end_servers(w);
}

static void servers_begin_with_a_model_of_any_number(void **state)
{
    char dir[64];
    values saved, later, got;

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/begin", folder);
    make_model(dir, &saved, &later);
    for (int n = 1; n <= SERVERS_MAX; n++) {
        servers *w = start_servers(n, dir);
        trainer t = { 0 };

        connect(&t, w);
        pull(&t, &got);
        assert_memory_equal(&got, &saved, sizeof(got));
        push(&t, 2); /* state and all */
        pull(&t, &got);
        assert_memory_equal(&got, &later, sizeof(got));
        leave(&t);
        end_servers(w);
    }
    alarm(0);
}

static void a_job_loads_a_model_and_forgets_what_it_had(void **state)
{
    const uint64_t other = 12345;
    float row[DIM], first[DIM];
    char dir[64];
    values saved, later, got;
    servers *w;
    trainer t = { 0 };

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/load", folder);
    make_model(dir, &saved, &later);
    w = start_servers(3, NULL);
    connect(&t, w);
    assert_ok(fl_job_pull(t.job, t.table, &other, 1, FL_PULL_ONLY, first));
    push(&t, 1);
    assert_ok(
        fl_job_assign(t.job, t.table, &other, 1, (float[DIM]){ 1, 2, 3 }));
    assert_ok(fl_job_load(t.job, dir));
    pull(&t, &got);
    assert_memory_equal(&got, &saved, sizeof(got));
    assert_ok(fl_job_pull(t.job, t.table, &other, 1, FL_PULL_ONLY, row));
    assert_memory_equal(row, first, sizeof(row));
    push(&t, 2);
    pull(&t, &got);
    assert_memory_equal(&got, &later, sizeof(got));
    leave(&t);
    end_servers(w);
    alarm(0);
}

static void a_tool_saves_a_job_from_outside(void **state)
{
    servers *w = start_servers(2, NULL);
    char address[64], dir[64], path[160], *version = NULL;
    trainer t = { 0 };
    fl_ctx *c;

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/tool", folder);
    snprintf(address, sizeof(address), "%.*s", (int)strcspn(w->addresses, ","),
             w->addresses);
    connect(&t, w);
    push(&t, 1);
    assert_ok(fl_ctx_new(&c));
    assert_ok(fl_job_save_at(c, address, dir, &version));
    snprintf(path, sizeof(path), "%s/%s/MANIFEST.json", dir, version);
    assert_int_equal(access(path, R_OK), 0);
    fl_text_free(version);
    assert_int_equal(fl_job_save_at(c, address, "relative", &version),
                     FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "give a path from the root"));
    fl_ctx_free(c);
    leave(&t);
    end_servers(w);
    alarm(0);
}

/* --- deltas --------------------------------------------------------------- */

/* Some of the keys, from `lo` on. */
static void push_some(trainer *t, int lo, int n)
{
    float grads[KEYS * DIM];
    fl_rows rows = { .keys = t->keys + lo,
                     .n = (size_t)n,
                     .values = grads,
                     .dim = DIM,
                     .lr = 0.1 };

    for (int i = 0; i < n * DIM; i++)
        grads[i] = (float)(i % 5) - 2;
    assert_ok(fl_job_push(t->job, t->table, &rows));
}

static void save_delta(trainer *t, const char *dir, fl_job_saved *out)
{
    *out = (fl_job_saved)FL_INIT(fl_job_saved);
    assert_ok(fl_job_save_with(
        t->job, dir, FL_OPTIONS(fl_job_save_args, .delta = true), out));
}

static uint64_t rows_of(const char *dir)
{
    fl_model_version *v;
    uint64_t n;

    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    n = v->manifest.tables.data[0].rows;
    fl_version_close(v);
    return n;
}

static void expect_loads(const char *dir, const values *want)
{
    values got;

    for (int n = 1; n <= SERVERS_MAX; n++) {
        servers *w = start_servers(n, dir);
        trainer t = { 0 };

        connect(&t, w);
        pull(&t, &got);
        assert_memory_equal(&got, want, sizeof(got));
        leave(&t);
        end_servers(w);
    }
}

static void a_delta_has_the_rows_that_changed(void **state)
{
    servers *w = start_servers(2, NULL);
    trainer t = { 0 };
    char dir[64], other[64];
    fl_job_saved first, second, third;
    values have;

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/changed", folder);
    snprintf(other, sizeof(other), "%s/beside", folder);
    connect(&t, w);
    push(&t, 2);
    save_delta(&t, dir, &first);
    assert_string_equal(first.base, "");
    assert_int_equal(rows_of(dir), KEYS);
    push_some(&t, 10, 20);
    assert_ok(fl_job_save(t.job, other)); /* has no part in it */
    push_some(&t, 20, 20);
    save_delta(&t, dir, &second);
    assert_string_equal(second.base, first.version);
    assert_int_equal(rows_of(dir), 30);
    save_delta(&t, dir, &third); /* nothing changed */
    assert_int_equal(rows_of(dir), 0);
    pull(&t, &have);
    leave(&t);
    end_servers(w);
    expect_loads(dir, &have);
    alarm(0);
}

/* A whole save into the folder of a chain is what the next delta stands on. */
static void a_whole_save_goes_on_with_the_chain(void **state)
{
    servers *w = start_servers(2, NULL);
    trainer t = { 0 };
    char dir[64];
    fl_job_saved first, second;
    values have;

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/whole", folder);
    connect(&t, w);
    push(&t, 1);
    save_delta(&t, dir, &first);
    push_some(&t, 0, 5);
    assert_ok(fl_job_save(t.job, dir));
    push_some(&t, 7, 3);
    save_delta(&t, dir, &second);
    assert_string_not_equal(second.base, "");
    assert_string_not_equal(second.base, first.version);
    assert_int_equal(rows_of(dir), 3);
    pull(&t, &have);
    leave(&t);
    end_servers(w);
    expect_loads(dir, &have);
    alarm(0);
}

static void what_is_not_known_is_saved_whole_and_told(void **state)
{
    servers *w = start_servers(2, NULL);
    trainer t = { 0 };
    char a[64], b[64];
    fl_job_saved saved;

    (void)state;
    alarm(HANGS_S);
    snprintf(a, sizeof(a), "%s/a", folder);
    snprintf(b, sizeof(b), "%s/b", folder);
    connect(&t, w);
    push(&t, 1);
    save_delta(&t, a, &saved);
    save_delta(&t, b, &saved);
    save_delta(&t, a, &saved); /* two chains in turn */
    assert_non_null(strstr(saved.whole, "is not the last one that was saved"));
    assert_int_equal(rows_of(a), KEYS);
    push_some(&t, 0, 4);
    assert_ok(fl_job_clear(t.job, t.table));
    push_some(&t, 0, 6);
    save_delta(&t, a, &saved); /* emptied meanwhile */
    assert_non_null(strstr(saved.whole, "what changed since the last version"));
    assert_int_equal(rows_of(a), 6);
    push_some(&t, 0, 2);
    save_delta(&t, a, &saved);
    assert_string_equal(saved.whole, "");
    assert_int_equal(rows_of(a), 2);
    leave(&t);
    end_servers(w);
    alarm(0);
}

/* The file that server 0 writes when all of them have written. */
static int refuse_dense(const char *name, int flags, mode_t mode)
{
    if (strstr(name, "dense.safetensors")) {
        errno = ENOSPC;
        return -1;
    }
    return fl_sys_own.open(name, flags, mode);
}

/* Behind the cut; the chain stays as it was. */
static void a_delta_after_a_failed_save_has_everything(void **state)
{
    servers *w = start_servers(2, NULL);
    fl_sys sys = fl_sys_own;
    trainer t = { 0 };
    char dir[64];
    fl_job_saved first, second;
    values have;

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/failed", folder);
    connect(&t, w);
    push(&t, 1);
    save_delta(&t, dir, &first);
    push_some(&t, 0, 10);
    sys.open = refuse_dense;
    fl_sys_replace(&sys);
    assert_int_not_equal(
        fl_job_save_with(t.job, dir,
                         FL_OPTIONS(fl_job_save_args, .delta = true), NULL),
        FL_OK);
    fl_sys_replace(NULL);
    push_some(&t, 30, 10);
    save_delta(&t, dir, &second);
    assert_string_equal(second.base, first.version);
    assert_int_equal(rows_of(dir), 20);
    pull(&t, &have);
    leave(&t);
    end_servers(w);
    expect_loads(dir, &have);
    alarm(0);
}

static void a_tool_saves_what_changed_from_outside(void **state)
{
    servers *w = start_servers(2, NULL);
    char address[64], dir[64];
    fl_job_saved saved = FL_INIT(fl_job_saved);
    trainer t = { 0 };
    fl_ctx *c;

    (void)state;
    alarm(HANGS_S);
    snprintf(dir, sizeof(dir), "%s/outside", folder);
    snprintf(address, sizeof(address), "%.*s", (int)strcspn(w->addresses, ","),
             w->addresses);
    connect(&t, w);
    push(&t, 1);
    assert_ok(fl_ctx_new(&c));
    for (int i = 0; i < 2; i++) {
        assert_ok(fl_job_save_at_with(
            c, address, dir, FL_OPTIONS(fl_job_save_args, .delta = true),
            &saved));
        push_some(&t, 0, 8);
    }
    assert_string_not_equal(saved.base, "");
    assert_int_equal(rows_of(dir), 8);
    fl_ctx_free(c);
    leave(&t);
    end_servers(w);
    alarm(0);
}

static void what_cannot_be_saved_or_loaded_is_told(void **state)
{
    servers *w = start_servers(2, NULL);
    trainer t = { 0 };
    char file[64], dir[96];
    FILE *f;

    (void)state;
    alarm(HANGS_S);
    connect(&t, w);
    push(&t, 1);
    snprintf(file, sizeof(file), "%s/file", folder);
    f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(dir, sizeof(dir), "%s/model", file);
    assert_int_not_equal(fl_job_save(t.job, dir), FL_OK);
    assert_non_null(strstr(fl_last_error(), "server 0: "));
    assert_non_null(strstr(fl_last_error(), dir));
    assert_int_equal(fl_job_save(t.job, ""), FL_ERR_INVAL);
    snprintf(dir, sizeof(dir), "%s/nothing", folder);
    assert_int_not_equal(fl_job_load(t.job, dir), FL_OK);
    assert_non_null(strstr(fl_last_error(), dir));
    push(&t, 1); /* it goes on */
    leave(&t);
    end_servers(w);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_begin_with_a_model_of_any_number),
        cmocka_unit_test(a_job_loads_a_model_and_forgets_what_it_had),
        cmocka_unit_test(a_tool_saves_a_job_from_outside),
        cmocka_unit_test(a_delta_has_the_rows_that_changed),
        cmocka_unit_test(a_whole_save_goes_on_with_the_chain),
        cmocka_unit_test(what_is_not_known_is_saved_whole_and_told),
        cmocka_unit_test(a_delta_after_a_failed_save_has_everything),
        cmocka_unit_test(a_tool_saves_what_changed_from_outside),
        cmocka_unit_test(what_cannot_be_saved_or_loaded_is_told),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
