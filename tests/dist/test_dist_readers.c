/* test_dist_readers.c - every way in for data, in every mode.
 *
 * Two trainers read files of their own, by hand through a feeder, through a
 * reader with two workers, and through both datasets; alone, as replicas, and
 * as hogwild threads. Whatever the way, each record is trained once per pass,
 * what was computed is applied, and the loss falls.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "mode_list.h"
#include "dist_kit.h"
#include "../make.h"

#define TRAINERS 2
#define THREADS 2 /* of a trainer: hogwild threads, replicas, workers */
#define RECORDS 203
#define BATCH 16 /* the last one of a pass is short, and their number odd */
#define PASSES 6
#define PATH_ROOM 128
#define VARIABLES (KIT_PARAMS + 1)

static const char *const names[KIT_FEEDS] = { "s0", "s1", "s2", "dense",
                                              "label" };

/* --- files ---------------------------------------------------------------- */

typedef struct record {
    uint64_t n_ids[KIT_SLOTS], ids[KIT_SLOTS][2];
    float dense[KIT_DENSE];
    uint64_t label;
} record;

static uint64_t dice(int rank, int row, int what)
{
    return fl_mix64(fl_mix64(((uint64_t)rank << 32) + (uint64_t)row) +
                    (uint64_t)what);
}

/* The label is what the first id says, so that there is something to learn. */
static void write_record(FILE *f, int rank, int row)
{
    for (int s = 0; s < KIT_SLOTS; s++) {
        int n = 1 + (int)(dice(rank, row, s) % 2);

        fprintf(f, "%d ", s ? n : 1);
        for (int i = 0; i < (s ? n : 1); i++)
            fprintf(f, "%" PRIu64 " ",
                    dice(rank, row, 10 * s + i) % KIT_HEIGHT);
    }
    fprintf(f, "%d ", KIT_DENSE);
    for (int i = 0; i < KIT_DENSE; i++)
        fprintf(f, "%.3f ", (double)(dice(rank, row, 90 + i) % 1000) / 1000);
    fprintf(f, "1 %" PRIu64 "\n", dice(rank, row, 0) % KIT_HEIGHT % 2);
}

/* False at the end of the file. */
static bool read_record(FILE *f, record *r)
{
    int n;

    for (int s = 0; s < KIT_SLOTS; s++) {
        if (fscanf(f, "%" SCNu64, &r->n_ids[s]) != 1 || r->n_ids[s] > 2)
            return false;
        for (uint64_t i = 0; i < r->n_ids[s]; i++)
            if (fscanf(f, "%" SCNu64, &r->ids[s][i]) != 1)
                return false;
    }
    if (fscanf(f, "%d", &n) != 1 || n != KIT_DENSE)
        return false;
    for (int i = 0; i < KIT_DENSE; i++)
        if (fscanf(f, "%f", &r->dense[i]) != 1)
            return false;
    return fscanf(f, "%d %" SCNu64, &n, &r->label) == 2;
}

static fl_status feed_record(fl_feeder *f, const record *r)
{
    fl_status st = FL_OK;

    for (int s = 0; !st && s < KIT_SLOTS; s++)
        st = fl_feeder_ids(f, names[s], r->ids[s], (size_t)r->n_ids[s]);
    if (!st)
        st = fl_feeder_floats(f, "dense", r->dense, KIT_DENSE);
    if (!st)
        st = fl_feeder_ids(f, "label", &r->label, 1);
    return st ? st : fl_feeder_end_sample(f);
}

/* --- a job ---------------------------------------------------------------- */

/* What a trainer saw. */
typedef struct seen {
    uint64_t records, steps; /* replicas make one together */
    double loss[PASSES];     /* mean of the pass */
} seen;

typedef struct visit visit;
typedef fl_status (*way_in)(visit *v);

typedef struct local_cluster {
    way_in way;
    bool as_replicas;
    char folder[PATH_ROOM];
    char files[TRAINERS][PATH_ROOM + 32];
    seen seen[TRAINERS];
} local_cluster;

/* A trainer with its data. */
struct visit {
    kit_trainer *t;
    local_cluster *local_cluster;
    const char *file;
    seen *seen;
    fl_program *program;
    fl_compiled_program *replicas; /* NULL: alone */
    int pass;
};

