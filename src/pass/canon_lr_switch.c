/* canon_lr_switch.c - rates that conditional blocks choose become operators.
 *
 * Fluid writes a piecewise rate as a switch: less_than of the counter and a
 * border, logical_not and logical_and of the borders before, and a block for
 * each case that assigns a constant:
 *
 *     less_than (X=t, Y=b0) -> (Out=c0)        block: assign (X=v0) -> (Out=rate)
 *     logical_not (X=c0) -> (Out=n0)
 *     less_than (X=t, Y=b1) -> (Out=c1)
 *     logical_and (X=n0, Y=c1) -> (Out=a1)     block: assign (X=v1) -> (Out=rate)
 *     ... and for the rest                     block: assign (X=v2) -> (Out=rate)
 *
 * which is lr_piecewise_decay; with two cases, of which the first assigns a
 * line in t and the second another rate, it is lr_linear_warmup. A count of
 * cycles that is 1 in step 0,
 *
 *     equal (X=t, Y=zero) -> (Out=c)           block: assign (X=one) -> (Out=n)
 *
 * is the larger one of the count and 1, a formula like others.
 */
#include "pass/canon_lr.h"

#include <math.h>

#define CASES_MAX 64

/* One case: the block that assigns, and what. */
typedef struct lr_case {
    fl_op_node *choice; /* conditional_block */
    fl_op_node *assign; /* the last operator of its block */
} lr_case;

typedef struct lr_switch {
    const fl_lr_counter *counter;
    fl_var *rate;
    lr_case cases[CASES_MAX];
    int n_cases;
    int64_t borders[CASES_MAX];
    fl_node_group nodes; /* to be looked through when the choices are gone */
} lr_switch;

static bool read_case(fl_op_node *n, const fl_var *rate, lr_case *out)
{
    const fl_program *p = n->block->program;
    const fl_attr *sub = fl_match_attr(n, "sub_block");
    fl_op_node *last;

    if (!fl_match_op(n, "conditional_block") || !sub || sub->i < 1 ||
        (size_t)sub->i >= p->blocks.len)
        return false;
    last = p->blocks.data[sub->i]->last;
    *out = (lr_case){ n, last };
    return fl_match_op(last, "assign") && fl_match_out(last, "Out") == rate;
}

/* All that writes the rate, in the order of the program. */
static bool read_cases(lr_switch *s)
{
    for (fl_op_node *n = s->counter->var->block->first; n; n = n->next) {
        if (!fl_match_writes(n, s->rate))
            continue;
        if (s->n_cases == CASES_MAX ||
            !read_case(n, s->rate, &s->cases[s->n_cases++]))
            return false;
    }
    return s->n_cases >= 2;
}

static const fl_op_node *maker(lr_switch *s, fl_var *v, const char *op)
{
    fl_op_node *n = fl_match_writer(v);

    if (!fl_match_op(n, op))
        return NULL;
    fl_node_group_add(&s->nodes, n);
    return n;
}

/* less_than (X=t, Y=number): the number is border i. */
static bool read_border(lr_switch *s, fl_var *less, int i)
{
    const fl_op_node *n = maker(s, less, "less_than"), *t, *y;

    if (!n)
        return false;
    t = maker(s, fl_match_in(n, "X"), "cast");
    y = maker(s, fl_match_in(n, "Y"), "fill_constant");
    if (!t || !y || fl_match_in(t, "X") != s->counter->var)
        return false;
    s->borders[i] = (int64_t)ceil(fl_match_attr(y, "value")->f);
    return true;
}

static fl_var *condition(const lr_switch *s, int i)
{
    fl_args c = fl_match_ins(s->cases[i].choice, "Cond");

    return c.n == 1 ? c.vars[0] : NULL;
}

/* Is v "none of the borders before i"? */
static bool is_none_before(lr_switch *s, fl_var *v, int i, fl_var *const *less)
{
    const fl_op_node *n, *last;

    if (i < 1)
        return false;
    if (i == 1) {
        n = maker(s, v, "logical_not");
        return n && fl_match_in(n, "X") == less[0];
    }
    n = maker(s, v, "logical_and");
    last = n ? maker(s, fl_match_in(n, "Y"), "logical_not") : NULL;
    return last && fl_match_in(last, "X") == less[i - 1] &&
           is_none_before(s, fl_match_in(n, "X"), i - 1, less);
}

/* Case i is "below border i and none before"; the last is the rest. */
static bool read_conditions(lr_switch *s)
{
    fl_var *less[CASES_MAX] = { 0 };

    for (int i = 0; i < s->n_cases; i++) {
        fl_var *v = condition(s, i);
        const fl_op_node *both;

        if (i == s->n_cases - 1)
            return is_none_before(s, v, i, less);
        less[i] = v;
        if (i > 0) {
            both = maker(s, v, "logical_and");
            if (!both || !is_none_before(s, fl_match_in(both, "X"), i, less))
                return false;
            less[i] = fl_match_in(both, "Y");
        }
        if (!read_border(s, less[i], i))
            return false;
    }
    return false;
}

