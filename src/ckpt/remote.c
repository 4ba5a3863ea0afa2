/* remote.c - models at places that only a command can reach.
 *
 * The two commands are all there is: nothing can be listed, renamed or removed
 * out there. So a copy that went wrong stays where it is, under a name that
 * nothing refers to, and the log tells it.
 */
#include "ckpt/remote.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/command.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vec.h"
#include "ckpt/folder.h"
#include "ckpt/version.h"

#define CACHE_MODE 0700

/* What stays in the cache of a place that is loaded from. */
#define CACHE_KEEP 2

/* A chain of deltas that is longer is taken for a circle. */
#define CHAIN_MAX 10000

/* "000812-3f9c01.17" */
#define NAME_MAX_BYTES (FL_VERSION_ID_MAX + 12)

/* One path with a scheme. */
typedef struct place {
    const fl_conf *conf;
    const char *url;
    char *dir; /* its folder in the cache */
} place;

bool fl_remote_has_scheme(const char *path)
{
    size_t n = 0;

    if (!isalpha((unsigned char)path[0]))
        return false;
    while (isalnum((unsigned char)path[n]) ||
           (path[n] && strchr("+.-", path[n])))
        n++;
    return !strncmp(path + n, "://", 3);
}

/* --- the cache ------------------------------------------------------------ */

static char *cache_root(const fl_conf *conf)
{
    const char *tmp = getenv("TMPDIR");
    fl_str s = { 0 };

    if (*conf->fs_cache)
        fl_str_add(&s, conf->fs_cache);
    else
        fl_str_addf(&s, "%s/flotilla-fs-%ld", tmp && *tmp ? tmp : "/tmp",
                    (long)getuid());
    return fl_str_take(&s);
}

/* One that others may write to would let them choose what is loaded. */
static fl_status make_own_folder(const char *path)
{
    struct stat st;

    if (mkdir(path, CACHE_MODE) != 0 && errno != EEXIST)
        return fl_file_failed("make", path, errno);
    if (lstat(path, &st) != 0)
        return fl_file_failed("look at", path, errno);
    if (!S_ISDIR(st.st_mode) || st.st_uid != getuid() || (st.st_mode & 022))
        FL_FAIL(FL_ERR_IO,
                "%s is no folder that belongs to this user alone; name one "
                "with the setting fs_cache",
                path);
    return FL_OK;
}

static fl_status open_place(place *p, const fl_conf *conf, const char *url)
{
    char *root = cache_root(conf);
    fl_status st = make_own_folder(root);
    fl_str dir = { 0 };

    fl_str_addf(&dir, "%s/%016" PRIx64, root, fl_hash_str(url));
    *p = (place){ conf, url, fl_str_take(&dir) };
    if (!st)
        st = make_own_folder(p->dir);
    fl_free(root);
    return st;
}

static void close_place(place *p)
{
    fl_free(p->dir);
}

/* A name in the cache that nobody has. */
static char *temp_name(void)
{
    static atomic_uint serial;
    fl_str s = { 0 };

    fl_str_addf(&s, ".copy-%ld-%u", (long)getpid(),
                atomic_fetch_add(&serial, 1));
    return fl_str_take(&s);
}

static void remove_temp(const place *p, const char *name)
{
    char *path = fl_folder_join(p->dir, name);
    struct stat st;
    fl_err error;

    fl_err_keep(&error);
    if (lstat(path, &st) == 0 &&
        (S_ISDIR(st.st_mode) ? fl_folder_remove(p->dir, name) != FL_OK
                             : unlink(path) != 0))
        FL_WARN("fs", "a copy stays in the cache: %s", path);
    fl_err_put_back(&error);
    fl_free(path);
}

/* --- the commands --------------------------------------------------------- */

static fl_status run(const place *p, const char *command, const char *from,
                     const char *to)
{
    const char *const words[] = { from, to };
    fl_command c = { .text = command,
                     .words = words,
                     .n_words = 2,
                     .timeout_ms = (uint64_t)p->conf->fs_timeout_s * 1000 };

    return fl_command_run(&c);
}

