/* dist_collective.c - workers add up their gradients, and each updates its own
 * copy of the parameters.
 *
 *     batch_share () -> (Out=batch@SHARE)
 *     mul_grad (..) -> (Y@GRAD=w@GRAD)
 *     clip_by_norm (X=w@GRAD) -> (Out=c)
 *     adam (Param=w, Grad=c, ..)
 *
 * becomes, behind the operator that gives the last gradient of a bucket,
 *
 *     c_allreduce_sum (X=[w@GRAD, b@GRAD], Share=batch@SHARE)
 *         -> (Out=[w@GRAD@SUM, b@GRAD@SUM])
 *     clip_by_norm (X=w@GRAD@SUM) -> (Out=c)
 *     adam (Param=w, Grad=c, ..)
 *
 * so that it travels while the rest of the backward pass is computed, and
 * clipping, decay and update see what all workers have. Buckets are filled in
 * the order in which gradients come; the last one is small, since nothing is
 * left to compute while it travels. A gradient with rows + values goes alone.
 * Gradients of tables go to the tables.
 *
 * With local steps gradients stay where they are, and behind the update the
 * parameters are averaged, once in so many steps:
 *
 *     c_allreduce_sum (X=[w, b], Share=batch@SHARE) -> (Out=[w, b]) {every=4}
 *
 * At the end of the startup program worker 0 gives all others its parameters. The
 * barrier at the end of the main program stands for the round; it waits for
 * nothing but the pushes, so that server 0 knows of a worker that waits for
 * others (a cut of the job is made there).
 */
#include "pass/dist_kit.h"

#define SHARE "batch@SHARE"

/* A gradient that crosses into the update. */
typedef struct cross {
    fl_var *grad;
    fl_op_node *writer; /* the last one */
    uint64_t bytes;
} cross;

typedef FL_VEC(cross) cross_list;

/* --- who updates what ----------------------------------------------------- */

static bool is_update(const fl_op_node *n)
{
    return n->role == FL_OP_ROLE_OPTIMIZE;
}

static bool reads(const fl_op_node *n, const fl_var *v)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        if (fl_args_count(n->in[s], v))
            return true;
    return false;
}

static bool feeds(const fl_op_node *n, const fl_node_group *readers)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            for (size_t k = 0; n->out[s].vars[i] && k < readers->len; k++)
                if (reads(readers->data[k], n->out[s].vars[i]))
                    return true;
    return false;
}

/* Operators of the update that work on gradients of tables, from the pushes
   backwards. */
static void find_pushes(const fl_dist *d, fl_node_group *out)
{
    for (fl_op_node *n = fl_program_main(d->main)->last; n; n = n->prev)
        if ((n->def->flags & FL_OP_EACH) || (is_update(n) && feeds(n, out)))
            fl_node_group_add(out, n);
}

/* --- what crosses --------------------------------------------------------- */

/* Computed from the batch? Schedules and what the update makes are the same
   everywhere. */
static fl_op_node *computing_writer(const fl_op_node *reader, const fl_var *v)
{
    fl_op_node *n = reader->prev;

    if (!v || (v->flags & (FL_VAR_PERSIST | FL_VAR_DATA)) ||
        !fl_dtype_is_float(v->meta.dtype))
        return NULL;
    while (n && !fl_node_writes_var(n, v))
        n = n->prev;
    return n && (n->role == FL_OP_ROLE_FORWARD ||
                 n->role == FL_OP_ROLE_BACKWARD)
               ? n
               : NULL;
}

static fl_status check_size(const fl_var *v, uint64_t *bytes)
{
    int64_t n = fl_shape_numel(&v->meta.shape);
    char buf[FL_SHAPE_TEXT_MAX];

    *bytes = 0;
    if (v->meta.kind == FL_KIND_ROWS)
        return FL_OK;
    if (n < 0)
        FL_FAIL(FL_ERR_INVAL,
                "the update reads %s of shape %s, which is that of a batch; "
                "workers add up gradients of a fixed shape",
                v->name, fl_shape_text(&v->meta.shape, buf));
    *bytes = (uint64_t)n * fl_dtype_bytes(v->meta.dtype);
    return FL_OK;
}

static bool has_cross(const cross_list *l, const fl_var *v)
{
    for (size_t i = 0; i < l->len; i++)
        if (l->data[i].grad == v)
            return true;
    return false;
}

