/* version.c - versions that are read. */
#include "ckpt/version.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/folder.h"

/* A save may remove the version that CURRENT named a moment ago. */
#define OPEN_TRIES 16

char *fl_version_file(const fl_model_version *v, const char *name)
{
    return fl_folder_join(v->path, name);
}

/* --- opening -------------------------------------------------------------- */

static fl_status read_manifest(fl_model_version *v)
{
    char *path = fl_version_file(v, FL_MANIFEST_NAME), *text = NULL;
    size_t len = 0;
    fl_status st = fl_file_read(path, FL_MANIFEST_MAX, &text, &len);

    if (!st)
        st = fl_manifest_parse(&v->manifest, text, len, path);
    fl_free(text);
    fl_free(path);
    return st;
}

static fl_status check_size(const fl_model_version *v,
                            const fl_manifest_file *f)
{
    char *path = fl_version_file(v, f->name);
    struct stat is;
    fl_status st = FL_OK;

    if (stat(path, &is) != 0)
        st = fl_file_failed("open", path, errno);
    else if (!S_ISREG(is.st_mode) || (uint64_t)is.st_size != f->bytes)
        st = fl_err_set(FL_ERR_CORRUPT,
                        "%s has %llu bytes instead of %llu; the model is "
                        "damaged, take another version or copy it again",
                        path, (unsigned long long)is.st_size,
                        (unsigned long long)f->bytes);
    fl_free(path);
    return st;
}

static fl_status check_kind(const fl_model_version *v)
{
    if (v->manifest.kind == FL_MANIFEST_PART)
        FL_FAIL(FL_ERR_CORRUPT, "%s is a part of a version and no model",
                v->path);
    return FL_OK;
}

static fl_status check_files(const fl_model_version *v)
{
    FL_TRY(check_kind(v));
    for (size_t i = 0; i < v->manifest.files.len; i++)
        FL_TRY(check_size(v, &v->manifest.files.data[i]));
    return FL_OK;
}

fl_status fl_version_sees(const fl_model_version *v, const fl_manifest *part)
{
    for (size_t i = 0; i < part->files.len; i++)
        FL_TRY(check_size(v, &part->files.data[i]));
    return FL_OK;
}

/* Opens the folder `path`; `dir` is where its neighbours are. */
static fl_status open_folder(fl_model_version **out, const char *dir,
                             const char *path)
{
    fl_model_version *v = fl_alloc(sizeof(*v));
    fl_status st;

    v->dir = fl_strdup(dir);
    v->path = fl_strdup(path);
    fl_manifest_init(&v->manifest, FL_MANIFEST_FULL);
    st = read_manifest(v);
    if (st)
        fl_manifest_init(&v->manifest, FL_MANIFEST_FULL);
    else
        st = check_files(v);
    if (st) {
        fl_version_close(v);
        return st;
    }
    (void)snprintf(v->id, sizeof(v->id), "%s", v->manifest.id);
    *out = v;
    return FL_OK;
}

fl_status fl_version_open_id(fl_model_version **out, const char *dir,
                             const char *id)
{
    char *path;
    fl_model_version *v = NULL;
    fl_status st;

    if (!fl_version_is_id(id))
        FL_FAIL(FL_ERR_INVAL, "'%s' is not the name of a version", id);
    path = fl_folder_join(dir, id);
    st = open_folder(&v, dir, path);
    if (!st && strcmp(v->manifest.id, id) != 0) {
        st = fl_err_set(FL_ERR_CORRUPT,
                        "the manifest of %s is that of version %s", path,
                        v->manifest.id);
        fl_version_close(v);
    } else if (!st) {
        *out = v;
    }
    fl_free(path);
    return st;
}

static fl_status open_current(fl_model_version **out, const char *dir)
{
    char id[FL_VERSION_ID_MAX], again[FL_VERSION_ID_MAX];
    fl_status st;

    FL_TRY(fl_folder_current(dir, id));
    for (int i = 0; i < OPEN_TRIES; i++) {
        st = fl_version_open_id(out, dir, id);
        if (st != FL_ERR_NOTFOUND || fl_folder_current(dir, again) ||
            !strcmp(id, again))
            break;
        memcpy(id, again, sizeof(id));
    }
    return st;
}

/* The folder of a version by itself; its neighbours are where it stands. */
static fl_status open_copy(fl_model_version **out, const char *path)
{
    char *dir = fl_folder_join(path, "..");
    fl_status st = open_folder(out, dir, path);

    fl_free(dir);
    return fl_err_ctx(st, "model %s", path);
}

fl_status fl_version_open(fl_model_version **out, const char *path)
{
    struct stat is;

    if (stat(path, &is) != 0)
        return fl_file_failed("open the model", path, errno);
    if (fl_folder_has(path, FL_VERSION_CURRENT))
        return open_current(out, path);
    if (fl_folder_has(path, FL_MANIFEST_NAME))
        return open_copy(out, path);
    FL_FAIL(FL_ERR_NOTFOUND,
            "%s is no model: it has neither %s nor %s; name the folder that "
            "was saved into, or a version in it",
            path, FL_VERSION_CURRENT, FL_MANIFEST_NAME);
}

