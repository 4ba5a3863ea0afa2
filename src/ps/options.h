/* options.h - clients and servers as the settings want them. What is not a
 * setting (addresses, ranks, operators) is left empty. Texts are the settings'
 * own. */
#ifndef FL_PS_OPTIONS_H
#define FL_PS_OPTIONS_H

#include "ps/client/client.h"
#include "ps/server/server.h"

fl_client_options fl_client_options_of(const fl_conf *conf);
fl_server_options fl_server_options_of(const fl_conf *conf);

#endif
