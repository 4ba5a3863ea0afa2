/* criteo_dnn.c - trains a CTR-DNN on Criteo click logs and examines it.
 *
 *     usage: criteo_dnn [--tail N] [--epochs N] [--threads N] [--seed N]
 *                       [--test FILE]... FILE...
 *
 * Files are the raw logs: label, 13 integers and 26 hashed categories, apart by
 * tabs, plain or gzip. What is held out for the examination: the last N lines
 * of each file (--tail), or files of their own (--test). The network is the
 * usual CTR-DNN: 26 embeddings of width 10 from one table and the 13 numbers,
 * three layers of 400, softmax.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flotilla/flotilla.h>

enum { N_SLOTS = 26, N_DENSE = 13, WIDTH = 10, HIDDEN = 400, BATCH = 128 };
enum { TABLE_ROWS = 1000001, FILES_MAX = 4096 };

typedef struct options {
    const char *train[FILES_MAX], *test[FILES_MAX];
    size_t n_train, n_test;
    long tail, epochs, threads, seed;
} options;

typedef struct network {
    const char *names[N_SLOTS + 2]; /* dense, C1 .. C26, label */
    fl_var *loss, *auc;
} network;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "criteo_dnn: %s: %s\n", what, fl_last_error());
    exit(1);
}

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: criteo_dnn [--tail N] [--epochs N] [--threads N] "
                    "[--seed N]\n                  [--test FILE]... FILE...\n");
    exit(2);
}

/* --- the network --------------------------------------------------------- */

static network build(fl_ctx *ctx)
{
    static char slots[N_SLOTS][4];
    const int64_t one[] = { -1, 1 }, dense[] = { -1, N_DENSE };
    fl_var *parts[N_SLOTS + 1], *label, *h, *batch_auc;
    network net;

    net.names[0] = "dense";
    net.names[N_SLOTS + 1] = "label";
    parts[N_SLOTS] = fl_layers_data(ctx, "dense", FL_DTYPE_F32, 2, dense, 0);
    for (int s = 0; s < N_SLOTS; s++) {
        snprintf(slots[s], sizeof(slots[s]), "C%d", s + 1);
        net.names[s + 1] = slots[s];
        parts[s] = fl_layers_embedding(
            fl_layers_data(ctx, slots[s], FL_DTYPE_I64, 2, one, 0), TABLE_ROWS,
            WIDTH, .is_distributed = true, .param.name = "SparseFeatFactors",
            .param.init = "uniform(-0.01,0.01)");
    }
    label = fl_layers_data(ctx, "label", FL_DTYPE_I64, 2, one, 0);
    h = fl_layers_concat(parts, N_SLOTS + 1, 1);
    for (int layer = 0; layer < 3; layer++)
        h = fl_layers_fc(h, HIDDEN, .act = "relu");
    h = fl_layers_fc(h, 2, .act = "softmax");
    net.loss = fl_layers_mean(fl_layers_cross_entropy(h, label));
    net.auc = fl_layers_auc(h, label, &batch_auc);
    return net;
}

/* --- the data ------------------------------------------------------------ */

/* A dataset of these files; `pipe` cuts the held-out lines off, or the rest. */
static fl_dataset *open_data(fl_ctx *ctx, const network *net, const options *o,
                             const char *kind, const char *const *files,
                             size_t n_files, const char *pipe)
{
    fl_dataset *d;

    if (fl_dataset_new(&d, ctx, kind) ||
        fl_dataset_set_format(d, "criteo:hash_size=1000001") ||
        fl_dataset_set_use_var(d, fl_default_main_program(ctx), net->names,
                               N_SLOTS + 2) ||
        fl_dataset_set_filelist(d, files, n_files))
        die("opening the data");
    fl_dataset_set_batch_size(d, BATCH);
    fl_dataset_set_thread(d, (int)o->threads);
    fl_dataset_set_pipe_command(d, pipe);
    fl_dataset_set_seed(d, (uint64_t)o->seed);
    return d;
}

/* --- training and examination -------------------------------------------- */

