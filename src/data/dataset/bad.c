/* bad.c - bad lines: counted, written to the quarantine file, limited.
 *
 * An entry goes to the file by one write as it comes, so that it is there when
 * the job ends badly, which is when it is wanted. Bad lines are rare or the job
 * ends: one mutex around all of it costs nothing. The two counts are atomic for
 * those who only look.
 */
#include "data/dataset/bad.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

/* Bytes of a line that an entry keeps. */
#define KEPT_BYTES 1000

/* A share is of at least this many lines. */
#define SHARE_LINES_MIN 1000

/* And is not judged before this many while more lines are to come. */
#define SHARE_LINES_EARLY 100000

#define SHOWN_MAX 512

struct fl_bad_log {
    fl_bad_limits limits;
    const fl_schema *schema;
    _Atomic uint64_t n_lines, n_bad;

    fl_mutex mu; /* guards what follows, and n_bad goes up under it */
    int fd;      /* -1: not made yet */
    fl_str entry;
    char first[SHOWN_MAX]; /* place and reason of the first bad line */
};

fl_bad_log *fl_bad_log_new(const fl_bad_limits *limits, const fl_schema *s)
{
    fl_bad_log *b = fl_alloc(sizeof(*b));

    b->limits = *limits;
    if (b->limits.quarantine && !*b->limits.quarantine)
        b->limits.quarantine = NULL;
    b->schema = s;
    b->fd = -1;
    fl_mutex_init(&b->mu);
    return b;
}

void fl_bad_log_free(fl_bad_log *b)
{
    if (!b)
        return;
    if (b->fd >= 0)
        close(b->fd);
    fl_str_release(&b->entry);
    fl_mutex_release(&b->mu);
    fl_free(b);
}

/* --- the quarantine file -------------------------------------------------- */

static fl_status file_failed(const fl_bad_log *b, const char *what, int err)
{
    FL_FAIL(FL_ERR_IO,
            "cannot %s the quarantine file %s: %s; name another one with the "
            "setting quarantine, or leave it empty to write none",
            what, b->limits.quarantine, strerror(err));
}

/* Appending keeps the entries of two jobs whole that share a file. */
static fl_status open_file(fl_bad_log *b)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC;

    if (b->fd >= 0)
        return FL_OK;
    b->fd = open(b->limits.quarantine, flags, 0666);
    return b->fd < 0 ? file_failed(b, "make", errno) : FL_OK;
}

static fl_status write_all(fl_bad_log *b, const char *at, size_t n)
{
    int err = fl_file_put(b->fd, at, n);

    return err ? file_failed(b, "write", err) : FL_OK;
}

/* `also` is one more character that must not stand for itself. */
static void add_escaped(fl_str *to, const char *at, size_t n, char also)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)at[i];

        if (c == '\t')
            fl_str_add(to, "\\t");
        else if (c == '\n')
            fl_str_add(to, "\\n");
        else if (c == '\\')
            fl_str_add(to, "\\\\");
        else if (c < 0x20 || c > 0x7e || at[i] == also)
            fl_str_addf(to, "\\x%02x", c);
        else
            fl_str_add(to, (char[]){ at[i], '\0' });
    }
}

static const char *slot_name(const fl_bad_log *b, int slot)
{
    bool known = slot >= 0 && (uint32_t)slot < b->schema->n_slots;

    return known ? b->schema->slots[slot].name : NULL;
}

static fl_status write_entry(fl_bad_log *b, const char *path, const fl_line *l,
                             const fl_bad *bad)
{
    const char *slot = slot_name(b, bad->slot);
    size_t len = (size_t)(l->end - l->at);

    if (!b->limits.quarantine)
        return FL_OK;
    FL_TRY(open_file(b));
    b->entry.len = 0;
    add_escaped(&b->entry, path, strlen(path), '\0');
    fl_str_addf(&b->entry, ":%" PRIu64 ":", l->number);
    if (slot)
        add_escaped(&b->entry, slot, strlen(slot), ':');
    else
        fl_str_add(&b->entry, "-");
    fl_str_add(&b->entry, "\t");
    add_escaped(&b->entry, bad->reason, strlen(bad->reason), '\0');
    fl_str_add(&b->entry, "\t");
    add_escaped(&b->entry, l->at, len < KEPT_BYTES ? len : KEPT_BYTES, '\0');
    fl_str_add(&b->entry, "\n");
    return write_all(b, b->entry.data, b->entry.len);
}

/* --- limits --------------------------------------------------------------- */

