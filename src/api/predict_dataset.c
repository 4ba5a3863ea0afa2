/* predict_dataset.c - scores of all records of a dataset.
 *
 *     dataset -> take a batch, number it -> score -> make -> wait -> take it over
 *                one at a time              threads          for the batches before
 *
 * A thread takes the next batch and its number under one lock, scores it, makes
 * of it for itself what is wanted, and hands that over when the batches before it
 * were. The first failure is that of the pass.
 *
 * Lock order: taking, then mu.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/args.h"
#include "base/interrupt.h"
#include "base/thread.h"
#include "data/dataset/dataset.h"
#include "flotilla/predict.h"

typedef struct pass {
    fl_predict_args args;
    fl_model *model;
    fl_dataset *data;
    const fl_model_var *inputs;
    size_t n_inputs, n_outputs, n_slots;
    size_t *slot; /* by input: its place among the slots */

    fl_mutex taking; /* guards next, and asking for a batch */
    uint64_t next;

    fl_mutex mu; /* guards what follows */
    fl_cond changed;
    uint64_t handed; /* batches */
    fl_err error;
    float *scores;
    size_t n_scores, cap;
} pass;

typedef struct scorer {
    pass *pass;
    int number;
    fl_thread *thread;
    fl_predictor *predictor;
    fl_feed *feeds;
    fl_tensor *outputs;
    void *room;
    fl_scored batch;
} scorer;

/* --- failing -------------------------------------------------------------- */

/* Under mu. */
static void note_error(pass *p, fl_status st)
{
    if (st && !p->error.status)
        fl_err_save(&p->error, st);
    fl_cond_wake_all(&p->changed);
}

static void fail(pass *p, fl_status st)
{
    fl_lock(&p->mu);
    note_error(p, st);
    fl_unlock(&p->mu);
}

static bool has_failed(pass *p)
{
    bool failed;

    fl_lock(&p->mu);
    failed = p->error.status != FL_OK;
    fl_unlock(&p->mu);
    return failed;
}

static void interrupt(void *arg)
{
    pass *p = arg;

    fail(p, fl_interrupted("scoring a dataset"));
    fl_dataset_interrupt(p->data);
}

/* --- slots as inputs -------------------------------------------------------- */

static fl_status find_slot(const pass *p, const fl_slot *slots, size_t i)
{
    for (size_t k = 0; k < p->n_slots; k++)
        if (!strcmp(slots[k].name, p->inputs[i].name)) {
            p->slot[i] = k;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_NOTFOUND,
            "the model's input %s is no slot of the dataset; name its slots "
            "like the inputs of the model",
            p->inputs[i].name);
}

static fl_status find_slots(pass *p)
{
    const fl_slot *slots = fl_dataset_slots(p->data, &p->n_slots);

    p->inputs = fl_model_inputs(p->model, &p->n_inputs);
    (void)fl_model_outputs(p->model, &p->n_outputs);
    p->slot = fl_alloc((p->n_inputs + 1) * sizeof(*p->slot));
    for (size_t i = 0; i < p->n_inputs; i++)
        FL_TRY(find_slot(p, slots, i));
    return FL_OK;
}

/* Rows of 12 numbers may be rows of 3 x 4. */
static void fit_shape(fl_tensor *t, const fl_model_var *v, size_t n_rows)
{
    fl_shape shape = v->shape;
    int64_t n = 1;

    if (v->n_lod || t->kind != FL_KIND_DENSE || !shape.rank)
        return;
    shape.dim[0] = (int64_t)n_rows;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.dim[i];
    if (n == fl_tensor_numel(t))
        t->shape = shape;
}

static fl_status score(scorer *s)
{
    const pass *p = s->pass;

    for (size_t i = 0; i < p->n_inputs; i++) {
        s->feeds[i] = s->batch.slots[p->slot[i]];
        s->feeds[i].name = p->inputs[i].name;
        fit_shape(&s->feeds[i].value, &p->inputs[i], s->batch.n_rows);
    }
    return fl_predictor_run(s->predictor, s->feeds, p->n_inputs, s->outputs,
                            p->n_outputs);
}

/* --- scores as an array ----------------------------------------------------- */

/* Under mu. */
static fl_status reserve(pass *p, size_t more)
{
    size_t cap = p->cap ? p->cap : 4096;
    float *grown;

    if (p->n_scores + more <= p->cap)
        return FL_OK;
    while (cap < p->n_scores + more)
        cap *= 2;
    grown = fl_try_alloc(cap * sizeof(*grown));
    if (!grown)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu scores", cap);
    if (p->n_scores)
        memcpy(grown, p->scores, p->n_scores * sizeof(*grown));
    fl_free(p->scores);
    p->scores = grown;
    p->cap = cap;
    return FL_OK;
}

/* Under mu. */
static fl_status keep_scores(pass *p, const fl_scored *b)
{
    const fl_tensor *t = &b->outputs[0];
    size_t n = (size_t)fl_tensor_numel(t);
    size_t width = b->n_rows ? n / b->n_rows : 0;

    if (t->dtype != FL_DTYPE_F32 || !width || width * b->n_rows != n)
        FL_FAIL(FL_ERR_INVAL,
                "the first output of the model has no f32 number for each "
                "record, which .scores would take; look at outputs in .take");
    FL_TRY(reserve(p, b->n_rows));
    for (size_t i = 0; i < b->n_rows; i++)
        p->scores[p->n_scores++] =
            ((const float *)t->data)[i * width + width - 1];
    return FL_OK;
}

/* --- batches ---------------------------------------------------------------- */

