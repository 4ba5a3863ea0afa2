/* log.h - one sink for what the library wants to say; replaceable by the
 * program that embeds it. Area first, then key=value:
 *
 *     FL_INFO("exec", "plan ops=%zu bytes=%zu", n, bytes);
 */
#ifndef FL_BASE_LOG_H
#define FL_BASE_LOG_H

#include "base/status.h"

typedef enum fl_log_level {
    FL_LOG_DEBUG,
    FL_LOG_INFO,
    FL_LOG_WARN,
    FL_LOG_ERROR
} fl_log_level;

typedef void (*fl_log_sink)(void *arg, fl_log_level level, const char *area,
                            const char *text);

/* NULL restores the default: lines on stderr. Lines below `least` are dropped.
   Any thread; takes effect for later lines. */
void fl_log_set(fl_log_sink sink, void *arg, fl_log_level least);

/* Changes the limit alone. */
void fl_log_set_level(fl_log_level least);

void fl_log(fl_log_level level, const char *area, const char *fmt, ...)
    FL_PRINTF(3, 4);

#define FL_INFO(area, ...) fl_log(FL_LOG_INFO, area, __VA_ARGS__)
#define FL_WARN(area, ...) fl_log(FL_LOG_WARN, area, __VA_ARGS__)

#endif
