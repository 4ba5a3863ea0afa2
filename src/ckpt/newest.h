/* newest.h - the newest version of a model that is whole. */
#ifndef FL_CKPT_NEWEST_H
#define FL_CKPT_NEWEST_H

#include "ckpt/version.h"
#include "conf/conf.h"

/* `path` is a DIR of versions, or the folder of one. Of those up to CURRENT the
   newest is opened whose every byte is what was saved, with what it is based
   on; damaged ones are passed over and named in the log. FL_ERR_NOTFOUND: there
   is no version at all. */
FL_MUST_CHECK
fl_status fl_version_open_newest(fl_model_version **out, const char *path);

/* The same for a path that may have a scheme (ckpt/remote.h). */
FL_MUST_CHECK
fl_status fl_version_fetch_newest(fl_model_version **out, const fl_conf *conf,
                                  const char *path);

#endif