static fl_status add_inputs(const fl_op_node *n, cross_list *out)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++) {
            cross c = { .grad = n->in[s].vars[i] };

            c.writer = computing_writer(n, c.grad);
            if (!c.writer || has_cross(out, c.grad))
                continue;
            FL_TRY(check_size(c.grad, &c.bytes));
            fl_vec_push(out, c);
        }
    return FL_OK;
}

/* An operator that works on both has one of them too early. */
static fl_status check_apart(const fl_op_node *n, const cross_list *dense)
{
    char text[FL_NODE_TEXT_MAX];

    for (size_t i = 0; i < dense->len; i++)
        if (reads(n, dense->data[i].grad))
            FL_FAIL(FL_ERR_INVAL,
                    "%s works on the gradients of tables and of other "
                    "parameters at once, but those of tables are not added up "
                    "before their rows are updated; clip them apart, or train "
                    "with servers",
                    fl_node_text(n, text));
    return FL_OK;
}

static bool comes_before(const fl_op_node *a, const fl_op_node *b)
{
    for (; b; b = b->prev)
        if (a == b)
            return true;
    return false;
}

/* In the order in which they come. */
static void sort(cross_list *l)
{
    for (size_t i = 1; i < l->len; i++)
        for (size_t k = i;
             k && !comes_before(l->data[k - 1].writer, l->data[k].writer);
             k--) {
            cross c = l->data[k];

            l->data[k] = l->data[k - 1];
            l->data[k - 1] = c;
        }
}

static fl_status find_all(const fl_dist *d, cross_list *out)
{
    fl_node_group pushes = { 0 };
    fl_status st = FL_OK;

    find_pushes(d, &pushes);
    for (fl_op_node *n = fl_program_main(d->main)->first; n && !st; n = n->next)
        if (is_update(n) && !fl_node_group_has(&pushes, n))
            st = add_inputs(n, out);
    for (size_t i = 0; i < pushes.len && !st; i++)
        st = check_apart(pushes.data[i], out);
    fl_vec_release(&pushes);
    sort(out);
    return st;
}

/* --- buckets -------------------------------------------------------------- */

static bool may_join(const cross *a, const cross *b)
{
    return a->grad->meta.kind != FL_KIND_ROWS &&
           b->grad->meta.kind != FL_KIND_ROWS &&
           a->grad->meta.dtype == b->grad->meta.dtype;
}

/* Where the last bucket begins. */
static size_t find_tail(const cross_list *l, uint64_t limit)
{
    size_t i = l->len;
    uint64_t sum = 0;

    while (i && sum + l->data[i - 1].bytes <= limit)
        sum += l->data[--i].bytes;
    return i;
}

/* The end of the bucket that begins at `lo`. One that is too large is alone. */
static size_t find_end(const fl_dist *d, const cross_list *l, size_t lo,
                       size_t tail)
{
    uint64_t sum = l->data[lo].bytes;
    size_t hi = lo + 1;

    while (hi < l->len && hi != tail && may_join(&l->data[lo], &l->data[hi]) &&
           sum + l->data[hi].bytes <= d->config.bucket_bytes)
        sum += l->data[hi++].bytes;
    return hi;
}

/* Readers behind the operator take its sums. */
static void rewire(fl_op_node *reduce, fl_var *grad, fl_var *sum)
{
    for (fl_op_node *n = reduce->next; n; n = n->next)
        if (is_update(n))
            fl_node_read_instead(n, grad, sum);
}

static fl_status insert_reduce(const fl_dist *d, const cross *c, size_t n)
{
    fl_op_builder b = { .type = "c_allreduce_sum", .role = FL_OP_ROLE_RPC };
    fl_block *block = fl_program_main(d->main);
    fl_op_node *reduce;

    for (size_t i = 0; i < n; i++) {
        fl_op_builder_in(&b, "X", c[i].grad);
        fl_op_builder_out_name(
            &b, "Out", fl_arena_printf(&b.tmp, "%s@SUM", c[i].grad->name));
    }
    fl_op_builder_in_name(&b, "Share", SHARE);
    FL_TRY(fl_op_builder_put(&b, block, c[n - 1].writer->next, &reduce));
    for (size_t i = 0; i < n; i++)
        rewire(reduce, c[i].grad, reduce->out[0].vars[i]);
    return FL_OK;
}

static fl_status insert_all(const fl_dist *d, const cross_list *l)
{
    size_t tail = find_tail(l, d->config.last_bucket_bytes), hi;

    for (size_t lo = 0; lo < l->len; lo = hi) {
        hi = find_end(d, l, lo, tail);
        FL_TRY(insert_reduce(d, &l->data[lo], hi - lo));
    }
    return FL_OK;
}

