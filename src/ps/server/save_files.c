/* save_files.c - files of a version on their way to server 0. */
#include "ps/server/save_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define PIECE_BYTES ((size_t)1 << 20)

/* Servers write rows of tables, and nothing else. */
#define FOLDER "tables/"

/* --- server 0 ------------------------------------------------------------- */

static fl_status check_name(fl_msg_bytes from, char name[FL_SAVE_DIR_MAX + 1])
{
    bool is_short = from.len && from.len <= FL_SAVE_DIR_MAX;

    if (is_short) {
        memcpy(name, from.data, (size_t)from.len);
        name[from.len] = '\0';
    }
    if (!is_short || strncmp(name, FOLDER, strlen(FOLDER)) != 0 ||
        !fl_manifest_is_inside(name))
        FL_FAIL(FL_ERR_CORRUPT, "a server has sent a file that no table has");
    return FL_OK;
}

static fl_status make_folder_of(const fl_model_version *v, const char *name)
{
    char *folder = fl_strdup(name);
    fl_status st;

    *strrchr(folder, '/') = '\0';
    st = fl_version_folder(v, folder);
    fl_free(folder);
    return st;
}

static fl_status begin_file(fl_save_files *g, const fl_model_version *v,
                            const char *name, fl_save_incoming **out)
{
    fl_save_incoming f = { 0 };
    fl_status st;
    char *path;

    FL_TRY(make_folder_of(v, name));
    path = fl_version_file(v, name);
    st = fl_file_writer_open(&f.to, path);
    fl_free(path);
    FL_TRY(st);
    f.name = fl_strdup(name);
    fl_vec_push(&g->files, f);
    *out = &g->files.data[g->files.len - 1];
    return FL_OK;
}

static fl_status find_file(fl_save_files *g, const fl_model_version *v,
                           const char *name, fl_save_incoming **out)
{
    for (size_t i = 0; i < g->files.len; i++)
        if (!strcmp(g->files.data[i].name, name)) {
            *out = &g->files.data[i];
            return FL_OK;
        }
    return begin_file(g, v, name, out);
}

static fl_status end_file(fl_save_incoming *f)
{
    fl_file_writer *to = f->to;

    f->to = NULL;
    return fl_file_writer_commit(to);
}

/* A piece whose answer was lost comes again. */
static fl_status add_piece(fl_save_incoming *f, const fl_save_file_request *r,
                           fl_msg_bytes bytes)
{
    bool is_there = r->offset <= f->len && bytes.len <= f->len - r->offset;

    if (is_there && (!f->to || !r->is_last))
        return FL_OK;
    if (!f->to || r->offset != f->len)
        FL_FAIL(FL_ERR_CORRUPT,
                "file %s: bytes from %" PRIu64 " on came when %" PRIu64
                " were there",
                f->name, r->offset, f->len);
    FL_TRY(fl_file_writer_add(f->to, bytes.data, (size_t)bytes.len));
    f->len += bytes.len;
    return r->is_last ? end_file(f) : FL_OK;
}

fl_status fl_save_files_add(fl_save_files *g, const fl_model_version *v,
                            const fl_save_file_request *r)
{
    fl_save_place p = fl_save_split(r->bytes);
    char name[FL_SAVE_DIR_MAX + 1];
    fl_save_incoming *f = NULL;

    FL_TRY(check_name(p.path, name));
    FL_TRY(find_file(g, v, name, &f));
    return add_piece(f, r, p.rest);
}

void fl_save_files_clear(fl_save_files *g)
{
    for (size_t i = 0; i < g->files.len; i++) {
        fl_file_writer_drop(g->files.data[i].to);
        fl_free(g->files.data[i].name);
    }
    fl_vec_release(&g->files);
}

/* --- the others ----------------------------------------------------------- */

/* A file that is read piece by piece. */
typedef struct reading {
    const char *name;
    int fd;
    uint64_t at;
    uint64_t cpu_ns; /* of the thread when it last told the pace */
    uint8_t *room;   /* PIECE_BYTES */
} reading;

/* *n is 0 at the end. */
static fl_status read_piece(reading *r, size_t *n)
{
    ssize_t got;

    do
        got = pread(r->fd, r->room, PIECE_BYTES, (off_t)r->at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return fl_file_failed("read", r->name, errno);
    *n = (size_t)got;
    return FL_OK;
}

/* The bytes went by the pace when they were written. */
static void keep_pace(const fl_save_way *way, reading *r)
{
    uint64_t before = r->cpu_ns;

    r->cpu_ns = fl_thread_cpu_ns();
    fl_pace_wait(way->pace, (fl_pace_use){ .cpu_ns = r->cpu_ns - before });
}

/* The last piece is empty. */
static fl_status send_pieces(const fl_save_way *way, reading *r)
{
    size_t n = 1;

    while (n) {
        fl_save_file_request q = { .number = way->number, .offset = r->at };
        fl_pack p = { 0 };
        fl_status st;

        FL_TRY(read_piece(r, &n));
        q.is_last = !n;
        fl_save_join(&p, r->name, (fl_msg_bytes){ r->room, n });
        q.bytes = (fl_msg_bytes){ p.data, p.len };
        st = way->send(way->arg, FL_MSG_SAVE_FILE, &q);
        fl_pack_release(&p);
        FL_TRY(st);
        r->at += n;
        keep_pace(way, r);
    }
    return FL_OK;
}

fl_status fl_save_files_send(const fl_save_way *way, const fl_model_version *v,
                             const char *name)
{
    char *path = fl_version_file(v, name);
    reading r = { .name = name,
                  .fd = open(path, O_RDONLY | O_CLOEXEC),
                  .cpu_ns = fl_thread_cpu_ns() };
    fl_status st;

    if (r.fd < 0) {
        st = fl_file_failed("read", path, errno);
    } else {
        r.room = fl_alloc(PIECE_BYTES);
        st = send_pieces(way, &r);
        fl_free(r.room);
        close(r.fd);
    }
    fl_free(path);
    return fl_err_ctx(st, "sending %s to server 0", name);
}
