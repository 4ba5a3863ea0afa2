/* saved.h - looking into saved models: variables, tables, rows, checksums, and
 * models of others becoming ours. What `flotilla model` and exports stand on.
 *
 *     fl_saved *s = NULL;
 *
 *     if (fl_saved_open(&s, ctx, "model/"))
 *         return fail(fl_last_error());
 *     fl_saved_find(s, "fc_0.w_0", &tensor);
 *
 * MODEL is a folder that was saved into, the folder of one version, or a path
 * with a scheme (settings fs_put, fs_get; docs/howto/models.md). A model that
 * is open is mapped, not read, and does not change; what it hands out lives as
 * long as it is open. Any thread, except for rows, which are one thread's.
 */
#ifndef FLOTILLA_SAVED_H
#define FLOTILLA_SAVED_H

#include "flotilla/program.h"
#include "flotilla/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_saved fl_saved;

/* Files and their sizes are checked, sums are not: fl_saved_verify. The
   context gives settings, for the time of the call. */
FL_API FL_MUST_CHECK
fl_status fl_saved_open(fl_saved **out, fl_ctx *c, const char *model);
FL_API void fl_saved_close(fl_saved *s);

/* Where a model is on this machine, freed with fl_text_free: the path itself, or
   what was brought here from one with a scheme. For fl_model_open, which knows
   no settings. NULL, with an error, when it cannot be had. */
FL_API char *fl_saved_fetch(fl_ctx *c, const char *model);

/* Filled; the caller has set the size. */
typedef struct fl_saved_view {
    uint32_t size;
    const char *id, *kind;     /* kind: "full", "delta" or "inference" */
    const char *base;          /* of a delta: what it changes; else NULL */
    const char *mode, *writer; /* how it was trained, who wrote it */
    const char *path;          /* of the version, on this machine */
    uint64_t step, seed, bytes;
    uint64_t time; /* seconds since 1970 */
    size_t n_files, n_tensors, n_tables;
    size_t n_feeds, n_targets; /* of an inference model */
} fl_saved_view;

FL_API FL_MUST_CHECK
fl_status fl_saved_look(const fl_saved *s, fl_saved_view *out);

/* Number i of them; NULL behind the last. Versions are those beside it, the
   newest first. */
FL_API const char *fl_saved_version(const fl_saved *s, size_t i);
FL_API const char *fl_saved_feed(const fl_saved *s, size_t i);
FL_API const char *fl_saved_target(const fl_saved *s, size_t i);

/* program.txt or startup.txt, freed with fl_text_free; NULL, with an error,
   when there is none. */
FL_API char *fl_saved_text(const fl_saved *s, const char *file);

/* Reads every byte; the error names the first file, and tensor, that is not
   what was saved. */
FL_API FL_MUST_CHECK
fl_status fl_saved_verify(const fl_saved *s);

/* --- dense variables ----------------------------------------------------- */

/* Number i; FL_ERR_NOTFOUND behind the last. */
FL_API FL_MUST_CHECK
fl_status fl_saved_tensor(const fl_saved *s, size_t i, const char **name,
                          fl_tensor *out);

/* By name; the error has the nearest one. */
FL_API FL_MUST_CHECK
fl_status fl_saved_find(const fl_saved *s, const char *name, fl_tensor *out);

/* --- tables -------------------------------------------------------------- */

typedef struct fl_saved_table {
    uint32_t size;
    const char *name, *settings, *accessor;
    uint64_t rows, short_rows, candidates; /* rows: all, short ones too */
    uint32_t epoch;
    size_t n_days, n_fields;
} fl_saved_table;

/* Number i; FL_ERR_NOTFOUND behind the last. */
FL_API FL_MUST_CHECK
fl_status fl_saved_table_at(const fl_saved *s, size_t i, fl_saved_table *out);

#define FL_SAVED_FIELDS_MAX 16

typedef struct fl_saved_field {
    const char *name;
    const float *values;
    uint32_t len;
    uint32_t reserved;
} fl_saved_field;

/* What a table has of a key. A removed one is in a delta alone. */
typedef struct fl_saved_row {
    uint32_t size;
    const char *kind; /* "full", "short", "candidate" or "removed" */
    uint64_t key;
    uint32_t epoch; /* 0: not saved */
    uint32_t n_fields;
    fl_saved_field fields[FL_SAVED_FIELDS_MAX];
} fl_saved_row;

typedef struct fl_saved_rows fl_saved_rows;

FL_API FL_MUST_CHECK
fl_status fl_saved_rows_open(fl_saved_rows **out, const fl_saved *s,
                             const char *table);
FL_API void fl_saved_rows_close(fl_saved_rows *r);

/* The next one, file by file and kind by kind, in the order of the hash; false
   behind the last. */
FL_API bool fl_saved_rows_next(fl_saved_rows *r, fl_saved_row *out);

/* The row of a key, without changing what is next; false when there is none. */
FL_API bool fl_saved_rows_find(const fl_saved_rows *r, uint64_t key,
                               fl_saved_row *out);

/* --- for others ---------------------------------------------------------- */

/* One safetensors file with all of the model: dense variables under their
   names, of a table NAME the columns NAME.key (u64) and NAME.FIELD (f32[n,len]),
   of its short rows NAME.short.key and so on. A delta is refused: merge it. */
FL_API FL_MUST_CHECK
fl_status fl_saved_export(const fl_saved *s, const char *path);

/* --- making one of others ------------------------------------------------ */

/* A delta and all that it is based on become one whole version in DIR, which
   may be where they are. A link that is missing is named. */
FL_API FL_MUST_CHECK
fl_status fl_saved_merge(fl_ctx *c, const char *model, const char *dir);

typedef struct fl_import_args {
    uint32_t size;
    const char *program; /* its file; NULL: __model__, if there */
    const char *params;  /* the file of all variables; NULL: __params__, if
                            there, else a file each */
    /* Of a file of all variables without a program: which they are. */
    const char *const *names;
    size_t n_names;
} fl_import_args;

/* What PaddlePaddle 1.8 saved (save_inference_model, save_persistables,
   save_params) becomes a version in DIR (docs/formats/paddle18.md). What this
   version does not have is all in one message. */
FL_API FL_MUST_CHECK
fl_status fl_import_paddle(fl_ctx *c, const char *from, const char *dir,
                           const fl_import_args *args);

#ifdef __cplusplus
}
#endif
#endif
