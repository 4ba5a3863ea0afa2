/* fleetrun_options.c - the words in front of the program.
 *
 * `--name=value` and `--name value` are the same. What other launchers of this
 * name take and this one has no use for is refused with the reason; nothing is
 * taken and then ignored.
 */
#include "fleetrun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

#define PROCS_MAX 10000

typedef enum kind {
    TEXT,
    COUNT,
    STATUS, /* the value may be left out */
    YES     /* "no" would leave nothing to do */
} kind;

typedef struct option {
    const char *name;
    kind kind;
    void *to;
    int lo, hi;
    const char *args, *doc;
} option;
#define N_OPTIONS 19

typedef struct refused {
    const char *name, *why;
} refused;

static const refused all_refused[] = {
    { "--backend", "there is one way for messages, and nothing to choose" },
    { "--devices", "everything runs on CPUs" },
    { "--elastic_level", "the size of a job is fixed" },
    { "--elastic_server", "the size of a job is fixed" },
    { "--elastic_timeout", "the size of a job is fixed" },
    { "--force", "the size of a job is fixed" },
    { "--gloo_port", "workers meet at server 0 or worker 0, not by Gloo" },
    { "--gpus", "everything runs on CPUs" },
    { "--heter_devices", "there are no heterogeneous workers" },
    { "--heter_worker_num", "there are no heterogeneous workers" },
    { "--heter_workers", "there are no heterogeneous workers" },
    { "--host", "give --node_ip, the address of this machine in the lists" },
    { "--http_port", "workers meet at server 0 or worker 0, not by HTTP" },
    { "--job_id", "set FLOTILLA_JOB to the name of the job" },
    { "--log_level", "set FLOTILLA_LOG_LEVEL for the program" },
    { "--master", "give --servers and --workers, the same on every machine" },
    { "--nnodes", "give --servers and --workers, the same on every machine" },
    { "--np", "the size of a job is fixed" },
    { "--rank", "ranks follow from the order of --servers and --workers" },
    { "--scale", "the size of a job is fixed" },
    { "--trainer_num", "it is called --worker_num" },
    { "--trainers", "it is called --workers" },
    { "--with_gloo", "workers meet at server 0 or worker 0, not by Gloo" },
    { "--xpus", "everything runs on CPUs" },
};

static void list_options(run_options *o, option all[N_OPTIONS])
{
    const option list[N_OPTIONS] = {
        { "--server_num", COUNT, &o->server_num, 1, PROCS_MAX, "S",
          "so many parameter servers; without, workers do without" },
        { "--worker_num", COUNT, &o->worker_num, 1, PROCS_MAX, "W",
          "so many workers" },
        { "--servers", TEXT, &o->servers, 0, 0, "HOST[:PORT],...",
          "the servers of a job on several machines" },
        { "--workers", TEXT, &o->workers, 0, 0, "HOST[:PORT],...",
          "its workers; each machine starts its own" },
        { "--nproc_per_node", COUNT, &o->nproc_per_node, 1, PROCS_MAX, "N",
          "so many workers on each machine, of a job without servers" },
        { "--ips", TEXT, &o->ips, 0, 0, "HOST,...",
          "the machines of a job without servers" },
        { "--node_ip", TEXT, &o->node_ip, 0, 0, "HOST",
          "which of the hosts this machine is (or POD_IP)" },
        { "--log_dir", TEXT, &o->log_dir, 0, 0, "DIR",
          "for serverlog.i and workerlog.i" },
        { "--start_port", COUNT, &o->start_port, 1, 65535, "PORT",
          "the first one; without it free ones are used" },
        { "--max_restart", COUNT, &o->max_restart, 0, 1000, "N",
          "a worker that fails is started again, N times; with --resume the "
          "whole job" },
        { "--resume", TEXT, &o->resume, 0, 0, "DIR",
          "goes on from the newest version in DIR; saves go there" },
        { "--run_mode", TEXT, &o->run_mode, 0, 0, "ps|collective",
          "with or without servers; the other options say it as well" },
        { "--status", STATUS, &o->status, 0, 0, "[yes|no]",
          "what the job does; on a terminal it is shown" },
        { "--token_file", TEXT, &o->token_file, 0, 0, "FILE",
          "its first line is the job's token; mode 600" },
        { "--trace", TEXT, &o->trace, 0, 0, "DIR|FILE.json",
          "what every process did when, in one file for Perfetto" },
        { "--endpoints", TEXT, &o->endpoints, 0, 0, "HOST:PORT,...",
          "another name for --servers" },
        { "--cluster_node_ips", TEXT, &o->cluster_node_ips, 0, 0, "HOST,...",
          "S servers and W workers on each of these" },
        { "--print_config", YES, &o->print_config, 0, 0, "true",
          "show who runs where before it begins" },
        { "--help", TEXT, NULL, 0, 0, "", "this page" },
    };

    memcpy(all, list, sizeof(list));
}

