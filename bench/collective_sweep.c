/* collective_sweep.c - from which size on a sum is large: both algorithms, size by
 * size, in turns.
 *
 * By shared memory a small sum is made whole by every worker, a large one is dealt
 * over them. By messages (TCP) a small one is made by recursive doubling, a large
 * one by a ring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective_sweep.h"
#include "harness.h"

#define USUAL_REPEATS 7
#define REPEATS_MAX 32
#define BYTES_OF_A_TURN ((size_t)16 << 20)
#define ROUNDS_MAX 200 /* of a turn */

enum { SMALL, LARGE, N_WAYS };

/* How parts travel, and what its two algorithms are called. */
typedef struct medium {
    const char *name, *ways[N_WAYS];
} medium;

static const medium media[] = {
    { "shared", { "whole", "dealt" } },
    { "sent", { "doubling", "ring" } },
};

static const struct {
    const char *name;
    size_t bytes;
} sizes[] = {
    { "1k", (size_t)1 << 10 },     { "4k", (size_t)4 << 10 },
    { "8k", (size_t)8 << 10 },     { "16k", (size_t)16 << 10 },
    { "32k", (size_t)32 << 10 },   { "64k", (size_t)64 << 10 },
    { "128k", (size_t)128 << 10 }, { "256k", (size_t)256 << 10 },
};

static const int numbers[] = { 2, 4 }; /* of workers */

/* --- processes ---------------------------------------------------------------- */

static void pick_addresses(sweep_seat *s)
{
    for (int i = 0; i < s->n; i++)
        process_free_address(s->addresses[i]);
}

/* A seat as words: PIPES RANK N MEDIUM WAY ADDRESS... */
enum { WORD_PIPES = 1, WORD_RANK, WORD_N, WORD_MEDIUM, WORD_WAY, WORD_ADDRESS };

static int serve(char **words)
{
    sweep_seat s = { .pipes = words[WORD_PIPES],
                     .rank = words[WORD_RANK][0] - '0',
                     .n = words[WORD_N][0] - '0',
                     .is_shared = !strcmp(words[WORD_MEDIUM], "shared"),
                     .is_small = words[WORD_WAY][0] == '0' + SMALL };

    for (int i = 0; i < s.n; i++)
        (void)snprintf(s.addresses[i], ADDRESS_MAX, "%s",
                       words[WORD_ADDRESS + i]);
    sweep_serve(&s);
    return 0;
}

static void start(crew *c, const char *dir, const medium *m, int n, int way)
{
    sweep_seat s = { .n = n };
    char name[32], number[12], which[12];

    (void)snprintf(name, sizeof name, "%s.%s", m->name, m->ways[way]);
    (void)snprintf(number, sizeof number, "%d", n);
    (void)snprintf(which, sizeof which, "%d", way);
    crew_make(c, dir, name, n);
    pick_addresses(&s);
    for (int i = 0; i < n; i++) {
        char rank[12];
        char *words[WORD_ADDRESS + CREW_MAX + 1] = {
            (char *)(size_t)PROCESS_SELF, c->pipes, rank, number,
            (char *)(size_t)m->name,      which
        };

        (void)snprintf(rank, sizeof rank, "%d", i);
        for (int k = 0; k < n; k++)
            words[WORD_ADDRESS + k] = s.addresses[k];
        c->pids[c->n_pids++] = process_start(words);
    }
    crew_open(c);
}

/* --- figures -------------------------------------------------------------------- */

typedef struct series {
    double us[REPEATS_MAX];
} series;

static void take_turns(crew *crews, size_t bytes, size_t n, series *of)
{
    size_t rounds = BYTES_OF_A_TURN / bytes;

    rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < N_WAYS; k++) {
            size_t way = (i + k) % N_WAYS;
            crew_time t = crew_run(&crews[way], bytes, rounds);

            of[way].us[i] = t.seconds * 1e6 / (double)rounds;
        }
}

static void tell(const medium *m, const char *prefix, const series *of,
                 size_t n)
{
    double ratio[REPEATS_MAX];
    char name[64];

    for (int way = 0; way < N_WAYS; way++) {
        (void)snprintf(name, sizeof name, "%s_us", m->ways[way]);
        bench_figure(prefix, name, of[way].us, n, "us");
    }
    for (size_t i = 0; i < n; i++)
        ratio[i] = of[LARGE].us[i] / of[SMALL].us[i];
    (void)snprintf(name, sizeof name, "%s_of_%s", m->ways[SMALL],
                   m->ways[LARGE]);
    bench_figure(prefix, name, ratio, n, "x");
}

static void sweep(const char *dir, const medium *m, int workers, size_t n)
{
    crew crews[N_WAYS];
    static series of[N_WAYS];

    for (int way = 0; way < N_WAYS; way++)
        start(&crews[way], dir, m, workers, way);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char prefix[64];

        (void)snprintf(prefix, sizeof prefix, "collective.%s.w%d.%s", m->name,
                       workers, sizes[i].name);
        take_turns(crews, sizes[i].bytes, n, of);
        tell(m, prefix, of, n);
    }
    for (int way = 0; way < N_WAYS; way++)
        crew_end(&crews[way]);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/bench_sweep.XXXXXX";
    size_t n = bench_repeats(USUAL_REPEATS);

    if (argc > 1)
        return serve(argv);
    if (!mkdtemp(dir))
        bench_check(FL_ERR_IO, dir);
    for (size_t i = 0; i < sizeof media / sizeof *media; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            sweep(dir, &media[i], numbers[k],
                  n < REPEATS_MAX ? n : REPEATS_MAX);
    return rmdir(dir) != 0;
}