static void take_loss(visit *v, const fl_tensor *out, size_t n_values,
                      size_t n_rows)
{
    double sum = 0;

    for (size_t i = 0; i < n_values; i++)
        sum += (double)*(const float *)out[i].data;
    v->seen->loss[v->pass] += sum / (double)n_values * (double)n_rows / RECORDS;
    v->seen->records += n_rows;
    v->seen->steps++;
}

/* One batch, cut over the replicas if there are any. */
static fl_status train(visit *v, const fl_feed *feeds, size_t n_rows)
{
    const char *loss = fl_var_name(v->t->loss);
    fl_tensor out[THREADS];
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = KIT_FEEDS,
                .fetches = &loss, .n_fetches = 1, .out = out);
    fl_status st = v->replicas ? fl_run_compiled(v->t->exe, v->replicas, &args)
                               : fl_run(v->t->exe, v->program, &args);

    if (!st)
        take_loss(v, out, v->replicas ? THREADS : 1, n_rows);
    return st;
}

/* A batch per replica. */
static fl_status train_each(visit *v, const fl_feed *const feeds[THREADS],
                            size_t n_rows)
{
    const char *loss = fl_var_name(v->t->loss);
    fl_feed all[THREADS * KIT_FEEDS];
    fl_tensor out[THREADS];
    fl_run_args args = FL_INIT(fl_run_args, .feeds = all, .n_feeds = KIT_FEEDS,
                               .fetches = &loss, .n_fetches = 1, .out = out);
    fl_status st;

    for (int i = 0; i < THREADS; i++)
        memcpy(all + i * KIT_FEEDS, feeds[i], KIT_FEEDS * sizeof(*all));
    st = fl_run_compiled_each(v->t->exe, v->replicas, &args);
    if (!st)
        take_loss(v, out, THREADS, n_rows);
    return st;
}

static fl_status all_passes(visit *v)
{
    fl_status st = FL_OK;

    for (v->pass = 0; !st && v->pass < PASSES; v->pass++)
        st = v->local_cluster->way(v);
    return st;
}

static fl_status trainer_work(kit_trainer *t, void *arg)
{
    local_cluster *w = arg;
    visit v = { .t = t,
                .local_cluster = w,
                .file = w->files[t->rank],
                .seen = &w->seen[t->rank],
                .program = fl_transpiler_trainer(t->transpiler) };
    fl_status st = FL_OK;

    if (w->as_replicas) {
        v.replicas = make_compiled(v.program);
        st = fl_compiled_program_with_data_parallel(
            v.replicas, fl_var_name(t->loss), NULL, NULL);
    }
    if (!st)
        st = all_passes(&v);
    fl_compiled_program_free(v.replicas);
    return st;
}

/* --- feeder --------------------------------------------------------------- */

static fl_status feed_batch(fl_feeder *f, FILE *file, size_t *n_rows)
{
    fl_status st = FL_OK;
    record r;

    fl_feeder_begin(f);
    for (*n_rows = 0; !st && *n_rows < BATCH && read_record(file, &r);
         ++*n_rows)
        st = feed_record(f, &r);
    return st;
}

static fl_status feed_file(visit *v, fl_feeder *f, FILE *file)
{
    for (;;) {
        const fl_feed *feeds;
        size_t n_rows;
        fl_status st = feed_batch(f, file, &n_rows);

        if (st || !n_rows)
            return st;
        st = fl_feeder_feeds(f, &feeds, &n_rows);
        if (!st)
            st = train(v, feeds, n_rows);
        if (st)
            return st;
    }
}

static fl_status by_feeder(visit *v)
{
    FILE *file = fopen(v->file, "r");
    fl_feeder *f = NULL;
    fl_status st = file ? FL_OK : FL_ERR_IO;

    if (!st)
        st = fl_feeder_new(&f, v->program, names, KIT_FEEDS);
    if (!st)
        st = feed_file(v, f, file);
    fl_feeder_free(f);
    if (file)
        fclose(file);
    return st;
}

/* --- reader --------------------------------------------------------------- */

/* Worker i of n has records i, i + n, and so on. */
typedef struct workers {
    FILE *files[THREADS];
} workers;

