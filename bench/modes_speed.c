/* modes_speed.c - rounds of jobs and references, and their figures. */
#include "modes_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define ROUNDS 9
#define ROUNDS_MAX 64
#define SEED 1
#define NO_REF SPEED_REFS

static const char *const modes[] = { "sync", "half_async", "async", "geo" };
#define N_MODES (sizeof modes / sizeof *modes)

typedef struct shape {
    int n_servers;
    bool is_tcp;
} shape;

static const shape shapes[] = {
    { 1, false }, { 2, false }, { 1, true }, { 2, true }
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

typedef struct group {
    job jobs[N_MODES];
    job_run runs[N_MODES][ROUNDS_MAX];
    job_run refs[SPEED_REFS][ROUNDS_MAX];
} group;

typedef struct speed {
    const speed_course *course;
    alone refs[SPEED_REFS];
    group groups[N_SHAPES];
    size_t n_rounds;
} speed;

static bool has_ref(const speed *s, size_t ref)
{
    return ref < SPEED_REFS && s->course->refs[ref].name;
}

/* BENCH_JOB names one of the jobs, as in its rows: geo.2s2t. */
static bool is_wanted(const char *mode, const shape *is)
{
    const char *only = getenv("BENCH_JOB");
    char name[32];

    snprintf(name, sizeof name, "%s.%ds%dt%s", mode, is->n_servers,
             SPEED_TRAINERS, is->is_tcp ? ".tcp" : "");
    return !only || !*only || !strcmp(only, name);
}

static bool has_job(const group *g, size_t m)
{
    return g->jobs[m].spec.mode;
}

static bool has_jobs(const group *g)
{
    for (size_t m = 0; m < N_MODES; m++)
        if (has_job(g, m))
            return true;
    return false;
}

/* --- rounds --------------------------------------------------------------- */

static void start_refs(speed *s)
{
    for (size_t i = 0; i < SPEED_REFS; i++)
        if (has_ref(s, i)) {
            alone_start(&s->refs[i], &s->course->refs[i]);
            (void)alone_train(&s->refs[i],
                              s->course->warm_batches * SPEED_TRAINERS);
        }
}

static void start_jobs(group *g, const speed_course *c, const shape *is)
{
    for (size_t m = 0; m < N_MODES; m++) {
        if (!is_wanted(modes[m], is))
            continue;
        job_start(&g->jobs[m], &(job_spec){ .mode = modes[m],
                                            .n_servers = is->n_servers,
                                            .n_trainers = SPEED_TRAINERS,
                                            .is_tcp = is->is_tcp,
                                            .geo_period = c->geo_period,
                                            .seed = SEED,
                                            .precision = c->precision,
                                            .work = c->work,
                                            .task = c->task });
        (void)job_train(&g->jobs[m], c->warm_batches);
    }
}

static void end_all(speed *s)
{
    for (size_t i = 0; i < SPEED_REFS; i++)
        if (has_ref(s, i))
            alone_end(&s->refs[i]);
    for (size_t g = 0; g < N_SHAPES; g++)
        for (size_t m = 0; m < N_MODES; m++)
            if (has_job(&s->groups[g], m))
                job_end(&s->groups[g].jobs[m]);
}

static void run_group(speed *s, group *g, size_t round)
{
    const size_t n = N_MODES + SPEED_REFS;
    const size_t n_batches = s->course->turn_batches;

    if (!has_jobs(g))
        return;
    for (size_t i = 0; i < n; i++) {
        size_t who = (i * 3 + round) % n; /* modes and references mixed */

        if (who < N_MODES && !has_job(g, who))
            continue;
        if (who < N_MODES)
            g->runs[who][round] = job_train(&g->jobs[who], n_batches);
        else if (has_ref(s, who - N_MODES))
            g->refs[who - N_MODES][round] = alone_train(
                &s->refs[who - N_MODES], n_batches * SPEED_TRAINERS);
    }
}

/* --- figures -------------------------------------------------------------- */

/* One run, and what it is compared with beside it. */
typedef struct turn {
    const job_run *run, *ref;
    double batches, samples;
} turn;

static double rate(const turn *t)
{
    return t->samples / t->run->seconds;
}

static double share(const turn *t)
{
    return t->ref->seconds / t->run->seconds;
}

static double cpu_us(const turn *t)
{
    return 1e6 * t->run->cpu_seconds / t->samples;
}

static double server_cpu_us(const turn *t)
{
    return 1e6 * t->run->server_cpu_seconds / t->samples;
}

static double cpu_over(const turn *t)
{
    return t->run->cpu_seconds / t->ref->cpu_seconds;
}

static double bytes_per_sample(const turn *t)
{
    return t->run->bytes / t->samples;
}

static double requests_per_batch(const turn *t)
{
    return t->run->n_requests / t->batches;
}

static double wait_share(const turn *t)
{
    return t->run->wait_seconds / (SPEED_TRAINERS * t->run->seconds);
}

typedef struct figure {
    const char *name, *unit;
    double (*of)(const turn *t);
    size_t ref;       /* what it is compared with, or NO_REF */
    const char *only; /* for this mode; NULL: for all */
} figure;

static const figure figures[] = {
    { "rate", "samples/s", rate, NO_REF, NULL },
    { "of_local", "ratio", share, SPEED_LOCAL, NULL },
    { "of_table", "ratio", share, SPEED_TABLE, NULL },
    { "of_floor", "ratio", share, SPEED_FLOOR, NULL },
    { "of_reduce", "ratio", share, SPEED_REDUCE, "sync" },
    { "cpu_us", "us/sample", cpu_us, NO_REF, NULL },
    { "server_cpu_us", "us/sample", server_cpu_us, NO_REF, NULL },
    { "cpu_over_local", "ratio", cpu_over, SPEED_LOCAL, NULL },
    { "cpu_over_table", "ratio", cpu_over, SPEED_TABLE, NULL },
    { "bytes_per_sample", "bytes", bytes_per_sample, NO_REF, NULL },
    { "requests_per_batch", "requests", requests_per_batch, NO_REF, NULL },
    { "wait_share", "ratio", wait_share, NO_REF, NULL },
};

static turn turn_of(const speed_course *c, const job_run *run,
                    const job_run *ref)
{
    double batches = (double)c->turn_batches * SPEED_TRAINERS;

    return (turn){ run, ref, batches, batches * CTR_BATCH };
}

static void put_figure(const speed *s, const group *g, size_t m,
                       const figure *f, const char *prefix)
{
    double x[ROUNDS_MAX];

    if ((f->ref != NO_REF && !has_ref(s, f->ref)) ||
        (f->only && strcmp(f->only, modes[m])))
        return;
    for (size_t r = 0; r < s->n_rounds; r++) {
        turn t = turn_of(s->course, &g->runs[m][r],
                         f->ref != NO_REF ? &g->refs[f->ref][r] : NULL);

        x[r] = f->of(&t);
    }
    bench_figure(prefix, f->name, x, s->n_rounds, f->unit);
}

/* 1s2t.tcp of sync.1s2t.tcp */
static const char *shape_name(const group *g, size_t m)
{
    return strchr(g->jobs[m].name, '.') + 1;
}

static void put_job(const speed *s, const group *g, size_t m)
{
    char prefix[64];

    snprintf(prefix, sizeof prefix, "modes.%s%s.%s", modes[m], s->course->name,
             shape_name(g, m));
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
        put_figure(s, g, m, &figures[f], prefix);
    printf("# %s: loss %.4f -> %.4f\n", prefix, g->runs[m][0].loss,
           g->runs[m][s->n_rounds - 1].loss);
}

/* A reference, over all groups. */
static void put_reference(const speed *s, size_t ref, const char *what)
{
    const size_t n = s->n_rounds * N_SHAPES;
    double *rates = bench_alloc(n * sizeof *rates);
    double *cpu = bench_alloc(n * sizeof *cpu);
    double *floor = bench_alloc(n * sizeof *floor);
    size_t n_turns = 0;
    char prefix[64];

    snprintf(prefix, sizeof prefix, "modes.%s%s", what, s->course->name);
    for (size_t i = 0; i < n; i++) {
        const group *g = &s->groups[i % N_SHAPES];
        turn t = turn_of(s->course, &g->refs[ref][i / N_SHAPES],
                         &g->refs[SPEED_FLOOR][i / N_SHAPES]);

        if (!has_jobs(g))
            continue;
        rates[n_turns] = rate(&t);
        cpu[n_turns] = cpu_us(&t);
        floor[n_turns++] = share(&t);
    }
    bench_figure(prefix, "rate", rates, n_turns, "samples/s");
    bench_figure(prefix, "cpu_us", cpu, n_turns, "us/sample");
    if (ref != SPEED_FLOOR && has_ref(s, SPEED_FLOOR))
        bench_figure(prefix, "of_floor", floor, n_turns, "ratio");
    free(rates);
    free(cpu);
    free(floor);
}

static void put_all(const speed *s)
{
    static const char *const names[SPEED_REFS] = { "local", "table", "reduce",
                                                   "floor" };

    for (size_t i = 0; i < SPEED_REFS; i++)
        if (has_ref(s, i))
            put_reference(s, i, names[i]);
    for (size_t g = 0; g < N_SHAPES; g++)
        for (size_t m = 0; m < N_MODES; m++)
            if (has_job(&s->groups[g], m))
                put_job(s, &s->groups[g], m);
}

static void check_wanted(const speed *s)
{
    size_t n = 0;

    for (size_t g = 0; g < N_SHAPES; g++)
        n += has_jobs(&s->groups[g]);
    if (n)
        return;
    fprintf(stderr,
            "BENCH_JOB=%s is no job; there is MODE.1s2t and MODE.2s2t, with "
            ".tcp behind it or without, of sync, half_async, async and geo\n",
            getenv("BENCH_JOB"));
    exit(1);
}

void modes_measure_speed(const speed_course *course)
{
    speed *s = bench_alloc(sizeof *s);

    s->course = course;
    s->n_rounds = bench_repeats(ROUNDS);
    if (s->n_rounds > ROUNDS_MAX)
        s->n_rounds = ROUNDS_MAX;
    for (size_t g = 0; g < N_SHAPES; g++)
        start_jobs(&s->groups[g], course, &shapes[g]);
    check_wanted(s);
    start_refs(s);
    for (size_t r = 0; r < s->n_rounds; r++)
        for (size_t g = 0; g < N_SHAPES; g++)
            run_group(s, &s->groups[(g + r) % N_SHAPES], r);
    end_all(s);
    put_all(s);
    free(s);
}
