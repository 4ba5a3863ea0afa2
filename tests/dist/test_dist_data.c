/* test_dist_data.c - data over trainers: records that change places, and files
 * that are dispatched as they are asked for. */
#include <dirent.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/experimental/job_data.h"
#include "base/alloc.h"
#include "mode_list.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dist/job.h"
#include "dist_kit.h"
#include "../make.h"

#define TRAINERS 3
#define FILES 10
#define PER_FILE 400
#define KEYS (FILES * PER_FILE)
#define BATCH 32

/* A thread that waits this long waits in vain. */
#define HANGS_NS (UINT64_C(60) * 1000000000u)

static char folder[] = "/tmp/flotilla_dist_XXXXXX";

static const fl_slot slots[] = {
    { .name = "key", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "list", .kind = FL_SLOT_IDS },
};

/* --- files ---------------------------------------------------------------- */

static FILE *create(const char *name)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    return f;
}

/* A key, and a list that follows from it. */
static void write_keys(const char *name, uint64_t lo, uint64_t hi, int width)
{
    FILE *f = create(name);

    for (uint64_t key = lo; key < hi; key++) {
        fprintf(f, "1 %" PRIu64 " %d", key, width);
        for (int i = 0; i < width; i++)
            fprintf(f, " %" PRIu64, fl_mix64(key + (uint64_t)i));
        fprintf(f, "\n");
    }
    fclose(f);
}

/* Lines for the network of the kit. */
static void write_samples(const char *name, int n)
{
    FILE *f = create(name);

    for (int i = 0; i < n; i++)
        fprintf(f, "1 %d 2 %d %d 1 %d 4 0.1 0.2 0.3 0.4 1 %d\n", i % 50, i % 7,
                i % 11, i % 13, i % 2);
    fclose(f);
}

static int make_folder(void **state)
{
    char name[32];

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "part-%02d", i);
        write_keys(name, (uint64_t)i * PER_FILE, (uint64_t)(i + 1) * PER_FILE,
                   1 + i % 3);
        snprintf(name, sizeof(name), "samples-%02d", i);
        write_samples(name, 60 + 97 * (i % 3));
    }
    return 0;
}

static int remove_folder(void **state)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    char path[512];

    (void)state;
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    return rmdir(folder);
}

static fl_status open_dataset(fl_dataset **out, kit_trainer *t,
                              const char *kind, const char *pattern)
{
    char path[256];
    const char *one = path;
    fl_status st = fl_dataset_new(out, t->ctx, kind);

    snprintf(path, sizeof(path), "%s/%s", folder, pattern);
    if (!st)
        st = fl_dataset_set_filelist(*out, &one, 1);
    if (!st)
        st = fl_dataset_set_slots(*out, slots, FL_LEN(slots));
    if (!st)
        fl_dataset_set_batch_size(*out, BATCH);
    return st;
}

/* --- what trainers find --------------------------------------------------- */

/* How often each trainer saw each key. */
typedef struct census {
    atomic_uint seen[TRAINERS][KEYS];
    atomic_uint n_wrong; /* records that are not what was written */
} census;

static void count_batch(census *c, int rank, const fl_feed *feeds, size_t n)
{
    const uint64_t *keys = feeds[0].value.data, *ids = feeds[1].value.data;
    const int64_t *offsets = feeds[1].value.lod[0];

    for (size_t i = 0; i < n; i++) {
        bool is_right = keys[i] < KEYS;

        for (int64_t k = offsets[i]; k < offsets[i + 1]; k++)
            is_right &=
                ids[k] == fl_mix64(keys[i] + (uint64_t)(k - offsets[i]));
        if (is_right)
            atomic_fetch_add(&c->seen[rank][keys[i]], 1);
        else
            atomic_fetch_add(&c->n_wrong, 1);
    }
}

static fl_status count_pass(census *c, int rank, fl_dataset *d)
{
    const fl_feed *feeds;
    size_t n;
    fl_status st = fl_dataset_begin(d, 1);

    while (!st && !(st = fl_dataset_next(d, 0, &feeds, &n)) && feeds)
        count_batch(c, rank, feeds, n);
    fl_dataset_end(d);
    return st;
}

static unsigned total(const census *c, size_t key)
{
    unsigned sum = 0;

    for (int r = 0; r < TRAINERS; r++)
        sum += atomic_load(&c->seen[r][key]);
    return sum;
}

static void expect_each(const census *c, size_t n_keys, unsigned times)
{
    assert_int_equal(atomic_load(&c->n_wrong), 0);
    for (size_t key = 0; key < n_keys; key++)
        if (total(c, key) != times)
            fail_msg("record %zu was seen %u times", key, total(c, key));
}

