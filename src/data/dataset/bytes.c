/* bytes.c - the text of one file as bytes.
 *
 * Two layers: read_raw gives the bytes of the file or of the command's output,
 * fl_bytes_read the same bytes or what gzip or zstd make of them.
 *
 * A command runs in a process group of its own, so that all of its processes
 * can be ended together. The group is killed while its leader is not yet waited
 * for: until then the number cannot have become somebody else's.
 *
 * A named pipe without a writer reads as if it were at its end. Only poll tells
 * the two apart: it reports a hangup once a writer has been there and left.
 */
#include "data/dataset/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/command.h"
#include "base/file.h"
#include "base/vec.h"

#define IN_BYTES ((size_t)256 << 10)
#define PIPE_BYTES (1 << 20)
#define MAGIC_BYTES 4

/* zlib counts in 32 bits. */
#define DECODE_MAX ((size_t)1 << 30)

/* How long a command may take from the end of its output to its own before the
   caller is sent away. Polling a pipe at its end returns at once, so without a
   pause the caller would run in circles. */
#define END_PAUSE_NS 200000

typedef enum text_kind { KIND_UNKNOWN, PLAIN, GZIP, ZSTD } text_kind;

struct fl_bytes {
    char *path, *command; /* command is NULL without one */
    char *name;

    /* Bytes as they are. */
    int fd;
    bool is_fifo, is_ready; /* is_ready: a read never waits */
    bool raw_ended;
    pid_t pid; /* 0: no command runs */
    size_t file_bytes;

    /* Text. */
    text_kind kind;
    unsigned char magic[MAGIC_BYTES]; /* the first bytes, until they are used */
    size_t n_magic;
    unsigned char *in; /* bytes to decompress: IN_BYTES of memory */
    size_t in_at, in_len;
    bool mid;              /* within a gzip member or a zstd frame */
    z_stream z;            /* of a gzip file */
    ZSTD_DCtx *zstd;       /* of a zstd file */
    uint64_t n_text_bytes; /* given so far */
};

/* --- the command ---------------------------------------------------------- */

/* Runs the shell with these as its input and output. Returns 0 or errno. A
   named pipe is opened by the shell, since that waits for a writer. */
static int spawn(fl_bytes *s, int in, int out)
{
    char *argv[] = { "sh", "-c", s->command, NULL };
    char *fifo_argv[] = { "sh",    "-c",       "exec /bin/sh -c \"$1\" <\"$0\"",
                          s->path, s->command, NULL };

    return fl_command_start(&s->pid, s->is_fifo ? fifo_argv : argv, in, out,
                            -1);
}

