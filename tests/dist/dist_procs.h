/* dist_procs.h - the members of a job of dist_kit.h as processes of their own.
 *
 * Who hangs is ended by an alarm clock, and nobody outlives the test.
 */
#ifndef FL_TESTS_DIST_PROCS_H
#define FL_TESTS_DIST_PROCS_H

#include <sys/types.h>

#include "dist_kit.h"

typedef struct procs procs;
struct procs {
    kit_job kit;
    kit_work work; /* of trainers */
    void *arg;
    /* What a new process does first; NULL: nothing. Members are servers, then
       trainers. */
    void (*first)(const procs *p, int member);
    kit_text *texts; /* what each member has to say; shared with them */
    char addresses[256];
    pid_t pids[KIT_MEMBERS];
};

/* Memory that processes share, zeros; as long as the test runs. */
void *procs_share(size_t bytes);

/* A setting of all members, in the place of an earlier one of that name. */
void procs_set(procs *p, const char *name, const char *value);

int procs_count(const procs *p);
int procs_trainer(const procs *p, int rank); /* its member */

void procs_start(procs *p);
/* The end of a member, as of waitpid. */
int procs_wait(procs *p, int member);
void procs_kill(procs *p, int member);
/* All that are left end well. */
void procs_end(procs *p);
/* This job begins with the model in dir, does nothing and ends well. */
void procs_begin_with(procs p, const char *dir);

/* --- storage that members do not share ------------------------------------ */

/* From now on this process has an empty folder of its own there: a mount in a
   namespace of its own. False where there are none. */
bool procs_hide(const char *path);
bool procs_can_hide(const char *path); /* another process could */

/* --- the versions of a model ---------------------------------------------- */

/* Waits for versions in a directory, which it makes. */
typedef struct watch {
    const char *dir;
    int fd;
} watch;

watch watch_begin(const char *dir);
void watch_end(watch *w);
/* The number of the version that counts; 0: none yet. */
unsigned long watch_current(const watch *w);
/* Until that version, or a later one, counts. A member that ends meanwhile fails
   the test: nobody would save any more. */
void watch_wait(const watch *w, const procs *p, unsigned long number);

#endif
