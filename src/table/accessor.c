/* accessor.c - the only place that expands the list of accessors, and what
 * they share. */
#include "table/accessor.h"

#include <string.h>

#include "table/acc_kit.h"
#include "table/row.h"

#define LINE_BYTES 64

/* A row that leaves less than this of its last cache line is made to end with
   it. More would cost memory for little. */
#define SLACK_BYTES 8

/* Gradients with their decay that lie on the stack at a time. */
#define CHUNK 256

#define FL_ACCESSOR(name) extern const fl_accessor fl_accessor_##name;
#include "table/accessors.def"
#undef FL_ACCESSOR

static const fl_accessor *const all[] = {
#define FL_ACCESSOR(name) &fl_accessor_##name,
#include "table/accessors.def"
#undef FL_ACCESSOR
};

size_t fl_accessor_count(void)
{
    return FL_LEN(all);
}

const fl_accessor *fl_accessor_at(size_t i)
{
    FL_ASSERT(i < FL_LEN(all));
    return all[i];
}

const fl_accessor *fl_accessor_find(const char *name)
{
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const fl_accessor *fl_accessor_of(const fl_table_config *config,
                                  fl_acc_ctx *out)
{
    const fl_accessor *a =
        fl_accessor_find(config->accessor ? config->accessor : "plain");

    *out = (fl_acc_ctx){ .config = config,
                         .rule = fl_rule_find(config->rule ? config->rule
                                                           : "sgd") };
    out->n_states = fl_rule_n_states(out->rule);
    out->decays = config->l1 != 0 || config->l2 != 0;
    a->layout(out, &out->layout);
    return a;
}

/* --- layouts -------------------------------------------------------------- */

void fl_acc_layout_begin(fl_row_layout *l)
{
    *l = (fl_row_layout){ .bytes = FL_ROW_HEADER_BYTES };
}

void fl_acc_layout_add(fl_row_layout *l, const char *name, uint32_t len,
                       fl_field_role role)
{
    FL_ASSERT(l->n_fields < FL_ROW_FIELDS_MAX);
    l->fields[l->n_fields++] = (fl_row_field){
        .name = name, .offset = l->bytes, .len = len, .role = role
    };
    l->bytes += len * (uint32_t)sizeof(float);
}

void fl_acc_layout_end(fl_row_layout *l)
{
    uint32_t over = l->bytes % LINE_BYTES;

    if (over >= LINE_BYTES - SLACK_BYTES)
        l->bytes += LINE_BYTES - over;
}

/* --- weights with their state --------------------------------------------- */

void fl_acc_start_state(const fl_acc_ctx *c, void *row, int weights)
{
    uint32_t n = c->layout.fields[weights].len;

    for (int s = 0; s < c->n_states; s++) {
        float first =
            (float)fl_rule_first(c->rule, &c->rule->states[s], c->config->p);
        float *state = fl_acc_at(c, row, weights + 1 + s);

        for (uint32_t i = 0; i < n; i++)
            state[i] = first;
    }
}

/* The sum is formed in the order of the operator weight_decay, to the bit. */
static void add_decay(const fl_table_config *config, float *out,
                      const float *grad, const float *w, uint32_t n)
{
    const float l1 = (float)config->l1, l2 = (float)config->l2;

    for (uint32_t i = 0; i < n; i++)
        out[i] = grad[i] + (l2 * w[i] + l1 * (float)((w[i] > 0) - (w[i] < 0)));
}

void fl_acc_update_decayed(const fl_acc_ctx *c, float *w, float *const *state,
                           const float *grad, uint32_t n, const fl_hyper *h)
{
    float sum[CHUNK], *part[FL_RULE_STATE_MAX] = { 0 };

    for (uint32_t lo = 0; lo < n; lo += CHUNK) {
        uint32_t len = n - lo < CHUNK ? n - lo : CHUNK;

        for (int s = 0; s < c->n_states; s++)
            part[s] = state[s] + lo;
        add_decay(c->config, sum, grad + lo, w + lo, len);
        c->rule->update_f32(w + lo, part, sum, len, h);
    }
}
