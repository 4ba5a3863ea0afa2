/* version.h - a model on disk: DIR/CURRENT names the version that counts, a
 * version is a folder of files (docs/formats/model.md).
 *
 * A save begins a version, writes files into its folder and commits it; until
 * then the old version counts, and whoever dies leaves a folder without a
 * manifest, which the next save removes. One process begins and commits; others
 * may join and write files of their own. Owner thread only, except that any
 * thread may write files.
 *
 * The type is fl_model_version: fl_version is the public function that tells
 * the library's number.
 */
#ifndef FL_CKPT_VERSION_H
#define FL_CKPT_VERSION_H

#include "ckpt/manifest.h"

#define FL_VERSION_CURRENT "CURRENT"
#define FL_VERSION_ID_MAX 24 /* with the NUL */

typedef struct fl_model_version {
    char *dir;  /* where its neighbours are */
    char *path; /* the folder of this version */
    char id[FL_VERSION_ID_MAX];
    fl_manifest manifest;         /* of a version that was opened */
    struct fl_version_save *save; /* of one that is being written */
} fl_model_version;

/* --- reading -------------------------------------------------------------- */

/* `path` is a DIR, whose CURRENT is followed, or the folder of a version. The
   files are there with the sizes that the manifest has. */
FL_MUST_CHECK
fl_status fl_version_open(fl_model_version **out, const char *path);

/* The version of that id in DIR: the base of a delta, an older one. */
FL_MUST_CHECK
fl_status fl_version_open_id(fl_model_version **out, const char *dir,
                             const char *id);

/* The version that a delta changes, which is older. */
FL_MUST_CHECK
fl_status fl_version_open_base(fl_model_version **out,
                               const fl_model_version *v);

/* Reads every byte and compares it with the sums. The error names the first
   file, and the tensor, that is not what was saved. */
FL_MUST_CHECK
fl_status fl_version_verify(const fl_model_version *v);

/* The same of one file. */
FL_MUST_CHECK
fl_status fl_version_verify_file(const fl_model_version *v, const char *name);

/* Maps a safetensors file of the version, whose tensors have the types and
   shapes of the manifest. They know their sums, which are not compared yet
   (fl_st_verify). */
FL_MUST_CHECK
fl_status fl_version_map(const fl_model_version *v, const char *name,
                         fl_st_file **out);

/* Any other file, checked by its sum; NUL-terminated, freed with fl_free. */
FL_MUST_CHECK
fl_status fl_version_read(const fl_model_version *v, const char *name,
                          char **text, size_t *len);

/* Frees what was opened, begun or joined; what was begun and not committed is
   removed. NULL is fine. */
void fl_version_close(fl_model_version *v);

/* --- writing -------------------------------------------------------------- */

typedef struct fl_version_options {
    uint32_t keep; /* versions that stay when this one counts; 0: 1. A delta
                      removes none */
} fl_version_options;

/* Makes DIR, as needed, and the folder of a version with a new number. Removes
   what dead saves left behind and says so. FL_ERR_BUSY while another process of
   this machine saves into DIR. */
FL_MUST_CHECK
fl_status fl_version_begin(fl_model_version **out, const char *dir,
                           const fl_version_options *options);

/* A version that another process has begun: this one writes files into it. */
FL_MUST_CHECK
fl_status fl_version_join(fl_model_version **out, const char *dir,
                          const char *id);

/* The path of a file of the version, freed with fl_free. */
char *fl_version_file(const fl_model_version *v, const char *name);

/* Makes a folder of the version and those above it: "tables/emb". */
FL_MUST_CHECK
fl_status fl_version_folder(const fl_model_version *v, const char *name);

/* The folder of a table: "tables/emb"; what cannot stand in a file's name is
   written as %2F. Freed with fl_free. */
char *fl_version_table_folder(const char *table);

/* Writes a whole file and notes it in the manifest. */
FL_MUST_CHECK
fl_status fl_version_put(const fl_model_version *v, fl_manifest *m,
                         const char *name, const void *bytes, size_t n);

/* Whether this process sees the files of a part that others wrote, with their
   sizes. */
FL_MUST_CHECK
fl_status fl_version_sees(const fl_model_version *v, const fl_manifest *part);

/* Whether this process can write into the version: a file is written, read and
   removed again. */
FL_MUST_CHECK
fl_status fl_version_probe(const fl_model_version *v);

/* Writes the manifest, to which id, time and writer are added, and makes this
   the version that counts; then removes those that nobody needs. After an error
   the old version counts, unless the sentence says otherwise. */
FL_MUST_CHECK
fl_status fl_version_commit(fl_model_version *v, fl_manifest *m);

#endif