/* --- what it is ----------------------------------------------------------- */

/* The operator that writes v, in the block of n or outside. */
static fl_op_node *writer_near(const fl_op_node *n, fl_var *v)
{
    for (fl_op_node *m = n->prev; m; m = m->prev)
        if (fl_match_writes(m, v))
            return m;
    return fl_match_writer(v);
}

static bool constant_of(lr_switch *s, const lr_case *c, double *out)
{
    fl_op_node *n = writer_near(c->assign, fl_match_in(c->assign, "X"));

    if (!fl_match_op(n, "fill_constant"))
        return false;
    if (n->block == s->rate->block)
        fl_node_group_add(&s->nodes, n);
    *out = fl_match_attr(n, "value")->f;
    return true;
}

static bool put_pieces(lr_switch *s, fl_op_builder *b)
{
    double *values = fl_arena_alloc(&b->tmp, sizeof(double) * CASES_MAX);

    for (int i = 0; i < s->n_cases; i++)
        if (!constant_of(s, &s->cases[i], &values[i]))
            return false;
    b->type = "lr_piecewise_decay";
    fl_op_builder_ints(b, "boundaries", s->borders, (size_t)s->n_cases - 1);
    fl_op_builder_floats(b, "values", values, (size_t)s->n_cases);
    return true;
}

/* scale of scale of scale of t: a*t + c. */
static bool line_of(const lr_switch *s, const lr_case *c, double *slope,
                    double *start)
{
    fl_op_node *n = c->assign;

    *slope = 1;
    *start = 0;
    for (;;) {
        n = writer_near(n, fl_match_in(n, "X"));
        if (fl_match_op(n, "cast"))
            return fl_match_in(n, "X") == s->counter->var;
        if (!fl_match_op(n, "scale") ||
            !fl_match_attr(n, "bias_after_scale")->b)
            return false;
        *start += *slope * fl_match_attr(n, "bias")->f;
        *slope *= fl_match_attr(n, "scale")->f;
    }
}

/* The other rate: a variable of the main block, or a constant that is made
   before the choice. */
static fl_status other_rate(lr_switch *s, fl_var **out)
{
    const fl_op_node *assign = s->cases[1].assign;
    fl_var *v = fl_match_in(assign, "X");
    fl_op_builder b = { .type = "fill_constant" };
    fl_op_node *n;
    double value;

    *out = v;
    if (v->block == s->rate->block)
        return FL_OK;
    *out = NULL;
    if (!constant_of(s, &s->cases[1], &value))
        return FL_OK;
    fl_op_builder_ints(&b, "shape", (int64_t[]){ 1 }, 1);
    fl_op_builder_float(&b, "value", value);
    fl_op_builder_out_name(&b, "Out",
                           fl_program_name(v->block->program, "fill_constant"));
    FL_TRY(fl_op_builder_insert(&b, s->cases[0].choice, &n));
    *out = fl_match_out(n, "Out");
    return FL_OK;
}

static fl_status put_warmup(lr_switch *s, fl_op_builder *b, bool *done)
{
    double slope, start;
    fl_var *other;

    if (s->n_cases != 2 || !line_of(s, &s->cases[0], &slope, &start))
        return FL_OK;
    FL_TRY(other_rate(s, &other));
    if (!other)
        return FL_OK;
    b->type = "lr_linear_warmup";
    fl_op_builder_in(b, "X", other);
    fl_op_builder_int(b, "warmup_steps", s->borders[0]);
    fl_op_builder_float(b, "start_lr", start);
    fl_op_builder_float(b, "end_lr", start + slope * (double)s->borders[0]);
    *done = true;
    return FL_OK;
}

/* --- replacing ------------------------------------------------------------ */

static void remove_block(fl_program *p, const lr_case *c)
{
    fl_block *b = p->blocks.data[fl_match_attr(c->choice, "sub_block")->i];

    fl_block_remove(c->choice->block, c->choice);
    while (b->last)
        fl_block_remove(b, b->last);
}

static void remove_choices(lr_switch *s)
{
    fl_program *p = s->rate->block->program;

    for (int i = 0; i < s->n_cases; i++)
        remove_block(p, &s->cases[i]);
    fl_lr_remove_unread(&s->nodes);
}

/* The rate is computed anew in every step: nothing of it is kept. */
static fl_status put(lr_switch *s, fl_op_builder *b)
{
    fl_op_builder_in(b, "Step", s->counter->step);
    fl_op_builder_out(b, "Out", s->rate);
    FL_TRY(fl_op_builder_insert(b, s->cases[s->n_cases - 1].choice, NULL));
    remove_choices(s);
    return FL_OK;
}

