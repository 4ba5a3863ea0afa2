/* servers_kit.h - programs of servers for a distribution that a test makes by
 * hand: all servers hold the same. */
#ifndef FL_TESTS_MODE_SERVERS_KIT_H
#define FL_TESTS_MODE_SERVERS_KIT_H

#include "../server_text.h"
#include "ops/ops.h"
#include "pass/dist.h"

static inline void add_servers(fl_dist *d, const char *text)
{
    for (int i = 0; i < d->config.n_servers; i++) {
        fl_dist_server s = { .startup = fl_program_of(&fl_ops) };

        if (fl_program_parse(text, &fl_ops, &s.main))
            fail_msg("%s", fl_last_error());
        s.startup->seed = s.main->seed;
        fl_vec_push(&d->servers, s);
    }
}

static inline void release_servers(fl_dist *d)
{
    for (size_t i = 0; i < d->servers.len; i++) {
        fl_program_free(d->servers.data[i].startup);
        fl_program_free(d->servers.data[i].main);
    }
    fl_vec_release(&d->servers);
}

#endif
