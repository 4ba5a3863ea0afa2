/* plugin.h - a shared library with operators, rules, formats and modes of your
 * own. Experimental: it may change with any version.
 *
 * A program adds what is its own with fl_op_add and its like. The commands
 * (flotilla train, predict, serve), other people's programs and Python get it
 * from a shared library that the setting `plugins` names:
 *
 *     FLOTILLA_PLUGINS=./libmine.so flotilla train model.txt --data logs
 *
 * Such a library is linked with libflotilla and has this one function. It is
 * called for every new context, so that it can add modes to it; what is there
 * already may be added again. Libraries are never closed.
 */
#ifndef FLOTILLA_EXPERIMENTAL_PLUGIN_H
#define FLOTILLA_EXPERIMENTAL_PLUGIN_H

#include "flotilla/flotilla.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Yours. An error refuses the context, with its sentence. */
FL_API fl_status flotilla_plugin(fl_ctx *c);

#ifdef __cplusplus
}
#endif
#endif