static void train(fl_ctx *ctx, fl_executor *exe, const network *net,
                  const options *o)
{
    char pipe[64] = "";
    fl_dataset *d;

    if (o->tail)
        snprintf(pipe, sizeof(pipe), "gzip -dcf | head -n -%ld", o->tail);
    d = open_data(ctx, net, o, "InMemoryDataset", o->train, o->n_train, pipe);
    if (fl_dataset_load_into_memory(d))
        die("reading the data");
    for (long epoch = 1; epoch <= o->epochs; epoch++) {
        printf("epoch %ld of %ld: ", epoch, o->epochs);
        fflush(stdout);
        if (fl_dataset_local_shuffle(d) ||
            fl_train_from_dataset(
                exe, fl_default_main_program(ctx), d, NULL,
                .n_threads = (int)o->threads, .loss = fl_var_name(net->loss),
                .total_records = fl_dataset_get_memory_data_size(d),
                .on_progress = fl_progress_to_file, .progress_arg = stdout))
            die("training");
    }
    fl_dataset_free(d);
}

static void examine(fl_ctx *ctx, fl_executor *exe, const network *net,
                    const options *o)
{
    char pipe[64] = "";
    bool from_tails = o->n_test == 0;
    fl_dataset_report r = FL_INIT(fl_dataset_report);
    fl_dataset *d;

    if (from_tails)
        snprintf(pipe, sizeof(pipe), "gzip -dcf | tail -n %ld", o->tail);
    d = open_data(ctx, net, o, "QueueDataset", from_tails ? o->train : o->test,
                  from_tails ? o->n_train : o->n_test, pipe);
    if (fl_infer_from_dataset(exe, fl_default_main_program(ctx), d, &r,
                              .n_threads = (int)o->threads,
                              .loss = fl_var_name(net->loss),
                              .auc = fl_var_name(net->auc)))
        die("examining");
    printf("held out: %llu samples, loss %.4f, AUC %.4f\n",
           (unsigned long long)r.samples, r.loss, r.auc);
    fl_dataset_free(d);
}

/* --- the command line ---------------------------------------------------- */

typedef struct arguments {
    int n, at;
    char **all;
} arguments;

/* What follows the flag at hand. */
static const char *value_of(arguments *a)
{
    if (a->at + 1 >= a->n)
        usage();
    return a->all[++a->at];
}

static bool is_number(arguments *a, const char *name, long *out)
{
    char *end;

    if (strcmp(a->all[a->at], name) != 0)
        return false;
    *out = strtol(value_of(a), &end, 10);
    if (*end || *out < 0)
        usage();
    return true;
}

static options read_options(int argc, char **argv)
{
    options o = { .epochs = 2, .threads = 2, .seed = 1 };

    for (arguments a = { argc, 1, argv }; a.at < a.n; a.at++) {
        if (is_number(&a, "--tail", &o.tail) ||
            is_number(&a, "--epochs", &o.epochs) ||
            is_number(&a, "--threads", &o.threads) ||
            is_number(&a, "--seed", &o.seed))
            continue;
        if (o.n_train == FILES_MAX || o.n_test == FILES_MAX)
            usage();
        if (strcmp(argv[a.at], "--test") == 0)
            o.test[o.n_test++] = value_of(&a);
        else if (argv[a.at][0] != '-')
            o.train[o.n_train++] = argv[a.at];
        else
            usage();
    }
    if (!o.n_train || !o.threads || (o.n_test && o.tail))
        usage();
    return o;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    fl_ctx *ctx;
    fl_executor *exe;
    fl_optimizer *adam;
    network net;

    if (fl_ctx_new(&ctx) || fl_executor_new(&exe, ctx))
        die("reading the settings");
    fl_program_set_seed(fl_default_startup_program(ctx), (uint64_t)o.seed);
    net = build(ctx);
    if (!net.auc ||
        fl_optimizer_new(&adam, ctx, "adam", "learning_rate=0.001") ||
        fl_minimize(adam, net.loss))
        die("building the network");
    if (fl_run(exe, fl_default_startup_program(ctx), NULL))
        die("giving the parameters their first values");
    train(ctx, exe, &net, &o);
    if (o.tail || o.n_test)
        examine(ctx, exe, &net, &o);
    fl_executor_free(exe);
    fl_ctx_free(ctx);
    return 0;
}
