/* runner.c - one frame of temporaries, and how one step runs in it.
 *
 * Before each step its outputs are inferred again from the real shapes and
 * laid into their places. A place grows when a batch is larger than any
 * before; otherwise a step asks the system for nothing. Where nothing but feeds
 * can change (predictions), and they have the form of those before, what was
 * inferred then is true still: a run that found every place where it was makes
 * the runner steady, until a feed, the values or a place is another.
 */
#include "exec/runner.h"

#include <inttypes.h>
#include <string.h>

#include "base/timeline.h"
#include "exec/blocks.h"
#include "exec/turns.h"
#include "ir/comm.h"
#include "kernel/vec.h"
#include "tensor/array.h"
#include "tensor/floats.h"

#define ALIGN_BYTES 64
#define SCRATCH_CHUNK_BYTES (256 << 10)
#define STEP_CHUNK_BYTES (64 << 10)

static fl_targs *bind_slots(fl_runner *r, int n_slots, const int *len,
                            const int *vars)
{
    fl_targs *a = fl_arena_alloc(&r->arena, sizeof(*a) * ((size_t)n_slots + 1));
    int at = 0;

    for (int s = 0; s < n_slots; s++) {
        a[s].n = len[s];
        a[s].t = fl_arena_alloc(&r->arena,
                                sizeof(fl_tensor *) * ((size_t)len[s] + 1));
        for (int i = 0; i < len[s]; i++, at++)
            a[s].t[i] = vars[at] >= 0 ? &r->tensors[vars[at]] : NULL;
    }
    return a;
}

/* --- memory that runners of one thread share ------------------------------ */

static bool has_own_place(const fl_runner *r, int place)
{
    return !r->lead || r->plan->is_place_ahead[place];
}

static bool has_own_memory(const fl_runner *r, int step)
{
    return !r->lead || r->plan->steps[step].is_ahead;
}

static void find_places(fl_runner *r)
{
    size_t n = (size_t)r->plan->n_places + 1;
    fl_buf *own = fl_arena_alloc(&r->arena, sizeof(*own) * n);

    r->buffers = fl_arena_alloc(&r->arena, sizeof(*r->buffers) * n);
    for (int i = 0; i < r->plan->n_places; i++)
        r->buffers[i] = has_own_place(r, i) ? &own[i] : r->lead->buffers[i];
}

static void find_scratch(fl_runner *r)
{
    size_t bytes = sizeof(fl_arena) * (size_t)r->n_members;

    r->step = fl_arena_alloc(&r->arena, bytes);
    r->scratch = r->lead ? r->lead->scratch : fl_arena_alloc(&r->arena, bytes);
    for (int i = 0; i < r->n_members; i++) {
        fl_arena_init(&r->step[i], STEP_CHUNK_BYTES);
        if (!r->lead)
            fl_arena_init(&r->scratch[i], SCRATCH_CHUNK_BYTES);
    }
}

static void release_step(fl_runner *r, int step)
{
    fl_step_memory *m = r->steps[step].memory;

    fl_child_free(r->steps[step].child);
    if (!has_own_memory(r, step))
        return;
    if (m->keep && m->keep_free)
        m->keep_free(m->keep);
    fl_free(m->keep);
    fl_buf_release(&m->workspace.buf);
}

static void release_scratch(fl_runner *r)
{
    for (int i = 0; i < r->n_members; i++) {
        fl_arena_release(&r->step[i]);
        if (!r->lead)
            fl_arena_release(&r->scratch[i]);
    }
}

/* --- making ----------------------------------------------------------------*/

static void bind_step(fl_runner *r, int step)
{
    const fl_plan_step *s = &r->plan->steps[step];
    fl_run_step *rs = &r->steps[step];

    rs->in = bind_slots(r, s->n_in, s->in_len, s->in);
    rs->out = bind_slots(r, s->n_out, s->out_len, s->out);
    rs->memory = has_own_memory(r, step)
                     ? fl_arena_alloc(&r->arena, sizeof(*rs->memory))
                     : r->lead->steps[step].memory;
}

