/* job_key.c - the secrets of jobs. */
#include "dist/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ctx/ctx.h"
#include "flotilla/job.h"
#include "rpc/stream/address.h"
#include "rpc/wire/auth.h"

#define KEY_BYTES_MAX 8192

/* --- files ---------------------------------------------------------------- */

/* The next line of a text, cut off; NULL when there is none. */
static char *cut_line(char **text)
{
    char *line = strsep(text, "\n");

    if (line)
        line[strcspn(line, "\r")] = '\0';
    return line && *line ? line : NULL;
}

/* A secret that others know is none; one that others may change is theirs. */
static fl_status check_private(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return fl_file_failed("open", path, errno);
    if (st.st_mode & (S_IRWXO | S_IWGRP))
        FL_FAIL(FL_ERR_INVAL,
                "%s holds a secret and has mode %03o: others may read it; "
                "chmod 600 it",
                path, (unsigned)st.st_mode & 0777);
    return FL_OK;
}

fl_status fl_job_key_load(fl_conf *conf)
{
    const char *path = conf->join_token_file;
    char *text, *at, *token;
    size_t len;
    fl_status st;

    if (conf->join_token[0] || !path[0])
        return FL_OK;
    FL_TRY(fl_err_ctx(check_private(path), "setting join_token_file"));
    FL_TRY(fl_err_ctx(fl_file_read(path, KEY_BYTES_MAX, &text, &len),
                      "setting join_token_file"));
    at = text;
    token = cut_line(&at);
    st = token ? fl_conf_set_from(conf, "join_token", token, FL_FROM_CALL)
               : fl_err_set(FL_ERR_INVAL,
                            "setting join_token_file: the first line of %s is "
                            "to be the token, and it is empty",
                            path);
    fl_free(text);
    return st;
}

/* --- the folder of a user's keys ------------------------------------------ */

/* In /tmp somebody else may have taken the name. A home is the last choice:
   several machines may share it, and with it the numbers of ports. */
typedef enum key_place {
    RUNTIME_FOLDER,
    TEMP_FOLDER,
    HOME_FOLDER,
    N_KEY_PLACES
} key_place;

/* False when there is no such folder. */
static bool folder_of(key_place place, fl_str *out)
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

/* In a folder that somebody else has made, he could change what we read. */
static bool is_ours(const char *folder)
{
    struct stat st;

    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && !(st.st_mode & (S_IRWXG | S_IRWXO));
}

/* The file of an address in the first folder that `is_good` says yes to. */
static bool find_place(const fl_address *a,
                       bool (*is_good)(const char *folder, const char *path),
                       fl_str *out)
{
    for (key_place place = 0; place < N_KEY_PLACES; place++) {
        fl_str folder = { 0 };
        bool is_found = folder_of(place, &folder);

        if (is_found) {
            fl_str_addf(out, "%s/%u.key", folder.data, a->port);
            is_found = is_good(folder.data, out->data);
        }
        fl_str_release(&folder);
        if (is_found)
            return true;
        fl_str_release(out);
    }
    return false;
}

static bool can_make(const char *folder, const char *path)
{
    (void)path;
    return (mkdir(folder, 0700) == 0 || errno == EEXIST) && is_ours(folder);
}

static bool has_key(const char *folder, const char *path)
{
    return is_ours(folder) && access(path, R_OK) == 0;
}

/* --- making --------------------------------------------------------------- */

static fl_status write_key(const char *path, const char *job)
{
    char token[FL_LOOK_TOKEN_BYTES];
    fl_str text = { 0 };
    int fd, err;

    (void)unlink(path); /* of a job that is no more: the port was free */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fl_file_failed("make", path, errno);
    fl_auth_new_token(token);
    fl_str_addf(&text, "%s\n%s\n", token, job);
    err = fl_file_put(fd, text.data, text.len);
    if (close(fd) != 0 && !err)
        err = errno;
    fl_str_release(&text);
    if (!err)
        return FL_OK;
    (void)unlink(path);
    return fl_file_failed("write", path, err);
}