static fl_status insert_share(const fl_dist *d)
{
    fl_op_builder b = { .type = "batch_share", .role = FL_OP_ROLE_RPC };
    fl_block *block = fl_program_main(d->main);

    fl_op_builder_out_name(&b, "Out", SHARE);
    return fl_op_builder_put(&b, block, block->first, NULL);
}

/* --- averages of parameters ------------------------------------------------ */

/* What the update writes, where workers update by gradients of their own. */
static void find_trained(const fl_dist *d, cross_list *out)
{
    fl_var *v = fl_program_main(d->main)->first_var;

    for (; v; v = v->next) {
        fl_op_node *n = fl_program_main(d->main)->last;
        cross c = { .grad = v };

        if ((v->flags & (FL_VAR_PARAM | FL_VAR_TABLE)) != FL_VAR_PARAM)
            continue;
        while (n && !(is_update(n) && fl_node_writes_var(n, v)))
            n = n->prev;
        if (!n)
            continue;
        c.writer = n;
        c.bytes = (uint64_t)fl_shape_numel(&v->meta.shape) *
                  fl_dtype_bytes(v->meta.dtype);
        fl_vec_push(out, c);
    }
    sort(out);
}

static fl_status append_mean(const fl_dist *d, const cross *c, size_t n)
{
    fl_op_builder b = { .type = "c_allreduce_sum", .role = FL_OP_ROLE_RPC };

    for (size_t i = 0; i < n; i++) {
        fl_op_builder_in(&b, "X", c[i].grad);
        fl_op_builder_out(&b, "Out", c[i].grad);
    }
    fl_op_builder_in_name(&b, "Share", SHARE);
    fl_op_builder_int(&b, "every", (int64_t)d->config.local_steps);
    return fl_op_builder_put(&b, fl_program_main(d->main), NULL, NULL);
}

static fl_status average_params(const fl_dist *d)
{
    cross_list all = { 0 };
    fl_status st = FL_OK;
    size_t hi;

    find_trained(d, &all);
    for (size_t lo = 0; lo < all.len && !st; lo = hi) {
        hi = find_end(d, &all, lo, all.len);
        st = append_mean(d, &all.data[lo], hi - lo);
    }
    fl_vec_release(&all);
    return st;
}

/* --- first values --------------------------------------------------------- */

static fl_status give_param(const fl_dist *d, const fl_var *w)
{
    fl_op_builder b = { .type = "c_broadcast", .role = FL_OP_ROLE_RPC };

    fl_op_builder_in(&b, "X", w);
    fl_op_builder_out(&b, "Out", w);
    return fl_op_builder_put(&b, fl_program_main(d->startup), NULL, NULL);
}

static fl_status give_params(const fl_dist *d)
{
    const fl_block *b = fl_program_main(d->startup);

    for (const fl_var *v = b->first_var; v; v = v->next)
        if ((v->flags & (FL_VAR_PARAM | FL_VAR_TABLE)) == FL_VAR_PARAM &&
            fl_match_writer(v))
            FL_TRY(give_param(d, v));
    return FL_OK;
}

/* --- all ------------------------------------------------------------------ */

static fl_status append_end(fl_dist *d)
{
    fl_var_list pushed = { 0 };
    fl_status st;

    fl_dist_pushed(d, &pushed);
    st = fl_dist_append_barrier(d, &pushed);
    fl_vec_release(&pushed);
    return st;
}

static bool trains(const fl_dist *d)
{
    for (const fl_op_node *n = fl_program_main(d->main)->first; n; n = n->next)
        if (is_update(n) || (n->def->flags & FL_OP_EACH))
            return true;
    return false;
}

static fl_status add_up_gradients(const fl_dist *d)
{
    cross_list all = { 0 };
    fl_status st = find_all(d, &all);

    if (!st)
        st = insert_all(d, &all);
    fl_vec_release(&all);
    return st;
}

static fl_status collective_spread(fl_dist *d, bool *changed)
{
    if (fl_dist_has_op(d->main, "batch_share") || !trains(d))
        return FL_OK;
    *changed = true;
    if (d->config.merge_steps > 1)
        d->main->accumulate = d->config.merge_steps;
    FL_TRY(insert_share(d));
    FL_TRY(d->config.local_steps ? average_params(d) : add_up_gradients(d));
    FL_TRY(append_end(d));
    return give_params(d);
}

const fl_pass fl_pass_dist_collective = {
    .name = "dist_collective",
    .doc = "add gradients up over the workers, each of which updates its copy",
    .spread = collective_spread,
};
