/* modes.c - distributed training on this machine, against hogwild threads and
 * Reduce replicas of one process and against the floor: what is measured, and
 * with which sizes. modes_speed.h has the rounds.
 *
 * Geo exchanges every GEO_PERIOD batches of a trainer, in the middle of
 * each turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "modes_auc.h"
#include "modes_lines.h"
#include "modes_net.h"
#include "modes_speed.h"
#include "modes_wire.h"

#define DATA_BATCHES (600 * CTR_PER_LARGE)
#define DATA_SEED 1
#define TEST_BATCHES (50 * CTR_PER_LARGE)
#define TEST_SEED 2

#define DENSE_BATCHES 3
/* Of a trainer: half a second or so; small batches are exchanged as often as
   the setting's default says. Speed is measured behind a first pass over the
   first batches: rows have been born (table.insert.rate says what that costs),
   memory for an exchange has been touched, and exchanges lie in the middle of
   turns. */
#ifdef CTR_SMALL
#define IN_MEMORY ".small.memory"
#define GEO_PERIOD 100
#define TURN_BATCHES (12 * GEO_PERIOD)
#define WARM_BATCHES (21 * GEO_PERIOD / 2)
#else
#define IN_MEMORY ""
#define GEO_PERIOD 20
#define TURN_BATCHES GEO_PERIOD
#define WARM_BATCHES (13 * GEO_PERIOD / 2)
#endif
#define SPEED_BATCHES (240 * CTR_PER_LARGE)

/* --- batches in memory ----------------------------------------------------- */

static alone_spec reference(const ctr_data *d, alone_kind kind,
                            const char *name)
{
    return (alone_spec){ .name = name,
                         .kind = kind,
                         .n_threads = SPEED_TRAINERS,
                         .seed = DATA_SEED,
                         .task = { .data = d } };
}

/* CPU seconds of a few turns. */
static double try_out(const ctr_data *d, alone_kind kind, const char *name)
{
    alone_spec s = reference(d, kind, name);
    double seconds[3];
    alone a;

    alone_start(&a, &s);
    (void)alone_train(&a, TURN_BATCHES);
    for (int i = 0; i < 3; i++)
        seconds[i] = alone_train(&a, TURN_BATCHES).cpu_seconds;
    alone_end(&a);
    return bench_spread_of(seconds, 3).median;
}

/* What counts as local is the faster of the two ways to keep rows. */
static alone_kind faster_local(const ctr_data *d)
{
    double array = try_out(d, ALONE_HOGWILD, "local, rows in an array");
    double table = try_out(d, ALONE_TABLE, "local, rows in a table");

    printf("# modes: local keeps its rows in %s (a table's CPU is %.2f times "
           "that of an array)\n",
           table < array ? "a hashed table" : "an array", table / array);
    return table < array ? ALONE_TABLE : ALONE_HOGWILD;
}

static void measure_memory(const ctr_data *d)
{
    const ctr_task task = { .data = d };
    const speed_course course = {
        .name = IN_MEMORY,
        .work = &ctr_work,
        .task = &task,
        .geo_period = GEO_PERIOD,
        .warm_batches = WARM_BATCHES,
        .turn_batches = TURN_BATCHES,
        .refs = {
            [SPEED_LOCAL] = reference(d, faster_local(d), "local"),
            [SPEED_TABLE] =
                reference(d, ALONE_TABLE, "local, rows in a table"),
            [SPEED_REDUCE] = reference(d, ALONE_REDUCE, "replicas"),
            [SPEED_FLOOR] = reference(d, ALONE_FLOOR, "the floor"),
        },
    };

    modes_measure_speed(&course);
}

/* Products of jobs in bf16; the floor stays f32. */
static void measure_bf16(const ctr_data *d)
{
    const ctr_task task = { .data = d };
    const speed_course course = {
        .name = IN_MEMORY ".products_bf16",
        .work = &ctr_work,
        .task = &task,
        .precision = "bf16",
        .geo_period = GEO_PERIOD,
        .warm_batches = WARM_BATCHES,
        .turn_batches = TURN_BATCHES,
        .refs[SPEED_FLOOR] = reference(d, ALONE_FLOOR, "the floor"),
    };

    if (bench_has_bf16("modes.*" IN_MEMORY ".products_bf16.*"))
        modes_measure_speed(&course);
}

