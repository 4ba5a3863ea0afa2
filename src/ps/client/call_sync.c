/* call_sync.c - requests that are waited for. */
#include "ps/client/call_sync.h"

fl_ending fl_client_latch(fl_latch *l)
{
    fl_latch_add(l);
    return (fl_ending){ fl_latch_done, l };
}

/* All at once, from server `first` on. */
static fl_status declare_from(fl_client *c, int first, int n,
                              const char *const *texts)
{
    fl_status st;
    fl_latch l;

    fl_latch_init(&l, fl_client_poller(c));
    for (int i = first; i < n; i++) {
        st = fl_client_declare(c, i, texts[i], fl_client_latch(&l));
        if (st)
            fl_latch_done(&l, st);
    }
    st = fl_latch_wait(&l);
    fl_latch_release(&l);
    return st;
}

fl_status fl_client_declare_all(fl_client *c, const char *const *texts, int n)
{
    FL_TRY(declare_from(c, 0, 1, texts));
    return declare_from(c, 1, n, texts);
}
