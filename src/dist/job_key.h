/* job_key.h - the secrets of jobs: where they lie, and which one is shown.
 *
 * A launcher keeps the token of a job of one machine in its user's folder
 * (ps/user_folder.h), as PORT.key with the port of server 0. The first line is the
 * token, the second the job's name. Processes of the job get the path by the
 * setting join_token_file; tools of the same user find it by the address. Of a
 * job whose token its caller has set there is the look token alone, in the note
 * of ps/job_file.h.
 */
#ifndef FL_DIST_JOB_KEY_H
#define FL_DIST_JOB_KEY_H

#include "base/vec.h"
#include "conf/conf.h"

/* Takes join_token from join_token_file when the former is empty. A file that
   others may read is refused. */
FL_MUST_CHECK
fl_status fl_job_key_load(fl_conf *conf);

/* What a tool shows to server 0 at an address. */
typedef struct fl_job_key {
    fl_str token, job;
} fl_job_key;

typedef enum fl_job_use { FL_JOB_LOOK, FL_JOB_CHANGE } fl_job_use;

/* By the settings, or else by the user's key of that address, or by the note of
   the job. Looking needs the look token alone, so nothing more is shown. */
void fl_job_key_choose(fl_job_key *out, const fl_conf *conf,
                       const char *address, fl_job_use use);
void fl_job_key_release(fl_job_key *k);

#endif