static fl_status put(const place *p, const char *local, const char *name)
{
    char *url = fl_folder_join(p->url, name);
    fl_status st = run(p, p->conf->fs_put, local, url);

    fl_free(url);
    return st;
}

/* Into `temp` of the cache; a command that gave nothing has failed. */
static fl_status get(const place *p, const char *name, const char *temp)
{
    char *url = fl_folder_join(p->url, name);
    char *to = fl_folder_join(p->dir, temp);
    fl_status st = run(p, p->conf->fs_get, url, to);

    if (!st && !fl_folder_has(p->dir, temp))
        st = fl_err_set(FL_ERR_IO,
                        "the command '%s' said that it had copied %s, but %s "
                        "is not there",
                        p->conf->fs_get, url, to);
    fl_free(url);
    fl_free(to);
    return st;
}

/* A try of something; `i` counts from 1. */
typedef fl_status (*try_fn)(const place *p, int i, void *arg);

static fl_status try_often(const place *p, const char *what, try_fn fn,
                           void *arg)
{
    int n = (int)p->conf->fs_tries;
    fl_status st = FL_OK;

    for (int i = 1; i <= n; i++) {
        st = fn(p, i, arg);
        if (!st)
            return FL_OK;
        FL_WARN("fs", "%s %s try=%d of=%d: %s", what, p->url, i, n,
                fl_last_error());
    }
    return fl_err_ctx(st, "%s %s failed %d time%s", what, p->url, n,
                      n == 1 ? "" : "s");
}

/* --- versions ------------------------------------------------------------- */

/* Gets a version and verifies it; `temp` is its name in the cache. */
static fl_status get_version(const place *p, const char *name, const char *temp,
                             fl_model_version **out)
{
    char *path = fl_folder_join(p->dir, temp);
    fl_model_version *v = NULL;
    fl_status st = get(p, name, temp);

    if (!st)
        st = fl_version_open(&v, path);
    if (!st)
        st = fl_version_verify(v);
    fl_free(path);
    if (st)
        fl_version_close(v);
    else
        *out = v;
    return st;
}

static void name_try(char name[NAME_MAX_BYTES], const char *id, int i)
{
    if (i == 1)
        (void)snprintf(name, NAME_MAX_BYTES, "%s", id);
    else
        (void)snprintf(name, NAME_MAX_BYTES, "%s.%d", id, i);
}

/* --- putting -------------------------------------------------------------- */

typedef struct sending {
    fl_model_version *v;
    char name[NAME_MAX_BYTES]; /* under which it arrived */
} sending;

/* What came back is the version that went out, by its sums. */
static fl_status check_same(const sending *s, const fl_model_version *back)
{
    char *a = fl_manifest_print(&s->v->manifest);
    char *b = fl_manifest_print(&back->manifest);
    bool same = !strcmp(a, b);

    fl_free(a);
    fl_free(b);
    if (!same)
        FL_FAIL(FL_ERR_CORRUPT, "%s is another version than was sent", s->name);
    return FL_OK;
}

static fl_status send_version(const place *p, int i, void *arg)
{
    sending *s = arg;
    char *temp = temp_name();
    fl_model_version *back = NULL;
    fl_status st;

    name_try(s->name, s->v->id, i);
    st = put(p, s->v->path, s->name);
    if (!st)
        st =
            fl_err_ctx(get_version(p, s->name, temp, &back), "reading it back");
    if (!st)
        st = check_same(s, back);
    fl_version_close(back);
    remove_temp(p, temp);
    fl_free(temp);
    return st;
}

/* The line of CURRENT, as it came. */
static fl_status get_current(const place *p, char name[NAME_MAX_BYTES])
{
    char *temp = temp_name(), *path = fl_folder_join(p->dir, temp);
    char *text = NULL;
    size_t len = 0;
    fl_status st = get(p, FL_VERSION_CURRENT, temp);

    if (!st)
        st = fl_file_read(path, NAME_MAX_BYTES - 1, &text, &len);
    if (!st && (!len || text[len - 1] != '\n' || strlen(text) != len))
        st = fl_err_set(FL_ERR_CORRUPT,
                        "%s/%s is not one line with the name of a version",
                        p->url, FL_VERSION_CURRENT);
    if (!st)
        (void)snprintf(name, NAME_MAX_BYTES, "%.*s", (int)len - 1, text);
    remove_temp(p, temp);
    fl_free(text);
    fl_free(path);
    fl_free(temp);
    return st;
}