static void make_tensors(fl_runner *r)
{
    const fl_plan *p = r->plan;
    fl_arena *a = &r->arena;

    r->tensors = fl_arena_alloc(a, sizeof(fl_tensor) * ((size_t)p->n_vars + 1));
    r->is_plain = fl_arena_alloc(a, (size_t)p->n_vars + 1);
    for (int i = 0; i < p->n_vars; i++)
        r->tensors[i] = p->vars[i].var->meta;
    r->arrays =
        fl_arena_alloc(a, sizeof(fl_array *) * ((size_t)p->n_arrays + 1));
    for (int i = 0; i < p->n_arrays; i++)
        r->tensors[p->arrays[i]].data = r->arrays[i] = fl_array_new();
}

/* The rest of a runner that knows who it is. */
static fl_runner *make(fl_runner *r)
{
    const fl_plan *p = r->plan;

    r->turns = fl_turns_new(p);
    r->worker = (fl_worker_id){ .n_parts = 1, .scale = fl_turns_share(r) };
    fl_arena_init(&r->arena, 64 << 10);
    make_tensors(r);
    find_places(r);
    find_scratch(r);
    r->steps = fl_arena_alloc(&r->arena,
                              sizeof(fl_run_step) * ((size_t)p->n_steps + 1));
    for (int i = 0; i < p->n_steps; i++)
        bind_step(r, i);
    return r;
}

fl_runner *fl_runner_new(const fl_plan *plan, const fl_exec_options *options,
                         fl_team *team, int n_members, int replica)
{
    fl_runner *r = fl_alloc(sizeof(*r));

    r->plan = plan;
    r->options = options;
    r->team = team;
    r->n_members = n_members;
    r->replica = replica;
    return make(r);
}

/* A steady runner would not see that another one moved a place. */
fl_runner *fl_runner_beside(fl_runner *lead)
{
    fl_runner *r = fl_alloc(sizeof(*r));

    r->plan = lead->plan;
    r->options = lead->options;
    r->team = lead->team;
    r->n_members = lead->n_members;
    r->replica = lead->replica;
    r->lead = lead->options->is_frozen ? NULL : lead;
    return make(r);
}

void fl_runner_free(fl_runner *r)
{
    if (!r || !fl_sched_free(r->sched))
        return;
    for (int i = 0; i < r->plan->n_steps; i++)
        release_step(r, i);
    fl_turns_free(r->turns, r->plan->n_turns);
    for (int i = 0; i < r->plan->n_arrays; i++)
        fl_array_free(r->arrays[i]);
    for (int i = 0; i < r->plan->n_places; i++)
        if (has_own_place(r, i))
            r->plan->device->release(r->buffers[i]);
    release_scratch(r);
    fl_arena_release(&r->arena);
    fl_free(r);
}

/* --- inputs ----------------------------------------------------------------*/

/* What nearly every feed is: just as declared, in compact memory of this
   machine. Others may be fine as well. */
static bool is_as_declared(const fl_tensor *m, const fl_tensor *t)
{
    return t->size == sizeof(*t) && t->dtype == m->dtype &&
           t->dtype != FL_DTYPE_BOOL && t->n_lod == m->n_lod &&
           m->kind <= FL_KIND_RAGGED && t->kind <= FL_KIND_RAGGED && t->data &&
           !t->strides && !t->flags && t->device.type == FL_DEVICE_CPU &&
           !t->device.id && !fl_has_reserved(t) &&
           fl_shape_matches(&m->shape, &t->shape);
}

