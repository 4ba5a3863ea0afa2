/* canon_lr.c - schedules that are written out become operators of their own.
 *
 *     increment (X=c) -> (Out=c) {step=1}
 *     cast (X=c) -> (Out=t)
 *     scale (X=t) -> (Out=a) {scale=0.01}
 *     fill_constant () -> (Out=b) {shape=[1], value=0.5}
 *     elementwise_pow (X=b, Y=a) -> (Out=p)
 *     scale (X=p) -> (Out=rate) {scale=0.1}
 *
 * is
 *
 *     global_step () -> (Out=n)
 *     lr_exponential_decay (Step=n) -> (Out=rate) {learning_rate=0.1,
 *         decay_steps=100, decay_rate=0.5}
 *
 * so that servers compute rates for the step that they are at. In one process
 * the counter counts as the program says and the pass is not run. A formula is
 * written as a text, operators before what they work on, and looked up; one
 * that is not known stays, with the global step as its counter.
 *
 * Switches between rates (canon_lr_switch.c) are taken in first.
 */
#include "pass/canon_lr.h"

#include <math.h>

/* --- formulas ------------------------------------------------------------- */

static bool add(fl_lr_formula *f, char letter)
{
    if (f->len + 1 >= sizeof(f->text))
        return false;
    f->text[f->len++] = letter;
    return true;
}

static bool add_number(fl_lr_formula *f, double x)
{
    if (f->n_numbers == FL_LEN(f->numbers))
        return false;
    f->numbers[f->n_numbers++] = x;
    return true;
}

static bool describe_scale(fl_lr_formula *f, const fl_op_node *n)
{
    return !fl_match_ins(n, "ScaleTensor").n &&
           fl_match_attr(n, "bias_after_scale")->b &&
           add_number(f, fl_match_attr(n, "scale")->f) &&
           add_number(f, fl_match_attr(n, "bias")->f);
}

static bool describe_number(fl_lr_formula *f, const fl_op_node *n)
{
    return add_number(f, fl_match_attr(n, "value")->f);
}

/* Operator, how its numbers are read, on how many variables it works, and its
   letter. */
static const struct {
    const char *op;
    bool (*numbers)(fl_lr_formula *f, const fl_op_node *n);
    int n_in;
    char letter;
} words[] = {
    { "scale", describe_scale, 1, 'S' },
    { "fill_constant", describe_number, 0, 'C' },
    { "elementwise_pow", NULL, 2, 'P' },
    { "elementwise_div", NULL, 2, 'D' },
    { "elementwise_min", NULL, 2, 'm' },
    { "elementwise_max", NULL, 2, 'M' },
    { "floor", NULL, 1, 'F' },
    { "ceil", NULL, 1, 'K' },
    { "exp", NULL, 1, 'E' },
    { "cos", NULL, 1, 'c' },
};

static bool is_counted(const fl_lr_counter *c, const fl_op_node *n)
{
    return fl_match_op(n, "cast") && fl_match_in(n, "X") == c->var;
}

static bool describe(fl_lr_formula *f, const fl_lr_counter *c, fl_var *v);

static bool describe_node(fl_lr_formula *f, const fl_lr_counter *c,
                          fl_op_node *n)
{
    for (size_t i = 0; i < FL_LEN(words); i++) {
        if (!fl_match_op(n, words[i].op))
            continue;
        fl_node_group_add(&f->nodes, n);
        return add(f, words[i].letter) &&
               (!words[i].numbers || words[i].numbers(f, n)) &&
               (words[i].n_in < 1 || describe(f, c, fl_match_in(n, "X"))) &&
               (words[i].n_in < 2 || describe(f, c, fl_match_in(n, "Y")));
    }
    return false;
}

/* Recursion ends with the room for letters. */
static bool describe(fl_lr_formula *f, const fl_lr_counter *c, fl_var *v)
{
    fl_op_node *n = fl_match_writer(v);

    if (!n)
        return false;
    if (!is_counted(c, n))
        return describe_node(f, c, n);
    fl_node_group_add(&f->nodes, n);
    return add(f, 't');
}