static fl_status next_sample(void *arg, int worker, fl_feeder *into, bool *end)
{
    FILE *file = ((workers *)arg)->files[worker];
    record mine, other;

    *end = !read_record(file, &mine);
    for (int i = 1; i < THREADS; i++)
        (void)read_record(file, &other);
    return *end ? FL_OK : feed_record(into, &mine);
}

static bool open_workers(workers *w, const char *path)
{
    bool ok = true;
    record other;

    for (int i = 0; i < THREADS; i++) {
        w->files[i] = fopen(path, "r");
        ok &= !!w->files[i];
        for (int k = 0; ok && k < i; k++)
            ok = read_record(w->files[i], &other);
    }
    return ok;
}

static fl_status read_all(visit *v, fl_reader *r)
{
    const fl_feed *feeds;
    size_t n_rows;
    fl_status st = fl_reader_start(r);

    if (!st)
        st = fl_reader_next(r, 0, &feeds, &n_rows);
    while (!st && feeds) {
        st = train(v, feeds, n_rows);
        if (!st)
            st = fl_reader_next(r, 0, &feeds, &n_rows);
    }
    return st;
}

static fl_status by_reader(visit *v)
{
    workers w = { 0 };
    fl_reader *r = NULL;
    fl_status st = open_workers(&w, v->file) ? FL_OK : FL_ERR_IO;

    if (!st)
        st = fl_reader_new(&r, v->program, names, KIT_FEEDS,
                           .n_workers = THREADS, .ordered = true);
    if (!st) {
        fl_reader_decorate_sample_generator(r, next_sample, &w, BATCH, false);
        st = read_all(v, r);
    }
    fl_reader_free(r);
    for (int i = 0; i < THREADS; i++)
        if (w.files[i])
            fclose(w.files[i]);
    return st;
}

/* --- datasets ------------------------------------------------------------- */

static fl_status open_dataset(visit *v, const char *kind, fl_dataset **out)
{
    fl_status st = fl_dataset_new(out, v->t->ctx, kind);

    if (st)
        return st;
    fl_dataset_set_batch_size(*out, BATCH);
    fl_dataset_set_thread(*out, THREADS);
    st = fl_dataset_set_use_var(*out, v->program, names, KIT_FEEDS);
    if (!st)
        st = fl_dataset_set_filelist(*out, &v->file, 1);
    if (!st && !strcmp(kind, "InMemoryDataset"))
        st = fl_dataset_load_into_memory(*out);
    return st;
}

static fl_status by_threads(visit *v, fl_dataset *d)
{
    fl_dataset_report report = FL_INIT(fl_dataset_report);
    fl_status st = fl_train_from_dataset(
        v->t->exe, v->program, d, &report, .n_threads = THREADS,
        .print_period = -1, .loss = fl_var_name(v->t->loss));

    v->seen->records += report.samples;
    v->seen->steps += report.batches;
    v->seen->loss[v->pass] = report.loss;
    return st;
}

/* A batch for each consumer; *n counts them, fewer at the end. */
static fl_status next_batches(fl_dataset *d, const fl_feed *feeds[THREADS],
                              size_t rows[THREADS], int *n)
{
    fl_status st = FL_OK;

    for (*n = 0; *n < THREADS; ++*n) {
        st = fl_dataset_next(d, *n, &feeds[*n], &rows[*n]);
        if (st || !feeds[*n])
            break;
    }
    return st;
}

static fl_status by_hand(visit *v, fl_dataset *d)
{
    fl_status st = fl_dataset_begin(d, THREADS);

    while (!st) {
        const fl_feed *feeds[THREADS];
        size_t rows[THREADS], n_rows = 0;
        int n;

        st = next_batches(d, feeds, rows, &n);
        for (int i = 0; i < n; i++)
            n_rows += rows[i];
        if (st || !n)
            break;
        if (n == THREADS)
            st = train_each(v, feeds, n_rows);
        for (int i = 0; !st && n < THREADS && i < n; i++)
            st = train(v, feeds[i], rows[i]);
    }
    fl_dataset_end(d);
    return st;
}

static fl_status by_dataset(visit *v, const char *kind)
{
    fl_dataset *d = NULL;
    fl_status st = open_dataset(v, kind, &d);

    if (!st)
        st = v->replicas ? by_hand(v, d) : by_threads(v, d);
    fl_dataset_free(d);
    return st;
}