static fl_status check_feed(const char *name, const fl_tensor *m,
                            const fl_tensor *t)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    FL_TRY(fl_err_ctx(fl_tensor_check(t), "feed %s", name));
    if (t->dtype != m->dtype &&
        !(fl_dtype_is_id(t->dtype) && fl_dtype_is_id(m->dtype) &&
          fl_dtype_bytes(t->dtype) == fl_dtype_bytes(m->dtype)))
        FL_FAIL(FL_ERR_TYPE, "feed %s: got %s values, the program wants %s",
                name, fl_dtype_text(t->dtype), fl_dtype_text(m->dtype));
    if (m->n_lod == 0 && t->n_lod > 0)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: got an id list (ragged), the program wants a dense "
                "%s",
                name, fl_shape_text(&m->shape, a));
    if (m->n_lod != t->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: got %d levels of offsets, the program wants %d", name,
                t->n_lod, m->n_lod);
    if (!fl_kind_fits(m->kind, t->kind))
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: got %s%s, the program wants %s%s; rows + values, "
                "arrays and dense values do not fit",
                name, fl_dtype_text(t->dtype), fl_kind_text(t->kind),
                fl_dtype_text(m->dtype), fl_kind_text(m->kind));
    if (m->kind != FL_KIND_ROWS && !fl_shape_matches(&m->shape, &t->shape))
        FL_FAIL(FL_ERR_INVAL, "feed %s: got shape %s, the program wants %s",
                name, fl_shape_text(&t->shape, a), fl_shape_text(&m->shape, b));
    if (!t->data && fl_tensor_numel(t))
        FL_FAIL(FL_ERR_INVAL, "feed %s: no data", name);
    return FL_OK;
}

fl_status fl_feed_check(const char *name, const fl_tensor *m,
                        const fl_tensor *t)
{
    if (!is_as_declared(m, t))
        FL_TRY(check_feed(name, m, t));
    return t->n_lod ? fl_err_ctx(fl_lod_check(t), "feed %s", name) : FL_OK;
}

/* The runner's list of a variable that is an array. */
static fl_array *array_of(const fl_runner *r, int var)
{
    int i = 0;

    while (r->plan->arrays[i] != var)
        i++;
    return r->arrays[i];
}

/* A list of its own with the values of one from outside. */
static fl_status take_array(fl_runner *r, int var, const fl_tensor *value)
{
    r->tensors[var] = r->plan->vars[var].var->meta;
    r->tensors[var].data = array_of(r, var);
    return fl_err_ctx(fl_array_take(r->tensors[var].data, value), "variable %s",
                      r->plan->vars[var].var->name);
}

fl_status fl_runner_feed(fl_runner *r, int index, const fl_tensor *value)
{
    fl_tensor *t = &r->tensors[index];
    const fl_var *v = r->plan->vars[index].var;

    if (fl_runner_feed_again(r, index, value, &(fl_good_offsets){ 0 }))
        return FL_OK;
    if (value->kind == FL_KIND_ARRAY && v->meta.kind == FL_KIND_ARRAY)
        return take_array(r, index, value);
    FL_TRY(fl_err_at_feed(fl_feed_check(v->name, &v->meta, value), v->tag,
                          v->name));
    *t = *value;
    r->is_plain[index] = fl_form_is_plain(value);
    fl_runner_note_change(r);
    return FL_OK;
}

static fl_status no_value(const fl_var *v)
{
    if ((v->flags & FL_VAR_PARAM) && !v->init)
        FL_FAIL(FL_ERR_NOTFOUND,
                "parameter %s has no value: run a startup program that makes "
                "it, load a model, set it (fl_scope_set), or declare it with a "
                "first value (init=xavier)",
                v->name);
    FL_FAIL(FL_ERR_NOTFOUND,
            "variable %s has no value yet; run the startup program or load a "
            "model first",
            v->name);
}

static bool fits(const fl_tensor *meta, const fl_tensor *t)
{
    return t->dtype == meta->dtype && fl_kind_fits(t->kind, meta->kind) &&
           fl_shape_matches(&t->shape, &meta->shape);
}

static fl_status take_array_from_scope(fl_runner *r, int i)
{
    const fl_var *v = r->plan->vars[i].var;
    fl_tensor t, none = fl_tensor_array(NULL, 0);

    if (!fl_scope_find(r->options->scope, v->name, &t))
        return take_array(r, i, &none);
    if (t.kind != FL_KIND_ARRAY)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is no array in the scope, but the program wants "
                "one",
                v->name);
    return take_array(r, i, &t);
}