/* --- what they are -------------------------------------------------------- */

/* 100 when x is 1/100 as far as a float can say it; else 0. */
static int64_t steps_of(double x)
{
    double n = round(1 / x);

    return n >= 1 && n < 1e15 && fabs(n * x - 1) < 1e-6 ? (int64_t)n : 0;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

static void put_periods(fl_op_builder *b, const double x[3], bool staircase)
{
    fl_op_builder_float(b, "learning_rate", x[0]);
    fl_op_builder_int(b, "decay_steps", steps_of(x[1]));
    fl_op_builder_float(b, "decay_rate", x[2]);
    fl_op_builder_bool(b, "staircase", staircase);
}

static bool has_floor(const fl_lr_formula *f)
{
    return strchr(f->text, 'F') != NULL;
}

static bool fit_exponential(const fl_lr_formula *f, fl_op_builder *b)
{
    const double *x = f->numbers; /* lr 0 | rate | 1/steps 0 */

    put_periods(b, (double[]){ x[0], x[3], x[2] }, has_floor(f));
    return x[1] == 0 && x[4] == 0 && steps_of(x[3]);
}

static bool fit_natural(const fl_lr_formula *f, fl_op_builder *b)
{
    const double *x = f->numbers; /* lr 0 | -rate 0 | 1/steps 0 */

    put_periods(b, (double[]){ x[0], x[4], -x[2] }, has_floor(f));
    return x[1] == 0 && x[3] == 0 && x[5] == 0 && steps_of(x[4]);
}

static bool fit_inverse(const fl_lr_formula *f, fl_op_builder *b)
{
    const double *x = f->numbers; /* lr | 1 1 | rate 0 | 1/steps 0 */

    put_periods(b, (double[]){ x[0], x[5], x[3] }, has_floor(f));
    return x[1] == 1 && x[2] == 1 && x[4] == 0 && x[6] == 0 && steps_of(x[5]);
}

/* The size of the model is in the rate. */
static bool fit_noam(const fl_lr_formula *f, fl_op_builder *b)
{
    const double *x = f->numbers; /* lr 0 | -0.5 | warmup^-1.5 0 */
    double warmup = round(pow(x[3], -1 / 1.5));

    if (!(x[1] == 0 && x[2] == -0.5 && x[4] == 0 && warmup >= 1 &&
          is_near(pow(warmup, -1.5), x[3])))
        return false;
    fl_op_builder_float(b, "learning_rate", x[0]);
    fl_op_builder_float(b, "d_model", 1);
    fl_op_builder_float(b, "warmup_steps", warmup);
    return true;
}

static bool fit_polynomial(const fl_lr_formula *f, fl_op_builder *b)
{
    /* 1 end | lr-end 0 | -1 1 | 1/steps 0 | steps | power */
    const double *x = f->numbers;

    fl_op_builder_float(b, "learning_rate", x[2] + x[1]);
    fl_op_builder_int(b, "decay_steps", steps_of(x[6]));
    fl_op_builder_float(b, "end_learning_rate", x[1]);
    fl_op_builder_float(b, "power", x[9]);
    return x[0] == 1 && x[3] == 0 && x[4] == -1 && x[5] == 1 && x[7] == 0 &&
           steps_of(x[6]) && is_near(x[8], (double)steps_of(x[6]));
}

static bool fit_cycles(const fl_lr_formula *f, fl_op_builder *b)
{
    /* 1 end | lr-end 0 | -1 1 | steps 0 | 1/steps 0 | 1 | power */
    const double *x = f->numbers;

    fl_op_builder_float(b, "learning_rate", x[2] + x[1]);
    fl_op_builder_int(b, "decay_steps", steps_of(x[8]));
    fl_op_builder_float(b, "end_learning_rate", x[1]);
    fl_op_builder_float(b, "power", x[11]);
    fl_op_builder_bool(b, "cycle", true);
    return x[0] == 1 && x[3] == 0 && x[4] == -1 && x[5] == 1 && x[7] == 0 &&
           x[9] == 0 && x[10] == 1 && steps_of(x[8]) &&
           is_near(x[6], (double)steps_of(x[8]));
}

static bool fit_cosine(const fl_lr_formula *f, fl_op_builder *b)
{
    /* lr/2 0 | 1 1 | 1/epochs 0 | pi 0 | 1/steps 0 */
    const double *x = f->numbers;

    fl_op_builder_float(b, "learning_rate", 2 * x[0]);
    fl_op_builder_int(b, "step_each_epoch", steps_of(x[8]));
    fl_op_builder_int(b, "epochs", steps_of(x[4]));
    return x[1] == 0 && x[2] == 1 && x[3] == 1 && x[5] == 0 && x[7] == 0 &&
           x[9] == 0 && is_near(x[6], 3.14159265358979323846) &&
           steps_of(x[4]) && steps_of(x[8]);
}

static const struct {
    const char *text, *op;
    int64_t first; /* the counter in the first step */
    bool (*fit)(const fl_lr_formula *f, fl_op_builder *b);
} known[] = {
    { "SPCSt", "lr_exponential_decay", 0, fit_exponential },
    { "SPCFSt", "lr_exponential_decay", 0, fit_exponential },
    { "SESSt", "lr_natural_exp_decay", 0, fit_natural },
    { "SESFSt", "lr_natural_exp_decay", 0, fit_natural },
    { "DCSSSt", "lr_inverse_time_decay", 0, fit_inverse },
    { "DCSSFSt", "lr_inverse_time_decay", 0, fit_inverse },
    { "SmPtCSt", "lr_noam_decay", 1, fit_noam },
    { "SSPSSmtCC", "lr_polynomial_decay", 0, fit_polynomial },
    { "SSPSDtSMKStCC", "lr_polynomial_decay", 0, fit_cycles },
    { "SScSSFSt", "lr_cosine_decay", 0, fit_cosine },
};

/* --- replacing ------------------------------------------------------------ */

static bool remove_one(fl_op_node *n)
{
    fl_node_group one = { 0 };

    if (!n->is_linked || fl_match_wanted(fl_match_out(n, "Out")))
        return false;
    fl_node_group_add(&one, n);
    fl_node_group_remove(&one);
    fl_vec_release(&one);
    return true;
}

void fl_lr_remove_unread(const fl_node_group *nodes)
{
    bool any;

    do {
        any = false;
        for (size_t i = 0; i < nodes->len; i++)
            any |= remove_one(nodes->data[i]);
    } while (any);
}

static fl_status put_rate(const fl_lr_counter *c, const fl_lr_formula *f,
                          size_t k, bool *done)
{
    fl_op_node *last = f->nodes.data[0];
    fl_op_builder b = { .type = known[k].op };

    if (!known[k].fit(f, &b)) {
        fl_op_builder_release(&b);
        return FL_OK;
    }
    fl_op_builder_in(&b, "Step", c->step);
    fl_op_builder_out(&b, "Out", fl_match_out(last, "Out"));
    FL_TRY(fl_op_builder_insert(&b, last, NULL));
    fl_block_remove(last->block, last);
    fl_lr_remove_unread(&f->nodes);
    *done = true;
    return FL_OK;
}

static fl_status replace(fl_lr_counter *c, fl_op_node *n, bool *done)
{
    fl_lr_formula f = { .len = 0 };
    fl_status st = FL_OK;

    if (fl_match_out(n, "Out") && describe(&f, c, fl_match_out(n, "Out")))
        for (size_t k = 0; k < FL_LEN(known) && !*done && !st; k++)
            if (!strcmp(f.text, known[k].text) && c->first == known[k].first)
                st = put_rate(c, &f, k, done);
    fl_vec_release(&f.nodes);
    return st;
}

/* Backwards, so that a whole formula is met before its parts. */
static fl_status replace_all(fl_lr_counter *c)
{
    bool done;

    do {
        done = false;
        for (fl_op_node *n = c->var->block->last; n && !done; n = n->prev)
            if (n != c->increment)
                FL_TRY(replace(c, n, &done));
    } while (done);
    return FL_OK;
}

/* --- the counter ---------------------------------------------------------- */

/* increment (X=c) -> (Out=c) of a persistent number, by one. */
static bool is_increment(const fl_op_node *n)
{
    const fl_var *v = fl_match_in(n, "X");

    return fl_match_op(n, "increment") && v && v == fl_match_out(n, "Out") &&
           (v->flags & FL_VAR_PERSIST) && fl_match_writer(v) == n &&
           fl_match_attr(n, "step")->f == 1;
}

static bool find_counter(const fl_dist *d, fl_lr_counter *c)
{
    fl_op_node *n = fl_program_main(d->main)->first;
    const fl_op_node *maker;

    while (n && !is_increment(n))
        n = n->next;
    if (!n)
        return false;
    c->increment = n;
    c->var = fl_match_in(n, "X");
    maker = fl_dist_find_maker(d, c->var->name);
    c->first = fl_match_op(maker, "fill_constant")
                   ? (int64_t)fl_match_attr(maker, "value")->f + 1
                   : 0;
    return true;
}

static fl_status put_step(fl_lr_counter *c)
{
    fl_program *p = c->var->block->program;
    fl_op_builder b = { .type = "global_step" };
    fl_op_node *n;

    fl_op_builder_out_name(&b, "Out", fl_program_name(p, "global_step"));
    FL_TRY(fl_op_builder_insert(&b, c->increment, &n));
    c->step = fl_match_out(n, "Out");
    return FL_OK;
}

/* Formulas that are not known count from where the program says. */
static fl_status put_count(fl_lr_counter *c, fl_var **out)
{
    fl_program *p = c->var->block->program;
    fl_op_builder b = { .type = "increment" };
    fl_op_node *n;

    *out = c->step;
    if (!c->first)
        return FL_OK;
    fl_op_builder_in(&b, "X", c->step);
    fl_op_builder_out_name(&b, "Out", fl_program_name(p, "global_step"));
    fl_op_builder_float(&b, "step", (double)c->first);
    FL_TRY(fl_op_builder_insert(&b, c->increment, &n));
    *out = fl_match_out(n, "Out");
    return FL_OK;
}

static void read_instead(fl_var *v, fl_var *instead)
{
    for (fl_op_node *n = v->block->first; n; n = n->next)
        fl_node_read_instead(n, v, instead);
}

static bool is_read_elsewhere(const fl_lr_counter *c)
{
    for (const fl_use *u = c->var->first_use; u; u = u->next)
        if (u->node != c->increment)
            return true;
    return fl_program_is_fetched(c->var->block->program, c->var->name);
}

static fl_status end_counter(fl_dist *d, fl_lr_counter *c)
{
    fl_dist_counter kept = { .name = fl_arena_strdup(&d->arena, c->var->name),
                             .first = c->first - 1 };
    fl_var *count;

    fl_vec_push(&d->counters, kept);
    if (is_read_elsewhere(c)) {
        FL_TRY(put_count(c, &count));
        read_instead(c->var, count);
    }
    fl_block_remove(c->increment->block, c->increment);
    fl_dist_forget(d, c->var);
    return FL_OK;
}

static fl_status lr_spread(fl_dist *d, bool *changed)
{
    fl_lr_counter c = { 0 };

    while (find_counter(d, &c)) {
        FL_TRY(put_step(&c));
        FL_TRY(fl_lr_take_switches(&c));
        FL_TRY(replace_all(&c));
        FL_TRY(end_counter(d, &c));
        *changed = true;
    }
    return FL_OK;
}

const fl_pass fl_pass_canon_lr = {
    .name = "canon_lr",
    .doc = "make schedules that are written out operators of their own",
    .spread = lr_spread,
};
