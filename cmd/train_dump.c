/* train_dump.c - the program of a built-in model as a text that can be edited
 * and trained.
 *
 * First values that follow from the words init= of parameters are left out, so
 * that a width is written once; what else the startup program makes comes behind
 * a line `startup`.
 */
#include <stdio.h>
#include <string.h>

#include "sink.h"
#include "train_job.h"
#include "train_net.h"

/* --- what is written -------------------------------------------------------- */

/* Where clicks are judged, the network alone: whoever trains the text judges them
   as well. Metrics of another kind are the model's own. */
static fl_status network_of(const train_job *j, fl_program **out)
{
    const model_net *net = &j->net;
    fl_program *p = fl_default_main_program(j->ctx);
    const char *targets[3];
    size_t n = 0;

    if (!net->auc)
        return fl_program_copy(out, p);
    targets[n++] = fl_var_name(net->loss);
    if (net->prediction)
        targets[n++] = fl_var_name(net->prediction);
    if (net->objective)
        targets[n++] = fl_var_name(net->objective);
    return fl_program_pruned(out, p, targets, n);
}

/* Is the table the one that the line of its parameter makes? */
static bool is_plain_table(fl_program *p, const fl_op_node *n)
{
    fl_var_def is = FL_INIT(fl_var_def);
    fl_attr table, settings;
    char plain[1024], height[32] = "";
    const fl_var *v;

    if (fl_op_attr(n, "table", &table) || fl_op_attr(n, "settings", &settings))
        return false;
    v = fl_program_var(p, table.s);
    if (!v || fl_var_look(v, &is) || !is.init)
        return false;
    if (is.shape.dim[0] > 0)
        snprintf(height, sizeof(height), " height=%lld",
                 (long long)is.shape.dim[0]);
    snprintf(plain, sizeof(plain), "dim=%lld%s init=%s",
             (long long)is.shape.dim[1], height, is.init);
    return !strcmp(plain, settings.s);
}

/* Does the first value follow from what the network says, or is it none of its
   variables'? */
static bool is_left_out(fl_program *p, const fl_op_node *n)
{
    const fl_block *b = fl_program_block(p, 0);

    if (!strcmp(fl_op_type(n), "init_table"))
        return is_plain_table(p, n);
    for (const fl_var *v = NULL; (v = fl_block_next_var(b, v)) != NULL;) {
        fl_var_def is = FL_INIT(fl_var_def);

        if (net_writes(n, fl_var_name(v)))
            return !fl_var_look(v, &is) && is.init;
    }
    return true;
}

static void drop_var(fl_program *startup, const char *name)
{
    fl_var *v = fl_program_var(startup, name);

    /* One that another operator has stays, and is told by the text. */
    if (v && fl_var_remove(v))
        return;
}

static void drop_op(fl_program *startup, fl_op_node *n)
{
    char name[1024] = "";
    const fl_var *v = fl_op_var(n, FL_OP_OUTPUTS, 0, 0);

    if (v)
        snprintf(name, sizeof(name), "%s", fl_var_name(v));
    fl_op_remove(n);
    drop_var(startup, name);
}

/* What the text has to say of first values; *n_ops: how many operators. */
static fl_status startup_of(const train_job *j, fl_program *network,
                            fl_program **out, size_t *n_ops)
{
    fl_status st = fl_program_copy(out, fl_default_startup_program(j->ctx));
    fl_op_node *next;
    fl_block *b;

    if (st)
        return st;
    b = fl_program_block(*out, 0);
    for (fl_op_node *n = fl_block_next_op(b, NULL); n; n = next) {
        next = fl_block_next_op(b, n);
        if (is_left_out(network, n))
            drop_op(*out, n);
    }
    *n_ops = fl_block_n_ops(b);
    return FL_OK;
}

/* --- writing ---------------------------------------------------------------- */

static bool put(sink *to, const char *text)
{
    return sink_write(to, text, strlen(text));
}

static bool put_program(sink *to, fl_program *p)
{
    char *text = fl_program_to_text(p);
    bool is_put = put(to, text);

    fl_text_free(text);
    return is_put;
}

static bool put_head(sink *to, const train_job *j)
{
    const model *m = j->args->model;
    char text[MODEL_FORMAT_MAX + 512];

    snprintf(text, sizeof(text),
             "# The model %s. To train it:\n"
             "#   flotilla train FILE --data DIR --format '%s' \\\n"
             "#       --optimizer %s --learning-rate %s --batch %llu\n",
             m->name, j->net.format, m->optimizer, m->learning_rate,
             (unsigned long long)m->batch_size);
    return put(to, text);
}

static int write_all(const train_job *j, fl_program *network,
                     fl_program *startup)
{
    sink to;

    if (!sink_open(&to, j->args->dump, "--dump-program"))
        return sink_failed(&to, j->self);
    if (put_head(&to, j) && put_program(&to, network) &&
        (!startup || (put(&to, "startup\n") && put_program(&to, startup))) &&
        sink_close(&to))
        return CMD_OK;
    sink_abandon(&to);
    return sink_failed(&to, j->self);
}

int train_dump(const train_job *j)
{
    fl_program *network = NULL, *startup = NULL;
    size_t n_ops = 0;
    int code = CMD_FAILED;

    if (network_of(j, &network) || startup_of(j, network, &startup, &n_ops))
        (void)train_fail(j, "--dump-program");
    else
        code = write_all(j, network, n_ops ? startup : NULL);
    fl_program_free(startup);
    fl_program_free(network);
    return code;
}
