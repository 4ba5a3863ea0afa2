/* out_of_graph.c - logistic regression on parameter servers, without a program.
 *
 *     out_of_graph server|trainer RANK HOST:PORT,HOST:PORT TRAINERS
 *
 * Samples are made up: ten ids, each with a hidden weight; the label says
 * whether the ten add up to more than nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flotilla/flotilla.h>

enum { IDS = 10, BATCH = 100, N = IDS * BATCH, STEPS = 600 };

static void check(fl_status st)
{
    if (st != FL_OK) {
        fprintf(stderr, "out_of_graph: %s\n", fl_last_error());
        exit(1);
    }
}

/* A number in [0, 1) that depends on x alone. */
static float toss(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (float)(x >> 40) / (1 << 24);
}

/* Pulls, predicts and, with a rate, pushes; gives how many it got right. */
static int run_batch(fl_job *p, int table, int bias, uint64_t number, double lr)
{
    static uint64_t ids[N];
    static float w[N], grads[N];
    fl_rows push = { .keys = ids, .values = grads, .n = N, .lr = lr };
    float b, b_grad = 0;
    int n_right = 0;

    for (int i = 0; i < N; i++)
        ids[i] = (uint64_t)(toss(number * N + (uint64_t)i + 1) * 2000);
    check(fl_job_pull(p, table, ids, N, FL_PULL_CREATE, w));
    check(fl_job_pull_dense(p, bias, &b));
    for (int i = 0; i < N; i += IDS) {
        float z = b, truth = 0, error;

        for (int k = i; k < i + IDS; k++) {
            z += w[k];
            truth += toss(ids[k] + 12345) - 0.5f;
        }
        error = (1 / (1 + expf(-z)) - (truth > 0)) / BATCH;
        for (int k = i; k < i + IDS; k++)
            grads[k] = error;
        b_grad += error;
        n_right += (z > 0) == (truth > 0);
    }
    if (lr > 0) {
        check(fl_job_push(p, table, &push));
        check(fl_job_push_dense(p, bias, &b_grad));
    }
    return n_right;
}

static void train(fl_ctx *c, const fl_job_args *a)
{
    uint64_t n = (uint64_t)a->n_trainers, rank = (uint64_t)a->rank;
    int table, bias, n_right = 0;
    fl_job *p;

    check(fl_job_connect_with(&p, c, a));
    check(fl_job_declare_table(p, "w", "dim=1 init=constant(0)", &table));
    check(
        fl_job_declare_dense(p, "b", 1, "adam", "learning_rate=0.001", &bias));
    check(fl_job_start(p));
    for (uint64_t i = 0; i < STEPS; i++)
        run_batch(p, table, bias, i * n + rank, 20);
    check(fl_job_barrier(p)); /* all have learnt */
    for (uint64_t i = 0; i < 10; i++)
        n_right += run_batch(p, table, bias, 1000000 + i, 0);
    printf("trainer %d accuracy %.3f\n", a->rank, n_right / (10.0 * BATCH));
    check(fl_job_stop(p));
    fl_job_free(p);
}

int main(int argc, char **argv)
{
    fl_job_args args = FL_INIT(fl_job_args);
    fl_ctx *c;

    if (argc != 5)
        return fputs("give server|trainer RANK SERVERS TRAINERS\n", stderr), 2;
    check(fl_ctx_new(&c));
    args.rank = (int)strtol(argv[2], NULL, 10);
    args.servers = argv[3];
    args.n_trainers = (int)strtol(argv[4], NULL, 10);
    if (strcmp(argv[1], "server"))
        train(c, &args);
    else
        check(fl_job_serve_with(c, &args));
    fl_ctx_free(c);
}
