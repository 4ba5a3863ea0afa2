/* saved.h - what a saved model that is open consists of, for the files that
   look into it. */
#ifndef FL_API_SAVED_H
#define FL_API_SAVED_H

#include "ckpt/folder.h"
#include "ckpt/version.h"
#include "flotilla/saved.h"

struct fl_saved {
    fl_model_version *version;
    fl_st_file *dense; /* NULL: it has none */
    fl_version_names beside;
};

/* Kinds of keys, in the order in which they are given, and what stands before
   the names of their columns. */
#define FL_SAVED_KINDS 4
typedef struct fl_saved_kind {
    const char *name, *prefix;
} fl_saved_kind;
extern const fl_saved_kind fl_saved_kinds[FL_SAVED_KINDS];

/* The keys of one kind in one file. */
typedef struct fl_saved_group {
    uint64_t n;
    const uint64_t *keys;
    const uint32_t *epochs; /* NULL: not saved */
    fl_saved_field fields[FL_SAVED_FIELDS_MAX];
    uint32_t n_fields;
} fl_saved_group;

typedef struct fl_saved_part {
    fl_st_file *file;
    uint32_t first, last; /* virtual shards */
    fl_saved_group groups[FL_SAVED_KINDS];
} fl_saved_part;

struct fl_saved_rows {
    FL_VEC(fl_saved_part) parts;
    size_t part, kind; /* of the next row */
    uint64_t at;
};

#endif
