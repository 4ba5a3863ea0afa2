#include "eval_job.h"

#include "flotilla/layers.h"
#include "flotilla/optimizer.h"

/* Servers bring workers together for a program that trains: the smallest one. */
static fl_status distribute(fl_fleet *f, fl_ctx *c)
{
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *loss = fl_layers_mean(fl_layers_fc(x, 1));
    fl_optimizer *o;
    fl_strategy *s;
    fl_status st = loss ? FL_OK : fl_last_status();

    if (!st)
        st = fl_optimizer_new(&o, c, "sgd", "learning_rate=0.1");
    if (!st)
        st = fl_strategy_new(&s, f, "async");
    if (!st)
        st = fl_fleet_distributed_optimizer(f, o, s);
    return st ? st : fl_fleet_minimize(f, loss);
}

static fl_status serve(fl_fleet *f)
{
    fl_status st = fl_fleet_init_server(f, NULL);

    return st ? st : fl_fleet_run_server(f);
}

static fl_status begin_work(eval_job *j, fl_ctx *c)
{
    fl_status st = fl_executor_new(&j->exe, c);

    if (!st)
        st = fl_fleet_init_worker(j->fleet);
    return st ? st : fl_run(j->exe, fl_fleet_startup_program(j->fleet), NULL);
}

static fl_status play_role(eval_job *j, fl_ctx *c)
{
    fl_status st = distribute(j->fleet, c);

    if (st)
        return st;
    j->has_served = fl_fleet_is_server(j->fleet);
    if (j->has_served)
        return serve(j->fleet);
    j->mine = (size_t)fl_fleet_worker_index(j->fleet);
    j->n = (size_t)fl_fleet_worker_num(j->fleet);
    return begin_work(j, c);
}

fl_status eval_job_join(eval_job *j, fl_ctx *c)
{
    fl_status st;

    *j = (eval_job){ .n = 1 };
    st = fl_fleet_init(&j->fleet, c, NULL);
    if (st || fl_fleet_server_num(j->fleet))
        return st ? st : play_role(j, c);
    fl_fleet_free(j->fleet);
    j->fleet = NULL;
    return FL_OK;
}

fl_status eval_job_leave(eval_job *j, fl_status so_far)
{
    fl_status st = so_far;

    if (!st && j->fleet && !j->has_served)
        st = fl_fleet_stop_worker(j->fleet);
    fl_executor_free(j->exe);
    fl_fleet_free(j->fleet);
    return st;
}