static fl_status take_batch(scorer *s)
{
    pass *p = s->pass;
    fl_status st;

    fl_lock(&p->taking);
    st = fl_dataset_next(p->data, s->number, &s->batch.slots, &s->batch.n_rows);
    s->batch.number = p->next;
    p->next += !st && s->batch.slots;
    fl_unlock(&p->taking);
    return st;
}

static bool is_mine(const scorer *s)
{
    const fl_predict_args *a = &s->pass->args;

    return !a->n_shares || s->batch.number % a->n_shares == a->share;
}

/* Under mu. */
static fl_status tell(pass *p, const fl_scored *b)
{
    if (p->args.scores)
        FL_TRY(keep_scores(p, b));
    return p->args.take ? p->args.take(p->args.arg, b) : FL_OK;
}

/* Behind the batches before this one. */
static bool hand_over(scorer *s)
{
    pass *p = s->pass;
    bool goes_on;

    fl_lock(&p->mu);
    while (!p->error.status && p->handed != s->batch.number)
        fl_cond_wait(&p->changed, &p->mu);
    if (!p->error.status && is_mine(s))
        note_error(p, tell(p, &s->batch));
    p->handed++;
    goes_on = !p->error.status;
    fl_cond_wake_all(&p->changed);
    fl_unlock(&p->mu);
    return goes_on;
}

/* False when there is no more, or the pass has failed. */
static bool one_batch(scorer *s)
{
    const fl_predict_args *a = &s->pass->args;
    fl_status st = take_batch(s);

    if (!st && !s->batch.slots)
        return false;
    if (!st && is_mine(s)) {
        st = score(s);
        if (!st && a->make)
            st = a->make(a->arg, &s->batch);
    }
    if (!st)
        return hand_over(s);
    fail(s->pass, st);
    return false;
}

static void work(void *arg)
{
    scorer *s = arg;

    while (!has_failed(s->pass) && one_batch(s))
        ;
}

/* --- threads ---------------------------------------------------------------- */

static fl_status init_scorer(scorer *s, pass *p, int number)
{
    s->pass = p;
    s->number = number;
    s->feeds = fl_alloc((p->n_inputs + 1) * sizeof(*s->feeds));
    s->outputs = fl_alloc((p->n_outputs + 1) * sizeof(*s->outputs));
    s->batch = (fl_scored){ .size = sizeof(s->batch),
                            .n_slots = p->n_slots,
                            .outputs = s->outputs,
                            .n_outputs = p->n_outputs,
                            .room = &s->room };
    return fl_predictor_new(&s->predictor, p->model);
}

static void release_scorer(scorer *s)
{
    const fl_predict_args *a = &s->pass->args;

    fl_predictor_free(s->predictor);
    fl_free(s->feeds);
    fl_free(s->outputs);
    if (s->room && a->release)
        a->release(s->room);
}

/* The first one is the calling thread. */
static void work_together(scorer *all, int n)
{
    fl_status st = FL_OK;

    for (int i = 1; !st && i < n; i++) {
        st = fl_thread_start(&all[i].thread, "score", work, &all[i]);
        fail(all[i].pass, st);
    }
    work(&all[0]);
    for (int i = 1; i < n; i++)
        fl_thread_join(all[i].thread);
}

static void run(pass *p, int n)
{
    fl_interruptible me = { .kind = FL_INTERRUPT_SOON,
                            .stop = interrupt,
                            .arg = p };
    scorer *all = fl_alloc((size_t)n * sizeof(*all));
    fl_status st = FL_OK;
    int n_made = 0;

    while (!st && n_made < n) {
        st = init_scorer(&all[n_made], p, n_made);
        n_made++;
    }
    if (!st)
        st = fl_dataset_begin(p->data, n);
    fail(p, st);
    if (!st) {
        fl_interruptible_enter(&me);
        work_together(all, n);
        fl_interruptible_leave(&me);
        fl_dataset_end(p->data);
    }
    for (int i = 0; i < n_made; i++)
        release_scorer(&all[i]);
    fl_free(all);
}

static fl_status check(const fl_predict_args *a)
{
    if (a->n_threads < 0)
        FL_FAIL(FL_ERR_INVAL, "%d threads that score: give one or more, or 0",
                a->n_threads);
    if (!a->scores != !a->n_scores)
        FL_FAIL(FL_ERR_INVAL, "scores and n_scores are given together");
    if (a->n_shares && a->share >= a->n_shares)
        FL_FAIL(FL_ERR_INVAL, "share %zu is not below n_shares %zu", a->share,
                a->n_shares);
    return FL_OK;
}

static fl_status predict(pass *p)
{
    const fl_predict_args *a = &p->args;

    FL_TRY(check(a));
    FL_TRY(find_slots(p));
    run(p, a->n_threads ? a->n_threads : fl_cpu_count());
    FL_TRY(fl_err_restore(&p->error));
    if (a->scores) {
        *a->scores = p->scores;
        *a->n_scores = p->n_scores;
        p->scores = NULL;
    }
    return FL_OK;
}

fl_status fl_predict_dataset_with(fl_model *m, fl_dataset *d,
                                  const fl_predict_args *args)
{
    pass p = { .model = m, .data = d };
    fl_status st = FL_ARGS_READ(fl_predict_args, &p.args, args);

    fl_mutex_init(&p.taking);
    fl_mutex_init(&p.mu);
    fl_cond_init(&p.changed);
    if (!st)
        st = predict(&p);
    fl_cond_release(&p.changed);
    fl_mutex_release(&p.mu);
    fl_mutex_release(&p.taking);
    fl_free(p.scores);
    fl_free(p.slot);
    return fl_err_ctx(st, "fl_predict_dataset");
}

void fl_scores_free(float *scores)
{
    fl_free(scores);
}