static uint64_t lines_of(const fl_bad_log *b)
{
    uint64_t lines = atomic_load(&b->n_lines);
    uint64_t bad = atomic_load(&b->n_bad);

    return lines > bad ? lines : bad;
}

static bool share_passed(const fl_bad_log *b, uint64_t n_bad)
{
    uint64_t lines = lines_of(b);

    if (lines < SHARE_LINES_MIN)
        lines = SHARE_LINES_MIN;
    return (double)n_bad > b->limits.max_share * (double)lines;
}

/* Ends the job; `which` is the limit, as a setting with its value. */
static fl_status too_many(const fl_bad_log *b, const char *shown,
                          uint64_t n_bad, const char *which)
{
    bool kept = b->limits.quarantine;

    FL_FAIL(FL_ERR_CORRUPT,
            "%s; %" PRIu64 " bad lines of %" PRIu64
            " are more than %s allows; %s%s; mend the data, or raise "
            "max_bad_lines and max_bad_share to go on without such lines",
            shown, n_bad, lines_of(b), which,
            kept ? "they are written down in "
                 : "the setting quarantine names a file to write them to",
            kept ? b->limits.quarantine : "");
}

static fl_status judge_share(const fl_bad_log *b, const char *shown,
                             uint64_t n_bad)
{
    char which[64];

    if (!share_passed(b, n_bad))
        return FL_OK;
    snprintf(which, sizeof(which), "max_bad_share=%g", b->limits.max_share);
    return too_many(b, shown, n_bad, which);
}

static fl_status judge(const fl_bad_log *b, const char *shown, uint64_t n_bad)
{
    char which[64];

    if (n_bad > b->limits.max_lines) {
        snprintf(which, sizeof(which), "max_bad_lines=%" PRIu64,
                 b->limits.max_lines);
        return too_many(b, shown, n_bad, which);
    }
    if (lines_of(b) < SHARE_LINES_EARLY)
        return FL_OK;
    return judge_share(b, shown, n_bad);
}

/* --- counting ------------------------------------------------------------- */

/* Under mu. Returns how many there are now. */
static uint64_t count(fl_bad_log *b, uint64_t n, const char *shown)
{
    if (!b->first[0])
        memcpy(b->first, shown, SHOWN_MAX);
    return atomic_fetch_add(&b->n_bad, n) + n;
}

fl_status fl_bad_log_add(fl_bad_log *b, const char *path, const fl_line *l,
                         const fl_bad *bad)
{
    const char *slot = slot_name(b, bad->slot);
    char shown[SHOWN_MAX] = "";
    uint64_t n_bad;
    fl_status st;

    snprintf(shown, sizeof(shown), "%s:%" PRIu64 "%s%s: %s", path, l->number,
             slot ? ":" : "", slot ? slot : "", bad->reason);
    fl_lock(&b->mu);
    n_bad = count(b, 1, shown);
    st = write_entry(b, path, l, bad);
    fl_unlock(&b->mu);
    return st ? st : judge(b, shown, n_bad);
}

fl_status fl_bad_log_add_known(fl_bad_log *b, const char *path, uint64_t n)
{
    char shown[SHOWN_MAX] = "";
    uint64_t n_bad;

    if (n == 0)
        return FL_OK;
    snprintf(shown, sizeof(shown),
             "%s: %" PRIu64 " bad lines were found when its cache was written",
             path, n);
    fl_lock(&b->mu);
    n_bad = count(b, n, shown);
    fl_unlock(&b->mu);
    return judge(b, shown, n_bad);
}

void fl_bad_log_lines(fl_bad_log *b, uint64_t n)
{
    atomic_fetch_add(&b->n_lines, n);
}

uint64_t fl_bad_log_count(const fl_bad_log *b)
{
    return atomic_load(&b->n_bad);
}

/* --- the end -------------------------------------------------------------- */

void fl_bad_log_report(const fl_bad_log *b)
{
    uint64_t n_bad = atomic_load(&b->n_bad);

    if (n_bad == 0)
        return;
    FL_WARN(
        "data", "bad lines=%" PRIu64 " of=%" PRIu64 " quarantine=%s first=%s",
        n_bad, lines_of(b), b->fd >= 0 ? b->limits.quarantine : "-", b->first);
}

fl_status fl_bad_log_end(fl_bad_log *b)
{
    uint64_t n_bad = atomic_load(&b->n_bad);
    int fd = b->fd;

    fl_bad_log_report(b);
    b->fd = -1;
    if (fd >= 0 && close(fd))
        return file_failed(b, "finish", errno);
    return n_bad ? judge_share(b, b->first, n_bad) : FL_OK;
}
