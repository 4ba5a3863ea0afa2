/* dump.c - texts that show what each pass did, apart by program. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "pass/runner.h"

#define FOLDER_MODE 0777

static fl_status make_folder(const char *path)
{
    if (mkdir(path, FOLDER_MODE) && errno != EEXIST)
        FL_FAIL(FL_ERR_IO, "directory %s: %s", path, strerror(errno));
    return FL_OK;
}

/* The path grows; each of its folders is made. */
static fl_status add_folders(const fl_dump_place *p, fl_str *path)
{
    fl_str_add(path, p->dir);
    FL_TRY(make_folder(path->data));
    if (p->who && *p->who) {
        fl_str_addf(path, "/%s", p->who);
        FL_TRY(make_folder(path->data));
    }
    fl_str_addf(path, "/%02d-%s", ++*p->n_made, p->name);
    return make_folder(path->data);
}

fl_status fl_pass_dump_begin(const fl_dump_place *place, char **folder)
{
    fl_str path = { 0 };
    fl_status st;

    *folder = NULL;
    if (!place->dir)
        return FL_OK;
    st = add_folders(place, &path);
    if (st)
        fl_str_release(&path);
    else
        *folder = fl_str_take(&path);
    return st;
}

fl_status fl_pass_dump_text(const fl_dump_text *to, const char *text)
{
    fl_str path = { 0 };
    fl_status st = FL_OK;

    if (!to->folder)
        return FL_OK;
    fl_str_add(&path, to->folder);
    if (to->part) {
        fl_str_addf(&path, "/%s", to->part);
        st = make_folder(path.data);
    }
    fl_str_addf(&path, "/%02d-%s.txt", to->number, to->name);
    if (!st)
        st = fl_file_write(path.data, text, strlen(text));
    fl_str_release(&path);
    return st;
}

fl_status fl_pass_dump(const fl_dump_text *to, const fl_program *p)
{
    char *text = to->folder ? fl_program_print(p) : NULL;
    fl_status st = fl_pass_dump_text(to, text);

    fl_free(text);
    return st;
}