static fl_status put_current(const place *p, const char *name)
{
    char *temp = temp_name(), *path = fl_folder_join(p->dir, temp);
    char line[NAME_MAX_BYTES + 1];
    fl_status st;

    (void)snprintf(line, sizeof(line), "%s\n", name);
    st = fl_file_write(path, line, strlen(line));
    if (!st)
        st = put(p, path, FL_VERSION_CURRENT);
    remove_temp(p, temp);
    fl_free(path);
    fl_free(temp);
    return st;
}

static fl_status send_current(const place *p, int i, void *arg)
{
    const sending *s = arg;
    char back[NAME_MAX_BYTES];

    (void)i;
    FL_TRY(put_current(p, s->name));
    FL_TRY(fl_err_ctx(get_current(p, back), "reading it back"));
    if (strcmp(back, s->name) != 0)
        FL_FAIL(FL_ERR_CORRUPT, "%s/%s names version %s, not %s", p->url,
                FL_VERSION_CURRENT, back, s->name);
    return FL_OK;
}

static fl_status need(const place *p, const char *key, const char *value)
{
    if (!*value)
        FL_FAIL(FL_ERR_INVAL,
                "%s can only be reached by commands: set fs_put and fs_get "
                "(%s is empty; docs/howto/models.md shows them for hdfs and "
                "s3)",
                p->url, key);
    return FL_OK;
}

static fl_status publish(const place *p)
{
    sending s = { 0 };
    fl_status st;

    FL_TRY(need(p, "fs_put", p->conf->fs_put));
    FL_TRY(need(p, "fs_get", p->conf->fs_get));
    FL_TRY(fl_version_open(&s.v, p->dir));
    st = try_often(p, "sending the model to", send_version, &s);
    if (!st)
        st = try_often(p, "naming the version at", send_current, &s);
    fl_version_close(s.v);
    return st;
}

/* --- getting -------------------------------------------------------------- */

typedef struct fetching {
    char name[NAME_MAX_BYTES]; /* out there */
    char id[FL_VERSION_ID_MAX];
    char base[FL_VERSION_ID_MAX]; /* "" when it stands alone */
    bool is_name_known;
} fetching;

static fl_status fetch_current(const place *p, int i, void *arg)
{
    fetching *f = arg;
    size_t n;

    (void)i;
    FL_TRY(get_current(p, f->name));
    n = strcspn(f->name, ".");
    if (n < sizeof(f->id)) {
        memcpy(f->id, f->name, n);
        f->id[n] = '\0';
    }
    if (n >= sizeof(f->id) || !fl_version_is_id(f->id))
        FL_FAIL(FL_ERR_CORRUPT, "%s/%s names '%s', which is no version", p->url,
                FL_VERSION_CURRENT, f->name);
    return FL_OK;
}

static void note_base(fetching *f, const fl_model_version *v)
{
    (void)snprintf(f->base, sizeof(f->base), "%s",
                   v->manifest.base ? v->manifest.base : "");
}

/* Takes its place in the cache, unless somebody else was faster. */
static fl_status settle(const place *p, const char *temp, const char *id)
{
    char *from = fl_folder_join(p->dir, temp), *to = fl_folder_join(p->dir, id);
    fl_status st = FL_OK;

    if (rename(from, to) != 0 && errno != EEXIST && errno != ENOTEMPTY)
        st = fl_file_failed("keep a copy as", to, errno);
    fl_free(from);
    fl_free(to);
    return st;
}

static fl_status fetch_version(const place *p, int i, void *arg)
{
    fetching *f = arg;
    char *temp = temp_name();
    fl_model_version *v = NULL;
    fl_status st;

    /* A base is not named by anything: the sender may have tried more often. */
    if (!f->is_name_known)
        name_try(f->name, f->id, i);
    st = get_version(p, f->name, temp, &v);
    if (!st && strcmp(v->id, f->id) != 0)
        st = fl_err_set(FL_ERR_CORRUPT, "%s/%s is version %s", p->url, f->name,
                        v->id);
    if (!st) {
        note_base(f, v);
        st = settle(p, temp, f->id);
    }
    fl_version_close(v);
    remove_temp(p, temp);
    fl_free(temp);
    return st;
}

