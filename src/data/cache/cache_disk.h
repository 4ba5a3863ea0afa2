/* cache_disk.h - the bytes of a cache file, for its writer and its reader.
 *
 * docs/formats/cache.md explains them. All numbers are little-endian, and every
 * part but the last one, the trailer, has a multiple of FL_CACHE_ALIGN bytes:
 *
 *     header | chunk 0 | chunk 1 | ... | footer | trailer
 */
#ifndef FL_DATA_CACHE_CACHE_DISK_H
#define FL_DATA_CACHE_CACHE_DISK_H

#include "base/vec.h"
#include "data/cache/cache.h"

#define FL_CACHE_VERSION 1
#define FL_CACHE_MAGIC "flcache\n"
#define FL_CACHE_END_MAGIC "flc.end\n"
#define FL_CACHE_MAGIC_LEN 8
#define FL_CACHE_ALIGN 64
#define FL_CACHE_RECORDS 4096 /* of a chunk, at most */

/* Behind the head: one fl_cache_slot per slot, then the text of the source, of
   the pipe command and of the slots' names, then zeros. */
typedef struct fl_cache_head {
    char magic[FL_CACHE_MAGIC_LEN];
    uint32_t version;
    uint32_t bytes; /* of the whole header */
    uint64_t parser_hash, source_bytes, source_mtime_ns;
    uint32_t source_len, pipe_len;
    uint32_t n_slots, names_len;
    uint64_t sum; /* of the header, with 0 in this place */
} fl_cache_head;

typedef struct fl_cache_slot {
    uint32_t name_len, kind, width, zero;
    uint64_t height;
} fl_cache_slot;

/* The footer is the totals, then the directory of the chunks, then zeros. */
typedef struct fl_cache_totals {
    uint64_t chunks, records, lines, bad_lines;
} fl_cache_totals;

typedef struct fl_cache_chunk {
    uint64_t offset, bytes, records, sum;
} fl_cache_chunk;

typedef struct fl_cache_trailer {
    uint64_t footer_offset, footer_bytes;
    uint64_t footer_sum;
    char magic[FL_CACHE_MAGIC_LEN];
} fl_cache_trailer;

_Static_assert(sizeof(fl_cache_head) == 64, "head of a cache file");
_Static_assert(sizeof(fl_cache_slot) == 24, "slot of a cache file");
_Static_assert(sizeof(fl_cache_totals) == 32, "totals of a cache file");
_Static_assert(sizeof(fl_cache_chunk) == 32, "chunk of a cache file");
_Static_assert(sizeof(fl_cache_trailer) == 32, "trailer of a cache file");

static inline uint64_t fl_cache_padded(uint64_t bytes)
{
    return (bytes + FL_CACHE_ALIGN - 1) / FL_CACHE_ALIGN * FL_CACHE_ALIGN;
}

/* The whole header, freed with fl_free: a cache fits a key and slots when it
   begins with exactly these bytes. */
fl_cache_head *fl_cache_header_new(const fl_cache_key *k, const fl_schema *s);

/* The path as a string under construction, of any length. */
void fl_cache_add_path(fl_str *to, const char *directory,
                       const fl_cache_key *k);

/* The structs above are laid over the bytes of a file as they are: FL_ERR_INVAL
   where the machine's numbers are not little-endian. */
FL_MUST_CHECK
fl_status fl_cache_check_machine(void);

/* --- checksum ------------------------------------------------------------ */

#define FL_SUM_LANES 4

/* Independent lanes, so that their multiplications overlap. */
typedef struct fl_layers_sum {
    uint64_t lanes[FL_SUM_LANES];
    uint64_t bytes;
} fl_layers_sum;

void fl_sum_init(fl_layers_sum *s);
/* Adds n bytes, a multiple of FL_CACHE_ALIGN. */
void fl_sum_add(fl_layers_sum *s, const void *bytes, size_t n);
/* Copies n bytes and adds them, and those behind them up to the next multiple
   of FL_CACHE_ALIGN, in one pass. */
void fl_sum_copy(fl_layers_sum *s, void *to, const void *from, size_t n);
uint64_t fl_sum_end(const fl_layers_sum *s);

/* All of that for one run of bytes. */
uint64_t fl_sum_of(const void *bytes, size_t n);

#endif
