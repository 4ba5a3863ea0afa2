/* test_train.c - a click model trained by two hogwild threads for a minute.
 *
 *     usage: test_train [seconds]
 *
 * The time is cut into sessions, each a fl_run_hogwild of its own. After the
 * first quarter nothing may grow any more: neither what the library has
 * allocated nor what the process has from the system. The loss stays finite and
 * below that of the first batches. The embeddings are a dense parameter first,
 * then a hashed table.
 */
#include "kit.h"

#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define N_THREADS 2
#define N_SESSIONS 12
#define N_WARM 3
#define EARLY 20 /* batches, before anything is learned */
#define RSS_SLACK ((uint64_t)4 << 20)

enum {
    N_SLOTS = 8,
    SLOT_IDS = 5000,
    TABLE_ROWS = N_SLOTS * SLOT_IDS,
    N_DENSE = 5,
    BATCH_MAX = 200,
    IDS_MAX = 3,
    N_FEEDS = N_SLOTS + 2
};

static uint64_t seconds = 60;

static const char *const feed_names[N_FEEDS] = { "C0",    "C1",   "C2", "C3",
                                                 "C4",    "C5",   "C6", "C7",
                                                 "dense", "click" };

/* --- data ---------------------------------------------------------------- */

/* The batch of one thread. Each sample has up to IDS_MAX ids in a slot. The
   first batch of a session is as large as they come, with all its ids
   different, so that later ones need no more memory than it. */
typedef struct batch {
    uint64_t seed;
    bool is_first;
    int64_t ids[N_SLOTS][BATCH_MAX * IDS_MAX];
    int64_t offsets[N_SLOTS][BATCH_MAX + 1];
    float dense[BATCH_MAX * N_DENSE];
    int64_t click[BATCH_MAX];
} batch;

typedef struct session {
    batch batches[N_THREADS];
    uint64_t deadline;
    atomic_bool has_bad_loss;
    fl_mutex mu;
    double loss_sum; /* guarded by mu */
    uint64_t n;      /* guarded by mu */
    double early;    /* guarded by mu: the sum of the first EARLY losses */
    uint64_t n_early;
} session;

static uint64_t draw_id(batch *b, int64_t nth)
{
    if (b->is_first)
        return (uint64_t)nth;
    return draw(&b->seed) % (draw(&b->seed) % 2 ? 200 : SLOT_IDS);
}

/* An id below 100 of the first slot means a click more often than not. */
static void fill_sample(batch *b, int64_t i, int64_t *n_ids)
{
    bool likes = false;

    for (int s = 0; s < N_SLOTS; s++) {
        uint64_t n = b->is_first ? IDS_MAX : 1 + draw(&b->seed) % IDS_MAX;

        b->offsets[s][i] = n_ids[s];
        for (uint64_t k = 0; k < n; k++) {
            uint64_t id = draw_id(b, n_ids[s]);

            likes |= s == 0 && id < 100;
            b->ids[s][n_ids[s]++] = s * SLOT_IDS + (int64_t)id;
        }
    }
    for (int d = 0; d < N_DENSE; d++)
        b->dense[i * N_DENSE + d] = (float)(draw(&b->seed) % 1000) / 1000;
    b->click[i] = draw(&b->seed) % 10 < (likes ? 8 : 1);
}

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    session *s = arg;
    batch *b = &s->batches[thread];
    int64_t n = 1 + (int64_t)(draw(&b->seed) % BATCH_MAX);
    int64_t n_ids[N_SLOTS] = { 0 };

    if (fl_now_ns() >= s->deadline)
        return false;
    n = b->is_first ? BATCH_MAX : n;
    for (int64_t i = 0; i < n; i++)
        fill_sample(b, i, n_ids);
    b->is_first = false;
    for (int i = 0; i < N_SLOTS; i++) {
        b->offsets[i][n] = n_ids[i];
        feeds[i] = (fl_feed){ feed_names[i],
                              fl_tensor_ragged(FL_DTYPE_I64, b->ids[i], 2,
                                               (int64_t[]){ n_ids[i], 1 },
                                               b->offsets[i], n) };
    }
    feeds[N_SLOTS] =
        (fl_feed){ "dense", fl_tensor_of(FL_DTYPE_F32, b->dense, 2,
                                         (int64_t[]){ n, N_DENSE }) };
    feeds[N_SLOTS + 1] =
        (fl_feed){ "click", fl_tensor_of(FL_DTYPE_I64, b->click, 2,
                                         (int64_t[]){ n, 1 }) };
    return true;
}