static fl_status take(lr_switch *s, bool *done)
{
    fl_op_builder b = { 0 };
    bool fits = false;

    if (read_cases(s) && read_conditions(s)) {
        fits = put_pieces(s, &b);
        if (!fits)
            FL_TRY(put_warmup(s, &b, &fits));
    }
    if (fits)
        FL_TRY(put(s, &b));
    else
        fl_op_builder_release(&b);
    *done = fits;
    return FL_OK;
}

static fl_status take_first(const fl_lr_counter *c, bool *done)
{
    for (fl_op_node *n = c->var->block->first; n && !*done; n = n->next) {
        fl_args outs = fl_match_outs(n, "Out");
        lr_switch s = { .counter = c };
        fl_status st;

        if (!fl_match_op(n, "conditional_block") || outs.n != 1)
            continue;
        s.rate = outs.vars[0];
        st = take(&s, done);
        fl_vec_release(&s.nodes);
        FL_TRY(st);
    }
    return FL_OK;
}

/* --- cycles --------------------------------------------------------------- */

static bool is_number(const fl_op_node *n, double value)
{
    return fl_match_op(n, "fill_constant") &&
           fl_match_attr(n, "value")->f == value;
}

/* Is v "this is step 0"? */
static bool is_step_0(const fl_lr_counter *c, const fl_var *v)
{
    const fl_op_node *n = fl_match_writer(v), *t;

    if (!fl_match_op(n, "equal"))
        return false;
    t = fl_match_writer(fl_match_in(n, "X"));
    return fl_match_op(t, "cast") && fl_match_in(t, "X") == c->var &&
           is_number(fl_match_writer(fl_match_in(n, "Y")), 0);
}

/* The number that the block of n assigns, when it is 1; else NULL. */
static fl_var *one_of(fl_op_node *n, const fl_var *count)
{
    lr_case c;

    if (!read_case(n, count, &c) ||
        !is_number(fl_match_writer(fl_match_in(c.assign, "X")), 1))
        return NULL;
    return fl_match_in(c.assign, "X");
}

/* All that reads `count` behind n reads `instead`. */
static void read_after(fl_op_node *n, const fl_var *count, fl_var *instead)
{
    for (fl_op_node *m = n->next; m; m = m->next)
        fl_node_read_instead(m, count, instead);
}

/* Operators that ask whether this is step 0, but for n, which chooses by it. */
static void add_question(fl_node_group *to, const fl_var *step_0,
                         const fl_op_node *n)
{
    const fl_op_node *equal = fl_match_writer(step_0);

    fl_node_group_add(to, fl_match_writer(fl_match_in(equal, "Y")));
    for (const fl_use *u = step_0->first_use; u; u = u->next)
        if (u->node != n)
            fl_node_group_add(to, u->node);
}

static fl_status put_larger(fl_op_node *n, fl_var *count, fl_var *one)
{
    fl_program *p = n->block->program;
    fl_op_builder b = { .type = "elementwise_max" };
    fl_node_group asked = { 0 };
    fl_op_node *larger;

    fl_op_builder_in(&b, "X", count);
    fl_op_builder_in(&b, "Y", one);
    fl_op_builder_out_name(&b, "Out", fl_program_name(p, "elementwise_max"));
    FL_TRY(fl_op_builder_insert(&b, n, &larger));
    read_after(n, count, fl_match_out(larger, "Out"));
    add_question(&asked, fl_match_ins(n, "Cond").vars[0], n);
    remove_block(p, &(lr_case){ n, NULL });
    fl_lr_remove_unread(&asked);
    fl_vec_release(&asked);
    return FL_OK;
}

static fl_status take_cycle(const fl_lr_counter *c, fl_op_node *n, bool *done)
{
    fl_args outs = fl_match_outs(n, "Out"), cond = fl_match_ins(n, "Cond");
    fl_var *one;

    if (!fl_match_op(n, "conditional_block") || outs.n != 1 || cond.n != 1 ||
        !is_step_0(c, cond.vars[0]))
        return FL_OK;
    one = one_of(n, outs.vars[0]);
    if (!one || outs.vars[0]->flags & FL_VAR_PERSIST)
        return FL_OK;
    *done = true;
    return put_larger(n, outs.vars[0], one);
}

static fl_status take_first_cycle(const fl_lr_counter *c, bool *done)
{
    for (fl_op_node *n = c->var->block->first; n && !*done; n = n->next)
        FL_TRY(take_cycle(c, n, done));
    return FL_OK;
}

fl_status fl_lr_take_switches(const fl_lr_counter *c)
{
    bool done;

    do {
        done = false;
        FL_TRY(take_first(c, &done));
        if (!done)
            FL_TRY(take_first_cycle(c, &done));
    } while (done);
    return FL_OK;
}
