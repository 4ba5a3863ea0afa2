/* options.h - clients and servers as the settings want them. What is not a
 * setting (addresses, ranks, operators) is left empty. Texts are the settings'
 * own. */
#ifndef FL_PS_OPTIONS_H
#define FL_PS_OPTIONS_H

#include "ps/client/client.h"
#include "ps/server/server.h"

fl_client_options fl_client_options_of(const fl_conf *conf);
fl_server_options fl_server_options_of(const fl_conf *conf);

/* A server without a token (and without TLS) is for anybody who reaches it: it
   says so, and is refused unless it listens on the loopback or the setting
   allow_no_token is true. */
FL_MUST_CHECK
fl_status fl_server_check_door(const fl_server_options *o);

#endif
