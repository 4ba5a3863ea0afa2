/* keys.h - where the keys of tables belong, and their hashes, chosen by CPU. */
#ifndef FL_KERNEL_KEYS_H
#define FL_KERNEL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* clang-format off */
#define FL_KEY_LOOPS(F)                                                        \
    /* out[i] = fl_hash_key(keys[i]); whether that never falls */              \
    F(bool, hashes, (uint64_t *out, const uint64_t *keys, size_t n))           \
    /* out[i] = fl_server_of(keys[i], n_servers); whether that never falls */  \
    F(bool, servers,                                                           \
      (uint16_t *out, const uint64_t *keys, size_t n, int n_servers))
/* clang-format on */

#define FL_KEY_LOOPS_FIELD(ret, name, params) ret(*name) params;
typedef struct fl_key_loops_table {
    FL_KEY_LOOPS(FL_KEY_LOOPS_FIELD)
} fl_key_loops_table;
#undef FL_KEY_LOOPS_FIELD

const fl_key_loops_table *fl_key_loops(void);

#endif
