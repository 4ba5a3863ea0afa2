/* trainer.c - a trainer for the suite of faults: pulls and pushes in a loop.
 *
 *     trainer SERVERS RANK TRAINERS [NAME=VALUE]...
 *
 * Gradients, rates and first values are small whole numbers, so that the order
 * of pushes does not matter: every undisturbed run ends with the same bits, and
 * the sum of all weights counts the pushes that were applied. A line on stdout
 * tells each phase.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "../make.h"

#define KEYS 1000 /* in all */
#define BATCH 64  /* keys of a step, each once */
#define DIM 4
#define DENSE 8

typedef enum ending {
    END_MEET,  /* waits for the others and shows the result */
    END_LEAVE, /* closes when its own work is done */
    END_DROP   /* ends without a word */
} ending;

typedef struct trainer {
    const char *servers;
    int rank, n_trainers;
    long steps, pause_ms;
    bool meets; /* after every step */
    ending end;
    int table, block;
    fl_job *ps;
} trainer;

static void say(const trainer *t, const char *phase)
{
    printf("trainer %d %s\n", t->rank, phase);
    fflush(stdout);
}

static void pause_for(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    while (nanosleep(&t, &t))
        ;
}

static bool read_option(trainer *t, const char *word)
{
    const char *value = strchr(word, '=');

    if (!value)
        return false;
    value++;
    if (!strncmp(word, "steps=", 6))
        t->steps = strtol(value, NULL, 10);
    else if (!strncmp(word, "pause_ms=", 9))
        t->pause_ms = strtol(value, NULL, 10);
    else if (!strcmp(word, "meet=step"))
        t->meets = true;
    else if (!strcmp(word, "end=meet"))
        t->end = END_MEET;
    else if (!strcmp(word, "end=leave"))
        t->end = END_LEAVE;
    else if (!strcmp(word, "end=drop"))
        t->end = END_DROP;
    else
        return false;
    return true;
}

static fl_status begin(trainer *t, fl_ctx *c)
{
    fl_status st = fl_job_connect(&t->ps, c, .servers = t->servers,
                                  .rank = t->rank, .n_trainers = t->n_trainers);

    if (st)
        return st;
    say(t, "connected");
    st = fl_job_declare_table(
        t->ps, "rows", "dim=4 init=constant(0) optimizer=sgd", &t->table);
    if (!st)
        st = fl_job_declare_dense(t->ps, "dense", DENSE, "sgd",
                                  "learning_rate=1", &t->block);
    if (!st)
        st = fl_job_start(t->ps);
    if (!st)
        say(t, "started");
    return st;
}

static fl_status step(trainer *t, long number)
{
    float values[BATCH * DIM], grads[BATCH * DIM], dense[DENSE];
    uint64_t keys[BATCH], total;
    fl_status st;

    for (int i = 0; i < BATCH; i++)
        keys[i] = (uint64_t)(number * 37 + i * 13 + t->rank) % KEYS;
    for (int i = 0; i < BATCH * DIM; i++)
        grads[i] = 1;
    for (int i = 0; i < DENSE; i++)
        dense[i] = 1;
    st = fl_job_pull(t->ps, t->table, keys, BATCH, FL_PULL_CREATE, values);
    if (!st)
        st = fl_job_push(t->ps, t->table,
                         &(fl_rows){ .keys = keys,
                                     .values = grads,
                                     .n = BATCH,
                                     .lr = 1,
                                     .merged = true });
    if (!st)
        st = fl_job_push_dense(t->ps, t->block, dense);
    if (!st)
        st = fl_job_step(t->ps, 1, &total);
    if (!st)
        st = fl_job_report(t->ps, "train", (uint64_t)number * BATCH, 0.5, 0.5);
    if (!st && t->meets)
        st = fl_job_barrier(t->ps);
    return st;
}

static fl_status train(trainer *t)
{
    char text[32];

    for (long i = 1; i <= t->steps; i++) {
        fl_status st = step(t, i);

        if (st)
            return st;
        (void)snprintf(text, sizeof(text), "step %ld", i);
        say(t, text);
        pause_for(t->pause_ms);
    }
    return FL_OK;
}

/* Each step takes BATCH * DIM from the sum of the rows. */
static fl_status show(trainer *t)
{
    static float values[KEYS * DIM];
    uint64_t keys[KEYS], hash;
    double sum = 0;
    char text[128];
    fl_status st = fl_job_barrier(t->ps);

    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = i;
    if (!st)
        st = fl_job_pull(t->ps, t->table, keys, KEYS, FL_PULL_ONLY, values);
    if (!st)
        st = fl_job_hash(t->ps, &hash);
    if (st)
        return st;
    for (int i = 0; i < KEYS * DIM; i++)
        sum += values[i];
    (void)snprintf(text, sizeof(text), "done steps=%.0f hash=%016" PRIx64,
                   -sum / (BATCH * DIM), hash);
    say(t, text);
    return FL_OK;
}

static fl_status run(trainer *t, fl_ctx *c)
{
    fl_status st = begin(t, c);

    if (!st)
        st = train(t);
    if (!st && t->end == END_DROP) {
        say(t, "drops");
        _exit(0);
    }
    if (!st && t->end == END_MEET)
        st = show(t);
    if (!st) {
        st = fl_job_stop(t->ps);
        fl_job_free(t->ps);
        t->ps = NULL;
    }
    if (!st)
        say(t, "closed");
    return st;
}

int main(int argc, char **argv)
{
    trainer t = { .steps = 40, .pause_ms = 25 };
    fl_ctx *c;
    int code = 0;

    for (int i = 4; i < argc; i++)
        if (!read_option(&t, argv[i])) {
            fprintf(stderr, "trainer: what is '%s'?\n", argv[i]);
            return 2;
        }
    if (argc < 4) {
        fputs("usage: trainer SERVERS RANK TRAINERS [NAME=VALUE]...\n", stderr);
        return 2;
    }
    t.servers = argv[1];
    t.rank = (int)strtol(argv[2], NULL, 10);
    t.n_trainers = (int)strtol(argv[3], NULL, 10);
    c = make_ctx();
    if (!c || run(&t, c)) {
        printf("trainer %d failed: %s\n", t.rank, fl_last_error());
        fflush(stdout);
        code = 1;
        /* The others should not wait for one that is not coming. */
        _exit(code);
    }
    fl_ctx_free(c);
    return code;
}