static void run_good(const kit_job *j, kit_work work, void *arg)
{
    kit_text texts[KIT_MEMBERS] = { 0 };

    kit_run(j, work, arg, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

/* --- global shuffle ------------------------------------------------------- */

typedef struct shuffles {
    const char *pattern[TRAINERS]; /* files of each trainer */
    uint64_t seed;
    census after[2]; /* one shuffle, two */
    census late;     /* one that comes back */
    uint64_t sizes[TRAINERS];
} shuffles;

static fl_status shuffle_twice(kit_trainer *t, void *arg)
{
    shuffles *s = arg;
    fl_dataset *d = NULL;
    fl_status st = open_dataset(&d, t, "InMemoryDataset", s->pattern[t->rank]);

    if (!st)
        st = fl_dataset_load_into_memory(d);
    for (int i = 0; !st && i < 2; i++) {
        st =
            fl_job_global_shuffle(fl_transpiler_job(t->transpiler), d, s->seed);
        if (!st)
            st = count_pass(&s->after[i], t->rank, d);
    }
    s->sizes[t->rank] = d ? fl_dataset_get_shuffle_data_size(d) : 0;
    fl_dataset_free(d);
    return st;
}

/* Without servers, trainers serve. */
static shuffles *run_shuffles(uint64_t seed, int n_servers)
{
    kit_job j = { .mode = "async",
                  .n_servers = n_servers,
                  .workers_serve = !n_servers,
                  .n_trainers = TRAINERS };
    shuffles *s = fl_alloc(sizeof(*s));

    s->pattern[0] = "part-0[0-4]";
    s->pattern[1] = "part-0[5-7]";
    s->pattern[2] = "part-0[89]";
    s->seed = seed;
    run_good(&j, shuffle_twice, s);
    return s;
}

/* Of the ways of all records of one origin; with 2 degrees of freedom it is
   above 30 once in three million times. */
static double chi_square(const census *c, size_t lo, size_t hi)
{
    double want = (double)(hi - lo) / TRAINERS, sum = 0;

    for (int r = 0; r < TRAINERS; r++) {
        double n = 0;

        for (size_t key = lo; key < hi; key++)
            n += atomic_load(&c->seen[r][key]);
        sum += (n - want) * (n - want) / want;
    }
    return sum;
}

static void a_global_shuffle_leaves_every_record_in_one_trainer(void **state)
{
    shuffles *s = run_shuffles(5, 2);
    uint64_t size = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        expect_each(&s->after[i], KEYS, 1);
        assert_true(chi_square(&s->after[i], 0, 5 * PER_FILE) < 30);
        assert_true(chi_square(&s->after[i], 5 * PER_FILE, 8 * PER_FILE) < 30);
        assert_true(chi_square(&s->after[i], 8 * PER_FILE, KEYS) < 30);
    }
    assert_memory_not_equal(s->after[0].seen, s->after[1].seen,
                            sizeof(s->after[0].seen));
    for (int i = 0; i < TRAINERS; i++)
        size += s->sizes[i];
    assert_int_equal(size, KEYS);
    fl_free(s);
}

static void a_global_shuffle_depends_on_its_seed_alone(void **state)
{
    shuffles *a = run_shuffles(5, 1), *b = run_shuffles(5, 3);
    shuffles *c = run_shuffles(6, 1), *d = run_shuffles(5, 0);

    (void)state;
    assert_memory_equal(a->after, b->after, sizeof(a->after));
    assert_memory_equal(a->after, d->after, sizeof(a->after));
    assert_memory_not_equal(a->after, c->after, sizeof(a->after));
    fl_free(a);
    fl_free(b);
    fl_free(c);
    fl_free(d);
}

/* More than one pack for everybody, and a trainer that has nothing. */
static void many_packs_and_none_at_all(void **state)
{
    kit_job j = { .mode = "async", .n_servers = 2, .n_trainers = TRAINERS };
    shuffles *s = fl_alloc(sizeof(*s));

    (void)state;
    write_keys("wide", 0, KEYS, 900);
    write_keys("none", 0, 0, 1);
    s->pattern[0] = "none";
    s->pattern[1] = "wide";
    s->pattern[2] = "none";
    run_good(&j, shuffle_twice, s);
    expect_each(&s->after[0], KEYS, 1);
    expect_each(&s->after[1], KEYS, 1);
    for (int i = 0; i < TRAINERS; i++)
        assert_true(s->sizes[i] > KEYS / TRAINERS / 2);
    fl_free(s);
}

static void with_one_trainer_it_is_a_local_shuffle(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = 1 };
    shuffles *s = fl_alloc(sizeof(*s));

    (void)state;
    s->pattern[0] = "part-*";
    run_good(&j, shuffle_twice, s);
    expect_each(&s->after[0], KEYS, 1);
    assert_int_equal(s->sizes[0], KEYS);
    fl_free(s);
}

