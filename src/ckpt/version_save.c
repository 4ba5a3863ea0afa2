/* version_save.c - versions that are written.
 *
 *     mkdir DIR/000813-51e0aa     a name that nobody has; DIR is synced
 *     its files and folders       each synced, with the folder that names it
 *     MANIFEST.json               from now on it is a whole version
 *     CURRENT                     replaced by rename: from now on it counts
 *     older versions              go
 *
 * Whoever saves holds a lock on DIR, where the file system has locks for
 * folders: so two saves of one machine do not take each other for dead. Without
 * it the loser of the two fails, since its folder is gone.
 */
#include "ckpt/version.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/log.h"
#include "base/sys.h"
#include "ckpt/folder.h"
#include "flotilla/version.h"

#define FOLDER_MODE 0777

/* How often a name may be taken already. */
#define NAME_TRIES 16

typedef struct fl_version_save {
    int lock; /* a descriptor of DIR; -1: this process joined */
    uint32_t keep;
} fl_version_save;

/* --- folders -------------------------------------------------------------- */

/* Makes one folder, and its name safe in the one above; `above` has its length
   in path. One that is there already is fine. */
static fl_status make_folder(const char *path, size_t above)
{
    fl_str parent = { 0 };
    int err = 0;

    if (fl_sys_now()->mkdir(path, FOLDER_MODE) != 0)
        return errno == EEXIST ? FL_OK : fl_file_failed("make", path, errno);
    if (above)
        fl_str_addf(&parent, "%.*s", (int)above, path);
    else
        fl_str_add(&parent, *path == '/' ? "/" : ".");
    err = fl_folder_sync(parent.data);
    fl_str_release(&parent);
    return err ? fl_file_failed("sync the folder above", path, err) : FL_OK;
}

/* Makes those of path[from..] that are not there. */
static fl_status make_folders(const char *path, size_t from)
{
    char *at = fl_strdup(path);
    size_t above = from ? from - 1 : 0;
    fl_status st = FL_OK;

    for (size_t i = from; !st; i++) {
        char c = at[i];

        if (c && c != '/')
            continue;
        at[i] = '\0';
        if (i > above)
            st = make_folder(at, above);
        at[i] = c;
        above = i;
        if (!c)
            break;
    }
    fl_free(at);
    return st;
}

fl_status fl_version_folder(const fl_model_version *v, const char *name)
{
    char *path = fl_version_file(v, name);
    fl_status st = make_folders(path, strlen(v->path) + 1);

    fl_free(path);
    return st;
}

char *fl_version_table_folder(const char *table)
{
    fl_str s = { 0 };

    fl_str_add(&s, "tables/");
    for (const char *c = table; *c; c++)
        if (*c == '/' || *c == '%' || (*c == '.' && c == table))
            fl_str_addf(&s, "%%%02X", (unsigned)(unsigned char)*c);
        else
            fl_str_addf(&s, "%c", *c);
    return fl_str_take(&s);
}

/* --- beginning ------------------------------------------------------------ */

/* A folder that is a version is no place for versions. */
static fl_status check_dir(const char *dir)
{
    struct stat is;

    if (stat(dir, &is) == 0 && !S_ISDIR(is.st_mode))
        FL_FAIL(FL_ERR_INVAL,
                "%s is a file; name a folder to save the model into", dir);
    if (fl_folder_has(dir, FL_MANIFEST_NAME))
        FL_FAIL(FL_ERR_INVAL,
                "%s is a version of a model, which does not change any more; "
                "save into another folder",
                dir);
    return FL_OK;
}

