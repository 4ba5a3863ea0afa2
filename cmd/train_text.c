/* train_text.c - a program text as a model of `flotilla train`.
 *
 * The file has the main program, and behind a line `startup`, if there is one,
 * operators that give first values. What is fed, what is minimised, and what is
 * predicted is found in it where no option names it.
 */
#include <stdlib.h>
#include <string.h>

#include "train_job.h"
#include "train_net.h"

/* --- reading ---------------------------------------------------------------- */

/* Cuts the text at the line `startup`, and gives what is behind it, or NULL. */
static char *cut_startup(char *text)
{
    for (char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        char *next = line + len + (line[len] == '\n');

        line[len] = '\0';
        if (!strcmp(line, "startup")) {
            *line = '\0';
            return next;
        }
        if (next > line + len)
            line[len] = '\n';
        line = next;
    }
    return NULL;
}

static fl_status add_lines(fl_program *p, const char *lines)
{
    return lines ? fl_program_add(p, lines) : FL_OK;
}

/* The startup lines first: what has its first value there gets no other. */
static int read_programs(train_job *j)
{
    char *text = cmd_read(j->self, j->args->text), *startup;
    fl_status st;

    if (!text)
        return CMD_FAILED;
    startup = cut_startup(text);
    st = add_lines(fl_default_startup_program(j->ctx), startup);
    if (st)
        (void)cmd_failed(j->self, "%s, behind its line startup: %s",
                         j->args->text, fl_last_error());
    else if ((st = add_lines(fl_default_main_program(j->ctx), text)) != FL_OK)
        (void)cmd_failed(j->self,
                         "%s: %s\n"
                         "docs/formats/ir.md describes the text form, "
                         "`flotilla ops` the operators",
                         j->args->text, fl_last_error());
    free(text);
    return st ? CMD_FAILED : CMD_OK;
}

/* --- first values ----------------------------------------------------------- */

static bool is_written(fl_program *p, const char *name)
{
    const fl_block *b = fl_program_block(p, 0);

    for (const fl_op_node *n = NULL; (n = fl_block_next_op(b, n)) != NULL;)
        if (net_writes(n, name))
            return true;
    return false;
}

static int check_first_values(const train_job *j)
{
    const fl_block *b = fl_program_block(fl_default_main_program(j->ctx), 0);
    fl_program *startup = fl_default_startup_program(j->ctx);

    for (const fl_var *v = NULL; (v = fl_block_next_var(b, v)) != NULL;) {
        fl_var_def is = FL_INIT(fl_var_def);

        if (fl_var_look(v, &is) || !is.persistable || is.is_table ||
            is_written(startup, fl_var_name(v)))
            continue;
        return cmd_failed(j->self,
                          "%s: %s has no first value; write init=... behind a "
                          "param, or an operator that gives it one behind a "
                          "line `startup` at the end of the file",
                          j->args->text, fl_var_name(v));
    }
    return CMD_OK;
}

/* --- the net ---------------------------------------------------------------- */

/* A variable that an option names. */
static int named(const train_job *j, const char *option, const char *name,
                 fl_var **out)
{
    if (!name)
        return CMD_OK;
    *out = fl_program_var(fl_default_main_program(j->ctx), name);
    if (!*out)
        return cmd_failed(j->self, "%s has no variable %s, which %s names",
                          j->args->text, name, option);
    return CMD_OK;
}

static int find_loss(train_job *j, const net_parts *p)
{
    model_net *net = &j->net;

    if (named(j, "--loss", j->args->net.loss, &net->loss))
        return CMD_FAILED;
    if (!net->loss)
        net->loss = p->loss;
    if (net->loss)
        return CMD_OK;
    return cmd_failed(j->self,
                      p->other_loss ? "%s: is %s the loss, or %s? --loss NAME "
                                      "says it"
                                    : "%s computes no single number that could "
                                      "be the loss, as `mean` does; --loss "
                                      "NAME names one",
                      j->args->text, p->maybe_loss, p->other_loss);
}

/* Only what is not trained yet gets operators that count. */
static fl_status count_clicks(model_net *net, const net_parts *p)
{
    if (p->is_minimized || net->auc || !p->is_clicks || !net->prediction ||
        !p->label)
        return FL_OK;
    net->auc =
        fl_layers_auc(net->prediction, p->label, NULL,
                      .stat_pos = &net->stat_pos, .stat_neg = &net->stat_neg);
    return !net->auc ? fl_last_status()
                     : model_made(fl_layers_mean_log_loss(
                           net->prediction, p->label,
                           model_report_error(net, "log loss")));
}

static int find_net(train_job *j, net_parts *p)
{
    model_net *net = &j->net;

    if (named(j, "--label", j->args->net.label, &p->label) ||
        named(j, "--prediction", j->args->prediction, &p->prediction))
        return CMD_FAILED;
    net_find(fl_default_main_program(j->ctx), p, net);
    if (find_loss(j, p))
        return CMD_FAILED;
    if (!p->n_feeds)
        return cmd_failed(j->self,
                          "%s feeds nothing; a column of the data is a "
                          "variable with the word data",
                          j->args->text);
    net->prediction = p->prediction;
    net->label = p->label ? fl_var_name(p->label) : NULL;
    model_format(&j->args->net, net, "multislot");
    return count_clicks(net, p) ? train_fail(j, "judging clicks") : CMD_OK;
}

/* --- building --------------------------------------------------------------- */

/* A text that trains already says how. */
static int refuse_optimizer(const train_job *j)
{
    const model_args *m = &j->args->net;

    if (!m->optimizer && !m->learning_rate && !m->decay_steps)
        return CMD_OK;
    return cmd_failed(j->self,
                      "%s has updates of its own; leave --optimizer, "
                      "--learning-rate and --decay-steps out, or its lines "
                      "@backward and @optimize",
                      j->args->text);
}

int train_text_build(train_job *j, bool *is_minimized)
{
    net_parts parts = { 0 };

    if (read_programs(j) || find_net(j, &parts) || check_first_values(j))
        return CMD_FAILED;
    *is_minimized = parts.is_minimized;
    return parts.is_minimized ? refuse_optimizer(j) : CMD_OK;
}
