/* options.c - clients and servers as the settings want them. */
#include "ps/options.h"

#include "base/log.h"
#include "conf/patience.h"
#include "rpc/stream/address.h"

fl_client_options fl_client_options_of(const fl_conf *conf)
{
    return (fl_client_options){
        .job = conf->job,
        .token = conf->join_token,
        .connect_timeout_ms = (uint64_t)conf->connect_timeout_ms,
        .restart_timeout_ms = fl_patience_ms(conf, FL_JOB_WITH_SERVERS),
        .ping_ms = (uint64_t)conf->ping_ms,
        .suspect_ms = (uint64_t)conf->suspect_ms,
        .max_message_bytes = (uint64_t)conf->max_message_bytes,
        .arena_bytes = (uint64_t)conf->arena_bytes,
    };
}

fl_server_options fl_server_options_of(const fl_conf *conf)
{
    return (fl_server_options){
        .job = conf->job,
        .token = conf->join_token,
        .n_loops = (int)conf->server_threads,
        .connect_timeout_ms = (uint64_t)conf->connect_timeout_ms,
        .restart_timeout_ms = fl_patience_ms(conf, FL_JOB_WITH_SERVERS),
        .ping_ms = (uint64_t)conf->ping_ms,
        .suspect_ms = (uint64_t)conf->suspect_ms,
        .go_on_without = conf->go_on_without_lost_trainers,
        .max_message_bytes = (uint64_t)conf->max_message_bytes,
        .arena_bytes = (uint64_t)conf->arena_bytes,
        .max_connections = (int)conf->max_connections,
        .conf = conf,
        .is_announced = true,
    };
}

fl_status fl_server_check_door(const fl_server_options *o)
{
    const char *text = o->listen ? o->listen : o->servers[o->rank];
    const char *word = o->are_workers ? "worker" : "server";
    bool is_closed = o->token[0] || o->conf->tls_ca[0];
    fl_address a;

    if (is_closed)
        return FL_OK;
    FL_TRY(fl_address_parse(&a, text));
    if (!o->conf->allow_no_token && !fl_address_is_loopback(&a))
        FL_FAIL(FL_ERR_INVAL,
                "%s %d has no join token and would listen at %s, beyond "
                "the loopback, for anybody: give all processes of the job the "
                "same join_token or join_token_file, or set "
                "allow_no_token=true",
                word, o->rank, text);
    FL_WARN("ps",
            "%s %d has no join token: whoever reaches %s can join the job, "
            "read its rows and end it",
            word, o->rank, text);
    return FL_OK;
}
