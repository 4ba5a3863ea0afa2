/* kept.c - fetched values that leave with their memory.
 *
 * A temporary has a place, which the next run would use again; who keeps the
 * value gets the place, and the next run makes another. That is worth it where
 * copying costs more than memory that is new.
 */
#include "exec/executor.h"

#define KEEP_MIN_BYTES ((size_t)128 << 10)

struct fl_mem {
    fl_buf buf;
    const fl_device_ops *device;
};

void fl_mem_release(fl_mem *m)
{
    if (!m)
        return;
    m->device->release(&m->buf);
    fl_free(m);
}

/* A place grows to the largest batch so far: one that is mostly empty stays. */
static bool is_worth_it(const fl_buf *b, const fl_tensor *t)
{
    size_t bytes;

    return b->data && !fl_tensor_bytes(t, &bytes) && bytes >= KEEP_MIN_BYTES &&
           bytes >= b->bytes / 2;
}

static fl_mem *take(const fl_plan *p, fl_buf *b)
{
    fl_mem *m = fl_alloc(sizeof(*m));

    *m = (fl_mem){ *b, p->device };
    *b = (fl_buf){ 0 };
    return m;
}

void fl_unit_keep(const fl_unit *u, int i, const fl_tensor *out, fl_mem **keep)
{
    fl_runner *r = u->runners[i];

    for (size_t k = 0; k < u->spec.n_fetches; k++) {
        const fl_plan_var *v = &u->plan->vars[u->fetch_index[k]];
        bool has_place = v->home == FL_HOME_PLACE && v->place >= 0 &&
                         !r->turns && !u->fetch_once[k];

        keep[k] = NULL;
        if (!has_place || !is_worth_it(r->buffers[v->place], &out[k]))
            continue;
        keep[k] = take(u->plan, r->buffers[v->place]);
        fl_runner_note_change(r);
    }
}
