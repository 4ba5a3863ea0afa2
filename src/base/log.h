/* log.h - saying something through the sink of flotilla/log.h. Area first, then
 * key=value:
 *
 *     FL_INFO("exec", "plan ops=%zu bytes=%zu", n, bytes);
 */
#ifndef FL_BASE_LOG_H
#define FL_BASE_LOG_H

#include "flotilla/log.h"

#include "base/status.h"

/* Changes the limit alone. */
void fl_log_set_level(fl_log_level least);

void fl_log(fl_log_level level, const char *area, const char *fmt, ...)
    FL_PRINTF(3, 4);

#define FL_INFO(area, ...) fl_log(FL_LOG_INFO, area, __VA_ARGS__)
#define FL_WARN(area, ...) fl_log(FL_LOG_WARN, area, __VA_ARGS__)

#endif
