/* newest.c - the newest version of a model that is whole. */
#include "ckpt/newest.h"

#include "base/log.h"
#include "ckpt/folder.h"
#include "ckpt/remote.h"

/* With the versions that a delta is based on. */
static fl_status verify_chain(const fl_model_version *v)
{
    fl_model_version *base = NULL;
    fl_status st;

    FL_TRY(fl_version_verify(v));
    if (!v->manifest.base)
        return FL_OK;
    FL_TRY(fl_version_open_base(&base, v));
    st = verify_chain(base);
    fl_version_close(base);
    return st;
}

static fl_status verify(fl_model_version **v)
{
    fl_status st = verify_chain(*v);

    if (!st)
        return FL_OK;
    fl_version_close(*v);
    *v = NULL;
    return st;
}

static fl_status open_id(fl_model_version **out, const char *dir,
                         const char *id)
{
    FL_TRY(fl_version_open_id(out, dir, id));
    return verify(out);
}

static fl_status open_folder(fl_model_version **out, const char *path)
{
    FL_TRY(fl_version_open(out, path));
    return verify(out);
}

/* A version behind CURRENT has never counted. */
static bool has_counted(const char *dir, const char *id)
{
    char current[FL_VERSION_ID_MAX];

    if (fl_folder_current(dir, current) || !fl_version_is_id(current))
        return true;
    return fl_version_number(id) <= fl_version_number(current);
}

static fl_status open_first(fl_model_version **out, const char *dir,
                            const fl_version_names *names)
{
    fl_status st = FL_ERR_NOTFOUND;
    size_t n = 0;

    for (size_t i = 0; st && i < names->len; i++) {
        if (!has_counted(dir, names->data[i]))
            continue;
        n++;
        st = open_id(out, dir, names->data[i]);
        if (st)
            FL_WARN("ckpt", "version %s is passed over: %s", names->data[i],
                    fl_last_error());
    }
    if (!n)
        FL_FAIL(FL_ERR_NOTFOUND, "%s has no version of a model", dir);
    if (st)
        return fl_err_ctx(FL_ERR_CORRUPT,
                          "none of the %zu versions in %s is whole; the oldest",
                          n, dir);
    return FL_OK;
}

fl_status fl_version_open_newest(fl_model_version **out, const char *path)
{
    fl_version_names names = { 0 };
    fl_status st;

    if (!fl_folder_has(path, FL_VERSION_CURRENT) &&
        fl_folder_has(path, FL_MANIFEST_NAME))
        return open_folder(out, path);
    FL_TRY(fl_folder_list(path, &names));
    st = open_first(out, path, &names);
    fl_version_names_release(&names);
    return st;
}

fl_status fl_version_fetch_newest(fl_model_version **out, const fl_conf *conf,
                                  const char *path)
{
    char *local = NULL;
    fl_status st = fl_remote_fetch(conf, path, &local);

    if (!st)
        st = fl_version_open_newest(out, local);
    fl_free(local);
    return st;
}
