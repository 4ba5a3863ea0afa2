/* job_key.c - the secrets of jobs. */
#include "dist/job_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ctx/ctx.h"
#include "flotilla/job.h"
#include "ps/job_file.h"
#include "ps/user_folder.h"
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

/* --- the place of a key --------------------------------------------------- */

/* The file of an address in the first folder that `is_good` says yes to. */
typedef struct key_search {
    const fl_address *address;
    bool (*is_good)(const char *folder, const char *path);
    fl_str *out;
} key_search;

static bool try_folder(void *arg, const char *folder)
{
    const key_search *s = arg;

    fl_str_addf(s->out, "%s/%u.key", folder, s->address->port);
    if (s->is_good(folder, s->out->data))
        return true;
    fl_str_release(s->out);
    return false;
}

static bool can_make(const char *folder, const char *path)
{
    (void)path;
    return fl_user_folder_make(folder);
}

static bool has_key(const char *folder, const char *path)
{
    return fl_user_folder_is_ours(folder) && access(path, R_OK) == 0;
}

/* --- making --------------------------------------------------------------- */

static fl_status write_key(const char *path, const char *job)
{
    char token[FL_LOOK_TOKEN_BYTES];
    fl_str text = { 0 };
    fl_status st;

    fl_auth_new_token(token);
    fl_str_addf(&text, "%s\n%s\n", token, job);
    /* What is there is of a job that is no more: the port was free. */
    st = fl_user_file_write(path, text.data, text.len);
    fl_str_release(&text);
    return st;
}

fl_status fl_job_key_make(const char *address, const char *job, char **path)
{
    fl_address a = { 0 };
    fl_str at = { 0 };
    fl_status st;

    FL_TRY(fl_address_parse(&a, address));
    if (!fl_user_folders(try_folder, &(key_search){ &a, can_make, &at }))
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
        !fl_user_folders(try_folder, &(key_search){ &a, has_key, &path }))
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

/* The same by the note of a running job, which has the right to look. */
static bool find_look(const char *address, fl_job_key *out)
{
    fl_local_jobs *l = fl_job_files_read();
    const fl_job_file *f = fl_job_files_find(l, address);

    if (f) {
        fl_str_add(&out->token, f->look);
        fl_str_add(&out->job, f->job.name);
    }
    fl_local_jobs_free(l);
    return f != NULL;
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
    if (use == FL_JOB_LOOK && !out->token.len && !conf->join_token[0] &&
        !has_look)
        has_look = find_look(address, out);
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