/* Puts the command between the file and the reader. */
static fl_status start_command(fl_bytes *s)
{
    int ends[2], err;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return fl_file_failed("make a pipe for", s->name, errno);
    ends[0] = fl_command_above(ends[0]);
    ends[1] = fl_command_above(ends[1]);
    s->fd = fl_command_above(s->fd);
    err = ends[0] < 0 || ends[1] < 0 || s->fd < 0 ? errno : 0;
    if (!err && !s->is_fifo && fcntl(s->fd, F_SETFL, 0) != 0)
        err = errno; /* the command may wait, hence without O_NONBLOCK */
    if (!err && fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        err = errno;
    if (!err)
        err = spawn(s, s->fd, ends[1]);
    if (ends[1] >= 0)
        close(ends[1]);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = ends[0];
    s->is_fifo = s->is_ready = false;
    s->file_bytes = 0;
    if (err) {
        s->pid = 0;
        return fl_file_failed("start the shell for", s->name, err);
    }
    (void)fcntl(s->fd, F_SETPIPE_SZ, PIPE_BYTES); /* a wish; 64 KB do too */
    return FL_OK;
}

/* LOST: somebody else has waited for it, so nobody can tell. */
typedef enum command_state { RUNS, ENDED, LOST } command_state;

static command_state look_at_command(const fl_bytes *s)
{
    siginfo_t info = { 0 };
    int rc;

    do
        rc = waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return LOST;
    return info.si_pid ? ENDED : RUNS;
}

/* Ends what is left of the command and gives its status, or -1 when it is lost:
   then its number may be somebody else's, and is left alone. */
static int reap_command(fl_bytes *s)
{
    int status = 0;
    pid_t pid = -1;

    if (look_at_command(s) != LOST) {
        kill(-s->pid, SIGKILL);
        do
            pid = waitpid(s->pid, &status, 0);
        while (pid < 0 && errno == EINTR);
    }
    s->pid = 0;
    return pid < 0 ? -1 : status;
}

static fl_status judge_command(const fl_bytes *s, int status)
{
    if (status == 0)
        return FL_OK;
    if (WIFSIGNALED(status))
        FL_FAIL(FL_ERR_IO,
                "%s: the command was ended by signal %d after %" PRIu64
                " bytes of text; run it by hand with this file as its input",
                s->name, WTERMSIG(status), s->n_text_bytes);
    FL_FAIL(FL_ERR_IO,
            "%s: the command ended with status %d%s after %" PRIu64
            " bytes of text; run it by hand with this file as its input",
            s->name, WEXITSTATUS(status),
            WEXITSTATUS(status) == 127 ? " (not found)" : "", s->n_text_bytes);
}

/* After the end of its output. */
static fl_status end_command(fl_bytes *s, fl_bytes_state *r)
{
    int status;

    if (look_at_command(s) == RUNS) {
        nanosleep(&(struct timespec){ .tv_nsec = END_PAUSE_NS }, NULL);
        if (look_at_command(s) == RUNS) {
            *r = FL_BYTES_WAIT;
            return FL_OK;
        }
    }
    status = reap_command(s);
    if (status < 0)
        FL_FAIL(FL_ERR_IO,
                "%s: nobody knows how the command ended; let the program "
                "neither ignore SIGCHLD nor wait for children of others",
                s->name);
    return judge_command(s, status);
}

/* --- bytes ---------------------------------------------------------------- */

/* A read of a named pipe gave nothing: whether that is its end. True in *again
   when a writer has come in the meantime. */
static fl_bytes_state fifo_state(const fl_bytes *s, bool *again)
{
    struct pollfd p = { .fd = s->fd, .events = POLLIN };
    int n;

    do
        n = poll(&p, 1, 0);
    while (n < 0 && errno == EINTR);
    *again = n > 0 && (p.revents & POLLIN);
    return n > 0 ? FL_BYTES_END : FL_BYTES_WAIT;
}

/* The file gave no more. */
static fl_status at_raw_end(fl_bytes *s, fl_bytes_state *r, bool *again)
{
    *again = false;
    *r = FL_BYTES_END;
    if (s->is_fifo)
        *r = fifo_state(s, again);
    if (s->pid)
        FL_TRY(end_command(s, r));
    s->raw_ended = *r == FL_BYTES_END && !*again;
    return FL_OK;
}

static fl_status read_raw(fl_bytes *s, void *to, size_t room, size_t *got,
                          fl_bytes_state *r)
{
    bool again = true;
    ssize_t n = 0;

    *got = 0;
    *r = FL_BYTES_END;
    if (s->raw_ended)
        return FL_OK;
    while (again) {
        n = read(s->fd, to, room);
        if (n == 0)
            FL_TRY(at_raw_end(s, r, &again));
        else
            again = n < 0 && errno == EINTR;
    }
    if (n < 0 && errno != EAGAIN)
        return fl_file_failed("read", s->name, errno);
    if (n < 0)
        *r = FL_BYTES_WAIT;
    if (n > 0) {
        *r = FL_BYTES_SOME;
        *got = (size_t)n;
    }
    return FL_OK;
}

/* --- text ----------------------------------------------------------------- */

/* A file of nothing but the first bytes of a magic number is a cut file when it
   has at least `cut` of them, and text otherwise. */
typedef struct magic_number {
    text_kind kind;
    size_t len, cut;
    unsigned char first_mask; /* bits of the first byte that count */
    unsigned char bytes[MAGIC_BYTES];
} magic_number;

static const magic_number magics[] = {
    { GZIP, 2, 2, 0xff, { 0x1f, 0x8b } },
    { ZSTD, 4, 2, 0xff, { 0x28, 0xb5, 0x2f, 0xfd } },
    { ZSTD, 4, 4, 0xf0, { 0x50, 0x2a, 0x4d, 0x18 } }, /* a frame to skip */
};

static bool agrees(const magic_number *m, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n && i < m->len; i++) {
        unsigned mask = i ? 0xff : m->first_mask;

        if ((bytes[i] & mask) != m->bytes[i])
            return false;
    }
    return true;
}