static void on_batch(void *arg, int thread, const fl_tensor *fetched)
{
    session *s = arg;
    double loss = *(const float *)fetched[0].data;

    (void)thread;
    if (!isfinite(loss))
        atomic_store(&s->has_bad_loss, true);
    fl_lock(&s->mu);
    s->loss_sum += loss;
    s->n++;
    if (s->n_early < EARLY) {
        s->early += loss;
        s->n_early++;
    }
    fl_unlock(&s->mu);
}

/* --- the network --------------------------------------------------------- */

static fl_var *build(fl_ctx *c, bool is_distributed)
{
    const int64_t one[] = { -1, 1 }, wide[] = { -1, N_DENSE };
    fl_var *parts[N_SLOTS + 1], *click, *h, *loss;

    for (int i = 0; i < N_SLOTS; i++) {
        fl_var *ids = fl_layers_data(c, feed_names[i], FL_DTYPE_I64, 2, one, 1);

        parts[i] = fl_layers_sequence_pool(
            fl_layers_embedding(ids, TABLE_ROWS, 8, .is_sparse = true,
                                .is_distributed = is_distributed,
                                .param.name = "table",
                                .param.init = "uniform(-0.05,0.05)"),
            "sum");
    }
    parts[N_SLOTS] = fl_layers_data(c, "dense", FL_DTYPE_F32, 2, wide, 0);
    click = fl_layers_data(c, "click", FL_DTYPE_I64, 2, one, 0);
    h = fl_layers_fc(fl_layers_concat(parts, N_SLOTS + 1, 1), 64,
                     .act = "relu");
    h = fl_layers_fc(h, 32, .act = "relu");
    loss = fl_layers_mean(
        fl_layers_cross_entropy(fl_layers_fc(h, 2, .act = "softmax"), click));
    if (!loss)
        fail_msg("%s", fl_last_error());
    assert_ok(fl_minimize(make_optimizer(c, "adam",
                                         "learning_rate=0.001, "
                                         "lazy_mode=true"),
                          loss));
    return loss;
}

/* --- sessions ------------------------------------------------------------ */

typedef struct measure {
    double loss;
    uint64_t n, rss;
    size_t data_bytes;
} measure;

static measure run_session(fl_ctx *c, fl_executor *e, session *s,
                           const char *loss)
{
    fl_hogwild_args args = FL_INIT(
        fl_hogwild_args, .n_threads = N_THREADS, .feed_names = feed_names,
        .n_feeds = N_FEEDS, .next = next_batch, .fetches = &loss,
        .n_fetches = 1, .on_batch = on_batch, .arg = s);
    measure m;

    s->deadline = fl_now_ns() + seconds * 1000000000u / N_SESSIONS;
    s->loss_sum = 0;
    s->n = 0;
    for (int i = 0; i < N_THREADS; i++)
        s->batches[i].is_first = true;
    assert_ok(fl_run_hogwild(e, fl_default_main_program(c), &args));
    assert_false(atomic_load(&s->has_bad_loss));
    assert_true(s->n > 0);
    m.loss = s->loss_sum / (double)s->n;
    m.n = s->n;
    m.rss = process_bytes("VmRSS");
    m.data_bytes = fl_data_bytes();
    printf("%6llu batches, loss %.4f, %.1f MB of data, %.1f MB resident\n",
           (unsigned long long)m.n, m.loss, (double)m.data_bytes / (1 << 20),
           (double)m.rss / (1 << 20));
    fflush(stdout);
    return m;
}

static void train(bool is_distributed)
{
    size_t data_before = fl_data_bytes();
    session *s = calloc(1, sizeof(*s));
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *loss = fl_var_name(build(c, is_distributed));
    measure warm = { 0 };

    fl_mutex_init(&s->mu);
    for (uint64_t i = 0; i < N_THREADS; i++)
        s->batches[i].seed = i;
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < N_SESSIONS; i++) {
        measure m = run_session(c, e, s, loss);

        assert_true(m.loss < 0.8 * s->early / EARLY);
        if (i < N_WARM) {
            warm = m;
            continue;
        }
        assert_int_equal(m.data_bytes, warm.data_bytes);
        assert_true(m.rss <= warm.rss + RSS_SLACK);
    }
    fl_executor_free(e);
    fl_ctx_free(c);
    fl_mutex_release(&s->mu);
    free(s);
    assert_int_equal(fl_data_bytes(), data_before);
}

static void training_a_parameter_keeps_its_memory(void **state)
{
    (void)state;
    train(false);
}

static void training_a_table_keeps_its_memory(void **state)
{
    (void)state;
    train(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_a_parameter_keeps_its_memory),
        cmocka_unit_test(training_a_table_keeps_its_memory),
    };

    seconds = first_argument(argc, argv, seconds);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
