/* shrink.c - SHRINK: drops rows that are no longer worth keeping. */
#include <inttypes.h>
#include <limits.h>

#include "ps/client/client_inside.h"
#include "ps/store/store_inside.h"

typedef struct shrink_request {
    uint32_t table, unseen_days;
} shrink_request;

typedef struct shrink_reply {
    uint64_t n_removed;
} shrink_reply;

static const fl_field request[] = {
    FL_FIELD(U32, shrink_request, table),
    FL_FIELD(U32, shrink_request, unseen_days),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U64, shrink_reply, n_removed),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_shrink_request = { .fields = request };
const fl_msg_payload fl_msg_shrink_reply = { .fields = reply };

static fl_status add_removed(void *sum, int server, fl_msg_bytes bytes)
{
    shrink_reply r;

    (void)server;
    FL_TRY(fl_msg_read_reply(FL_MSG_SHRINK, bytes, &r));
    *(uint64_t *)sum += r.n_removed;
    return FL_OK;
}

fl_status fl_client_shrink(fl_client *c, uint32_t table, uint32_t unseen_days,
                           uint64_t *n_removed, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_SHRINK,
                          .server = FL_ALL_SERVERS,
                          .request = &(shrink_request){ table, unseen_days },
                          .take = add_removed,
                          .out = n_removed };

    return fl_client_call(c, &call, ending);
}

fl_status fl_store_shrink(fl_store_ctx *c)
{
    const shrink_request *q = c->request;
    fl_store_table *t;
    shrink_reply r;

    FL_TRY(fl_store_find_table(c, q->table, &t));
    if (q->unseen_days > INT_MAX)
        FL_FAIL(FL_ERR_INVAL, "table %s: %" PRIu32 " unseen days are too many",
                fl_table_name(t->table), q->unseen_days);
    (void)fl_store_commit(c->call, &t->log);
    FL_TRY(fl_table_shrink(t->table, (int)q->unseen_days, &r.n_removed));
    return fl_store_answer(c, &r);
}