static void print_help(const option all[N_OPTIONS])
{
    printf("usage: %s [options] program [arguments]\n\n"
           "Starts a training job: the program once per server and worker, "
           "with the\nenvironment that says which one it is. Inside of a task "
           "of Slurm, MPI or an\nindexed job of Kubernetes it becomes the one "
           "process of that task.\n\n",
           program_invocation_short_name);
    for (int i = 0; i < N_OPTIONS; i++) {
        int n = printf("  %s%s%s", all[i].name, *all[i].args ? "=" : "",
                       all[i].args);

        printf("%*s%s\n", n < 36 ? 36 - n : 1, "", all[i].doc);
    }
    printf("\nexample: %s --server_num=1 --worker_num=2 ./ctr_dnn data/\n"
           "         %s --worker_num=4 ./collective_mlp 1001\n"
           "A program that ends in .py is run by $FLOTILLA_PYTHON, or by the "
           "first python3 of\nPATH that has flotilla and numpy, and may import "
           "paddle. The exit status is that\nof the process that failed "
           "first, 128 + the signal that ended it, or 0.\n",
           program_invocation_short_name, program_invocation_short_name);
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (!strcasecmp(word, *words))
            return true;
    return false;
}

/* 1, 0, or -1 for neither. */
static int read_bool(const char *word)
{
    static const char *const yes[] = { "yes", "true", "1", "on", NULL };
    static const char *const no[] = { "no", "false", "0", "off", NULL };

    return is_one_of(word, yes) ? 1 : is_one_of(word, no) ? 0 : -1;
}

static int set_count(const option *p, const char *value)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(value, &end, 10);
    if (errno || *end || end == value || n < p->lo || n > p->hi)
        return run_misused("%s=%s: give a whole number from %d to %d", p->name,
                           value, p->lo, p->hi);
    *(int *)p->to = (int)n;
    return RUN_OK;
}

static int set_status(const option *p, const char *value)
{
    int is = value ? read_bool(value) : 1;

    if (is < 0)
        return run_misused("%s=%s: give yes or no", p->name, value);
    *(status_use *)p->to = is ? STATUS_YES : STATUS_NO;
    return RUN_OK;
}

static int set_yes(const option *p, const char *value)
{
    int is = read_bool(value);

    if (is < 0)
        return run_misused("%s=%s: give true", p->name, value);
    if (!is)
        return run_misused("%s=%s: with this value other launchers start "
                           "nothing at all; leave the option out, and the job "
                           "begins without a list",
                           p->name, value);
    *(bool *)p->to = true;
    return RUN_OK;
}

static int set(const option *p, const char *value)
{
    switch (p->kind) {
    case COUNT:
        return set_count(p, value);
    case STATUS:
        return set_status(p, value);
    case YES:
        return set_yes(p, value);
    case TEXT:
        break;
    }
    if (!*value)
        return run_misused("%s= has no value; give %s", p->name, p->args);
    *(const char **)p->to = value;
    return RUN_OK;
}

static int unknown(const option all[N_OPTIONS], const char *word, size_t len)
{
    const char *nearest = NULL;
    char name[64];

    (void)snprintf(name, sizeof(name), "%.*s", (int)len, word);
    for (size_t i = 0; i < sizeof(all_refused) / sizeof(all_refused[0]); i++)
        if (!strcmp(name, all_refused[i].name))
            return run_misused("%s is not taken: %s", name, all_refused[i].why);
    for (int i = 0; i < N_OPTIONS; i++)
        nearest = nearer_name(name, nearest, all[i].name);
    if (nearest)
        return run_misused("there is no option %s; did you mean %s?", name,
                           nearest);
    return run_misused("there is no option %s", name);
}

static int find(const option all[N_OPTIONS], const char *word, size_t len)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(all[i].name) == len && !strncmp(all[i].name, word, len))
            return i;
    return -1;
}

