/* pump_file.h - one file of a pass, as the pump's threads use it.
 *
 *     read      one thread at a time: the next unit, a block of text or the
 *               number of a chunk of its cache
 *     parse     any thread: the unit becomes rows; while the file has records
 *               that were trained before, the thread that has read it
 *     finish    once, when all units were parsed
 *
 * A unit belongs to a thread and is used again and again.
 */
#ifndef FL_DATA_DATASET_PUMP_FILE_H
#define FL_DATA_DATASET_PUMP_FILE_H

#include "data/cache/cache.h"
#include "data/dataset/pump.h"

/* What all files of a pass share. It does not change. */
typedef struct fl_pump_job {
    fl_pump_args args;
    uint64_t parser_hash;
    fl_bad_log *bad;
} fl_pump_job;

typedef struct fl_pump_file {
    const char *path;
    uint64_t hash;           /* of the path */
    fl_source *source;       /* NULL before the first read and at the end */
    fl_cache *cache;         /* read instead of a source */
    fl_cache_writer *writer; /* gets every record of the source */
    size_t next_chunk;
    void *head; /* what the format's head made of the first line */
    bool is_open, is_begun;
    uint32_t n_blocks;              /* that were read */
    const fl_file_position *before; /* this pass; NULL: nothing was trained */
    uint64_t n_passed; /* records that were parsed while some of those come */

    /* Kept by the pump, under its mutex. */
    uint64_t lines, bad_lines;
} fl_pump_file;

typedef struct fl_pump_unit {
    fl_text text;
    size_t chunk;
    uint32_t block;     /* its number in the file */
    bool is_passing;    /* some of its records may have been trained before */
    uint64_t first;     /* then the number of its first one in the file */
    uint64_t n_records; /* that it has; rows may lack those */
    fl_records rows;

    /* What this unit adds to the file's counts. */
    uint64_t lines, bad_lines, skipped_lines, bytes;
} fl_pump_unit;

/* Opens the file when it is not open. On FL_SOURCE_WAIT and FL_SOURCE_END the
   unit has nothing to parse; its counts may still have something. */
FL_MUST_CHECK
fl_status fl_pump_file_read(const fl_pump_job *job, fl_pump_file *f,
                            fl_pump_unit *u, fl_source_state *state);

/* Some of the file's next records were trained before: one thread at a time
   reads and parses. */
bool fl_pump_file_is_passing(const fl_pump_file *f);

/* Leaves the records in the unit's rows. */
FL_MUST_CHECK
fl_status fl_pump_file_parse(const fl_pump_job *job, fl_pump_file *f,
                             fl_pump_unit *u);

/* The next records of the unit, from its record `at` on, that were not trained
   before; an empty range at its end when there are none. */
fl_range fl_pump_unit_fresh(const fl_pump_file *f, const fl_pump_unit *u,
                            uint64_t at);

/* Keeps what was written for the cache, and releases the file. Fails when more
   of its records were trained before than it has. */
FL_MUST_CHECK
fl_status fl_pump_file_finish(fl_pump_file *f);

/* Releases it as it is; an unfinished cache goes. */
void fl_pump_file_release(fl_pump_file *f);

#endif
