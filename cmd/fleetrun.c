/* fleetrun.c - starts a training job: servers and workers of one program.
 *
 * Under the name launch_ps, by a link of one's own, it has the numbers that
 * users of that launcher know.
 */
#include "fleetrun.h"

#include "fleetrun_watch.h"

static int run_task(room *r, const run_options *o, const task *t)
{
    const char *from;
    job j;
    int code = plan_task(&j, r, o, t);

    if (!code && o->resume)
        code = resume_find(&j, &from);
    if (code)
        return code;
    if (o->print_config)
        plan_print(&j);
    return spawn_become(&j, &j.procs[t->rank]);
}

static int tell_resume(job *j)
{
    const char *from;
    int code = resume_find(j, &from);

    if (!code)
        run_say("going on from %s",
                from ? from : "the beginning: nothing was saved yet");
    return code;
}

static int run_here(room *r, const run_options *o)
{
    job j;
    int code = plan_here(&j, r, o);

    if (!code && o->resume)
        code = tell_resume(&j);
    if (!code)
        code = trace_prepare(&j);
    if (!code && o->print_config)
        plan_print(&j);
    if (!code) {
        note_make(&j);
        code = watch(&j);
        note_drop(&j);
        if (trace_finish(&j) && !code)
            code = RUN_FAILED;
    }
    key_drop(&j);
    return code;
}

int main(int argc, char **argv)
{
    room r = { 0 };
    run_options o;
    task t;
    bool is_over;
    int code = options_read(&o, argc, argv, &is_over);

    if (!code && !is_over) {
        code = key_take(&o);
        if (!code)
            code = task_find(&t, &r);
        /* The only task is the only worker, unless it is told of others. */
        if (!code && t.size == 1 && !options_have_servers(&o) &&
            !options_have_workers(&o))
            o.worker_num = 1;
        if (!code)
            code = t.system ? run_task(&r, &o, &t) : run_here(&r, &o);
    }
    room_release(&r);
    return code;
}