/* A persistent variable as the scope has it now. What is written before it is
   read is made anew where it does not fit. */
static fl_status take_from_scope(fl_runner *r, int i)
{
    const fl_plan_var *v = &r->plan->vars[i];
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];
    fl_tensor *t = &r->tensors[i];

    if (v->var->meta.kind == FL_KIND_ARRAY)
        return take_array_from_scope(r, i);

    if (!fl_scope_find(r->options->scope, v->var->name, t)) {
        *t = v->var->meta;
        if (v->read_first || (v->fetched && !v->n_writers))
            return no_value(v->var);
        return FL_OK;
    }
    if (fits(&v->var->meta, t))
        return FL_OK;
    if (v->read_first)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is %s%s%s in the scope, but the program wants "
                "%s%s%s",
                v->var->name, fl_dtype_text(t->dtype),
                fl_shape_text(&t->shape, a), fl_kind_text(t->kind),
                fl_dtype_text(v->var->meta.dtype),
                fl_shape_text(&v->var->meta.shape, b),
                fl_kind_text(v->var->meta.kind));
    if (v->n_writers)
        *t = v->var->meta;
    return FL_OK;
}

static void clear_step(fl_runner *r)
{
    for (int i = 0; i < r->n_members; i++)
        if (r->step[i].used_bytes)
            fl_arena_clear(&r->step[i]);
}

/* Arrays that begin anew: all that are neither fed nor kept. */
static void clear_arrays(fl_runner *r)
{
    for (int i = 0; i < r->plan->n_arrays; i++)
        if (r->plan->vars[r->plan->arrays[i]].home == FL_HOME_PLACE)
            fl_array_clear(r->arrays[i]);
}

static fl_status do_early(fl_runner *r, int step)
{
    if (!r->plan->steps[step].node->def->early)
        return FL_OK;
    FL_TRY(fl_step_prepare(r, step));
    return fl_step_run(
        r, &(fl_step_share){ .step = step, .nth = 1, .is_early = true }, NULL);
}

/* What fails now fails again when it is run, which tells the error. */
void fl_runner_do_early(fl_runner *r)
{
    clear_step(r);
    r->did_early = true;
    for (int i = 0; i < r->plan->n_ahead && r->did_early; i++)
        r->did_early = !do_early(r, r->plan->ahead[i]);
}

void fl_runner_start_ahead(fl_runner *r, fl_ahead next)
{
    clear_step(r);
    r->is_ahead = true;
    r->is_behind = next == FL_AHEAD_OTHER;
    fl_sched_start_ahead(r);
    r->is_behind = r->did_early = false;
}

void fl_runner_drop_ahead(fl_runner *r)
{
    fl_sched_drop_ahead(r->sched);
    r->is_ahead = r->did_early = false;
}

static fl_status take_values(fl_runner *r)
{
    if (r->options->is_frozen && r->taken == r->options->scope)
        return FL_OK;
    r->taken = NULL;
    fl_runner_note_change(r);
    for (int i = 0; i < r->plan->n_vars; i++)
        if (r->plan->vars[i].home == FL_HOME_SCOPE)
            FL_TRY(fl_err_at_var(take_from_scope(r, i),
                                 r->plan->vars[i].var->tag,
                                 r->plan->vars[i].var->name));
    r->taken = r->options->scope;
    r->n_taken++;
    return FL_OK;
}

fl_status fl_runner_begin(fl_runner *r, uint64_t step_no, uint64_t samples)
{
    /* What began ahead uses the step's memory already. */
    if (!r->is_ahead)
        clear_step(r);
    clear_arrays(r);
    r->is_ahead = false;
    r->step_no = step_no;
    r->samples = fl_turns_samples(r) + samples;
    return take_values(r);
}

/* --- one step --------------------------------------------------------------*/