/* So a chain of deltas ends, whatever is in its manifests. */
static fl_status check_base(const fl_model_version *v)
{
    const char *base = v->manifest.base;

    if (!base)
        FL_FAIL(FL_ERR_INVAL, "model %s is no delta and has no base", v->path);
    if (!fl_version_is_id(base) ||
        fl_version_number(base) >= fl_version_number(v->id))
        FL_FAIL(FL_ERR_CORRUPT, "%s cannot be based on version '%s'", v->path,
                base);
    return FL_OK;
}

fl_status fl_version_open_base(fl_model_version **out,
                               const fl_model_version *v)
{
    FL_TRY(check_base(v));
    return fl_err_ctx(fl_version_open_id(out, v->dir, v->manifest.base),
                      "%s is a delta, and its base is needed", v->path);
}

/* --- looking into it ------------------------------------------------------ */

static fl_status get_file(const fl_model_version *v, const char *name,
                          const fl_manifest_file **out)
{
    *out = fl_manifest_find_file(&v->manifest, name);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND, "model %s has no file %s", v->path, name);
    return FL_OK;
}

/* The tensors of the file are those of the manifest, and get their sums. */
static fl_status check_tensors(fl_st_file *f, const fl_manifest_file *m)
{
    size_t n = 0;

    for (; n < m->n_tensors; n++) {
        const fl_st_tensor *want = &m->tensors[n];
        const fl_st_tensor *is = fl_st_find(f, want->name);

        if (!is)
            FL_FAIL(FL_ERR_CORRUPT, "%s has no tensor %s", fl_st_path(f),
                    want->name);
        if (is->type != want->type || !fl_shape_equal(&is->shape, &want->shape))
            FL_FAIL(FL_ERR_CORRUPT,
                    "%s: tensor %s is not of the type and shape that were "
                    "saved",
                    fl_st_path(f), want->name);
        fl_st_set_sum(f, want->name, want->xxh3);
    }
    if (fl_st_at(f, n))
        FL_FAIL(FL_ERR_CORRUPT, "%s has more tensors than were saved",
                fl_st_path(f));
    return FL_OK;
}

fl_status fl_version_map(const fl_model_version *v, const char *name,
                         fl_st_file **out)
{
    const fl_manifest_file *m;
    fl_st_file *f = NULL;
    fl_status st;
    char *path;

    FL_TRY(get_file(v, name, &m));
    if (!m->has_tensors)
        FL_FAIL(FL_ERR_INVAL, "%s of model %s has no tensors", name, v->path);
    path = fl_version_file(v, name);
    st = fl_st_open(&f, path);
    if (!st)
        st = check_tensors(f, m);
    fl_free(path);
    if (st)
        fl_st_close(f);
    else
        *out = f;
    return st;
}

fl_status fl_version_read(const fl_model_version *v, const char *name,
                          char **text, size_t *len)
{
    const fl_manifest_file *m;
    char *path, *bytes = NULL;
    size_t n = 0;
    fl_status st;

    FL_TRY(get_file(v, name, &m));
    path = fl_version_file(v, name);
    st = fl_file_read(path, m->bytes, &bytes, &n);
    if (!st && (n != m->bytes || XXH3_64bits(bytes, n) != m->xxh3))
        st = fl_err_set(FL_ERR_CORRUPT,
                        "%s is not what was saved: its checksum is another one",
                        path);
    fl_free(path);
    if (st) {
        fl_free(bytes);
        return st;
    }
    *text = bytes;
    *len = n;
    return FL_OK;
}

/* --- verifying ------------------------------------------------------------ */

static fl_status verify_tensors(const fl_model_version *v,
                                const fl_manifest_file *m)
{
    fl_st_file *f = NULL;
    fl_status st = fl_version_map(v, m->name, &f);

    for (size_t i = 0; !st && i < m->n_tensors; i++)
        st = fl_st_verify(f, fl_st_find(f, m->tensors[i].name),
                          m->tensors[i].xxh3);
    fl_st_close(f);
    return st;
}

static fl_status verify_text(const fl_model_version *v,
                             const fl_manifest_file *m)
{
    char *text = NULL;
    size_t len;
    fl_status st = fl_version_read(v, m->name, &text, &len);

    fl_free(text);
    return st;
}

static fl_status verify_one(const fl_model_version *v,
                            const fl_manifest_file *m)
{
    FL_TRY(check_size(v, m));
    return m->has_tensors ? verify_tensors(v, m) : verify_text(v, m);
}

fl_status fl_version_verify_file(const fl_model_version *v, const char *name)
{
    const fl_manifest_file *m;

    FL_TRY(get_file(v, name, &m));
    return verify_one(v, m);
}

fl_status fl_version_verify(const fl_model_version *v)
{
    for (size_t i = 0; i < v->manifest.files.len; i++)
        FL_TRY(verify_one(v, &v->manifest.files.data[i]));
    return FL_OK;
}
