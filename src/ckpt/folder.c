/* folder.c - the folder of a model. */
#include "ckpt/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"

#define NUMBER_DIGITS_MIN 6
#define NUMBER_DIGITS_MAX 12
#define RANDOM_DIGITS 6

/* A model has folders in folders: tables, a table. */
#define DEPTH_MAX 8

/* --- names ---------------------------------------------------------------- */

bool fl_version_is_id(const char *name)
{
    size_t n = strspn(name, "0123456789");
    const char *rest = name + n;

    return n >= NUMBER_DIGITS_MIN && n <= NUMBER_DIGITS_MAX && *rest == '-' &&
           strspn(rest + 1, "0123456789abcdef") == RANDOM_DIGITS &&
           strlen(rest + 1) == RANDOM_DIGITS;
}

uint64_t fl_version_number(const char *id)
{
    return strtoull(id, NULL, 10);
}

char *fl_folder_join(const char *dir, const char *name)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "%s/%s", dir, name);
    return fl_str_take(&s);
}

bool fl_folder_has(const char *dir, const char *name)
{
    char *path = fl_folder_join(dir, name);
    struct stat st;
    bool is_there = stat(path, &st) == 0;

    fl_free(path);
    return is_there;
}

static int newest_first(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    uint64_t i = fl_version_number(x), k = fl_version_number(y);

    if (i != k)
        return i < k ? 1 : -1;
    return strcmp(y, x);
}

fl_status fl_folder_list(const char *dir, fl_version_names *out)
{
    DIR *d = opendir(dir);

    if (!d && errno == ENOENT)
        return FL_OK;
    if (!d)
        return fl_file_failed("read", dir, errno);
    for (const struct dirent *e; (e = readdir(d));)
        if (fl_version_is_id(e->d_name))
            fl_vec_push(out, fl_strdup(e->d_name));
    closedir(d);
    if (out->len)
        qsort(out->data, out->len, sizeof(*out->data), newest_first);
    return FL_OK;
}

void fl_version_names_release(fl_version_names *names)
{
    for (size_t i = 0; i < names->len; i++)
        fl_free(names->data[i]);
    fl_vec_release(names);
}

fl_status fl_folder_current(const char *dir, char id[FL_VERSION_ID_MAX])
{
    char *path = fl_folder_join(dir, FL_VERSION_CURRENT), *text = NULL;
    size_t len = 0;
    fl_status st = fl_file_read(path, FL_VERSION_ID_MAX, &text, &len);

    if (!st) {
        text[strcspn(text, "\n")] = '\0';
        if (fl_version_is_id(text))
            memcpy(id, text, strlen(text) + 1);
        else
            st = fl_err_set(FL_ERR_CORRUPT,
                            "%s does not have the name of a version; write it "
                            "anew, for example 000001-0a1b2c",
                            path);
    }
    fl_free(text);
    fl_free(path);
    return st;
}

/* --- removing ------------------------------------------------------------- */

static fl_status remove_tree(const char *path, int depth);

static fl_status remove_entry(const char *dir, const char *name, int depth)
{
    char *path = fl_folder_join(dir, name);
    struct stat is;
    fl_status st = FL_OK;

    if (lstat(path, &is) != 0)
        st = errno == ENOENT ? FL_OK : fl_file_failed("remove", path, errno);
    else if (S_ISDIR(is.st_mode))
        st = remove_tree(path, depth + 1);
    else if (fl_sys_now()->unlink(path) != 0 && errno != ENOENT)
        st = fl_file_failed("remove", path, errno);
    fl_free(path);
    return st;
}

