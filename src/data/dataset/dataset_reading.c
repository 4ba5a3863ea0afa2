/* dataset_reading.c - a pump and the wait for its end. Joining a pump frees it,
 * so who stops it or looks at it does so under a lock. */
#include "data/dataset/dataset_inside.h"

struct fl_reading {
    char *pipe_command, *cache, *quarantine;
    fl_mutex mu;         /* guards the rest */
    fl_pump *pump;       /* NULL after its end */
    fl_pump_stats stats; /* at its end */
};

static char *copy_text(const char *s)
{
    return s && *s ? fl_strdup(s) : NULL;
}

static fl_reading *make_reading(const fl_dataset *d)
{
    fl_reading *r = fl_alloc(sizeof(*r));

    r->pipe_command = copy_text(d->input->pipe_command);
    r->cache = copy_text(d->input->cache);
    r->quarantine = copy_text(d->conf->quarantine);
    fl_mutex_init(&r->mu);
    return r;
}

void fl_reading_free(fl_reading *r)
{
    if (!r)
        return;
    fl_mutex_release(&r->mu);
    fl_free(r->quarantine);
    fl_free(r->cache);
    fl_free(r->pipe_command);
    fl_free(r);
}

fl_status fl_reading_start(fl_reading **out, fl_dataset *d,
                           const fl_reading_args *a)
{
    const fl_conf *conf = d->conf;
    fl_reading *r = make_reading(d);
    fl_pump_args args = {
        .paths = &d->input->paths,
        .parser = d->input->parser,
        .source = { .pipe_command = r->pipe_command,
                    .block_bytes = (size_t)conf->read_block_bytes,
                    .line_max = (size_t)conf->max_line_bytes },
        .limits = { .quarantine = r->quarantine,
                    .max_lines = (uint64_t)conf->max_bad_lines,
                    .max_share = conf->max_bad_share },
        .cache = r->cache,
        .n_threads = a->n_threads,
        .epoch = d->epoch,
        .dispatcher = d->dispatcher.next ? &d->dispatcher : NULL,
        .pass = d->epoch - d->dispatched_from + 1,
        .before = a->before,
        .trained = a->trained,
        .take = a->take,
        .arg = a->arg,
    };
    fl_status st = fl_pump_start(&r->pump, &args);

    if (st) {
        fl_reading_free(r);
        return st;
    }
    d->epoch++;
    *out = r;
    return FL_OK;
}

/* The pump cannot go while this waits: only what follows joins it. */
fl_status fl_reading_wait(fl_reading *r)
{
    fl_status st;

    fl_pump_wait(r->pump);
    fl_lock(&r->mu);
    st = fl_pump_join(r->pump, &r->stats);
    r->pump = NULL;
    fl_unlock(&r->mu);
    return st;
}

void fl_reading_stop(fl_reading *r)
{
    fl_lock(&r->mu);
    if (r->pump)
        fl_pump_stop(r->pump);
    fl_unlock(&r->mu);
}

fl_pump_stats fl_reading_stats(fl_reading *r)
{
    fl_pump_stats s;

    fl_lock(&r->mu);
    s = r->pump ? fl_pump_progress(r->pump) : r->stats;
    fl_unlock(&r->mu);
    return s;
}
