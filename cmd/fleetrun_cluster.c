/* fleetrun_cluster.c - which task of which scheduler this is.
 *
 *     Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE
 *     MPICH, PMI  PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS
 *     Slurm       SLURM_STEP_ID, SLURM_PROCID, SLURM_NTASKS, node lists
 *     Kubernetes  JOB_COMPLETION_INDEX of an indexed job
 *
 * MPI comes before Slurm, since mpirun starts its own processes by srun and
 * these have the variables of both. A script that sbatch runs is no task: it
 * has a SLURM_PROCID, but no step.
 *
 * Hosts come from FLOTILLA_HOSTS, from Slurm, or are this one when all tasks
 * are here.
 */
#include "fleetrun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TASKS_MAX 100000
/* Slurm numbers the steps that are no steps from here on. */
#define SLURM_STEP_SPECIAL 4294967280L

typedef enum found {
    ABSENT,
    THERE,
    BAD /* told */
} found;

static const char *env_text(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static found env_number(const char *name, int hi, int *out)
{
    const char *value = env_text(name);
    char *end;
    long n;

    if (!value)
        return ABSENT;
    errno = 0;
    n = strtol(value, &end, 10);
    if (errno || *end || n < 0 || n > hi) {
        run_say("%s=%s is no whole number from 0 to %d", name, value, hi);
        return BAD;
    }
    *out = (int)n;
    return THERE;
}

/* Rank and size; both must be there and fit. */
static found env_rank(const char *rank_name, const char *size_name, task *t)
{
    found rank = env_number(rank_name, TASKS_MAX, &t->rank);
    found size;

    if (rank != THERE)
        return rank;
    size = env_number(size_name, TASKS_MAX, &t->size);
    if (size == ABSENT)
        run_say("%s is set, but %s is not", rank_name, size_name);
    else if (size == THERE && t->rank >= t->size)
        run_say("%s=%d, but %s=%d: ranks begin with 0", rank_name, t->rank,
                size_name, t->size);
    else
        return size;
    return BAD;
}

static bool is_all_here(const char *local_name, int size)
{
    int n = 0;

    return env_number(local_name, TASKS_MAX, &n) == THERE && n == size;
}

static char **same_host(room *r, int size, const char *host)
{
    char **hosts = room_take(r, (size_t)size * sizeof(*hosts));

    for (int i = 0; i < size; i++)
        hosts[i] = room_text(r, "%s", host);
    return hosts;
}

/* --- Slurm ---------------------------------------------------------------- */

static bool is_slurm_step(void)
{
    const char *step = env_text("SLURM_STEP_ID");

    step = step ? step : env_text("SLURM_STEPID");
    return step && strtol(step, NULL, 10) < SLURM_STEP_SPECIAL;
}

static const char *slurm_size_name(void)
{
    return env_text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS"
                                            : "SLURM_NTASKS";
}

static const char *first_of(const char *const *variables, const char **name)
{
    for (; *variables; variables++)
        if (env_text(*variables)) {
            *name = *variables;
            return env_text(*variables);
        }
    return NULL;
}

/* "2(x3),1" is 2, 2, 2 and 1. Hosts of ranks are filled node by node. */
static bool deal_ranks(const char *counts, char **nodes, int n_nodes,
                       char **hosts, int size)
{
    int node = 0, rank = 0;

    while (*counts) {
        char *end;
        long n = strtol(counts, &end, 10), times = 1;

        if (end == counts || n < 0)
            return false;
        if (!strncmp(end, "(x", 2))
            times = strtol(end + 2, &end, 10);
        end += *end == ')';
        for (; times > 0; times--, node++)
            for (long i = 0; i < n; i++) {
                if (node >= n_nodes || rank >= size)
                    return false;
                hosts[rank++] = nodes[node];
            }
        counts = end + (*end == ',');
        if (counts == end && *counts)
            return false;
    }
    return rank == size;
}

/* srun may deal ranks in another order than node by node. */
static int check_node(const task *t, char **nodes, int n_nodes)
{
    int node = 0;
    found is = env_number("SLURM_NODEID", TASKS_MAX, &node);

    if (is == BAD)
        return RUN_FAILED;
    if (is == THERE &&
        (node >= n_nodes || strcmp(nodes[node], t->hosts[t->rank]) != 0))
        return run_failed("Slurm says that task %d is on node %d, which is not "
                          "%s: start with `srun --distribution=block`, or give "
                          "--servers",
                          t->rank, node, t->hosts[t->rank]);
    return RUN_OK;
}

static int slurm_hosts(task *t, room *r)
{
    static const char *const lists[] = { "SLURM_STEP_NODELIST",
                                         "SLURM_JOB_NODELIST", "SLURM_NODELIST",
                                         NULL };
    static const char *const counts[] = { "SLURM_STEP_TASKS_PER_NODE",
                                          "SLURM_TASKS_PER_NODE", NULL };
    const char *list_name = NULL, *count_name = NULL;
    const char *list = first_of(lists, &list_name);
    const char *count = first_of(counts, &count_name);
    char **nodes;
    int n_nodes = 0;

    if (!list)
        return RUN_OK;
    nodes = hosts_expand(r, list, &n_nodes);
    if (!nodes)
        return run_failed("%s=%s is no list of hosts", list_name, list);
    if (n_nodes == 1) {
        t->hosts = same_host(r, t->size, "127.0.0.1");
        return RUN_OK;
    }
    if (!count)
        return run_failed("SLURM_STEP_TASKS_PER_NODE is not set, so it is not "
                          "known which tasks are on which of the %d nodes; "
                          "start with srun, or give --servers",
                          n_nodes);
    t->hosts = room_take(r, (size_t)t->size * sizeof(*t->hosts));
    if (!deal_ranks(count, nodes, n_nodes, t->hosts, t->size))
        return run_failed("%s=%s does not deal %d tasks to %d nodes of %s",
                          count_name, count, t->size, n_nodes, list_name);
    return check_node(t, nodes, n_nodes);
}

/* Whether Slurm itself has started this task, and nobody else in between. */
static bool is_slurm_task(const task *t)
{
    int rank = -1, size = -1;

    return is_slurm_step() &&
           env_number("SLURM_PROCID", TASKS_MAX, &rank) == THERE &&
           env_number(slurm_size_name(), TASKS_MAX, &size) == THERE &&
           rank == t->rank && size == t->size;
}

static const char *slurm_job(room *r)
{
    static const char *const jobs[] = { "SLURM_JOB_ID", "SLURM_JOBID", NULL };
    static const char *const steps[] = { "SLURM_STEP_ID", "SLURM_STEPID",
                                         NULL };
    const char *name;
    const char *id = first_of(jobs, &name);

    return id ? room_text(r, "slurm-%s-%s", id, first_of(steps, &name)) : NULL;
}

/* --- schedulers ----------------------------------------------------------- */

/* What they call a run of theirs, when they do. */
static const char *mpi_job(room *r)
{
    static const char *const names[] = { "PMIX_NAMESPACE",
                                         "OMPI_MCA_ess_base_jobid", "PMI_PORT",
                                         NULL };
    const char *name;
    const char *id = first_of(names, &name);

    return id ? room_text(r, "mpi-%s", id) : NULL;
}

static found find_mpi(task *t, room *r)
{
    const char *local[] = { "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL };
    found is = env_rank("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", t);

    t->system = "Open MPI";
    if (is == ABSENT) {
        is = env_rank("PMI_RANK", "PMI_SIZE", t);
        t->system = "MPI";
        local[0] = "MPI_LOCALNRANKS";
        local[1] = "PMI_LOCAL_SIZE";
    }
    if (is != THERE)
        return is;
    t->job = mpi_job(r);
    for (int i = 0; local[i] && !t->hosts; i++)
        if (is_all_here(local[i], t->size))
            t->hosts = same_host(r, t->size, "127.0.0.1");
    return THERE;
}

static found find_slurm(task *t)
{
    if (!is_slurm_step())
        return ABSENT;
    t->system = "Slurm";
    return env_rank("SLURM_PROCID", slurm_size_name(), t);
}

static found find_kubernetes(task *t)
{
    t->system = "Kubernetes";
    return env_number("JOB_COMPLETION_INDEX", TASKS_MAX, &t->rank);
}

/* FLOTILLA_HOSTS: one host per rank, or a pattern with {} for the rank. */
static int read_hosts(task *t, room *r)
{
    const char *list = env_text("FLOTILLA_HOSTS");
    char **hosts;
    int n = 0;

    if (!list)
        return RUN_OK;
    if (strstr(list, "{}")) {
        t->pattern = list;
        return RUN_OK;
    }
    hosts = hosts_expand(r, list, &n);
    if (!hosts || (t->size && n != t->size) || t->rank >= n)
        return run_failed("FLOTILLA_HOSTS=%s names %d hosts, but this is task "
                          "%d of %d: give one per task, or a pattern such as "
                          "job-{}.service",
                          list, n, t->rank, t->size ? t->size : n);
    t->hosts = hosts;
    t->size = n;
    return RUN_OK;
}

static int find_hosts(task *t, room *r)
{
    int code = read_hosts(t, r);

    if (code || !is_slurm_task(t))
        return code;
    t->job = slurm_job(r);
    return t->hosts || t->pattern ? RUN_OK : slurm_hosts(t, r);
}

int task_find(task *t, room *r)
{
    found is;

    *t = (task){ 0 };
    is = find_mpi(t, r);
    if (is == ABSENT)
        is = find_slurm(t);
    if (is == ABSENT)
        is = find_kubernetes(t);
    if (is == BAD)
        return RUN_FAILED;
    /* The only task of a scheduler starts all processes itself. */
    if (is == ABSENT || t->size == 1) {
        *t = (task){ .size = is == ABSENT ? 0 : 1 };
        return RUN_OK;
    }
    return find_hosts(t, r);
}

const char *task_host(const task *t, room *r, int rank)
{
    const char *at = t->pattern ? strstr(t->pattern, "{}") : NULL;

    if (at)
        return room_text(r, "%.*s%d%s", (int)(at - t->pattern), t->pattern,
                         rank, at + 2);
    return t->hosts ? t->hosts[rank] : NULL;
}
