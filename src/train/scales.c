/* scales.c - a gradient is as large as what it is multiplied with: an income
 * beside an age drowns it, and any rate is too large for the one or too small
 * for the other. The network learns next to nothing then, and nobody is told.
 *
 * Numbers are followed from where they are fed, through operators that leave
 * them as they are, to a product with a parameter.
 */
#include "train/scales.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "ir/program.h"

#define SCALE_MAX 20.0  /* root of the mean square that is not told of */
#define WIDE_MAX 1000.0 /* beyond it a logarithm helps */
#define DEPTH_MAX 8
#define TOLD_MAX 16 /* columns */

static const char *const carriers[] = { "concat",   "reshape2", "cast",
                                        "assign",   "squeeze2", "unsqueeze2",
                                        "flatten2", "slice",    "split",
                                        "sum",      "stack" };
static const char *const products[] = { "mul", "fc", "matmul",
                                        "elementwise_mul" };

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], name))
            return true;
    return false;
}

static bool reads_param(const fl_op_node *n)
{
    for (int i = 0; i < fl_node_n_in(n); i++)
        for (int k = 0; k < n->in[i].n; k++)
            if (n->in[i].vars[k] && (n->in[i].vars[k]->flags & FL_VAR_PARAM))
                return true;
    return false;
}

static bool meets_weights(const fl_var *v, int depth);

static bool passes_on(const fl_op_node *n, int depth)
{
    for (int i = 0; i < fl_node_n_out(n); i++)
        for (int k = 0; k < n->out[i].n; k++)
            if (n->out[i].vars[k] && meets_weights(n->out[i].vars[k], depth))
                return true;
    return false;
}

static bool meets_weights(const fl_var *v, int depth)
{
    for (const fl_use *u = v->first_use; u && depth < DEPTH_MAX; u = u->next) {
        const fl_op_node *n = u->node;

        if (n->role != FL_OP_ROLE_FORWARD || fl_node_writes_var(n, v))
            continue;
        if (is_one_of(n->def->name, products, FL_LEN(products)) &&
            reads_param(n))
            return true;
        if (is_one_of(n->def->name, carriers, FL_LEN(carriers)) &&
            passes_on(n, depth + 1))
            return true;
    }
    return false;
}

typedef struct scale {
    double size; /* root of the mean square */
    double least, most;
} scale;

/* Of what is a number. */
static scale scale_of(const fl_tensor *t)
{
    scale s = { .least = INFINITY, .most = -INFINITY };
    const float *x = t->data;
    int64_t n = 0;

    for (int64_t i = 0; i < fl_tensor_numel(t); i++) {
        if (!isfinite(x[i]))
            continue;
        s.size += (double)x[i] * (double)x[i];
        s.least = fmin(s.least, (double)x[i]);
        s.most = fmax(s.most, (double)x[i]);
        n++;
    }
    s.size = n ? sqrt(s.size / (double)n) : 0;
    return s;
}

static bool tell(fl_program *program, const fl_feed *f)
{
    const fl_var *v = fl_program_var(program, f->name);
    scale s;
    bool is_wide;

    if (!v || f->value.dtype != FL_DTYPE_F32 || !meets_weights(v, 0))
        return false;
    s = scale_of(&f->value);
    if (s.size <= SCALE_MAX)
        return false;
    is_wide = s.least >= 0 && s.most > WIDE_MAX;
    FL_WARN("train",
            "column %s is about %.3g, from %.6g to %.6g in the first batch: as "
            "it is, it drowns other columns and hardly anything is learnt; "
            "write the feature %s = standard(%s%s%s) (docs/features.md)",
            f->name, s.size, s.least, s.most, f->name, is_wide ? "log(" : "",
            f->name, is_wide ? ")" : "");
    return true;
}

void fl_scales_look(fl_ctx *c, fl_program *program, const fl_feed *feeds,
                    size_t n_feeds)
{
    int n = 0;

    if (!program || c->scaled == fl_program_id(program))
        return;
    c->scaled = fl_program_id(program);
    for (size_t i = 0; i < n_feeds && n < TOLD_MAX; i++)
        n += tell(program, &feeds[i]);
}
