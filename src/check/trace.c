/* trace.c - the operator at which two runs of a batch part. */
#include "check/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Different bits of one number, such as 0 and -0, are as far apart as numbers
   can be that are not the same. */
static double gap_of(double a, double b)
{
    double gap = fabs(a - b);

    if (isnan(a) && isnan(b))
        return 0;
    if (isnan(gap))
        return HUGE_VAL;
    return gap > 0 ? gap : DBL_TRUE_MIN;
}

double fl_check_gap(const fl_tensor *a, const fl_tensor *b, int64_t i)
{
    size_t bytes = fl_dtype_bytes(a->dtype);
    const char *x = (const char *)a->data + (size_t)i * bytes;
    const char *y = (const char *)b->data + (size_t)i * bytes;

    if (!memcmp(x, y, bytes))
        return 0;
    if (a->dtype == FL_DTYPE_F32)
        return gap_of((double)*(const float *)(const void *)x,
                      (double)*(const float *)(const void *)y);
    if (a->dtype == FL_DTYPE_F64)
        return gap_of(*(const double *)(const void *)x,
                      *(const double *)(const void *)y);
    return HUGE_VAL;
}

static bool parts(const fl_tensor *a, const fl_tensor *b, double tolerance)
{
    int64_t n = fl_tensor_numel(a);

    if (a->dtype != b->dtype || n != fl_tensor_numel(b))
        return true;
    for (int64_t i = 0; i < n; i++)
        if (fl_check_gap(a, b, i) > tolerance)
            return true;
    return false;
}

/* --- one run -------------------------------------------------------------- */

static fl_status run_side(const fl_trace_side *s, const fl_trial_batch *batch,
                          fl_trial *t)
{
    fl_trial_home home = { &s->edition->values, &s->edition->rules, s->rows };
    fl_program *p;

    FL_TRY(fl_check_program(s->edition, &p));
    FL_TRY(fl_trial_init(t, p, &s->passes, &home, FL_VIEW_ALL));
    return fl_trial_run(t, batch);
}

/* --- both ----------------------------------------------------------------- */

/* The first output of an operator that is another in the two. */
static const fl_var *odd_output(const fl_op_node *n, const fl_trial *a,
                                const fl_trial *b, double tolerance)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++) {
            const fl_var *v = n->out[s].vars[i];
            const fl_tensor *x = v ? fl_trial_find(a, v->name) : NULL;
            const fl_tensor *y = v ? fl_trial_find(b, v->name) : NULL;

            if (x && y && x->data && y->data && x->kind != FL_KIND_ROWS &&
                parts(x, y, tolerance))
                return v;
        }
    return NULL;
}

static void find_operator(const fl_trial *a, const fl_trial *b,
                          double tolerance, fl_str *out)
{
    const fl_program *p = b->plan->program;

    for (const fl_op_node *n = fl_program_main(p)->first; n; n = n->next) {
        const fl_var *v = odd_output(n, a, b, tolerance);

        if (!v)
            continue;
        fl_str_addf(out, "; it begins at operator %s, which computes %s",
                    fl_node_type(n), v->name);
        return;
    }
}

fl_status fl_trace_difference(const fl_trace_side *a, const fl_trace_side *b,
                              double tolerance, const fl_trial_batch *batch,
                              fl_str *out)
{
    fl_trial x = { 0 }, y = { 0 };
    fl_status st = run_side(a, batch, &x);

    if (!st)
        st = run_side(b, batch, &y);
    if (!st)
        find_operator(&x, &y, tolerance, out);
    fl_trial_release(&x);
    fl_trial_release(&y);
    return st;
}
