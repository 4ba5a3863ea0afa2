/* paths.c - files out of paths, folders and patterns. */
#include "data/dataset/source.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static fl_status fail(const char *what, const char *path, int err)
{
    fl_status st = err == ENOENT ? FL_ERR_NOTFOUND : FL_ERR_IO;

    FL_FAIL(st, "cannot %s %s: %s; check the path and its permissions", what,
            path, strerror(err));
}

void fl_paths_release(fl_paths *p)
{
    for (size_t i = 0; i < p->len; i++)
        fl_free(p->data[i]);
    fl_vec_release(p);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* By bytes, so that the order does not depend on the locale. */
static void sort_from(fl_paths *p, size_t from)
{
    if (p->len > from)
        qsort(p->data + from, p->len - from, sizeof(*p->data), by_name);
}

static char *join(const char *folder, const char *name)
{
    size_t len = strlen(folder);
    fl_str s = { 0 };

    fl_str_addf(&s, "%s%s%s", folder, len && folder[len - 1] == '/' ? "" : "/",
                name);
    return fl_str_take(&s);
}

static bool is_regular(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static fl_status add_folder(fl_paths *to, const char *folder)
{
    DIR *d = opendir(folder);
    size_t from = to->len;
    struct dirent *e;
    int err;

    if (!d)
        return fail("read the folder", folder, errno);
    while ((errno = 0, e = readdir(d))) {
        char *path;

        if (e->d_name[0] == '.')
            continue;
        path = join(folder, e->d_name);
        if (is_regular(path))
            fl_vec_push(to, path);
        else
            fl_free(path);
    }
    err = errno;
    closedir(d);
    if (err)
        return fail("read the folder", folder, err);
    sort_from(to, from);
    return FL_OK;
}

static fl_status add_path(fl_paths *to, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return fail("find", path, errno);
    if (S_ISDIR(st.st_mode))
        return add_folder(to, path);
    fl_vec_push(to, fl_strdup(path));
    return FL_OK;
}

/* Called by glob, which takes no argument to pass on. */
static _Thread_local char glob_folder[256];
static _Thread_local int glob_errno;

static int note_glob_error(const char *folder, int err)
{
    snprintf(glob_folder, sizeof(glob_folder), "%s", folder);
    glob_errno = err;
    return 1;
}

static fl_status find_matches(const char *pattern, fl_paths *out)
{
    glob_t g = { 0 };
    int rc = glob(pattern, GLOB_ERR | GLOB_NOSORT, note_glob_error, &g);

    for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
        fl_vec_push(out, fl_strdup(g.gl_pathv[i]));
    globfree(&g);
    sort_from(out, 0);
    if (rc == 0)
        return FL_OK;
    if (rc == GLOB_NOSPACE)
        FL_FAIL(FL_ERR_NOMEM, "no memory for the files that match %s", pattern);
    if (rc == GLOB_NOMATCH)
        FL_FAIL(FL_ERR_NOTFOUND,
                "no file matches %s; check the pattern and the folder",
                pattern);
    return fl_err_ctx(fail("read the folder", glob_folder, glob_errno), "%s",
                      pattern);
}

static fl_status add_matches(fl_paths *to, const char *pattern)
{
    fl_paths found = { 0 };
    fl_status st = find_matches(pattern, &found);

    for (size_t i = 0; !st && i < found.len; i++)
        st = add_path(to, found.data[i]);
    fl_paths_release(&found);
    return st;
}

/* A file may have a name that looks like a pattern, so it is asked for
   first. */
static fl_status add_pattern(fl_paths *to, const char *pattern)
{
    size_t before = to->len;
    struct stat st;

    if (stat(pattern, &st) != 0 && strpbrk(pattern, "*?["))
        FL_TRY(add_matches(to, pattern));
    else
        FL_TRY(add_path(to, pattern));
    if (to->len == before)
        FL_FAIL(FL_ERR_NOTFOUND,
                "there is no file in %s (names that begin with a dot and "
                "folders below are not looked at); name the files themselves",
                pattern);
    return FL_OK;
}

fl_status fl_paths_expand(const char *const *patterns, size_t n, fl_paths *out)
{
    fl_paths all = { 0 };
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < n; i++)
        st = add_pattern(&all, patterns[i]);
    if (st) {
        fl_paths_release(&all);
        return st;
    }
    *out = all;
    return FL_OK;
}
