/* journal.h - which keys of a partition changed, epoch by epoch, for deltas.
 *
 * A row is told once per epoch, when it is first changed in it: the epoch in
 * its header says whether that was so. What is told last counts, so a key may
 * be there for several epochs. Keys that went are told each time.
 *
 * The log takes 8 bytes per key and epoch and is bounded by the rows there are:
 * when it is full, or when there is no memory for it, it is given up, and the
 * next save has to be whole.
 *
 * Owner: the partition, under its lock.
 */
#ifndef FL_TABLE_JOURNAL_H
#define FL_TABLE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

typedef enum fl_change {
    FL_CHANGE_ROW,
    FL_CHANGE_CANDIDATE,
    FL_CHANGE_GONE,
    FL_CHANGES
} fl_change;

/* Where the keys of an epoch begin. */
typedef struct fl_journal_mark {
    uint32_t epoch;
    size_t at;
} fl_journal_mark;

typedef struct fl_journal_keys {
    uint64_t *keys;
    size_t len, cap;
    FL_VEC(fl_journal_mark) marks;
} fl_journal_keys;

typedef struct fl_journal {
    fl_journal_keys logs[FL_CHANGES];
    uint32_t from; /* all changes since that epoch are here; 0: none are */
} fl_journal;

/* Empties it and starts anew with the changes of `epoch`. */
void fl_journal_start(fl_journal *c, uint32_t epoch);

/* Empties it and stops. */
void fl_journal_stop(fl_journal *c);

/* Tells a key. Beyond `most` keys of a kind, or without memory, it stops. */
void fl_journal_add(fl_journal *c, fl_change kind, uint64_t key, uint32_t epoch,
                    size_t most);

/* Forgets what was told before an epoch. */
void fl_journal_trim(fl_journal *c, uint32_t since);

/* The first key of that epoch or later; `len` when there is none. */
size_t fl_journal_begin(const fl_journal_keys *log, uint32_t epoch);

size_t fl_journal_bytes(const fl_journal *c);

#endif
