/* job_file.h - a note of every running job in its user's folder
 * (ps/user_folder.h), so that tools of the same user find it
 * (docs/formats/job.md).
 *
 * Whoever starts a job writes the note, or else its coordinator; who has written
 * it removes it. One whose process was killed stays behind, and is removed by the
 * next who looks. Any thread may write; a list is its owner's.
 */
#ifndef FL_PS_JOB_FILE_H
#define FL_PS_JOB_FILE_H

#include "base/arena.h"
#include "base/vec.h"
#include "flotilla/job.h"

/* What a note has beside the public part. */
typedef struct fl_job_file {
    fl_local_job job;
    const char *host; /* whose number the process has */
    uint64_t born;    /* when that began, in ticks of its machine */
    const char *look; /* the look token */
} fl_job_file;

struct fl_local_jobs {
    fl_arena arena; /* texts */
    FL_VEC(fl_job_file) all;
};

/* Writes a note of a job that this process runs; *path is freed with fl_free. */
FL_MUST_CHECK
fl_status fl_job_file_write(const fl_local_job *job, const char *token,
                            char **path);
/* NULL is fine. */
void fl_job_file_remove(const char *path);

/* The jobs whose process still runs on this machine, the oldest first. */
fl_local_jobs *fl_job_files_read(void);
/* The one whose server 0 is at the address; NULL: there is none. */
const fl_job_file *fl_job_files_find(const fl_local_jobs *l,
                                     const char *address);

/* "./train data/ --passes 3": what this process was started as. */
char *fl_own_command(void);

#endif
