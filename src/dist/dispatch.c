/* dispatch.c - the files of a dataset, dispatched to trainers by server 0
 * (ps/coord/coord.h) as they ask for more.
 *
 * Where trainers wait for one another (mode sync, examinations in the midst of
 * training) a trainer cannot wait for the files that others still have: they
 * would not get on without it.
 */
#include <stdatomic.h>

#include "flotilla/experimental/job_data.h"
#include "dist/job.h"
#include "data/dataset/dataset.h"

/* The coordinator's limit. */
#define NAME_MAX_BYTES 63

_Static_assert(FL_DISPATCHER_NONE == FL_DISPATCH_NONE &&
                   FL_DISPATCHER_LATER == FL_DISPATCH_LATER,
               "answers of the coordinator are those of a dispatcher");

typedef struct dispatching {
    fl_job *job;
    fl_dispatch_name *name;  /* the job's */
    _Atomic uint64_t number; /* of the pass, among those by this name */
    uint64_t pass, question; /* of who asks, one at a time */
} dispatching;

static bool trainers_meet(const fl_job *j)
{
    return (j->mode && j->mode->trainers_meet) || atomic_load(&j->meets);
}

/* What all questions of a pass have in common comes with a number, or a file
   that is finished. */
static fl_status ask(const dispatching *g, uint64_t n_files, uint64_t question,
                     uint64_t finished, uint64_t *item)
{
    fl_dispatch_request r = { .number = g->number,
                              .n = n_files,
                              .question = question,
                              .finished = finished,
                              .is_hasty = trainers_meet(g->job) };

    fl_msg_text(r.name, g->name->name);
    FL_TRY(fl_job_ready(g->job));
    return fl_client_dispatch(fl_cluster_client(g->job->cluster), &r, item,
                              FL_WAIT);
}

/* Passes are counted by name, whatever datasets make them: every trainer makes
   the same ones. */
static void begin_pass(dispatching *g, uint64_t pass)
{
    uint64_t more = pass - g->pass;

    g->number = atomic_fetch_add(&g->name->n_passes, more) + more;
    g->pass = pass;
    g->question = 0;
}

static fl_status next_file(void *arg, uint64_t pass, uint64_t n_files,
                           uint64_t *file)
{
    dispatching *g = arg;

    if (g->pass != pass)
        begin_pass(g, pass);
    return ask(g, n_files, ++g->question, FL_DISPATCH_NONE, file);
}

static fl_status finish_file(void *arg, uint64_t pass, uint64_t n_files,
                             uint64_t file)
{
    uint64_t none;

    (void)pass;
    return ask(arg, n_files, 0, file, &none);
}

static fl_dispatch_name *name_of(fl_job *j, const char *name)
{
    fl_dispatch_name *n = j->dispatches;

    while (n && strcmp(n->name, name))
        n = n->next;
    if (n)
        return n;
    n = fl_alloc(sizeof(*n));
    n->name = fl_strdup(name);
    n->next = j->dispatches;
    j->dispatches = n;
    return n;
}

void fl_dispatch_names_free(fl_dispatch_name *first)
{
    while (first) {
        fl_dispatch_name *next = first->next;

        fl_free(first->name);
        fl_free(first);
        first = next;
    }
}

fl_status fl_job_dispatch_files(fl_job *j, fl_dataset *d, const char *pass_name)
{
    size_t len = pass_name ? strlen(pass_name) : 0;
    fl_dispatcher dispatcher = { .next = next_file,
                                 .finished = finish_file,
                                 .free = fl_free };
    dispatching *g;

    if (len < 1 || len > NAME_MAX_BYTES)
        FL_FAIL(FL_ERR_INVAL,
                "fl_job_dispatch_files: a pass has a name of 1 to %d "
                "characters, the same for all trainers",
                NAME_MAX_BYTES);
    g = fl_alloc(sizeof(*g));
    g->job = j;
    g->name = name_of(j, pass_name);
    dispatcher.arg = g;
    return fl_dataset_set_dispatcher(d, &dispatcher);
}
