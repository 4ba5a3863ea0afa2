/* manifest.h - what a version of a model consists of: MANIFEST.json
 * (docs/formats/model.md).
 *
 * Everything in a manifest lies in its arena. Owner thread only.
 *
 * A part is what one of several writers has made: the same text with the kind
 * "part", which goes from a server to the one that writes the manifest.
 */
#ifndef FL_CKPT_MANIFEST_H
#define FL_CKPT_MANIFEST_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "ckpt/safetensors.h"

#define FL_MANIFEST_FORMAT 1
#define FL_MANIFEST_NAME "MANIFEST.json"
#define FL_MANIFEST_MAX ((size_t)64 << 20)

typedef enum fl_manifest_kind {
    FL_MANIFEST_FULL,
    FL_MANIFEST_DELTA,
    FL_MANIFEST_INFERENCE,
    FL_MANIFEST_PART
} fl_manifest_kind;

const char *fl_manifest_kind_text(fl_manifest_kind k);

/* A file of the version, its name relative to the folder. One with tensors has
   a sum for each of them, any other one for all of its bytes. */
typedef struct fl_manifest_file {
    const char *name;
    uint64_t bytes, xxh3;
    bool has_tensors;            /* it is a safetensors file */
    const fl_st_tensor *tensors; /* name, type, shape and xxh3 */
    size_t n_tensors;
} fl_manifest_file;

typedef struct fl_manifest_field {
    const char *name;
    uint32_t len; /* floats */
} fl_manifest_field;

/* The virtual shards first..last of a table, in one of the files. */
typedef struct fl_manifest_shards {
    const char *file;
    uint32_t first, last;
} fl_manifest_shards;

typedef struct fl_manifest_table {
    const char *name, *settings, *accessor; /* settings: of fl_table_new */
    uint64_t seed;
    const fl_manifest_field *fields; /* of a full row, without the header */
    size_t n_fields;
    uint64_t rows, short_rows, candidates; /* rows: all, short ones too */
    uint32_t epoch;
    const uint32_t *days; /* the first epoch of each day that is over */
    size_t n_days;
    const double *scalars; /* of the rule */
    size_t n_scalars;
    const fl_manifest_shards *files;
    size_t n_files;
} fl_manifest_table;

typedef struct fl_manifest {
    fl_arena arena;
    fl_manifest_kind kind;
    const char *id;   /* the folder's name; "" in a part */
    const char *base; /* of a delta: the version that it changes; else NULL */
    const char *mode; /* "" when nobody said */
    uint64_t step, seed;
    uint64_t time; /* seconds since 1970 */
    uint64_t main_version, startup_version;
    const char *writer; /* the version of the library */
    /* Of an inference model. */
    const char *const *feeds, *const *targets;
    size_t n_feeds, n_targets;
    const char *passes;
    FL_VEC(fl_manifest_file) files;
    FL_VEC(fl_manifest_table) tables;
    fl_map by_file, by_table; /* names to 1 + their places */
} fl_manifest;

void fl_manifest_init(fl_manifest *m, fl_manifest_kind kind);
void fl_manifest_release(fl_manifest *m);

/* All of these copy what they are given. */
void fl_manifest_set_inference(fl_manifest *m, const char *const *feeds,
                               size_t n_feeds, const char *const *targets,
                               size_t n_targets);
const char *fl_manifest_text(fl_manifest *m, const char *text);
void fl_manifest_add_file(fl_manifest *m, const char *name, uint64_t bytes,
                          uint64_t xxh3);
void fl_manifest_add_tensors(fl_manifest *m, const fl_manifest_file *file,
                             const uint64_t *sums);
void fl_manifest_add_table(fl_manifest *m, const fl_manifest_table *t);

/* The same for what lies in the arena already. */
void fl_manifest_take_file(fl_manifest *m, const fl_manifest_file *f);
void fl_manifest_take_table(fl_manifest *m, const fl_manifest_table *t);

/* NULL: there is none. */
const fl_manifest_file *fl_manifest_find_file(const fl_manifest *m,
                                              const char *name);
const fl_manifest_table *fl_manifest_find_table(const fl_manifest *m,
                                                const char *name);

/* Takes the files and tables of a part. Shards of a table that is there already
   are added to it: settings, fields, seed, epoch, days and scalars must be the
   same. */
FL_MUST_CHECK
fl_status fl_manifest_merge(fl_manifest *m, const fl_manifest *part);

/* Whether a name is one of a file in the folder of a version. */
bool fl_manifest_is_inside(const char *name);

/* The text, freed with fl_free. */
char *fl_manifest_print(const fl_manifest *m);

/* Reads what print wrote, also of a later version that says more. `where` is
   how messages call it. Fields that are missing are named; names of files stay
   in the folder; tables name files that are there. m is one that was not
   initialised, and needs no release after an error. */
FL_MUST_CHECK
fl_status fl_manifest_parse(fl_manifest *m, const char *text, size_t len,
                            const char *where);

#endif