/* The others make theirs without the one that has left. */
/* The last trainer counts its shuffles from the first again, as one does that
   was started anew. */
static fl_status shuffle_and_come_back(kit_trainer *t, void *arg)
{
    fl_job *job = fl_transpiler_job(t->transpiler);
    shuffles *s = arg;
    fl_dataset *d = NULL;
    fl_status st = shuffle_twice(t, arg);

    if (st || t->rank != TRAINERS - 1)
        return st;
    job->n_shuffles = 0;
    st = open_dataset(&d, t, "InMemoryDataset", s->pattern[t->rank]);
    if (!st)
        st = fl_dataset_load_into_memory(d);
    if (!st)
        st = fl_job_global_shuffle(job, d, s->seed);
    if (!st)
        st = count_pass(&s->late, t->rank, d);
    fl_dataset_free(d);
    return st;
}

static void who_comes_back_late_keeps_its_own_records(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = TRAINERS };
    shuffles *s = fl_alloc(sizeof(*s));

    (void)state;
    s->pattern[0] = "part-00";
    s->pattern[1] = "part-01";
    s->pattern[2] = "part-02";
    run_good(&j, shuffle_and_come_back, s);
    for (size_t key = 0; key < KEYS; key++)
        assert_int_equal(total(&s->late, key), key / PER_FILE == 2 ? 1 : 0);
    fl_free(s);
}

static fl_status leave_or_shuffle(kit_trainer *t, void *arg)
{
    if (t->rank == 1)
        return fl_job_stop(fl_transpiler_job(t->transpiler));
    return shuffle_twice(t, arg);
}

static void a_trainer_that_has_left_gets_no_records(void **state)
{
    kit_job j = { .mode = "async", .n_servers = 2, .n_trainers = TRAINERS };
    shuffles *s = fl_alloc(sizeof(*s));
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    s->pattern[0] = "part-0[0-4]";
    s->pattern[2] = "part-0[5-9]";
    kit_run(&j, leave_or_shuffle, s, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0] && i != 3)
            fail_msg("member %d: %s", i, texts[i]);
    expect_each(&s->after[0], KEYS, 1);
    expect_each(&s->after[1], KEYS, 1);
    assert_int_equal(s->sizes[0] + s->sizes[2], KEYS);
    fl_free(s);
}

static fl_status shuffle_what_is_not_there(kit_trainer *t, void *arg)
{
    fl_dataset *d = NULL;
    fl_status st = open_dataset(&d, t, "InMemoryDataset", "part-*");

    (void)arg;
    if (!st)
        st = fl_job_global_shuffle(fl_transpiler_job(t->transpiler), d, 1);
    fl_dataset_free(d);
    return st;
}

static void what_is_not_loaded_is_refused(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = 2 };
    kit_text texts[KIT_MEMBERS] = { 0 };

    (void)state;
    kit_run(&j, shuffle_what_is_not_there, NULL, NULL, texts);
    for (int i = 1; i < 3; i++)
        if (!strstr(texts[i], "nothing is loaded"))
            fail_msg("trainer %d: %s", i - 1, texts[i]);
}

/* --- dealing -------------------------------------------------------------- */

typedef struct deals {
    int n_passes;
    census census;
    uint64_t files[TRAINERS];

    fl_mutex mu;
    fl_cond cond;
    uint64_t n_others; /* records that the others have seen; guarded by mu */
    bool has_begun;    /* trainer 0 has a file; guarded by mu */
} deals;

static deals *make_deals(int n_passes)
{
    deals *g = fl_alloc(sizeof(*g));

    g->n_passes = n_passes;
    fl_mutex_init(&g->mu);
    fl_cond_init(&g->cond);
    return g;
}

static void free_deals(deals *g)
{
    fl_cond_release(&g->cond);
    fl_mutex_release(&g->mu);
    fl_free(g);
}

static fl_status read_dispatched(kit_trainer *t, void *arg)
{
    deals *g = arg;
    fl_dataset *d = NULL;
    fl_status st = open_dataset(&d, t, "QueueDataset", "part-*");

    if (!st)
        st =
            fl_job_dispatch_files(fl_transpiler_job(t->transpiler), d, "train");
    for (int i = 0; !st && i < g->n_passes; i++) {
        st = count_pass(&g->census, t->rank, d);
        g->files[t->rank] += dataset_stats(d).files;
    }
    fl_dataset_free(d);
    return st;
}

