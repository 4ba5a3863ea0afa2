/* acc_plain.c - a value and the state of its rule, nothing else.
 *
 *     header | value[dim] | state 0 [dim] | state 1 [dim] | known[dim] | padding
 *
 * where `known` is there in tables that keep it (table/known.h). It is no field:
 * of a row that is saved it is of no use.
 * A key without a row has the value that its row would be born with.
 */
#include "table/acc_kit.h"

#include <string.h>

#include "kernel/vec.h"

enum { VALUE }; /* index into the fields; the state follows */

static void layout(const fl_acc_ctx *c, fl_row_layout *out)
{
    fl_acc_layout_begin(out);
    fl_acc_layout_add(out, "value", c->config->dim, FL_FIELD_VALUE);
    for (int s = 0; s < c->n_states; s++)
        fl_acc_layout_add(out, c->rule->states[s].suffix, c->config->dim,
                          FL_FIELD_STATE);
    out->value = out->fields[VALUE].offset;
    if (c->config->keeps_known) {
        out->known = out->bytes;
        out->bytes += c->config->dim * (uint32_t)sizeof(float);
    }
    fl_acc_layout_end(out);
}

/* Others know the value that a row is born with. */
static void start_known(const fl_acc_ctx *c, uint64_t key, void *row)
{
    if (c->layout.known)
        fl_init_row(&c->config->init, key,
                    (float *)((char *)row + c->layout.known), c->config->dim);
}

static void create(const fl_acc_ctx *c, uint64_t key, void *row)
{
    fl_init_row(&c->config->init, key, fl_acc_at(c, row, VALUE),
                c->config->dim);
    fl_acc_start_state(c, row, VALUE);
    start_known(c, key, row);
}

static void pull(const fl_acc_ctx *c, uint64_t key, const void *row,
                 bool is_short, float *out)
{
    (void)is_short;
    if (!row)
        fl_init_row(&c->config->init, key, out, c->config->dim);
    else
        memcpy(out, fl_acc_in(c, row, VALUE), c->config->dim * sizeof(*out));
}

static bool push(const fl_acc_ctx *c, void *row, bool is_short,
                 const fl_push_item *item, const fl_hyper *h)
{
    (void)is_short;
    fl_acc_push(c, row, VALUE, item->grad, h);
    return false;
}

static void assign(const fl_acc_ctx *c, uint64_t key, void *row,
                   const float *value)
{
    memcpy(fl_acc_at(c, row, VALUE), value, c->config->dim * sizeof(*value));
    fl_acc_start_state(c, row, VALUE);
    start_known(c, key, row);
}

static bool add(const fl_acc_ctx *c, void *row, bool is_short,
                const float *delta)
{
    float *value = fl_acc_at(c, row, VALUE);

    (void)is_short;
    fl_vec_f32()->add(value, value, delta, c->config->dim);
    return true;
}

static bool keep(const fl_acc_ctx *c, void *row, bool is_short, int unseen_days,
                 int limit_days)
{
    (void)c;
    (void)row;
    (void)is_short;
    return limit_days == 0 || unseen_days < limit_days;
}

const fl_accessor fl_accessor_plain = {
    .name = "plain",
    .doc = "a value and the state of its rule",
    .layout = layout,
    .create = create,
    .pull = pull,
    .push = push,
    .assign = assign,
    .add = add,
    .keep = keep,
};
