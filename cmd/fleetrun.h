/* fleetrun.h - what the launcher knows before it starts anything.
 *
 *     options --> a task of a cluster?  yes --> plan --> becomes the program
 *                                       no  --> plan --> spawn and watch
 *
 * Everything here is made once, by one thread, out of one room that is released
 * at the end. Functions that return an int return 0, or the exit code of the
 * launcher after saying what is wrong.
 */
#ifndef FL_CMD_FLEETRUN_H
#define FL_CMD_FLEETRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_OK = 0, RUN_FAILED = 1, RUN_USAGE = 2 };

/* --- memory and messages -------------------------------------------------- */

typedef struct room_block room_block;
typedef struct room {
    room_block *first;
} room;

/* Zeroed. They end the process when there is no memory: nothing runs yet. */
void *room_take(room *r, size_t bytes);
char *room_text(room *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void room_release(room *r);

/* "NAME: message" on stderr, NAME as the launcher was called. */
void run_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int run_failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int run_misused(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* --- options (fleetrun_options.c) ----------------------------------------- */

typedef enum status_use {
    STATUS_AUTO, /* on a terminal */
    STATUS_YES,
    STATUS_NO
} status_use;

typedef struct run_options {
    int server_num, worker_num, nproc_per_node; /* 0: not given */
    const char *servers, *workers, *endpoints, *node_ip;
    const char *cluster_node_ips, *ips;
    const char *log_dir;
    bool has_log_dir;       /* it was given */
    const char *token_file; /* NULL: not given */
    int start_port;         /* 0: not given */
    int max_restart;
    const char *resume; /* NULL: not given */
    const char *run_mode;
    status_use status;
    const char *trace; /* NULL: not given */
    bool print_config;
    char **program; /* its words; NULL behind them */
} run_options;

/* Whether there are to be servers; without, the job is a collective one. */
bool options_have_servers(const run_options *o);
/* Whether it is told how many workers there are, or where. */
bool options_have_workers(const run_options *o);
/* Whether the program is one of Python, which an interpreter runs. */
bool options_are_script(const run_options *o);

/* *is_over: there was --help, and nothing is left to do. */
int options_read(run_options *o, int argc, char **argv, bool *is_over);

/* --- hosts and ports (fleetrun_hosts.c, fleetrun_ports.c) ----------------- */

typedef struct place {
    char *host;
    int port; /* 0: not given */
} place;

/* "host:port,host,[::1]:6170"; `what` is the option, for messages. */
int places_read(room *r, const char *what, const char *list, place **out,
                int *n);
/* Whether it is a name or address of this machine. */
bool host_is_here(const char *host);
/* "node[01-03,7],login" as Slurm writes it; NULL when it is no such list. */
char **hosts_expand(room *r, const char *list, int *n);

#define PORT_FIRST 6170
bool port_is_free(int port);
/* A port that nobody has and that the system gives to no connection; nobody
   finds it free until this process ends. 0 when there is none. taken[n] are used
   already. */
int port_find(const int *taken, int n);

/* --- clusters (fleetrun_cluster.c) ---------------------------------------- */

/* One task out of several that a scheduler has started. */
typedef struct task {
    const char *system;  /* "Slurm"; NULL: this is no such task */
    int rank, size;      /* size 0: not told; 1: it is the only one */
    char **hosts;        /* of every rank, `size` of them; NULL: not known */
    const char *pattern; /* of the hosts, "job-{}.service", or NULL */
    const char *job;     /* a name that the tasks share, or NULL */
} task;

int task_find(task *t, room *r);
/* The host of a rank; NULL: not known. */
const char *task_host(const task *t, room *r, int rank);

/* --- the plan (fleetrun_plan.c) ------------------------------------------- */

typedef enum run_role { RUN_SERVER, RUN_WORKER } run_role;

typedef struct proc {
    run_role role;
    int index; /* among those of its role */
    place at;
    bool is_here;
    char *name; /* "worker 0" */
    char *log_path;
    char
        *note_path; /* says why it is not to be started again, if it is there */
    char **env;
    /* While it is watched. */
    pid_t pid;       /* 0: it does not run, and has no files here */
    int out, log;    /* what it writes comes from there (-1: no more), and
                        goes there */
    bool is_log_cut; /* some of it did not, which was told */
    int status;      /* of waitpid, when it has ended */
    int n_restarts;
    uint64_t began_ms;
} proc;

typedef struct job {
    room *room;
    const run_options *o;
    int n_servers, n_workers;
    proc *procs;         /* the servers, then the workers */
    char *name;          /* FLOTILLA_JOB */
    char *server_list;   /* "": workers do without */
    char *worker_list;   /* NULL: not known */
    char *key_path;      /* of the job's token; NULL: the caller has set one */
    char *job_note_path; /* NULL: there is none */
    char *trace_folder, *trace_path; /* NULL: nothing is traced */
    char **words;                    /* what is started, a path first */
    char *paddle; /* the folder of the names of PaddlePaddle, or NULL */
} job;

int plan_here(job *j, room *r, const run_options *o);
int plan_task(job *j, room *r, const run_options *o, const task *t);
void plan_print(const job *j);
/* Where the plan keeps the process of a rank. */
static inline proc *plan_proc(const job *j, run_role role, int index)
{
    return &j->procs[role == RUN_SERVER ? index : j->n_servers + index];
}

/* --- the job's token (fleetrun_key.c) ------------------------------------- */

/* Puts --token_file into the environment, where everybody looks for it. */
int key_take(const run_options *o);
/* Makes a token, unless the environment has one for the job. */
int key_make(job *j);
void key_drop(job *j);

/* --- the job's note (fleetrun_note.c) ------------------------------------- */

/* Tells tools of this user where the job is; that it cannot is only told. */
void note_make(job *j);
void note_drop(job *j);

/* --- the environment and the program (fleetrun_env.c) --------------------- */

/* Fills words of the job, and env and log_path of its processes. */
int env_fill(job *j);
/* The folders of PATH, to be walked by path_next. */
char *path_folders(room *r);
/* The program of that name in the next folder that has one; NULL: none has. */
char *path_next(room *r, char **folders, const char *name);
/* Sets a variable for all of them. */
void env_set(job *j, const char *name, const char *value);

/* --- scripts (fleetrun_python.c) ------------------------------------------ */

/* Finds words[0], the interpreter: FLOTILLA_PYTHON, or the first python3 of PATH
   that has flotilla and numpy. */
int python_choose(job *j);
/* Puts the names of PaddlePaddle on the path of the job's scripts, if their
   interpreter has the package flotilla. */
void python_names(job *j);

/* --- timelines (fleetrun_trace.c) ----------------------------------------- */

/* Tells the processes where theirs go, after --trace. */
int trace_prepare(job *j);
/* Puts them together, when all have ended. */
int trace_finish(const job *j);

/* --- going on (fleetrun_resume.c) ----------------------------------------- */

/* Finds the newest version that is whole and tells it to the processes; *from
   is NULL when there is none yet. */
int resume_find(job *j, const char **from);

#endif
