/* options.c - clients and servers as the settings want them. */
#include "ps/options.h"

fl_client_options fl_client_options_of(const fl_conf *conf)
{
    return (fl_client_options){
        .job = conf->job,
        .token = conf->join_token,
        .connect_timeout_ms = (uint64_t)conf->connect_timeout_ms,
        .restart_timeout_ms = (uint64_t)conf->restart_timeout_ms,
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
        .restart_timeout_ms = (uint64_t)conf->restart_timeout_ms,
        .ping_ms = (uint64_t)conf->ping_ms,
        .suspect_ms = (uint64_t)conf->suspect_ms,
        .go_on_without = conf->go_on_without_lost_trainers,
        .max_message_bytes = (uint64_t)conf->max_message_bytes,
        .arena_bytes = (uint64_t)conf->arena_bytes,
        .max_connections = (int)conf->max_connections,
        .conf = conf,
    };
}