static fl_status remove_entries(const char *path, int depth)
{
    DIR *d = opendir(path);
    fl_status st = FL_OK;

    if (!d)
        return errno == ENOENT ? FL_OK : fl_file_failed("remove", path, errno);
    for (const struct dirent *e; !st && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = remove_entry(path, e->d_name, depth);
    closedir(d);
    return st;
}

static fl_status remove_tree(const char *path, int depth)
{
    if (depth > DEPTH_MAX)
        FL_FAIL(FL_ERR_IO, "cannot remove %s: it is deeper than any model",
                path);
    FL_TRY(remove_entries(path, depth));
    if (fl_sys_now()->rmdir(path) != 0 && errno != ENOENT)
        return fl_file_failed("remove", path, errno);
    return FL_OK;
}

fl_status fl_folder_remove(const char *dir, const char *id)
{
    char *path = fl_folder_join(dir, id);
    fl_status st = remove_entry(path, FL_MANIFEST_NAME, 0);

    if (!st)
        st = remove_tree(path, 0);
    fl_free(path);
    return st;
}

/* --- leftovers ------------------------------------------------------------ */

static fl_status clean_versions(const char *dir)
{
    fl_version_names names = { 0 };
    fl_status st = fl_folder_list(dir, &names);

    for (size_t i = 0; !st && i < names.len; i++) {
        char *path = fl_folder_join(dir, names.data[i]);

        if (!fl_folder_has(path, FL_MANIFEST_NAME)) {
            FL_WARN("ckpt", "removing what a save that did not end left: %s",
                    path);
            st = fl_folder_remove(dir, names.data[i]);
        }
        fl_free(path);
    }
    fl_version_names_release(&names);
    return st;
}

/* CURRENT on its way, as base/file_writer calls it. */
static fl_status clean_currents(const char *dir)
{
    static const char prefix[] = FL_VERSION_CURRENT ".tmp-";
    DIR *d = opendir(dir);
    fl_status st = FL_OK;

    if (!d)
        return fl_file_failed("read", dir, errno);
    for (const struct dirent *e; !st && (e = readdir(d));)
        if (!strncmp(e->d_name, prefix, sizeof(prefix) - 1)) {
            FL_WARN("ckpt", "removing what a save that did not end left: %s/%s",
                    dir, e->d_name);
            st = remove_entry(dir, e->d_name, 0);
        }
    closedir(d);
    return st;
}

fl_status fl_folder_clean(const char *dir)
{
    FL_TRY(clean_versions(dir));
    return clean_currents(dir);
}

/* --- what nobody needs ---------------------------------------------------- */

/* The base of a version; NULL: it has none, or cannot be read. */
static char *base_of(const char *dir, const char *id)
{
    char *folder = fl_folder_join(dir, id);
    char *path = fl_folder_join(folder, FL_MANIFEST_NAME);
    char *text = NULL, *base = NULL;
    size_t len = 0;
    fl_manifest m;

    if (!fl_file_read(path, FL_MANIFEST_MAX, &text, &len) &&
        !fl_manifest_parse(&m, text, len, path)) {
        if (m.base)
            base = fl_strdup(m.base);
        fl_manifest_release(&m);
    }
    fl_free(text);
    fl_free(path);
    fl_free(folder);
    return base;
}

/* Marks a version and what it is based on; a base is older, so a chain that
   does not end is cut where it turns. */
static void mark_needed(const char *dir, const fl_version_names *names,
                        bool *needed, size_t i)
{
    char *base;

    needed[i] = true;
    base = base_of(dir, names->data[i]);
    for (size_t k = i + 1; base && k < names->len; k++)
        if (!strcmp(names->data[k], base)) {
            fl_free(base);
            needed[k] = true;
            base = base_of(dir, names->data[k]);
        }
    fl_free(base);
}

void fl_folder_prune(const char *dir, uint32_t keep)
{
    fl_version_names names = { 0 };
    bool *needed;

    if (fl_folder_list(dir, &names))
        FL_WARN("ckpt", "%s", fl_last_error());
    needed = fl_alloc(names.len + 1);
    for (size_t i = 0; i < names.len && i < keep; i++)
        mark_needed(dir, &names, needed, i);
    for (size_t i = 0; i < names.len; i++)
        if (!needed[i] && fl_folder_remove(dir, names.data[i]))
            FL_WARN("ckpt", "an old version stays: %s", fl_last_error());
    fl_free(needed);
    fl_version_names_release(&names);
}
