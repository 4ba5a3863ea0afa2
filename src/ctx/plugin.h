/* plugin.h - libraries of users, opened for a context. */
#ifndef FL_CTX_PLUGIN_H
#define FL_CTX_PLUGIN_H

#include "ctx/ctx.h"

/* Opens the libraries of the setting `plugins`, and lets each add what it has.
   Again is fine. */
FL_MUST_CHECK
fl_status fl_plugins_open(fl_ctx *c);

#endif
