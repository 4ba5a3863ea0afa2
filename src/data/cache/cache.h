/* cache.h - a file of binary columns beside a text file: parsed once, mapped
 * ever after. docs/formats/cache.md has its bytes.
 *
 * It holds chunks of records, column by column and 64-byte aligned, each with a
 * checksum, and a footer written last, so that a file without a whole footer
 * was never finished. The header names version, parser hash, and the path, size
 * and time of the source; another value of any of them means: write it anew.
 */
#ifndef FL_DATA_CACHE_CACHE_H
#define FL_DATA_CACHE_CACHE_H

#include "data/columns.h"

/* What a cache must have been made from. */
typedef struct fl_cache_key {
    const char *source; /* path */
    uint64_t source_bytes, source_mtime_ns;
    uint64_t parser_hash;
    const char *pipe_command; /* NULL: none */
} fl_cache_key;

/* The key's file fields by stat. Asked for before the file is read: if it
   changes meanwhile, the cache fits nothing. Regular files only. */
FL_MUST_CHECK
fl_status fl_cache_key_of(fl_cache_key *out, const char *source,
                          uint64_t parser_hash, const char *pipe_command);

/* Path of the cache file of a key in a directory. Size and time of the source
   are not in it: the cache of a changed file takes the place of the old one. */
void fl_cache_path(const fl_cache_key *k, const char *directory, char *out,
                   size_t cap);

/* --- writing ------------------------------------------------------------- */

typedef struct fl_cache_writer fl_cache_writer;
/* Writes to a temporary name; commit renames it. The directory is made if it is
   missing. Any thread may add rows, which are copied. Bad lines are kept as a
   number only. The schema must outlive it. After a failed add, commit fails
   with the same error. */
FL_MUST_CHECK
fl_status fl_cache_writer_new(fl_cache_writer **out, const char *directory,
                              const fl_cache_key *k, const fl_schema *s);
FL_MUST_CHECK
fl_status fl_cache_writer_add(fl_cache_writer *w, const fl_records *rows);
/* Frees it. Without commit the temporary file goes. */
FL_MUST_CHECK
fl_status fl_cache_writer_commit(fl_cache_writer *w, uint64_t n_lines,
                                 uint64_t n_bad);
void fl_cache_writer_drop(fl_cache_writer *w);

/* --- reading ------------------------------------------------------------- */

typedef struct fl_cache fl_cache;
/* *out NULL when there is none that fits (none, another key, an older version);
   why is said in the log unless there is none. A damaged one is an error only
   when a chunk is read. The schema must outlive it. */
FL_MUST_CHECK
fl_status fl_cache_open(fl_cache **out, const char *directory,
                        const fl_cache_key *k, const fl_schema *s);
void fl_cache_close(fl_cache *c);
size_t fl_cache_chunks(const fl_cache *c);
uint64_t fl_cache_chunk_records(const fl_cache *c, size_t i);
uint64_t fl_cache_records(const fl_cache *c);
uint64_t fl_cache_lines(const fl_cache *c);
uint64_t fl_cache_bad_lines(const fl_cache *c);

/* Chunk i as packed rows appended to `to`. Any thread. Checks its checksum:
   FL_ERR_CORRUPT names file and chunk. */
FL_MUST_CHECK
fl_status fl_cache_rows(const fl_cache *c, size_t i, fl_records *to);

/* Chunk i as columns, copied and checked: the fast way. Any thread; after a
   failure what was in `out` is lost. */
FL_MUST_CHECK
fl_status fl_cache_columns(const fl_cache *c, size_t i, fl_columns *out);

#endif
