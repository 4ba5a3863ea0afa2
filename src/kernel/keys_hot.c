/* keys_hot.c - where keys belong and their hashes, compiled per instruction set. */
#include "kernel/keys.h"

#include "base/hash.h"
#include "kernel/hot.h"

static bool hashes(uint64_t *out, const uint64_t *keys, size_t n)
{
    unsigned n_falls = 0;

    FL_FOR_EACH(i, n, out[i] = fl_hash_key(keys[i]);)
    for (size_t i = 1; i < n; i++)
        n_falls |= out[i] < out[i - 1];
    return !n_falls;
}

static bool servers(uint16_t *out, const uint64_t *keys, size_t n,
                    int n_servers)
{
    unsigned n_falls = 0;

    FL_FOR_EACH(i, n, out[i] = (uint16_t)fl_server_of(keys[i], n_servers);)
    for (size_t i = 1; i < n; i++)
        n_falls |= out[i] < out[i - 1];
    return !n_falls;
}

#define ENTRY(ret, name, params) .name = name,

const fl_key_loops_table
    FL_ISA_NAME(fl_key_loops_table_of) = { FL_KEY_LOOPS(ENTRY) };
