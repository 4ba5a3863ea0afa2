/* log.h - what the library has to say while it works. There is one sink per
 * process; without one of the program's own, lines go to standard error.
 */
#ifndef FLOTILLA_LOG_H
#define FLOTILLA_LOG_H

#include "flotilla/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fl_log_level {
    FL_LOG_DEBUG = 0,
    FL_LOG_INFO = 1,
    FL_LOG_WARN = 2,
    FL_LOG_ERROR = 3
} fl_log_level;

/* Gets one line: the area of the library it comes from ("data", "ps") and a
   text without a newline; both borrowed for the call. Called by any thread of
   the process, the caller's own and the library's, one at a time. What the sink
   itself makes the library say is dropped. It must not call fl_log_set. */
typedef void (*fl_log_sink)(void *arg, fl_log_level level, const char *area,
                            const char *text);

/* Lines below `least` are dropped. sink NULL: lines on standard error again.
   Once it has returned, the old sink is not running and never will. Any
   thread. The setting log_level of a context, where one is given, sets the
   level as well: the later of the two counts. */
FL_API void fl_log_set(fl_log_sink sink, void *arg, fl_log_level least);

#ifdef __cplusplus
}
#endif
#endif