/* One that is here already was verified when it came, and does not change. */
static bool is_here(const place *p, fetching *f)
{
    fl_model_version *v = NULL;

    if (!fl_folder_has(p->dir, f->id) || fl_version_open_id(&v, p->dir, f->id))
        return false;
    note_base(f, v);
    fl_version_close(v);
    return true;
}

static fl_status fetch_one(const place *p, fetching *f)
{
    if (is_here(p, f))
        return FL_OK;
    if (fl_folder_has(p->dir, f->id))
        FL_TRY(fl_folder_remove(p->dir, f->id));
    return try_often(p, "getting the model from", fetch_version, f);
}

static fl_status fetch_chain(const place *p, fetching f)
{
    for (int i = 0; i < CHAIN_MAX; i++) {
        FL_TRY(fetch_one(p, &f));
        if (!*f.base)
            return FL_OK;
        memcpy(f.id, f.base, sizeof(f.id));
        f.is_name_known = false;
    }
    FL_FAIL(FL_ERR_CORRUPT, "%s: the versions that it is based on do not end",
            p->url);
}

static fl_status name_here(const place *p, const char *id)
{
    char *path = fl_folder_join(p->dir, FL_VERSION_CURRENT);
    char line[FL_VERSION_ID_MAX + 1];
    fl_status st;

    (void)snprintf(line, sizeof(line), "%s\n", id);
    st = fl_file_write(path, line, strlen(line));
    fl_free(path);
    return st;
}

/* A place that went back to an older version keeps the newer ones here. */
static void prune(const place *p, const char *id)
{
    fl_version_names names = { 0 };

    if (!fl_folder_list(p->dir, &names) && names.len &&
        !strcmp(names.data[0], id))
        fl_folder_prune(p->dir, CACHE_KEEP);
    fl_version_names_release(&names);
}

static fl_status fetch(const place *p)
{
    fetching f = { .is_name_known = true };

    FL_TRY(need(p, "fs_get", p->conf->fs_get));
    FL_TRY(try_often(p, "asking for the version at", fetch_current, &f));
    FL_TRY(fetch_chain(p, f));
    FL_TRY(name_here(p, f.id));
    prune(p, f.id);
    return FL_OK;
}

/* --- paths ---------------------------------------------------------------- */

static fl_status check_path(const char *path)
{
    if (!path || !*path)
        FL_FAIL(FL_ERR_INVAL, "a model is a folder, and none was named");
    return FL_OK;
}

fl_status fl_remote_place(const fl_conf *conf, const char *path, char **local)
{
    place p;
    fl_status st;

    FL_TRY(check_path(path));
    if (!fl_remote_has_scheme(path)) {
        *local = fl_strdup(path);
        return FL_OK;
    }
    st = open_place(&p, conf, path);
    if (!st)
        *local = fl_strdup(p.dir);
    close_place(&p);
    return st;
}

fl_status fl_remote_check(const fl_conf *conf, const char *path)
{
    place p = { .conf = conf, .url = path };

    if (!fl_remote_has_scheme(path))
        return FL_OK;
    FL_TRY(need(&p, "fs_put", conf->fs_put));
    return need(&p, "fs_get", conf->fs_get);
}

fl_status fl_remote_publish(const fl_conf *conf, const char *path)
{
    place p;
    fl_status st;

    if (!fl_remote_has_scheme(path))
        return FL_OK;
    st = open_place(&p, conf, path);
    if (!st)
        st = publish(&p);
    close_place(&p);
    return st;
}

fl_status fl_remote_fetch(const fl_conf *conf, const char *path, char **local)
{
    place p;
    fl_status st;

    FL_TRY(check_path(path));
    if (!fl_remote_has_scheme(path)) {
        *local = fl_strdup(path);
        return FL_OK;
    }
    st = open_place(&p, conf, path);
    if (!st)
        st = fetch(&p);
    if (!st)
        *local = fl_strdup(p.dir);
    close_place(&p);
    return st;
}
