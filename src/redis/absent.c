/* absent.c - a library that was built without hiredis says so. */
#include "base/status.h"
#include "flotilla/redis.h"

static fl_status refuse(void)
{
    FL_FAIL(FL_ERR_UNSUPPORTED,
            "this library was built without hiredis; install libhiredis-dev "
            "and build it again to use Redis");
}

fl_status fl_redis_export_with(const char *path, fl_redis_report *report,
                               const fl_redis_args *args)
{
    (void)path, (void)report, (void)args;
    return refuse();
}

fl_status fl_row_source_of_redis_with(fl_row_source **out,
                                      const fl_redis_args *args)
{
    (void)out, (void)args;
    return refuse();
}
