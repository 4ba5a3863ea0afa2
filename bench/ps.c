/* ps.c - what the parameter server costs: messages alone, rows against the
 * table called directly, and against other servers.
 *
 * Server processes are this program again, called by the name of what they
 * serve. */
#include <stdio.h>
#include <string.h>

#include "ps_peers.h"
#include "ps_process.h"

typedef struct role {
    const char *name;
    int (*serve)(char **argv);
} role;

static const role roles[] = {
    { "library", ps_library_serve },
    { "flat", ps_flat_serve },
    { "rpc", ps_rpc_serve },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(argv[1], roles[i].name) == 0)
            return roles[i].serve(argv + 2);
    if (argc > 1) {
        fprintf(stderr, "bench: there is no server called %s\n", argv[1]);
        return 2;
    }
    process_pin();
    bench_ps_rpc();
    return bench_ps_rows() ? 0 : 1;
}
