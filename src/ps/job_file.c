/* job_file.c - notes of running jobs.
 *
 * A process is known by its number and by when it began, as numbers are used
 * again. A home may be shared by several machines: a note of another host is
 * nobody's business here.
 */
#include "ps/job_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "ckpt/json_in.h"
#include "ps/user_folder.h"
#include "rpc/stream/address.h"
#include "rpc/wire/auth.h"

#define FORMAT "flotilla-job-1"
#define ENDING ".job"
#define NOTE_BYTES_MAX (64 << 10)
#define COMMAND_MAX 4096
#define HOST_MAX 256
#define ARENA_CHUNK_BYTES (8 << 10)

/* --- processes ------------------------------------------------------------ */

static void host_name(char out[HOST_MAX])
{
    if (gethostname(out, HOST_MAX))
        (void)snprintf(out, HOST_MAX, "?");
    out[HOST_MAX - 1] = '\0';
}

/* Field 22 of /proc/PID/stat, behind a name that may have anything in it; 0:
   there is no such process. */
static uint64_t born_at(uint32_t process)
{
    char path[64], text[1024], *at;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", process);
    f = fopen(path, "re");
    if (!f)
        return 0;
    at = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
    (void)fclose(f);
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

char *fl_own_command(void)
{
    char text[COMMAND_MAX];
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

    if (f)
        (void)fclose(f);
    while (n && !text[n - 1])
        n--;
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] ? text[i] : ' ';
    text[n] = '\0';
    return fl_strdup(text);
}

/* --- writing -------------------------------------------------------------- */

static char *note_text(const fl_local_job *job, const char *token)
{
    char host[HOST_MAX], look[FL_LOOK_TOKEN_BYTES];
    fl_json j = { 0 };

    host_name(host);
    fl_auth_look_token(token, look);
    fl_json_object(&j, NULL);
    fl_json_text(&j, "format", FORMAT);
    fl_json_text(&j, "name", job->name);
    fl_json_text(&j, "address", job->address);
    fl_json_text(&j, "by", job->by);
    fl_json_text(&j, "host", host);
    fl_json_u64(&j, "process", job->process);
    fl_json_u64(&j, "process_born", born_at(job->process));
    fl_json_u64(&j, "began", job->began);
    fl_json_text(&j, "program", job->program);
    fl_json_text(&j, "look_token", look);
    fl_json_end(&j);
    return fl_json_take(&j);
}

typedef struct note_place {
    const fl_local_job *job;
    fl_str path;
} note_place;

/* A process may have more than one job, and a port may be that of an address
   elsewhere. */
static bool find_place(void *arg, const char *folder)
{
    note_place *p = arg;

    if (!fl_user_folder_make(folder))
        return false;
    fl_str_addf(&p->path, "%s/%" PRIu32 ".%016" PRIx64 ENDING, folder,
                p->job->process, fl_hash_str(p->job->address));
    return true;
}

fl_status fl_job_file_write(const fl_local_job *job, const char *token,
                            char **path)
{
    fl_local_job own = *job;
    note_place place = { .job = &own };
    char *text;
    fl_status st;

    own.process = (uint32_t)getpid();
    own.began = (uint64_t)time(NULL);
    if (!fl_user_folders(find_place, &place))
        FL_FAIL(FL_ERR_IO,
                "there is no folder for the note of a job: neither "
                "/tmp/flotilla-%u nor one in XDG_RUNTIME_DIR or HOME can be "
                "made for this user alone; `flotilla status` needs the address "
                "%s",
                (unsigned)geteuid(), job->address);
    text = note_text(&own, token);
    st = fl_user_file_write(place.path.data, text, strlen(text));
    fl_free(text);
    if (st)
        fl_str_release(&place.path);
    else
        *path = fl_str_take(&place.path);
    return st;
}

void fl_job_file_remove(const char *path)
{
    if (path)
        (void)unlink(path);
}

/* --- reading -------------------------------------------------------------- */

static fl_status take_text(fl_arena *a, const cJSON *from, const char *key,
                           const char **out)
{
    const char *text;

    FL_TRY(fl_json_in_text(from, key, "the note", &text));
    *out = fl_arena_strdup(a, text);
    return FL_OK;
}