static void every_file_is_dispatched_once_in_every_pass(void **state)
{

    (void)state;
    for (size_t m = 0; mode_name(m); m++) {
        kit_job j = { .mode = mode_name(m),
                      .n_servers = 2,
                      .n_trainers = TRAINERS,
                      .workers_serve = m % 2 };
        deals *g = make_deals(3);

        run_good(&j, read_dispatched, g);
        expect_each(&g->census, KEYS, 3);
        assert_int_equal(g->files[0] + g->files[1] + g->files[2], 3 * FILES);
        free_deals(g);
    }
}

/* A new dataset by the same name goes on with the next pass. */
static fl_status read_twice(kit_trainer *t, void *arg)
{
    fl_status st = read_dispatched(t, arg);

    return st ? st : read_dispatched(t, arg);
}

static void a_name_may_be_used_again(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = 2 };
    deals *g = make_deals(1);

    (void)state;
    run_good(&j, read_twice, g);
    expect_each(&g->census, KEYS, 2);
    free_deals(g);
}

static fl_status load_dispatched(kit_trainer *t, void *arg)
{
    deals *g = arg;
    fl_dataset *d = NULL;
    fl_status st = open_dataset(&d, t, "InMemoryDataset", "part-*");

    if (!st)
        st = fl_job_dispatch_files(fl_transpiler_job(t->transpiler), d, "load");
    if (!st)
        st = fl_dataset_load_into_memory(d);
    if (!st)
        st = fl_job_global_shuffle(fl_transpiler_job(t->transpiler), d, 1);
    if (!st)
        st = count_pass(&g->census, t->rank, d);
    fl_dataset_free(d);
    return st;
}

static void dispatched_files_can_be_loaded_and_shuffled(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = TRAINERS };
    deals *g = make_deals(1);

    (void)state;
    run_good(&j, load_dispatched, g);
    expect_each(&g->census, KEYS, 1);
    free_deals(g);
}

/* --- trainers that are slow or leave -------------------------------------- */

static void wait_for_others(deals *g, uint64_t n)
{
    uint64_t until = fl_now_ns() + HANGS_NS;

    fl_lock(&g->mu);
    g->has_begun = true;
    fl_cond_wake_all(&g->cond);
    while (g->n_others < n && fl_cond_wait_until(&g->cond, &g->mu, until))
        ;
    fl_unlock(&g->mu);
}

static void wait_for_trainer_0(deals *g)
{
    uint64_t until = fl_now_ns() + HANGS_NS;

    fl_lock(&g->mu);
    while (!g->has_begun && fl_cond_wait_until(&g->cond, &g->mu, until))
        ;
    fl_unlock(&g->mu);
}

static void add_others(deals *g, uint64_t n)
{
    fl_lock(&g->mu);
    g->n_others += n;
    fl_cond_wake_all(&g->cond);
    fl_unlock(&g->mu);
}

/* Trainer 0 takes a batch, and goes on when the others have seen so much. */
static fl_status read_slowly(deals *g, kit_trainer *t, fl_dataset *d,
                             uint64_t n_others)
{
    const fl_feed *feeds;
    size_t n;
    fl_status st;

    if (t->rank)
        wait_for_trainer_0(g);
    st = fl_dataset_begin(d, 1);
    while (!st && !(st = fl_dataset_next(d, 0, &feeds, &n)) && feeds) {
        count_batch(&g->census, t->rank, feeds, n);
        if (t->rank)
            add_others(g, n);
        else
            wait_for_others(g, n_others);
    }
    fl_dataset_end(d);
    g->files[t->rank] = dataset_stats(d).files;
    return st;
}

static fl_status be_slow(kit_trainer *t, void *arg)
{
    deals *g = arg;
    fl_dataset *d = NULL;
    fl_status st = open_dataset(&d, t, "QueueDataset", "part-*");

    if (!st)
        st =
            fl_job_dispatch_files(fl_transpiler_job(t->transpiler), d, "train");
    if (!st)
        st = read_slowly(g, t, d, KEYS - 2 * PER_FILE);
    fl_dataset_free(d);
    return st;
}

static void a_slow_trainer_gets_fewer_files(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = TRAINERS };
    deals *g = make_deals(1);

    (void)state;
    run_good(&j, be_slow, g);
    expect_each(&g->census, KEYS, 1);
    assert_true(g->files[0] >= 1 && g->files[0] <= 2);
    assert_int_equal(g->files[0] + g->files[1] + g->files[2], FILES);
    free_deals(g);
}