/* KIND_UNKNOWN while more bytes are needed. */
static text_kind kind_of(const unsigned char *bytes, size_t n, bool is_all)
{
    for (size_t i = 0; i < FL_LEN(magics); i++) {
        const magic_number *m = &magics[i];

        if (!agrees(m, bytes, n))
            continue;
        if (n >= (is_all ? m->cut : m->len))
            return m->kind;
        if (!is_all)
            return KIND_UNKNOWN;
    }
    return PLAIN;
}

static fl_status find_kind(fl_bytes *s, fl_bytes_state *r)
{
    *r = FL_BYTES_SOME;
    while (s->kind == KIND_UNKNOWN && *r != FL_BYTES_WAIT) {
        size_t got;

        FL_TRY(read_raw(s, s->magic + s->n_magic, MAGIC_BYTES - s->n_magic,
                        &got, r));
        s->n_magic += got;
        if (*r != FL_BYTES_WAIT)
            s->kind = kind_of(s->magic, s->n_magic, *r == FL_BYTES_END);
    }
    return FL_OK;
}

static fl_status read_plain(fl_bytes *s, char *to, size_t room, size_t *got,
                            fl_bytes_state *r)
{
    size_t n = s->n_magic < room ? s->n_magic : room;

    if (!n)
        return read_raw(s, to, room, got, r);
    memcpy(to, s->magic, n);
    s->n_magic -= n;
    memmove(s->magic, s->magic + n, s->n_magic);
    *got = n;
    *r = FL_BYTES_SOME;
    return FL_OK;
}

static fl_status fail_decoder_memory(const fl_bytes *s)
{
    FL_FAIL(FL_ERR_NOMEM,
            "no memory to decompress %s; read fewer files at once", s->name);
}

/* Can be called again after a failure. */
static fl_status open_decoder(fl_bytes *s)
{
    if (s->kind == GZIP && !s->z.state &&
        inflateInit2(&s->z, 16 + MAX_WBITS) != Z_OK)
        return fail_decoder_memory(s);
    if (s->kind == ZSTD && !s->zstd && !(s->zstd = ZSTD_createDCtx()))
        return fail_decoder_memory(s);
    s->in = fl_try_alloc(IN_BYTES);
    if (!s->in)
        return fail_decoder_memory(s);
    memcpy(s->in, s->magic, s->n_magic);
    s->in_len = s->n_magic;
    s->n_magic = 0;
    return FL_OK;
}

static fl_status fail_damaged(const fl_bytes *s, const char *form,
                              const char *why)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "%s: the %s data is damaged after %" PRIu64 " bytes of text (%s); "
            "get the file again, or check it with %s -t",
            s->name, form, s->n_text_bytes, why, form);
}

static fl_status step_gzip(fl_bytes *s, char *to, size_t room, size_t *got)
{
    z_stream *z = &s->z;
    int rc;

    if (!s->mid)
        inflateReset(z); /* members may follow one another */
    z->next_in = s->in + s->in_at;
    z->avail_in = (uInt)(s->in_len - s->in_at);
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)room;
    rc = inflate(z, Z_NO_FLUSH);
    s->in_at = s->in_len - z->avail_in;
    *got = room - z->avail_out;
    s->mid = rc != Z_STREAM_END;
    if (rc == Z_MEM_ERROR)
        return fail_decoder_memory(s);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return fail_damaged(s, "gzip", z->msg ? z->msg : "no gzip data");
    return FL_OK;
}

static fl_status step_zstd(fl_bytes *s, char *to, size_t room, size_t *got)
{
    ZSTD_inBuffer in = { .src = s->in, .size = s->in_len, .pos = s->in_at };
    ZSTD_outBuffer out = { .dst = to, .size = room };
    size_t rc = ZSTD_decompressStream(s->zstd, &out, &in);

    s->in_at = in.pos;
    *got = out.pos;
    s->mid = rc != 0;
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
        return fail_decoder_memory(s);
    if (ZSTD_isError(rc))
        return fail_damaged(s, "zstd", ZSTD_getErrorName(rc));
    return FL_OK;
}