static fl_status by_queue_dataset(visit *v)
{
    return by_dataset(v, "QueueDataset");
}

static fl_status by_memory_dataset(visit *v)
{
    return by_dataset(v, "InMemoryDataset");
}

/* --- tests ---------------------------------------------------------------- */

static void make_files(local_cluster *w)
{
    snprintf(w->folder, sizeof(w->folder), "/tmp/dist_readers_XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    for (int rank = 0; rank < TRAINERS; rank++) {
        FILE *f;

        snprintf(w->files[rank], sizeof(w->files[rank]), "%s/part-%d",
                 w->folder, rank);
        f = fopen(w->files[rank], "w");
        assert_non_null(f);
        for (int i = 0; i < RECORDS; i++)
            write_record(f, rank, i);
        assert_int_equal(fclose(f), 0);
    }
}

static void remove_files(const local_cluster *w)
{
    for (int rank = 0; rank < TRAINERS; rank++)
        (void)unlink(w->files[rank]);
    (void)rmdir(w->folder);
}

/* Geo counts what it exchanges, collective what the threads of a worker have made
   of theirs, the others every gradient of every step. */
static void check_counts(const char *mode, const seen *s,
                         const fl_job_stats *stats)
{
    assert_int_equal(s->records, PASSES * RECORDS);
    assert_int_equal(stats->gradients_made, stats->gradients_applied);
    assert_true(stats->gradients_made > 0);
    if (strcmp(mode, "geo") && strcmp(mode, "collective"))
        assert_int_equal(stats->gradients_made, VARIABLES * s->steps);
}

static void check_loss(const char *mode, const seen *s)
{
    if (!(s->loss[PASSES - 1] < 0.8 * s->loss[0]))
        fail_msg("%s: the loss goes from %g to %g", mode, s->loss[0],
                 s->loss[PASSES - 1]);
}

static void train_in(const char *mode, way_in way, bool as_replicas)
{
    kit_job j = { .mode = mode,
                  .n_servers = 1,
                  .n_trainers = TRAINERS,
                  .optimizer = "adagrad",
                  .words = "learning_rate=0.1",
                  .settings = { { "geo_need_push_nums", "4" },
                                { "cpu_num", "2" } } };
    local_cluster w = { .way = way, .as_replicas = as_replicas };
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_end end = { 0 };

    make_files(&w);
    kit_run(&j, trainer_work, &w, &end, texts);
    remove_files(&w);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("%s: member %d: %s", mode, i, texts[i]);
    for (int i = 0; i < TRAINERS; i++) {
        check_counts(mode, &w.seen[i], &end.stats[i]);
        check_loss(mode, &w.seen[i]);
    }
}

static void train_in_all(way_in way, bool as_replicas)
{
    for (size_t i = 0; job_mode_name(i); i++)
        train_in(job_mode_name(i), way, as_replicas);
}

static void a_feeder_trains_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_feeder, false);
}

static void a_reader_trains_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_reader, false);
}

static void a_queue_dataset_trains_threads_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_queue_dataset, false);
}

static void an_in_memory_dataset_trains_threads_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_memory_dataset, false);
}

static void a_feeder_trains_replicas_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_feeder, true);
}

static void a_reader_trains_replicas_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_reader, true);
}

static void a_queue_dataset_trains_replicas_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_queue_dataset, true);
}

static void an_in_memory_dataset_trains_replicas_in_every_mode(void **state)
{
    (void)state;
    train_in_all(by_memory_dataset, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_feeder_trains_in_every_mode),
        cmocka_unit_test(a_reader_trains_in_every_mode),
        cmocka_unit_test(a_queue_dataset_trains_threads_in_every_mode),
        cmocka_unit_test(an_in_memory_dataset_trains_threads_in_every_mode),
        cmocka_unit_test(a_feeder_trains_replicas_in_every_mode),
        cmocka_unit_test(a_reader_trains_replicas_in_every_mode),
        cmocka_unit_test(a_queue_dataset_trains_replicas_in_every_mode),
        cmocka_unit_test(an_in_memory_dataset_trains_replicas_in_every_mode),
    };

    return cmocka_run_group_tests_name("dist readers", tests, NULL, NULL);
}
