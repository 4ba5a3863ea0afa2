/* sum.h - hashes of contents that are to be added up, so that neither order
 * nor partitioning matters. */
#ifndef FL_PS_SUM_H
#define FL_PS_SUM_H

#include <string.h>

#include "base/hash.h"

/* Eight bytes at a time: contents are large, and the hash is kept nowhere. */
static inline uint64_t fl_sum_bytes(uint64_t key, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint64_t h = fl_mix64(key + UINT64_C(0x9e3779b97f4a7c15));
    uint64_t word;

    h = fl_mix64(h ^ n);
    for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        h = fl_mix64(h + word) ^ key;
    }
    word = 0;
    memcpy(&word, at, n);
    return fl_mix64(h + word);
}

/* Adds a server's answer to HASH (u64 per table and block) to the hash of a
   model: each is that of something with a name, so places do not matter. */
static inline void fl_sum_model(uint64_t *sum, const void *hashes, uint64_t len)
{
    uint64_t h;

    for (uint64_t i = 0; i < len / sizeof(h); i++) {
        memcpy(&h, (const uint8_t *)hashes + i * sizeof(h), sizeof(h));
        *sum += h;
    }
}

#endif