static fl_status more_input(fl_bytes *s, fl_bytes_state *r)
{
    size_t got;

    FL_TRY(read_raw(s, s->in, IN_BYTES, &got, r));
    s->in_at = 0;
    s->in_len = got;
    if (*r == FL_BYTES_END && s->mid)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: the file is cut: its compressed data ends in the middle, "
                "after %" PRIu64 " bytes of text; get the file again",
                s->name, s->n_text_bytes);
    return FL_OK;
}

/* A decoder that had no room may have text left without any input, hence it is
   asked before the file; between members it must not be asked. */
static fl_status read_packed(fl_bytes *s, char *to, size_t room, size_t *got,
                             fl_bytes_state *r)
{
    if (!s->in)
        FL_TRY(open_decoder(s));
    room = room < DECODE_MAX ? room : DECODE_MAX;
    *got = 0;
    *r = FL_BYTES_SOME;
    while (!*got && *r == FL_BYTES_SOME) {
        if (s->mid || s->in_at < s->in_len) {
            if (s->kind == GZIP)
                FL_TRY(step_gzip(s, to, room, got));
            else
                FL_TRY(step_zstd(s, to, room, got));
        }
        if (!*got && s->in_at == s->in_len)
            FL_TRY(more_input(s, r));
    }
    return FL_OK;
}

fl_status fl_bytes_read(fl_bytes *s, char *to, size_t room, size_t *got,
                        fl_bytes_state *r)
{
    *got = 0;
    FL_TRY(find_kind(s, r));
    if (s->kind == KIND_UNKNOWN)
        return FL_OK;
    if (s->kind == PLAIN)
        FL_TRY(read_plain(s, to, room, got, r));
    else
        FL_TRY(read_packed(s, to, room, got, r));
    s->n_text_bytes += *got;
    return FL_OK;
}

/* --- opening and closing -------------------------------------------------- */

/* Without O_NONBLOCK, opening a named pipe waits for a writer. With a command,
   the shell opens it; until then there must be no reader, since a writer that
   came and went before the shell would leave it waiting for another. */
static fl_status open_file(fl_bytes *s)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct stat st;

    s->fd = -1;
    if (stat(s->path, &st) != 0)
        return fl_file_failed("open", s->name, errno);
    s->is_fifo = S_ISFIFO(st.st_mode);
    if (s->is_fifo && s->command)
        flags = O_PATH | O_CLOEXEC;
    s->fd = open(s->path, flags);
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return fl_file_failed("open", s->name, errno);
    if (S_ISDIR(st.st_mode))
        FL_FAIL(FL_ERR_IO, "cannot read %s: it is a folder; name its files",
                s->name);
    s->is_ready = S_ISREG(st.st_mode) || S_ISBLK(st.st_mode);
    if (S_ISREG(st.st_mode)) {
        (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        s->file_bytes = (size_t)st.st_size;
    }
    return FL_OK;
}

static char *make_name(const char *path, const char *command)
{
    fl_str name = { 0 };

    fl_str_add(&name, path);
    if (command)
        fl_str_addf(&name, " (through the command '%s')", command);
    return fl_str_take(&name);
}

fl_status fl_bytes_open(fl_bytes **out, const char *path, const char *command)
{
    fl_bytes *s = fl_alloc(sizeof(*s));
    fl_status st;

    s->path = fl_strdup(path);
    s->command = command ? fl_strdup(command) : NULL;
    s->name = make_name(path, command);
    st = open_file(s);
    if (!st && command)
        st = start_command(s);
    if (st) {
        fl_bytes_close(s);
        return st;
    }
    *out = s;
    return FL_OK;
}

void fl_bytes_close(fl_bytes *s)
{
    if (!s)
        return;
    if (s->pid)
        (void)reap_command(s);
    if (s->fd >= 0)
        close(s->fd);
    if (s->z.state)
        inflateEnd(&s->z);
    ZSTD_freeDCtx(s->zstd);
    fl_data_free(s->in, IN_BYTES);
    fl_free(s->path);
    fl_free(s->command);
    fl_free(s->name);
    fl_free(s);
}

const char *fl_bytes_path(const fl_bytes *s)
{
    return s->path;
}

int fl_bytes_fd(const fl_bytes *s)
{
    return s->is_ready ? -1 : s->fd;
}

const char *fl_bytes_name(const fl_bytes *s)
{
    return s->name;
}

size_t fl_bytes_size_hint(const fl_bytes *s)
{
    return s->kind == PLAIN || s->kind == KIND_UNKNOWN ? s->file_bytes : 0;
}
