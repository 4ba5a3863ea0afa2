/* collective.c WORD... - one program that trains as one process, with servers, or
 * as a job of workers alone; for tests of such jobs.
 *
 *     steps=N rate=R optimizer=NAME    how long, and by which rule
 *     net=mlp|sparse|table             without rows, with an array of them, with
 *                                      a table
 *     mode=NAME                        the strategy; without, the fleet's own
 *     joined=W                         one process trains on the batches of W
 *                                      workers, one behind the other
 *     out=FILE                         values at the end go to FILE.RANK
 *     pause_ms=N                       behind every step
 *     bad=RANK how=kill|stop|exit|error|short at=STEP
 *                                      what becomes of one worker, and when
 *
 * Data are a matter of the worker's rank and of the step. The last step is on all
 * ids, and what it finds of their rows belongs to the values as well.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"
#include "../make.h"

enum { ROWS = 12, WIDTH = 8, HEIGHT = 12, DIM = 4, JOINED_MAX = 4 };

typedef struct words {
    long steps, joined, pause_ms, bad, at;
    const char *optimizer, *rate, *net, *mode, *out, *how;
} words;

typedef struct trainer {
    const words *w;
    fl_ctx *ctx;
    fl_fleet *fleet;
    fl_executor *exe;
    int rank;
    const char *fetches[2]; /* the loss, and rows where there are some */
    size_t n_fetches;
    float rows[HEIGHT * DIM]; /* of the last step */
    float x[JOINED_MAX * ROWS][WIDTH];
    int64_t id[JOINED_MAX * ROWS], y[JOINED_MAX * ROWS];
} trainer;

static void check(fl_status st, const trainer *t, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "worker %d, %s: %s\n", t->rank, what, fl_last_error());
    fl_executor_free(t->exe);
    fl_fleet_free(t->fleet);
    fl_ctx_free(t->ctx);
    exit(1);
}

/* --- words ---------------------------------------------------------------- */

static bool read_word(words *w, const char *word)
{
    const struct {
        const char *name;
        long *number;
        const char **text;
    } all[] = {
        { "steps", &w->steps, NULL },
        { "joined", &w->joined, NULL },
        { "bad", &w->bad, NULL },
        { "at", &w->at, NULL },
        { "pause_ms", &w->pause_ms, NULL },
        { "optimizer", NULL, &w->optimizer },
        { "rate", NULL, &w->rate },
        { "net", NULL, &w->net },
        { "mode", NULL, &w->mode },
        { "out", NULL, &w->out },
        { "how", NULL, &w->how },
    };
    size_t len = strcspn(word, "=");

    for (size_t i = 0; word[len] && i < sizeof(all) / sizeof(all[0]); i++) {
        if (strlen(all[i].name) != len || strncmp(all[i].name, word, len))
            continue;
        if (all[i].number)
            *all[i].number = strtol(word + len + 1, NULL, 10);
        else
            *all[i].text = word + len + 1;
        return true;
    }
    return false;
}

/* --- the network ---------------------------------------------------------- */

static fl_var *build(trainer *t)
{
    const char *net = t->w->net;
    fl_var *x = fl_layers_data(t->ctx, "x", FL_DTYPE_F32, 2,
                               (int64_t[]){ -1, WIDTH }, 0);
    fl_var *id =
        fl_layers_data(t->ctx, "id", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *y =
        fl_layers_data(t->ctx, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *row = !strcmp(net, "table")
                      ? fl_layers_sparse_embedding(id, DIM, .param.name = "r")
                  : !strcmp(net, "sparse")
                      ? fl_layers_embedding(id, HEIGHT, DIM, .is_sparse = true,
                                            .param.name = "r")
                      : NULL;
    fl_var *in = row ? fl_layers_concat((fl_var *[]){ x, row }, 2, 1) : x;
    fl_var *h = fl_layers_fc(in, 16, .act = "tanh", .param.name = "w1",
                             .bias.name = "b1");
    fl_var *out = fl_layers_fc(h, 2, .act = "softmax", .param.name = "w2",
                               .bias.name = "b2");
    fl_var *loss = fl_layers_mean(fl_layers_cross_entropy(out, y));

    t->fetches[0] = loss ? fl_var_name(loss) : "";
    t->fetches[1] = row ? fl_var_name(row) : "";
    t->n_fetches = row ? 2 : 1;
    return loss;
}

static void distribute(trainer *t)
{
    char settings[64];
    fl_strategy *s = t->w->mode ? make_strategy(t->fleet, t->w->mode) : NULL;

    (void)snprintf(settings, sizeof(settings), "learning_rate=%s", t->w->rate);
    check(fl_fleet_distributed_optimizer(
              t->fleet, make_optimizer(t->ctx, t->w->optimizer, settings), s),
          t, "optimizer");
    check(fl_fleet_minimize(t->fleet, build(t)), t, "programs");
}

/* --- data ----------------------------------------------------------------- */

static uint64_t mix(uint64_t v)
{
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    return v ^ v >> 31;
}

static void make_row(trainer *t, size_t at, int rank, long step, int i)
{
    uint64_t from =
        mix((uint64_t)step * 1000 + (uint64_t)rank * 100 + (uint64_t)i + 1);
    bool is_last = step + 1 == t->w->steps;

    for (int k = 0; k < WIDTH; k++)
        t->x[at][k] = (float)(mix(from + (uint64_t)k) % 1000) / 1000;
    t->id[at] = is_last ? i : (int64_t)(from % HEIGHT);
    t->y[at] = t->x[at][0] + (float)(t->id[at] % 3) > 1;
}

static int64_t make_batch(trainer *t, long step)
{
    size_t n = 0;

    for (int w = 0; w < t->w->joined; w++)
        for (int i = 0; i < ROWS; i++)
            make_row(t, n++, t->rank + w, step, i);
    return (int64_t)n;
}

/* --- what goes wrong ------------------------------------------------------ */

static bool is_time(const trainer *t, const char *how, long step)
{
    return t->w->bad == t->rank && step == t->w->at && !strcmp(t->w->how, how);
}

static void go_wrong(const trainer *t, long step)
{
    if (is_time(t, "kill", step))
        (void)raise(SIGKILL);
    if (is_time(t, "stop", step))
        (void)raise(SIGSTOP);
    if (is_time(t, "exit", step))
        _exit(3);
}

/* --- training ------------------------------------------------------------- */

static void pause_for(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    while (nanosleep(&t, &t))
        ;
}

static void make_step(trainer *t, long step, fl_tensor *out)
{
    int64_t n = make_batch(t, step);
    int64_t width = is_time(t, "error", step) ? WIDTH - 1 : WIDTH;
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, t->x, 2, (int64_t[]){ n, width }) },
        { "id", fl_tensor_of(FL_DTYPE_I64, t->id, 2, (int64_t[]){ n, 1 }) },
        { "y", fl_tensor_of(FL_DTYPE_I64, t->y, 2, (int64_t[]){ n, 1 }) },
    };
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 3,
                .fetches = t->fetches, .n_fetches = t->n_fetches, .out = out);

    check(fl_run(t->exe, fl_fleet_main_program(t->fleet), &args), t, "step");
}