static size_t align_up(size_t n)
{
    return (n + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* rows + values lie in one place: the row numbers first. */
static fl_status lay_out(fl_runner *r, int var)
{
    const fl_plan_var *v = &r->plan->vars[var];
    fl_tensor *t = &r->tensors[var];
    fl_buf *b = r->buffers[v->place];
    size_t bytes, rows_bytes = 0;
    const void *before = b->data;

    FL_TRY(fl_err_ctx(fl_tensor_bytes(t, &bytes), "variable %s", v->var->name));
    if (t->kind == FL_KIND_ROWS)
        rows_bytes = align_up((size_t)t->shape.dim[0] * sizeof(uint64_t));
    if (!r->plan->device->reserve(b, rows_bytes + bytes))
        FL_FAIL(FL_ERR_NOMEM, "no memory for variable %s of %zu bytes",
                v->var->name, rows_bytes + bytes);
    if (b->data != before)
        fl_runner_note_change(r);
    t->rows = t->kind == FL_KIND_ROWS ? b->data : NULL;
    t->data = (char *)b->data + rows_bytes;
    return FL_OK;
}

fl_status fl_runner_place(fl_runner *r, int var)
{
    const fl_plan_var *v = &r->plan->vars[var];
    fl_tensor *t = &r->tensors[var];

    if (v->home == FL_HOME_PLACE)
        return v->place < 0 ? FL_OK : lay_out(r, var);
    if ((t->data && v->is_fixed) || t->kind == FL_KIND_ARRAY)
        return FL_OK;
    return fl_scope_reserve(fl_scope_home(r->options->scope, v->var->name),
                            v->var->name, t, t);
}

static void infer_grad_default(const fl_plan_step *s, fl_run_step *rs)
{
    for (int slot = 0; slot < s->n_out; slot++)
        for (int i = 0; i < rs->out[slot].n; i++)
            if (rs->out[slot].t[i])
                fl_tensor_like(rs->out[slot].t[i], rs->in[slot].t[i]);
}

static fl_status name_step(const fl_runner *r, int step, fl_status st)
{
    char text[FL_NODE_TEXT_MAX];

    const fl_op_node *n = r->plan->steps[step].node;

    st = fl_err_at_op(st, n->tag, fl_node_type(n));
    return fl_err_ctx(st, "%s", fl_node_text(n, text));
}

static fl_status prepare(fl_runner *r, int step)
{
    const fl_plan_step *s = &r->plan->steps[step];
    fl_run_step *rs = &r->steps[step];
    const fl_op *def = s->node->def;
    fl_infer c = { .node = s->node,
                   .in = rs->in,
                   .out = rs->out,
                   .running = true,
                   .workspace = &rs->memory->workspace };
    int at = 0;

    atomic_store_explicit(&rs->memory->workspace.n_done, 0,
                          memory_order_relaxed);
    if (s->node->is_grad) {
        if (s->fed_grad)
            FL_TRY(fl_node_check_grads(s->node, rs->in, true));
        infer_grad_default(s, rs);
        if (def->back_infer)
            FL_TRY(def->back_infer(&c));
    } else {
        FL_TRY(def->infer(&c));
    }
    for (int slot = 0; slot < s->n_out; slot++)
        for (int i = 0; i < s->out_len[slot]; i++, at++)
            if (s->out[at] >= 0)
                FL_TRY(fl_runner_place(r, s->out[at]));
    return FL_OK;
}

fl_status fl_step_prepare(fl_runner *r, int step)
{
    fl_status st;

    if (fl_step_is_steady(r, step))
        return FL_OK;
    st = prepare(r, step);
    return st ? name_step(r, step, st) : FL_OK;
}

int fl_step_shares(const fl_runner *r, int step, int n)
{
    const fl_plan_step *s = &r->plan->steps[step];
    const fl_run_step *rs = &r->steps[step];
    int64_t most = 0;

    if (n < 2 || !(s->node->def->flags & FL_OP_SLICED))
        return 1;
    for (int slot = 0; slot < s->n_out; slot++)
        for (int i = 0; i < rs->out[slot].n; i++)
            if (rs->out[slot].t[i] &&
                fl_tensor_numel(rs->out[slot].t[i]) > most)
                most = fl_tensor_numel(rs->out[slot].t[i]);
    return most >= r->options->slice_min_elements ? n : 1;
}

const char *fl_step_what(const fl_op_node *n)
{
    return fl_node_n_out(n) && n->out[0].n && n->out[0].vars[0]
               ? n->out[0].vars[0]->name
               : "";
}

/* For the profile, if that is on, and for the timeline of the process. */
static void trace_step(const fl_runner *r, int step, int member,
                       uint64_t start_ns)
{
    const fl_op_node *n = r->plan->steps[step].node;
    const char *what = fl_step_what(n);
    fl_trace_event e = { .thread = r->replica * 1000 + member,
                         .start_ns = start_ns,
                         .end_ns = fl_now_ns() };

    if (fl_timeline_now())
        fl_timeline_add("op", fl_node_type(n), what, start_ns);
    if (!r->options->trace)
        return;
    snprintf(e.name, sizeof(e.name), "%s", fl_node_type(n));
    snprintf(e.what, sizeof(e.what), "%s", what);
    fl_trace_add(r->options->trace, &e);
}

fl_status fl_step_run(fl_runner *r, const fl_step_share *share, fl_waker *waker)
{
    const fl_plan_step *s = &r->plan->steps[share->step];
    fl_run_step *rs = &r->steps[share->step];
    int member = share->member;
    uint64_t start_ns = r->options->trace ? fl_now_ns() : fl_timeline_now();
    fl_step_blocks blocks = fl_blocks_of(r, share->step);
    fl_op_ctx c = {
        .node = s->node,
        .in = rs->in,
        .out = rs->out,
        .ith = share->ith,
        .nth = share->nth,
        .scratch = &r->scratch[member],
        .step = &r->step[member],
        .workspace = &rs->memory->workspace,
        .step_no = r->step_no,
        .seed = r->plan->program->seed,
        .replica = r->replica,
        .worker = r->worker,
        .turn = r->turn,
        .n_turns = r->plan->n_turns,
        .samples = r->samples,
        .lap = r->lap,
        .values = r->options->is_frozen ? r->n_taken : 0,
        .keep = &rs->memory->keep,
        .keep_free = &rs->memory->keep_free,
        .comm = r->options->comm,
        .waker = waker,
        .resumed = share->resumed,
        .is_behind = r->is_behind,
        .did_early = r->did_early,
        .blocks = &blocks.port,
    };
    fl_status st = share->is_early ? s->node->def->early(&c) : s->run(&c);

    if (r->scratch[member].used_bytes)
        fl_arena_clear(&r->scratch[member]);
    if (start_ns)
        trace_step(r, share->step, member, start_ns);
    return st && st != FL_PENDING ? name_step(r, share->step, st) : st;
}

static fl_status check_finite(const fl_runner *r, int step, int var)
{
    const fl_op_node *n = r->plan->steps[step].node;
    const fl_tensor *t = &r->tensors[var];
    size_t len = (size_t)fl_tensor_numel(t);
    size_t at = len;
    double value;
    char text[FL_NODE_TEXT_MAX];

    if (t->kind == FL_KIND_ARRAY)
        return FL_OK; /* what was put there was looked at before */
    if (t->dtype == FL_DTYPE_F32)
        at = fl_vec_f32()->find_not_finite(t->data, len);
    else if (t->dtype == FL_DTYPE_F64)
        at = fl_vec_f64()->find_not_finite(t->data, len);
    if (at == len)
        return FL_OK;
    value = fl_float_at(t, (int64_t)at);
    (void)fl_err_set(FL_ERR_NUMERIC, "%s: variable %s has %f at element %zu",
                     fl_node_text(n, text), r->plan->vars[var].var->name, value,
                     at);
    return fl_err_at_op(FL_ERR_NUMERIC, n->tag, fl_node_type(n));
}

static fl_status finish_output(fl_runner *r, int step, int var)
{
    const fl_plan_var *v = &r->plan->vars[var];

    if (v->home == FL_HOME_SCOPE && !v->is_fixed) {
        fl_tensor view, *t = &r->tensors[var];

        if (t->kind == FL_KIND_ARRAY) {
            view = fl_array_view(t->data);
            t = &view;
        }
        FL_TRY(fl_scope_settle(fl_scope_home(r->options->scope, v->var->name),
                               v->var->name, t));
    }
    return r->options->check_nan_inf ? check_finite(r, step, var) : FL_OK;
}

fl_status fl_step_finish(fl_runner *r, int step)
{
    const fl_plan_step *s = &r->plan->steps[step];
    int n = 0;

    if (fl_step_is_silent(r, step))
        return FL_OK;
    for (int slot = 0; slot < s->n_out; slot++)
        n += s->out_len[slot];
    for (int i = 0; i < n; i++)
        if (s->out[i] >= 0)
            FL_TRY(finish_output(r, step, s->out[i]));
    return FL_OK;
}

/* --- all steps -------------------------------------------------------------*/

/* Nothing is gained by doing something else meanwhile where every answer but
   the last comes at once. */
static bool is_in_order(const fl_runner *r, const fl_team *team)
{
    const fl_comm *comm = r->options->comm;

    if (team && fl_team_size(team) > 1)
        return false;
    return !r->plan->waits || (comm && comm->is_synchronous);
}

static fl_status note_end(fl_runner *r, fl_status st)
{
    bool changed = atomic_load_explicit(&r->has_changed, memory_order_relaxed);

    fl_runner_note(r, st != FL_OK, r->options->is_frozen && !st && !changed);
    return st;
}

fl_status fl_runner_run(fl_runner *r, fl_plan_part part, fl_team *team)
{
    if (part == FL_PART_ALL && r->turns)
        return fl_turns_run(r, team);
    team = team ? team : r->team;
    if (is_in_order(r, team))
        return note_end(r, fl_sched_run_in_order(r, part));
    return fl_sched_run(r, part, team);
}

/* --- memory ----------------------------------------------------------------*/

static size_t output_bytes(const fl_runner *r, const fl_plan_step *s)
{
    size_t sum = 0, bytes;
    int n = 0;

    for (int slot = 0; slot < s->n_out; slot++)
        n += s->out_len[slot];
    for (int i = 0; i < n; i++)
        if (s->out[i] >= 0 && !fl_tensor_bytes(&r->tensors[s->out[i]], &bytes))
            sum += bytes;
    return sum;
}

size_t fl_runner_ahead_bytes(const fl_runner *r)
{
    size_t n = 0;

    for (int i = 0; i < r->plan->n_ahead; i++)
        n += output_bytes(r, &r->plan->steps[r->plan->ahead[i]]);
    return n;
}

size_t fl_runner_kept_bytes(const fl_runner *r)
{
    size_t n = 0;

    for (int i = 0; i < r->plan->n_places; i++)
        if (has_own_place(r, i))
            n += r->buffers[i]->bytes;
    for (int i = 0; i < r->plan->n_steps; i++)
        if (has_own_memory(r, i))
            n += r->steps[i].memory->workspace.buf.bytes;
    return n;
}

size_t fl_runner_live_bytes(const fl_runner *r)
{
    size_t most = 0;

    for (int step = 0; step < r->plan->n_steps; step++) {
        size_t now = 0, bytes;

        for (int i = 0; i < r->plan->n_vars; i++) {
            const fl_plan_var *v = &r->plan->vars[i];
            int last = v->fetched ? r->plan->n_steps : v->last;

            if (v->home == FL_HOME_PLACE && v->first <= step && step <= last &&
                !fl_tensor_bytes(&r->tensors[i], &bytes))
                now += bytes;
        }
        most = now > most ? now : most;
    }
    return most;
}
