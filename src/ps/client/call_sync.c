/* call_sync.c - requests that are waited for. */
#include "ps/client/call_sync.h"

fl_ending fl_client_latch(fl_latch *l)
{
    fl_latch_add(l);
    return (fl_ending){ fl_latch_done, l };
}

fl_status fl_client_declare_all(fl_client *c, const char *text)
{
    FL_TRY(fl_client_declare(c, 0, text, FL_WAIT));
    return fl_client_declare(c, FL_ALL_SERVERS, text, FL_WAIT);
}