static FILE *open_out(const trainer *t)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s.%d", t->w->out, t->rank);
    return fopen(path, "w");
}

static void write_values(FILE *f, const char *name, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s %zu %.9g\n", name, i, (double)v[i]);
}

static uint64_t add_hash(uint64_t h, const void *bytes, size_t n)
{
    for (const unsigned char *b = bytes; n; n--)
        h = (h ^ *b++) * UINT64_C(1099511628211);
    return h;
}

static uint64_t tell_params(trainer *t, FILE *f)
{
    static const char *const names[] = { "w1", "b1", "w2", "b2" };
    fl_scope *s = fl_current_scope(t->ctx);
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        fl_tensor value;
        size_t n = 1;

        check(fl_scope_get(s, names[i], &value), t, "values");
        for (int k = 0; k < value.shape.rank; k++)
            n *= (size_t)value.shape.dim[k];
        h = add_hash(h, value.data, n * sizeof(float));
        if (f)
            write_values(f, names[i], value.data, n);
    }
    return h;
}

static void tell(trainer *t)
{
    FILE *f = t->w->out ? open_out(t) : NULL;
    uint64_t h = tell_params(t, f);

    if (t->n_fetches > 1)
        h = add_hash(h, t->rows, sizeof(t->rows));
    if (f && t->n_fetches > 1)
        write_values(f, "rows", t->rows, HEIGHT * (size_t)DIM);
    if (f)
        (void)fclose(f);
    printf("worker %d done hash=%016" PRIx64 "\n", t->rank, h);
    (void)fflush(stdout);
}

static void train(trainer *t)
{
    fl_tensor out[2] = { 0 };

    check(fl_run(t->exe, fl_fleet_startup_program(t->fleet), NULL), t,
          "startup");
    for (long i = 0; i < t->w->steps && !is_time(t, "short", i); i++) {
        go_wrong(t, i);
        make_step(t, i, out);
        printf("worker %d step %ld loss %.9g\n", t->rank, i,
               (double)*(const float *)out[0].data);
        (void)fflush(stdout);
        pause_for(t->w->pause_ms);
    }
    if (out[1].data)
        memcpy(t->rows, out[1].data, sizeof(t->rows));
    check(fl_fleet_stop_worker(t->fleet), t, "end");
    tell(t);
}

int main(int argc, char **argv)
{
    words w = { .steps = 10,
                .joined = 1,
                .bad = -1,
                .optimizer = "sgd",
                .rate = "0.1",
                .net = "mlp",
                .how = "" };
    static trainer t;

    for (int i = 1; i < argc; i++)
        if (!read_word(&w, argv[i]))
            return fprintf(stderr, "what is %s?\n", argv[i]), 2;
    t.w = &w;
    t.ctx = make_ctx();
    must(fl_ctx_set(t.ctx, "seed", "7"));
    check(fl_fleet_init(&t.fleet, t.ctx, NULL), &t, "role");
    t.rank = fl_fleet_worker_index(t.fleet);
    t.exe = make_executor(t.ctx);
    distribute(&t);
    if (fl_fleet_is_server(t.fleet)) {
        check(fl_fleet_init_server(t.fleet, NULL), &t, "server");
        check(fl_fleet_run_server(t.fleet), &t, "server");
    } else {
        train(&t);
    }
    fl_executor_free(t.exe);
    fl_fleet_free(t.fleet);
    fl_ctx_free(t.ctx);
    return 0;
}
