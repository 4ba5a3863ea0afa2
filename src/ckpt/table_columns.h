/* table_columns.h - what a table's file is made of: groups of columns. Shared by
 * the files that write, search and load it. */
#ifndef FL_CKPT_TABLE_COLUMNS_H
#define FL_CKPT_TABLE_COLUMNS_H

#include "ckpt/version.h"
#include "table/accessor.h"
#include "table/cut.h"

/* Key, epoch and the fields. */
#define FL_ROW_COLUMNS_MAX (FL_ROW_FIELDS_MAX + 2)
#define FL_ROW_COLUMN_NAME_MAX 64

/* A column: bytes [offset, offset + bytes) of every row, of keys the key. */
typedef struct fl_row_column {
    char name[FL_ROW_COLUMN_NAME_MAX]; /* of the tensor */
    fl_st_type type;
    uint32_t offset, bytes;
    bool is_key;
    int field; /* of the layout; -1: key or epoch; of candidates 0 and 1 */
} fl_row_column;

typedef struct fl_row_columns {
    char shards[FL_ROW_COLUMN_NAME_MAX]; /* the tensor of where shards begin */
    fl_row_column list[FL_ROW_COLUMNS_MAX];
    int n;
} fl_row_columns;

/* What keys of a kind are made of in a table of this layout; values_only as of
   fl_table_save_options. */
void fl_row_columns_of(fl_row_columns *out, const fl_row_layout *l,
                       fl_cut_kind kind, bool values_only);

/* The keys of one kind in a mapped file. */
typedef struct fl_row_group {
    uint64_t n;
    const uint64_t *shards; /* n_shards + 1: where each begins */
    const uint64_t *keys;
    const uint32_t *epochs;                 /* NULL: not saved */
    const float *fields[FL_ROW_FIELDS_MAX]; /* NULL: not saved */
    uint32_t lens[FL_ROW_FIELDS_MAX];       /* in the file */
} fl_row_group;

/* A file of a table, mapped; its numbers have been checked. */
typedef struct fl_row_file {
    fl_st_file *file;
    uint32_t first, last;
    fl_row_group groups[FL_CUT_KINDS];
} fl_row_file;

/* Maps a file. Fields are found by their names in the layout. */
FL_MUST_CHECK
fl_status fl_row_file_open(fl_row_file *out, const fl_model_version *v,
                           const fl_manifest_shards *where,
                           const fl_row_layout *l);
void fl_row_file_close(fl_row_file *f);

/* The table of a version; the error says which there are. */
FL_MUST_CHECK
fl_status fl_version_table(const fl_model_version *v, const char *name,
                           const fl_manifest_table **out);

#endif
