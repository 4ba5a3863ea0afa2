/* predict_pass.c - batches that were scored, as takers of the tool see them. */
#include "predict.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct pass {
    const predict_taker *taker;
    pthread_mutex_t mu; /* guards what follows */
    bool has_why;       /* else the library says it */
    char why[PREDICT_WHY_BYTES];
} pass;

static fl_status fail(pass *p, const char *why)
{
    pthread_mutex_lock(&p->mu);
    if (!p->has_why)
        (void)snprintf(p->why, sizeof(p->why), "%s", why);
    p->has_why = true;
    pthread_mutex_unlock(&p->mu);
    return FL_ERR_INVAL;
}

/* The text of a thread stays with it. */
static fl_status make(void *arg, const fl_scored *s)
{
    pass *p = arg;
    predict_batch *b = *s->room ? *s->room : calloc(1, sizeof(*b));
    const char *why = NULL;

    if (!b)
        return fail(p, "no memory for a batch");
    *s->room = b;
    b->slots = s->slots;
    b->n_rows = s->n_rows;
    b->number = s->number;
    b->outputs = s->outputs;
    b->n_outputs = s->n_outputs;
    if (p->taker->make)
        why = p->taker->make(b);
    return why ? fail(p, why) : FL_OK;
}

static fl_status take(void *arg, const fl_scored *s)
{
    pass *p = arg;
    char why[PREDICT_WHY_BYTES] = "";

    if (p->taker->take(p->taker->arg, *s->room, why))
        return FL_OK;
    return fail(p, why);
}

static void release(void *room)
{
    predict_batch *b = room;

    free(b->text);
    free(b);
}

int predict_pass(const predict_args *a, fl_model *m, data_input *in,
                 const predict_taker *taker)
{
    pass p = { .taker = taker };
    fl_status st;

    pthread_mutex_init(&p.mu, NULL);
    st = fl_predict_dataset(m, in->set, .n_threads = (int)a->data.threads,
                            .make = make, .take = take, .arg = &p,
                            .release = release, .share = taker->mine,
                            .n_shares = taker->n_shares);
    pthread_mutex_destroy(&p.mu);
    if (!st)
        return CMD_OK;
    return cmd_failed(a->self, "%s", p.has_why ? p.why : fl_last_error());
}
