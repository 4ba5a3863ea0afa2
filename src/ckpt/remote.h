/* remote.h - models at places that only a command can reach: hdfs://, s3://.
 *
 * A path with a scheme has a folder of this machine beside it, in the cache
 * (setting fs_cache). A save writes there and publishes: the version goes out
 * by fs_put, comes back by fs_get and must verify; only then does CURRENT go
 * out. A load fetches CURRENT and the version that it names, with those that
 * it is based on, and verifies them. What fails or does not verify is tried
 * again (fs_tries), each time under another name, so that half of a copy is
 * never taken for a whole.
 *
 *     URL/CURRENT               000812-3f9c01, or 000812-3f9c01.2: second try
 *     URL/000812-3f9c01.2/      the version
 *
 * Paths without a scheme are left as they are. Any thread, one at a time per
 * path; several processes of a machine may fetch the same.
 */
#ifndef FL_CKPT_REMOTE_H
#define FL_CKPT_REMOTE_H

#include "base/status.h"
#include "conf/conf.h"

bool fl_remote_has_scheme(const char *path);

/* The folder to save into for `path`, freed with fl_free. */
FL_MUST_CHECK
fl_status fl_remote_place(const fl_conf *conf, const char *path, char **local);

/* Whether the commands are there that publish needs; for who wants to know
   before the work is done. */
FL_MUST_CHECK
fl_status fl_remote_check(const fl_conf *conf, const char *path);

/* Sends the version that counts in the folder of fl_remote_place. */
FL_MUST_CHECK
fl_status fl_remote_publish(const fl_conf *conf, const char *path);

/* Brings the model here: what fl_version_open takes, freed with fl_free. */
FL_MUST_CHECK
fl_status fl_remote_fetch(const fl_conf *conf, const char *path, char **local);

#endif