fl_status fl_job_key_make(const char *address, const char *job, char **path)
{
    fl_address a = { 0 };
    fl_str at = { 0 };
    fl_status st;

    FL_TRY(fl_address_parse(&a, address));
    if (!find_place(&a, can_make, &at))
        FL_FAIL(FL_ERR_IO,
                "there is no folder for the job's token: neither "
                "/tmp/flotilla-%u nor one in XDG_RUNTIME_DIR or HOME can be "
                "made for this user alone; set one of these, or the token "
                "itself as FLOTILLA_JOIN_TOKEN",
                (unsigned)geteuid());
    st = write_key(at.data, job);
    if (st)
        fl_str_release(&at);
    else
        *path = fl_str_take(&at);
    return st;
}

/* --- finding -------------------------------------------------------------- */

/* A job of this machine: elsewhere the same port is somebody else's. */
static bool is_here(const fl_address *a)
{
    fl_place places[FL_PLACES_MAX];
    size_t n;

    return !a->is_unix &&
           fl_address_look_up(a, FL_LOOKUP_NAMES, places, &n) == FL_OK &&
           fl_place_is_here(&places[0]);
}

/* Leaves *out alone when there is no key of that address. */
static void find_key(const char *address, fl_job_key *out)
{
    fl_address a = { 0 };
    fl_str path = { 0 };
    char *text = NULL, *at, *line;
    size_t len;

    if (fl_address_parse(&a, address) || !is_here(&a) ||
        !find_place(&a, has_key, &path))
        return;
    if (fl_file_read(path.data, KEY_BYTES_MAX, &text, &len) == FL_OK) {
        at = text;
        if ((line = cut_line(&at)))
            fl_str_add(&out->token, line);
        if (at && (line = cut_line(&at)))
            fl_str_add(&out->job, line);
        fl_free(text);
    }
    fl_str_release(&path);
}

static void put_text(fl_str *s, const char *text)
{
    fl_str_release(s);
    fl_str_add(s, text);
}

void fl_job_key_choose(fl_job_key *out, const fl_conf *conf,
                       const char *address, fl_job_use use)
{
    bool has_look = conf->look_token[0] && !conf->join_token[0];
    char look[FL_LOOK_TOKEN_BYTES];
    fl_err was;

    *out = (fl_job_key){ 0 };
    fl_err_keep(&was);
    if (!conf->join_token[0] && !has_look)
        find_key(address, out);
    fl_err_put_back(&was);
    if (!out->token.len)
        put_text(&out->token, has_look ? conf->look_token : conf->join_token);
    if (!out->job.len || fl_conf_from_of(conf, "job") != FL_FROM_DEFAULT)
        put_text(&out->job, conf->job);
    if (use == FL_JOB_LOOK && !has_look) {
        fl_auth_look_token(out->token.data, look);
        put_text(&out->token, look);
    }
}

void fl_job_key_release(fl_job_key *k)
{
    fl_str_release(&k->token);
    fl_str_release(&k->job);
}

fl_status fl_job_look_token(fl_ctx *c, const char *address, char **text)
{
    fl_address a = { 0 };
    fl_job_key key;
    bool is_known;

    FL_TRY(fl_address_parse(&a, address));
    FL_TRY(fl_job_key_load(&c->conf));
    fl_job_key_choose(&key, &c->conf, address, FL_JOB_CHANGE);
    is_known = key.token.len > 0;
    fl_job_key_release(&key);
    if (!is_known)
        FL_FAIL(FL_ERR_NOTFOUND,
                "no token is known for a job at %s: this user has started none "
                "there by fleetrun, and join_token is empty",
                address);
    fl_job_key_choose(&key, &c->conf, address, FL_JOB_LOOK);
    *text = fl_str_take(&key.token);
    fl_job_key_release(&key);
    return FL_OK;
}
