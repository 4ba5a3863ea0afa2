/* exchange.h - records of a loaded dataset that change places with those of
 * other processes.
 *
 *     fl_exchange_begin     where each record goes is drawn from the seed
 *     fl_exchange_next      a pack for another process, until there is none
 *     fl_exchange_add       a pack that came from another process
 *     fl_exchange_end       the dataset has what stayed and what came, shuffled
 *
 * Draws go by the order of the sorted records: the same seed deals the same
 * records alike, whatever threads have read them. Packs may be added while
 * others are still being made. One thread at a time.
 *
 * A pack, numbers little-endian:
 *
 *      0  u32  magic
 *      4  u32  rank of who made it
 *      8  u64  hash of the slots
 *     16  u64  number of records
 *     24  the records (rows.h)
 */
#ifndef FL_DATA_DATASET_EXCHANGE_H
#define FL_DATA_DATASET_EXCHANGE_H

#include "data/dataset/dataset.h"

typedef struct fl_exchange fl_exchange;

/* Processes that take part. */
#define FL_EXCHANGE_MAX 65536

/* Who takes part: the same list and seed everywhere. */
typedef struct fl_exchange_args {
    uint32_t rank;         /* of this process */
    const uint32_t *ranks; /* of all, without repetition; borrowed */
    uint32_t n;
    uint64_t seed;
} fl_exchange_args;

/* Whether the dataset has records that can be exchanged now. */
FL_MUST_CHECK
fl_status fl_exchange_check(const fl_dataset *d);

/* A dataset that is being exchanged has no records for anybody else. */
FL_MUST_CHECK
fl_status fl_exchange_begin(fl_exchange **out, fl_dataset *d,
                            const fl_exchange_args *a);

/* Bytes for another process, in memory of their own. */
typedef struct fl_exchange_pack {
    uint32_t to;
    uint32_t *words; /* NULL: no pack */
    size_t len, cap; /* words */
} fl_exchange_pack;

static inline size_t fl_exchange_pack_bytes(const fl_exchange_pack *p)
{
    return p->len * sizeof(*p->words);
}
void fl_exchange_pack_release(fl_exchange_pack *p);

/* The next one, which is the caller's; without words when all were given. */
FL_MUST_CHECK
fl_status fl_exchange_next(fl_exchange *x, fl_exchange_pack *out);

/* FL_ERR_CORRUPT when the bytes are no pack of records with these slots. */
FL_MUST_CHECK
fl_status fl_exchange_add(fl_exchange *x, const void *bytes, uint64_t len);

/* Frees the exchange; all packs were given and all that come have come. */
FL_MUST_CHECK
fl_status fl_exchange_end(fl_exchange *x);

/* Gives up: records are spread over processes by now, so that the dataset has
   none left and must be loaded again. NULL is fine. */
void fl_exchange_drop(fl_exchange *x);

#endif
