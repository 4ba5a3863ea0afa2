/* stats.c - STATS: counters and memory of a server, as JSON. */
#include "ps/client/client_inside.h"
#include "ps/store/store_inside.h"

const fl_msg_payload fl_msg_stats_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_stats_reply = { .fields = fl_fields_rest };

static fl_status add_object(void *json, int server, fl_msg_bytes bytes)
{
    (void)server;
    if (!bytes.len)
        return fl_msg_bad_reply(FL_MSG_STATS, 0);
    fl_json_raw(json, NULL, bytes.data, bytes.len);
    return FL_OK;
}

fl_status fl_client_stats_all(fl_client *c, fl_json *list, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_STATS,
                          .server = FL_ALL_SERVERS,
                          .take = add_object,
                          .out = list };

    return fl_client_call(c, &call, ending);
}

fl_status fl_store_stats(fl_store_ctx *c)
{
    char *json = fl_store_stats_json(c->store);
    fl_status st = fl_store_answer(c, &(fl_msg_bytes){ json, strlen(json) });

    fl_free(json);
    return st;
}
