/* stats.c - STATS: counters and memory of a server, as text. */
#include "ps/client/client_inside.h"
#include "ps/store/store_inside.h"

const fl_msg_payload fl_msg_stats_request = { .fields = fl_fields_none };
const fl_msg_payload fl_msg_stats_reply = { .fields = fl_fields_rest };

static fl_status add_text(void *text, int server, fl_msg_bytes bytes)
{
    fl_str_addf(text, "server %d\n%.*s", server, (int)bytes.len,
                bytes.len ? (const char *)bytes.data : "");
    return FL_OK;
}

fl_status fl_client_stats(fl_client *c, fl_str *text, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_STATS,
                          .server = FL_ALL_SERVERS,
                          .take = add_text,
                          .out = text };

    return fl_client_call(c, &call, ending);
}

fl_status fl_store_stats(fl_store_ctx *c)
{
    char *text = fl_store_stats_text(c->store);
    fl_status st = fl_store_answer(c, &(fl_msg_bytes){ text, strlen(text) });

    fl_free(text);
    return st;
}