static fl_status take_fields(fl_arena *a, const cJSON *from, fl_job_file *f)
{
    fl_local_job *job = &f->job;
    const char *format;
    uint64_t process;

    FL_TRY(fl_json_in_text(from, "format", "the note", &format));
    if (strcmp(format, FORMAT) != 0)
        FL_FAIL(FL_ERR_CORRUPT, "the note is no " FORMAT);
    FL_TRY(take_text(a, from, "name", &job->name));
    FL_TRY(take_text(a, from, "address", &job->address));
    FL_TRY(take_text(a, from, "by", &job->by));
    FL_TRY(take_text(a, from, "host", &f->host));
    FL_TRY(fl_json_in_u64(from, "process", "the note", &process));
    FL_TRY(fl_json_in_u64(from, "process_born", "the note", &f->born));
    FL_TRY(fl_json_in_u64(from, "began", "the note", &job->began));
    FL_TRY(take_text(a, from, "program", &job->program));
    job->size = sizeof(*job);
    job->process = (uint32_t)process;
    return take_text(a, from, "look_token", &f->look);
}

static fl_status read_note(fl_arena *a, const char *path, fl_job_file *out)
{
    char *text;
    cJSON *root = NULL;
    size_t len;
    fl_status st;

    FL_TRY(fl_file_read(path, NOTE_BYTES_MAX, &text, &len));
    st = fl_json_in_parse(&root, text, len, path);
    if (!st)
        st = take_fields(a, root, out);
    cJSON_Delete(root);
    fl_free(text);
    return st;
}

/* A note that does not read is of another version, and is left alone. */
static void take_note(fl_local_jobs *l, const char *path)
{
    fl_job_file f = { 0 };
    char host[HOST_MAX];

    host_name(host);
    if (read_note(&l->arena, path, &f) || strcmp(f.host, host) != 0)
        return;
    if (!f.born || born_at(f.job.process) != f.born)
        fl_job_file_remove(path);
    else
        fl_vec_push(&l->all, f);
}

static bool is_note(const char *name)
{
    size_t n = strlen(name);

    return n > strlen(ENDING) && !strcmp(name + n - strlen(ENDING), ENDING);
}

/* In all folders: the best one may be another than when the job began. */
static bool take_folder(void *arg, const char *folder)
{
    DIR *dir = fl_user_folder_is_ours(folder) ? opendir(folder) : NULL;
    const struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (is_note(e->d_name)) {
            fl_str path = { 0 };

            fl_str_addf(&path, "%s/%s", folder, e->d_name);
            take_note(arg, path.data);
            fl_str_release(&path);
        }
    if (dir)
        (void)closedir(dir);
    return false;
}

static int by_age(const void *a, const void *b)
{
    const fl_job_file *x = a, *y = b;

    if (x->born != y->born)
        return x->born < y->born ? -1 : 1;
    return strcmp(x->job.address, y->job.address);
}

fl_local_jobs *fl_job_files_read(void)
{
    fl_local_jobs *l = fl_alloc(sizeof(*l));
    fl_err was;

    fl_arena_init(&l->arena, ARENA_CHUNK_BYTES);
    fl_err_keep(&was);
    (void)fl_user_folders(take_folder, l);
    fl_err_put_back(&was);
    if (l->all.len)
        qsort(l->all.data, l->all.len, sizeof(*l->all.data), by_age);
    return l;
}

/* --- finding -------------------------------------------------------------- */

static bool is_here(const fl_address *a)
{
    fl_place places[FL_PLACES_MAX];
    size_t n;

    return fl_address_look_up(a, FL_LOOKUP_NAMES, places, &n) == FL_OK &&
           fl_place_is_here(&places[0]);
}

/* A machine has several names. */
static bool is_same(const char *text, const char *other)
{
    fl_address a = { 0 }, b = { 0 };

    if (!strcmp(text, other))
        return true;
    return !fl_address_parse(&a, text) && !fl_address_parse(&b, other) &&
           !a.is_unix && !b.is_unix && a.port == b.port && is_here(&a) &&
           is_here(&b);
}

const fl_job_file *fl_job_files_find(const fl_local_jobs *l,
                                     const char *address)
{
    const fl_job_file *found = NULL;
    fl_err was;

    fl_err_keep(&was);
    for (size_t i = 0; i < l->all.len && !found; i++)
        if (is_same(l->all.data[i].job.address, address))
            found = &l->all.data[i];
    fl_err_put_back(&was);
    return found;
}