/* File systems without locks for folders are no failure. */
static fl_status lock_dir(fl_model_version *v)
{
    v->save->lock = open(v->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (v->save->lock < 0)
        return fl_file_failed("open", v->dir, errno);
    if (flock(v->save->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        FL_FAIL(FL_ERR_BUSY,
                "another save into %s is under way; wait for its end, or save "
                "into another folder",
                v->dir);
    return FL_OK;
}

static uint64_t next_number(const char *dir)
{
    fl_version_names names = { 0 };
    uint64_t n = 0;

    if (!fl_folder_list(dir, &names) && names.len)
        n = fl_version_number(names.data[0]);
    fl_version_names_release(&names);
    return n + 1;
}

/* Makes the folder under a name that nobody has. */
static fl_status name_version(fl_model_version *v, uint64_t number)
{
    uint32_t bits = 0;
    int err = EEXIST;

    for (int i = 0; err == EEXIST && i < NAME_TRIES; i++) {
        if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
            bits = (uint32_t)time(NULL) + (uint32_t)getpid() + (uint32_t)i;
        (void)snprintf(v->id, sizeof(v->id), "%06" PRIu64 "-%06" PRIx32, number,
                       bits & 0xFFFFFF);
        fl_free(v->path);
        v->path = fl_folder_join(v->dir, v->id);
        err = fl_sys_now()->mkdir(v->path, FOLDER_MODE) == 0 ? 0 : errno;
    }
    if (err) {
        fl_free(v->path);
        v->path = NULL;
        return fl_file_failed("make a folder in", v->dir, err);
    }
    err = fl_folder_sync(v->dir);
    return err ? fl_file_failed("sync", v->dir, err) : FL_OK;
}

static fl_status begin(fl_model_version *v)
{
    FL_TRY(check_dir(v->dir));
    FL_TRY(make_folders(v->dir, 0));
    FL_TRY(lock_dir(v));
    FL_TRY(fl_folder_clean(v->dir));
    return name_version(v, next_number(v->dir));
}

static fl_model_version *new_version(const char *dir, uint32_t keep)
{
    fl_model_version *v = fl_alloc(sizeof(*v));

    v->dir = fl_strdup(dir);
    v->save = fl_alloc(sizeof(*v->save));
    *v->save = (fl_version_save){ .lock = -1, .keep = keep ? keep : 1 };
    fl_manifest_init(&v->manifest, FL_MANIFEST_FULL);
    return v;
}

fl_status fl_version_begin(fl_model_version **out, const char *dir,
                           const fl_version_options *options)
{
    fl_model_version *v = new_version(dir, options ? options->keep : 1);
    fl_status st = begin(v);

    if (st)
        fl_version_close(v);
    else
        *out = v;
    return fl_err_ctx(st, "saving into %s", dir);
}

fl_status fl_version_join(fl_model_version **out, const char *dir,
                          const char *id)
{
    fl_model_version *v;

    if (!fl_version_is_id(id))
        FL_FAIL(FL_ERR_INVAL, "'%s' is not the name of a version", id);
    if (!fl_folder_has(dir, id))
        FL_FAIL(FL_ERR_NOTFOUND,
                "version %s is being written into %s, but is not seen here; "
                "save to storage that all servers share",
                id, dir);
    v = new_version(dir, 1);
    v->path = fl_folder_join(dir, id);
    (void)snprintf(v->id, sizeof(v->id), "%s", id);
    *out = v;
    return FL_OK;
}

/* --- writing -------------------------------------------------------------- */

fl_status fl_version_put(const fl_model_version *v, fl_manifest *m,
                         const char *name, const void *bytes, size_t n)
{
    char *path = fl_version_file(v, name);
    fl_status st = fl_file_write(path, bytes, n);

    fl_free(path);
    if (!st)
        fl_manifest_add_file(m, name, n, XXH3_64bits(bytes, n));
    return st;
}

static fl_status read_probe(const char *path, const char *expected)
{
    char *text = NULL;
    size_t len = 0;

    bool is_same;

    FL_TRY(fl_file_read(path, FL_VERSION_ID_MAX, &text, &len));
    is_same = !strcmp(text, expected);
    fl_free(text);
    if (!is_same)
        FL_FAIL(FL_ERR_IO, "%s is not what was written", path);
    return FL_OK;
}

/* Its name is of this process alone. */
fl_status fl_version_probe(const fl_model_version *v)
{
    fl_str name = { 0 };
    char *path;
    fl_status st;

    fl_str_addf(&name, "probe-%ld-%p", (long)getpid(), (const void *)v);
    path = fl_version_file(v, fl_str_text(&name));
    fl_str_release(&name);
    st = fl_file_write(path, v->id, strlen(v->id));
    if (!st)
        st = read_probe(path, v->id);
    if (!st && fl_sys_now()->unlink(path) != 0)
        st = fl_file_failed("remove", path, errno);
    fl_free(path);
    return st;
}

/* --- the end -------------------------------------------------------------- */

/* A manifest that could not be read is never written: one with a scalar that is
   not finite, for example. */
static fl_status check_manifest(const char *text, const char *path)
{
    fl_manifest again;

    FL_TRY(fl_err_ctx(fl_manifest_parse(&again, text, strlen(text), path),
                      "what would be saved cannot be loaded"));
    fl_manifest_release(&again);
    return FL_OK;
}

static fl_status write_manifest(const fl_model_version *v, fl_manifest *m)
{
    char *path = fl_version_file(v, FL_MANIFEST_NAME), *text;
    fl_status st;

    m->id = fl_manifest_text(m, v->id);
    m->time = (uint64_t)time(NULL);
    m->writer =
        fl_arena_printf(&m->arena, "flotilla %d.%d.%d", FL_VERSION_MAJOR,
                        FL_VERSION_MINOR, FL_VERSION_PATCH);
    text = fl_manifest_print(m);
    st = check_manifest(text, path);
    if (!st)
        st = fl_file_write(path, text, strlen(text));
    fl_free(text);
    fl_free(path);
    return st;
}

static bool is_current(const fl_model_version *v)
{
    char id[FL_VERSION_ID_MAX];

    return !fl_folder_current(v->dir, id) && !strcmp(id, v->id);
}

/* What was begun is no save any more: closing it removes nothing. */
static void end_save(fl_model_version *v)
{
    if (v->save->lock >= 0)
        close(v->save->lock);
    fl_free(v->save);
    v->save = NULL;
}

/* A rename that was made and could not be synced counts nevertheless. */
static fl_status name_current(fl_model_version *v)
{
    char *path = fl_folder_join(v->dir, FL_VERSION_CURRENT);
    char line[FL_VERSION_ID_MAX + 1];
    fl_err error;
    fl_status st;

    (void)snprintf(line, sizeof(line), "%s\n", v->id);
    st = fl_file_write(path, line, strlen(line));
    fl_free(path);
    if (!st)
        return FL_OK;
    fl_err_save(&error, st);
    if (is_current(v)) {
        end_save(v);
        FL_FAIL(st, "version %s counts now, but may be lost in a power cut: %s",
                v->id, error.text);
    }
    return fl_err_restore(&error);
}

fl_status fl_version_commit(fl_model_version *v, fl_manifest *m)
{
    fl_status st;

    FL_ASSERT(v->save && v->save->lock >= 0);
    st = write_manifest(v, m);
    if (!st)
        st = name_current(v);
    if (st)
        return fl_err_ctx(st, "saving into %s", v->dir);
    /* A delta needs all that its base does: there is nothing to look for, which
       would cost more with every link of a chain. */
    if (m->kind != FL_MANIFEST_DELTA)
        fl_folder_prune(v->dir, v->save->keep);
    end_save(v);
    FL_INFO("ckpt", "saved model=%s version=%s step=%" PRIu64, v->dir, v->id,
            m->step);
    return FL_OK;
}

/* Removes what was begun; what cannot be removed, the next save will. */
static void drop_save(fl_model_version *v)
{
    fl_err error;

    fl_err_keep(&error);
    if (v->save->lock >= 0 && v->path && fl_folder_remove(v->dir, v->id))
        FL_WARN("ckpt", "what was saved so far stays: %s", fl_last_error());
    fl_err_put_back(&error);
    end_save(v);
}

void fl_version_close(fl_model_version *v)
{
    if (!v)
        return;
    if (v->save)
        drop_save(v);
    fl_manifest_release(&v->manifest);
    fl_free(v->path);
    fl_free(v->dir);
    fl_free(v);
}