/* One option, and its value when that is a word of its own. */
static int read_one(const option all[N_OPTIONS], char **argv, int argc, int *at,
                    uint64_t *given)
{
    const char *word = argv[*at];
    size_t len = strcspn(word, "=");
    const char *value = word[len] ? word + len + 1 : NULL;
    int i = find(all, word, len);

    if (i < 0)
        return unknown(all, word, len);
    if (*given >> i & 1)
        return run_misused("%s is there twice", all[i].name);
    *given |= UINT64_C(1) << i;
    if (!value && all[i].kind != STATUS) {
        if (*at + 1 == argc)
            return run_misused("%s needs a value: %s=%s", all[i].name,
                               all[i].name, all[i].args);
        value = argv[++*at];
    }
    return set(&all[i], value);
}

static bool asks_for_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

bool options_have_servers(const run_options *o)
{
    return o->server_num || o->servers || o->endpoints;
}

bool options_have_workers(const run_options *o)
{
    return o->worker_num || o->nproc_per_node || o->workers || o->ips ||
           o->cluster_node_ips;
}

bool options_are_script(const run_options *o)
{
    size_t n = strlen(o->program[0]);

    return n > 3 && !strcmp(o->program[0] + n - 3, ".py");
}

static int check_mode(const run_options *o)
{
    static const char *const heter[] = { "ps-heter", NULL };
    const char *mode = o->run_mode;
    bool has_servers = options_have_servers(o);

    if (!mode || (!strcmp(mode, "ps") && has_servers) ||
        (!strcmp(mode, "collective") && !has_servers))
        return RUN_OK;
    if (!strcmp(mode, "ps"))
        return run_misused("--run_mode=ps: --server_num is missing; for "
                           "example --server_num=1 --worker_num=2");
    if (!strcmp(mode, "collective"))
        return run_misused("--run_mode=collective contradicts %s: such a job "
                           "has workers alone",
                           o->server_num ? "--server_num"
                           : o->servers  ? "--servers"
                                         : "--endpoints");
    return run_misused("--run_mode=%s: %s; there are ps and collective", mode,
                       is_one_of(mode, heter)
                           ? "there are no heterogeneous workers"
                           : "there is no such mode");
}

/* Options of jobs without servers. */
static int check_collective(const run_options *o)
{
    const char *one = o->ips ? "--ips" : "--nproc_per_node";

    if (!o->ips && !o->nproc_per_node)
        return RUN_OK;
    if (options_have_servers(o))
        return run_misused("%s is for jobs without servers; with servers give "
                           "--worker_num, --workers or --cluster_node_ips",
                           one);
    if (o->workers || o->cluster_node_ips)
        return run_misused("%s and %s both say where workers are; give one",
                           one,
                           o->workers ? "--workers" : "--cluster_node_ips");
    if (o->ips && o->worker_num)
        return run_misused("--worker_num counts the workers of one machine; "
                           "with --ips give --nproc_per_node");
    if (o->worker_num && o->worker_num != o->nproc_per_node)
        return run_misused("--worker_num=%d, but --nproc_per_node=%d: on one "
                           "machine they are the same; give one",
                           o->worker_num, o->nproc_per_node);
    return RUN_OK;
}

/* Lists say how many there are; otherwise launch_ps starts two of each. */
static void fill_defaults(run_options *o)
{
    bool is_ps = !strcmp(program_invocation_short_name, "launch_ps");

    o->has_log_dir = o->log_dir != NULL;
    if (!o->log_dir)
        o->log_dir = is_ps ? "logs" : "log";
    if (is_ps && !o->servers && !o->endpoints && !o->server_num)
        o->server_num = 2;
    if (is_ps && !o->workers && !o->worker_num)
        o->worker_num = 2;
}

int options_read(run_options *o, int argc, char **argv, bool *is_over)
{
    option all[N_OPTIONS];
    uint64_t given = 0;
    int i = 1, code;

    *o = (run_options){ 0 };
    *is_over = false;
    list_options(o, all);
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (asks_for_help(argv[i])) {
            print_help(all);
            *is_over = true;
            return RUN_OK;
        }
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        code = read_one(all, argv, argc, &i, &given);
        if (code)
            return code;
    }
    if (i >= argc)
        return run_misused("which program?");
    o->program = argv + i;
    fill_defaults(o);
    code = check_mode(o);
    return code ? code : check_collective(o);
}
