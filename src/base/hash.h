/* hash.h - stable 64-bit hashes. Their values are part of formats and of the
 * counter randomness: they never change. */
#ifndef FL_BASE_HASH_H
#define FL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A bijection that spreads every input bit (splitmix64's finaliser). */
static inline uint64_t fl_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* FNV-1a over bytes, then mixed. */
uint64_t fl_hash_bytes(const void *bytes, size_t n);
uint64_t fl_hash_str(const char *s);

/* The hash of "NAME=", where those of the values of a column begin. */
uint64_t fl_hash_column(const char *name);

/* The hash of a key of a table; its top bits are the key's virtual shard. */
static inline uint64_t fl_hash_key(uint64_t key)
{
    return fl_mix64(key + 0x9e3779b97f4a7c15u);
}

/* fl_mix64 the other way round. */
static inline uint64_t fl_unmix64(uint64_t x)
{
    x ^= x >> 31 ^ x >> 62;
    x *= 0x319642b2d24d8ec3u;
    x ^= x >> 27 ^ x >> 54;
    x *= 0x96de1b173f119089u;
    return x ^ x >> 30 ^ x >> 60;
}

/* The key that has this hash: there is exactly one. */
static inline uint64_t fl_hash_origin(uint64_t hash)
{
    return fl_unmix64(hash) - 0x9e3779b97f4a7c15u;
}

/* Placement: keys, and names by their hash, belong to virtual shards, and each
   server holds a contiguous range of these. */
#define FL_SHARDS 1024

/* Hashes of one shard. */
#define FL_SHARD_WIDTH (UINT64_MAX / FL_SHARDS + 1)

static inline uint32_t fl_hash_shard(uint64_t hash)
{
    return (uint32_t)(hash / FL_SHARD_WIDTH);
}

static inline uint32_t fl_shard_of(uint64_t key)
{
    return fl_hash_shard(fl_hash_key(key));
}

static inline int fl_hash_server(uint64_t hash, int n_servers)
{
    return (int)(fl_hash_shard(hash) * (uint32_t)n_servers / FL_SHARDS);
}

static inline int fl_server_of(uint64_t key, int n_servers)
{
    return fl_hash_server(fl_hash_key(key), n_servers);
}

#endif