/* Trainer 0 leaves with a file that it has just begun. */
static fl_status leave_early(kit_trainer *t, void *arg)
{
    deals *g = arg;
    fl_dataset *d = NULL;
    const fl_feed *feeds;
    size_t n;
    fl_status st = open_dataset(&d, t, "QueueDataset", "part-*");

    if (!st)
        st =
            fl_job_dispatch_files(fl_transpiler_job(t->transpiler), d, "train");
    if (!st && t->rank) {
        st = read_slowly(g, t, d, 0);
    } else if (!st) {
        st = fl_dataset_begin(d, 1);
        if (!st)
            st = fl_dataset_next(d, 0, &feeds, &n);
        if (!st)
            count_batch(&g->census, 0, feeds, n);
        wait_for_others(g, PER_FILE);
        if (!st)
            st = fl_job_stop(fl_transpiler_job(t->transpiler));
    }
    fl_dataset_free(d);
    return st;
}

static void a_trainer_that_leaves_gives_its_files_back(void **state)
{
    kit_job j = { .mode = "async", .n_trainers = TRAINERS };
    kit_text texts[KIT_MEMBERS] = { 0 };
    deals *g = make_deals(1);

    (void)state;
    kit_run(&j, leave_early, g, NULL, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0] && i != 1)
            fail_msg("member %d: %s", i, texts[i]);
    assert_int_equal(atomic_load(&g->census.n_wrong), 0);
    for (size_t key = 0; key < KEYS; key++) {
        unsigned by_others =
            total(&g->census, key) - atomic_load(&g->census.seen[0][key]);

        if (by_others != 1)
            fail_msg("record %zu was seen %u times", key, by_others);
    }
    free_deals(g);
}

/* --- training ------------------------------------------------------------- */

typedef struct trained {
    int n_passes;
    _Atomic uint64_t samples;
} trained;

static fl_status train_dispatched(kit_trainer *t, void *arg)
{
    static const char *const names[] = { "s0", "s1", "s2", "dense", "label" };
    char path[256];
    const char *one = path;
    fl_program *p = fl_transpiler_trainer(t->transpiler);
    fl_dataset_report report = FL_INIT(fl_dataset_report);
    trained *g = arg;
    fl_dataset *d = NULL;
    fl_status st = fl_dataset_new(&d, t->ctx, "QueueDataset");

    snprintf(path, sizeof(path), "%s/samples-*", folder);
    if (!st)
        st = fl_dataset_set_filelist(d, &one, 1);
    if (!st)
        st = fl_dataset_set_use_var(d, p, names, FL_LEN(names));
    if (!st)
        st =
            fl_job_dispatch_files(fl_transpiler_job(t->transpiler), d, "train");
    fl_dataset_set_batch_size(d, 8);
    for (int i = 0; !st && i < g->n_passes; i++) {
        st = fl_train_from_dataset(t->exe, p, d, &report, .n_threads = 2,
                                   .print_period = -1);
        atomic_fetch_add(&g->samples, report.samples);
        if (!st)
            st = fl_job_barrier(fl_transpiler_job(t->transpiler));
    }
    fl_dataset_free(d);
    return st;
}

static void every_mode_trains_on_dispatched_files(void **state)
{
    uint64_t want = 0;

    (void)state;
    for (int i = 0; i < FILES; i++)
        want += 60 + 97 * (uint64_t)(i % 3);
    for (size_t m = 0; mode_name(m); m++) {
        kit_job j = { .mode = mode_name(m), .n_servers = 2, .n_trainers = 2 };
        trained g = { .n_passes = m ? 2 : 1 };

        run_good(&j, train_dispatched, &g);
        assert_int_equal(atomic_load(&g.samples), (uint64_t)g.n_passes * want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_global_shuffle_leaves_every_record_in_one_trainer),
        cmocka_unit_test(a_global_shuffle_depends_on_its_seed_alone),
        cmocka_unit_test(many_packs_and_none_at_all),
        cmocka_unit_test(with_one_trainer_it_is_a_local_shuffle),
        cmocka_unit_test(who_comes_back_late_keeps_its_own_records),
        cmocka_unit_test(a_trainer_that_has_left_gets_no_records),
        cmocka_unit_test(what_is_not_loaded_is_refused),
        cmocka_unit_test(every_file_is_dispatched_once_in_every_pass),
        cmocka_unit_test(a_name_may_be_used_again),
        cmocka_unit_test(dispatched_files_can_be_loaded_and_shuffled),
        cmocka_unit_test(a_slow_trainer_gets_fewer_files),
        cmocka_unit_test(a_trainer_that_leaves_gives_its_files_back),
        cmocka_unit_test(every_mode_trains_on_dispatched_files),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