/* --- lines of files -------------------------------------------------------- */

static void measure_lines(const ctr_data *d)
{
    lines_task task;
    speed_course course = {
        .name = ".small",
        .work = &lines_work,
        .task = &task,
        .geo_period = GEO_PERIOD,
        .warm_batches = LINES_BATCHES,
        .turn_batches = LINES_BATCHES,
        .refs[SPEED_LOCAL] = { .name = "local",
                               .kind = ALONE_WORK,
                               .seed = DATA_SEED,
                               .work = &lines_work,
                               .job_task = &task },
    };

    lines_task_init(&task, d);
    modes_measure_speed(&course);
    lines_task_release(&task);
}

/* --- more ------------------------------------------------------------------- */

/* What is_sparse saves: the same job with gradients and values of all rows. */
static void measure_dense_rows(const ctr_data *d)
{
    ctr_net_spec net = modes_net;
    ctr_task task = { .net = &net, .data = d };
    const double samples = (double)DENSE_BATCHES * SPEED_TRAINERS * CTR_BATCH;
    double bytes, rate_of_all;
    job_run r;
    job j;

    net.is_dense = true;
    job_start(&j, &(job_spec){ .mode = "sync",
                               .n_servers = 1,
                               .n_trainers = SPEED_TRAINERS,
                               .geo_period = GEO_PERIOD,
                               .seed = DATA_SEED,
                               .work = &ctr_work,
                               .task = &task });
    r = job_train(&j, DENSE_BATCHES);
    job_end(&j);
    bytes = r.bytes / samples;
    bench_figure("modes.sync.1s2t.dense_rows", "bytes_per_sample", &bytes, 1,
                 "bytes");
    rate_of_all = samples / r.seconds;
    bench_figure("modes.sync.1s2t.dense_rows", "rate", &rate_of_all, 1,
                 "samples/s");
}

/* BENCH_MODES names one of them. Of the small shape there is speed, of batches in
   memory ("quick") and of lines, and what geo learns by its period; the rest is about
   learning, or large messages. */
#ifdef CTR_SMALL
static const char *const parts[] = { "lines", "quick", "period" };
#else
static const char *const parts[] = { "quick", "auc", "wire", "way" };
#endif

static bool wants(const char *what)
{
    const char *choice = getenv("BENCH_MODES");
    bool is_here = false;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        is_here |= !strcmp(parts[i], what);
    return is_here && (!choice || !*choice || !strcmp(choice, what));
}

/* What is measured only where its world was made before. */
static bool is_asked_for(const char *what)
{
    const char *choice = getenv("BENCH_MODES");

    return choice && !strcmp(choice, what);
}

int main(void)
{
    ctr_data data, test, first;

    ctr_data_init(&data, DATA_BATCHES, DATA_SEED);
    ctr_data_init(&test, TEST_BATCHES, TEST_SEED);
    first = data;
    first.n = (size_t)SPEED_BATCHES * CTR_BATCH;
    if (wants("lines"))
        measure_lines(&data);
    if (wants("quick")) {
        measure_memory(&first);
        measure_bf16(&first);
        if (CTR_PER_LARGE == 1)
            measure_dense_rows(&first);
    }
    if (wants("auc"))
        modes_measure_auc(&data, &test);
    if (wants("period"))
        modes_measure_period(&data, &test);
    if (wants("wire")) {
        modes_measure_wire(&first);
        modes_measure_wire_auc(&data, &test);
    }
    if (is_asked_for("link"))
        modes_measure_link(&first);
    if (wants("way"))
        modes_measure_way(&data, &test);
    ctr_data_release(&data);
    ctr_data_release(&test);
    return 0;
}
