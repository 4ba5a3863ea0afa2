/* growth_inside.c - rounds at a coordinator without a network: all trainers come to
 * a barrier, and each is answered. A quarter of the members are servers. */
#include <stdio.h>
#include <time.h>

#include "growth.h"
#include "harness.h"
#include "ps/coord/coord.h"

#define REPEATS 15
#define VISITS 20000 /* of trainers, in one repeat */
#define MOST 256

typedef struct house {
    fl_coord *coord;
    uint32_t n_trainers;
    uint32_t incarnations[MOST];
    uint64_t round, n_answers;
} house;

static void on_answer(void *arg, void *question, fl_status st,
                      const fl_came *came, size_t n_came)
{
    house *h = arg;

    (void)question;
    (void)came;
    bench_check(st, "a round");
    h->n_answers += n_came;
}

static void on_line(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

static void on_over(void *arg, fl_status why)
{
    (void)arg;
    bench_check(why, "the job");
}

static uint32_t join(house *h, fl_member_role role, uint32_t rank)
{
    fl_identity who = { .role = role, .rank = rank, .process = 100 + rank };
    uint32_t incarnation;

    if (role == FL_MEMBER_SERVER)
        who.boot_id = 1 + rank;
    bench_check(fl_coord_join(h->coord, &who, "10.0.0.1:1", 0, &incarnation),
                "joining");
    return incarnation;
}

static void open_house(house *h, uint32_t n_members)
{
    static const fl_coord_events events = { .answer = on_answer,
                                            .log_line = on_line,
                                            .over = on_over };
    const uint32_t n_servers = n_members / 4;
    fl_coord_options o = { .n_servers = (int)n_servers,
                           .n_trainers = (int)(n_members - n_servers),
                           .connect_timeout_ms = 60000,
                           .restart_timeout_ms = 60000 };

    *h = (house){ .n_trainers = n_members - n_servers };
    h->coord = fl_coord_new(&o, &events, h, 0);
    for (uint32_t i = 0; i < n_servers; i++)
        (void)join(h, FL_MEMBER_SERVER, i);
    for (uint32_t i = 0; i < h->n_trainers; i++)
        h->incarnations[i] = join(h, FL_MEMBER_TRAINER, i);
}

static void make_round(house *h)
{
    fl_barrier_request q = { .name = "step",
                             .generation = ++h->round,
                             .kind = FL_BARRIER_ROUND };

    for (uint32_t i = 0; i < h->n_trainers; i++)
        fl_coord_barrier(h->coord,
                         &(fl_coord_asker){ i, h->incarnations[i], h, 0 }, &q);
}

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* The CPU of one round. */
static double measure(house *h)
{
    const uint32_t n = VISITS / h->n_trainers;
    double start = cpu_us();

    for (uint32_t i = 0; i < n; i++)
        make_round(h);
    return (cpu_us() - start) / n;
}

void growth_coordinator(void)
{
    static const uint32_t sizes[] = { 4, 16, 64, MOST };
    double rounds[REPEATS], each[REPEATS], first[REPEATS];
    size_t n = bench_repeats(REPEATS);
    char prefix[48];

    n = n < REPEATS ? n : REPEATS;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        house h;

        open_house(&h, sizes[s]);
        (void)measure(&h);
        for (size_t i = 0; i < n; i++) {
            rounds[i] = measure(&h);
            each[i] = rounds[i] / h.n_trainers;
            first[i] = s ? first[i] : each[i];
        }
        fl_coord_free(h.coord);
        snprintf(prefix, sizeof prefix, "growth.coord.m%u", sizes[s]);
        bench_figure(prefix, "round_us", rounds, n, "us");
        bench_figure(prefix, "trainer_us", each, n, "us");
        for (size_t i = 0; i < n; i++)
            each[i] /= first[i];
        bench_figure(prefix, "of_m4", each, n, "ratio");
    }
}
