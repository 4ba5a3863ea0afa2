/* user_folder.c - where a user's files about running jobs lie. */
#include "ps/user_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* In /tmp somebody else may have taken the name. A home is the last choice:
   several machines may share it, and with it the numbers of ports. */
typedef enum folder_place {
    RUNTIME_FOLDER,
    TEMP_FOLDER,
    HOME_FOLDER,
    N_FOLDER_PLACES
} folder_place;
#define ONLY_FOLDER "FLOTILLA_RUNTIME_DIR"

/* False when there is no such folder. */
static bool folder_of(folder_place place, fl_str *out)
{
    const char *base =
        getenv(place == RUNTIME_FOLDER ? "XDG_RUNTIME_DIR" : "HOME");

    if (place == TEMP_FOLDER)
        fl_str_addf(out, "/tmp/flotilla-%u", (unsigned)geteuid());
    else if (base && *base == '/')
        fl_str_addf(out, place == HOME_FOLDER ? "%s/.flotilla" : "%s/flotilla",
                    base);
    return out->len > 0;
}

bool fl_user_folders(fl_user_folder_fn fn, void *arg)
{
    const char *only = getenv(ONLY_FOLDER);

    if (only && *only == '/')
        return fn(arg, only);
    for (folder_place place = 0; place < N_FOLDER_PLACES; place++) {
        fl_str folder = { 0 };
        bool is_over = folder_of(place, &folder) && fn(arg, folder.data);

        fl_str_release(&folder);
        if (is_over)
            return true;
    }
    return false;
}

/* In a folder that somebody else has made, he could change what we read. */
bool fl_user_folder_is_ours(const char *folder)
{
    struct stat st;

    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && !(st.st_mode & (S_IRWXG | S_IRWXO));
}

bool fl_user_folder_make(const char *folder)
{
    return (mkdir(folder, 0700) == 0 || errno == EEXIST) &&
           fl_user_folder_is_ours(folder);
}

/* Under another name first, so that nobody reads half of it. */
fl_status fl_user_file_write(const char *path, const char *text, size_t len)
{
    fl_str part = { 0 };
    int fd, err = 0;

    fl_str_addf(&part, "%s.part", path);
    (void)unlink(part.data); /* of a process that was killed meanwhile */
    fd = open(part.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        err = errno;
    if (!err)
        err = fl_file_put(fd, text, len);
    if (fd >= 0 && close(fd) != 0 && !err)
        err = errno;
    if (!err && rename(part.data, path) != 0)
        err = errno;
    if (err)
        (void)unlink(part.data);
    fl_str_release(&part);
    return err ? fl_file_failed("write", path, err) : FL_OK;
}
