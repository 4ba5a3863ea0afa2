/* source.c - text out of a file, in blocks of whole lines.
 *
 * Text is read or decompressed straight into the source's buffer:
 *
 *     0      start           lines_end        end              cap
 *     | gone | whole lines   | part of a line | room | padding |
 *
 * When there are enough whole lines, the buffer itself goes to the caller and
 * the caller's old one takes the part of a line, so that a block is never
 * copied. Only when much is left behind the lines that go (a line that is too
 * long lies between) they are copied out instead, and `start` moves; every byte
 * is then still copied a bounded number of times.
 */
#include "data/dataset/source.h"

#include <string.h>

#include "data/dataset/bytes.h"

/* How much more than a block is read, so that it can end with a line. */
#define SLACK_MAX ((size_t)64 << 10)

struct fl_source {
    fl_bytes *stream;
    size_t block_bytes, line_max;
    fl_err failed; /* status FL_OK: not */
    char *buf;
    size_t cap, start, lines_end, end;
    uint64_t next_line;
    bool ended;
    bool is_skipping; /* within a line that is too long */
    char kept[FL_LONG_LINE_KEPT];
    size_t kept_len;
};

fl_status fl_source_open(fl_source **out, const char *path,
                         const fl_source_options *o)
{
    fl_bytes *stream = NULL;
    fl_source *s;

    if (o->block_bytes < 1 || o->line_max < 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: blocks of %zu bytes with lines of at most %zu bytes "
                "cannot be read; both must be at least 1",
                path, o->block_bytes, o->line_max);
    FL_TRY(fl_bytes_open(&stream, path, o->pipe_command));
    s = fl_alloc(sizeof(*s));
    s->stream = stream;
    s->block_bytes = o->block_bytes;
    s->line_max = o->line_max;
    s->next_line = 1;
    *out = s;
    return FL_OK;
}

void fl_source_close(fl_source *s)
{
    if (!s)
        return;
    fl_bytes_close(s->stream);
    fl_data_free(s->buf, s->cap);
    fl_free(s);
}

const char *fl_source_path(const fl_source *s)
{
    return fl_bytes_path(s->stream);
}

int fl_source_fd(const fl_source *s)
{
    return fl_bytes_fd(s->stream);
}

void fl_text_release(fl_text *t)
{
    fl_data_free(t->data, t->cap);
    fl_vec_release(&t->too_long);
    *t = (fl_text){ 0 };
}

static void clear_text(fl_text *t)
{
    t->len = 0;
    t->first_line = t->n_lines = 0;
    t->too_long.len = 0;
}

/* a + b, or the largest number there is. */
static size_t add_sizes(size_t a, size_t b)
{
    return a < SIZE_MAX - b ? a + b : SIZE_MAX;
}

/* What the source's buffer takes for this much text: it may become a block as
   it is, and its last line may lack a newline. */
static size_t buffer_bytes(size_t text_bytes)
{
    return add_sizes(text_bytes, 1 + FL_TEXT_PADDING);
}

/* Makes room for `need` bytes, of which the first `used` stay. */
static fl_status reserve(const fl_source *s, char **data, size_t *cap,
                         size_t used, size_t need)
{
    char *p;

    if (need <= *cap)
        return FL_OK;
    p = fl_try_alloc(need);
    if (!p)
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for %zu bytes of text of %s; make "
                "read_block_bytes or max_line_bytes smaller",
                need, fl_bytes_name(s->stream));
    if (used)
        memcpy(p, *data, used);
    fl_data_free(*data, *cap);
    *data = p;
    *cap = need;
    return FL_OK;
}

/* The inner loop has a fixed length and a small counter that cannot overflow:
   compilers make vector code of it. */
static uint64_t count_newlines(const char *at, size_t n)
{
    enum { STRIDE = 128 };
    uint64_t total = 0;

    for (; n >= STRIDE; n -= STRIDE, at += STRIDE) {
        uint8_t here = 0;

        for (int i = 0; i < STRIDE; i++)
            here = (uint8_t)(here + (at[i] == '\n'));
        total += here;
    }
    for (size_t i = 0; i < n; i++)
        total += at[i] == '\n';
    return total;
}

/* Bytes from `start` on that are whole lines, none of them too long. Looks only
   at the last newline that a line starting at `at` may have, so it touches
   little of the text. */
static size_t good_run(const fl_source *s)
{
    size_t at = s->start;

    while (s->lines_end - at > s->line_max) {
        const char *nl = memrchr(s->buf + at, '\n', s->line_max + 1);

        if (!nl)
            break;
        at = (size_t)(nl - s->buf) + 1;
    }
    return (s->lines_end - at > s->line_max ? at : s->lines_end) - s->start;
}

/* Hands over the next `run` bytes, by exchanging the buffers where little is
   left behind them. */
static fl_status give_lines(fl_source *s, fl_text *into, size_t run)
{
    size_t stop = s->start + run;
    size_t tail = s->end - stop;

    if (s->start == 0 && tail <= run) {
        char *data = s->buf;
        size_t cap = s->cap;

        FL_TRY(reserve(s, &into->data, &into->cap, 0, buffer_bytes(tail)));
        if (tail)
            memcpy(into->data, data + stop, tail);
        s->buf = into->data;
        s->cap = into->cap;
        into->data = data;
        into->cap = cap;
        s->end = tail;
        s->lines_end -= stop;
    } else {
        FL_TRY(reserve(s, &into->data, &into->cap, 0,
                       add_sizes(run, FL_TEXT_PADDING)));
        memcpy(into->data, s->buf + s->start, run);
        s->start = stop;
    }
    memset(into->data + run, 0, FL_TEXT_PADDING);
    into->len = run;
    into->first_line = s->next_line;
    into->n_lines = count_newlines(into->data, run);
    s->next_line += into->n_lines;
    return FL_OK;
}

/* Drops text of the line that is too long, but for its first bytes. False when
   its end is not there yet. */
static bool skip_line(fl_source *s)
{
    const char *at = s->buf + s->start;
    size_t n = s->end - s->start;
    const char *nl = n ? memchr(at, '\n', n) : NULL;
    size_t len = nl ? (size_t)(nl - at) : n;
    size_t room = FL_LONG_LINE_KEPT - s->kept_len;
    size_t kept = len < room ? len : room;

    if (kept)
        memcpy(s->kept + s->kept_len, at, kept);
    s->kept_len += kept;
    if (nl)
        s->start += len + 1;
    else
        s->start = s->lines_end = s->end = 0;
    return nl != NULL;
}

/* The kept bytes lie behind the padding of an empty block. */
static fl_status give_long_line(fl_source *s, fl_text *into, bool *given)
{
    FL_TRY(reserve(s, &into->data, &into->cap, 0,
                   2 * FL_TEXT_PADDING + FL_LONG_LINE_KEPT));
    *given = skip_line(s);
    if (!*given)
        return FL_OK;
    memset(into->data, 0, 2 * FL_TEXT_PADDING + FL_LONG_LINE_KEPT);
    memcpy(into->data + FL_TEXT_PADDING, s->kept, s->kept_len);
    fl_vec_push(&into->too_long, ((fl_long_line){ .number = s->next_line,
                                                  .at = FL_TEXT_PADDING,
                                                  .len = s->kept_len }));
    into->first_line = s->next_line++;
    s->is_skipping = false;
    s->kept_len = 0;
    return FL_OK;
}

/* Gives what the buffer has to give. */
static fl_status give(fl_source *s, fl_text *into, bool *given)
{
    size_t run = s->is_skipping ? 0 : good_run(s);

    *given = run > 0;
    if (run)
        return give_lines(s, into, run);
    if (s->lines_end > s->start || s->end - s->lines_end > s->line_max)
        s->is_skipping = true;
    return s->is_skipping ? give_long_line(s, into, given) : FL_OK;
}

/* True when the next block can be made without reading. */
static bool is_due(const fl_source *s)
{
    size_t lines = s->lines_end - s->start;

    return s->is_skipping || lines >= s->block_bytes ||
           (lines && s->start > 0) || s->end - s->lines_end > s->line_max;
}

/* How far to fill the buffer, which has `used` bytes: a block and a little
   more, and further only while no line ends there. */
static size_t fill_target(const fl_source *s, size_t used)
{
    size_t slack =
        s->block_bytes / 4 < SLACK_MAX ? s->block_bytes / 4 : SLACK_MAX;
    size_t target = add_sizes(s->block_bytes, slack + 1);
    size_t hint = fl_bytes_size_hint(s->stream);
    size_t most = add_sizes(add_sizes(s->block_bytes, s->line_max), 1);

    if (used >= target)
        target = add_sizes(used, used) < most ? add_sizes(used, used) : most;
    if (used <= hint && hint < target - 1 && hint > 0)
        target = hint + 1; /* a small file takes little memory */
    return target;
}

/* Reads once. At the end of the file the last line gets its newline. */
static fl_status fill(fl_source *s, fl_bytes_state *r)
{
    size_t used = s->end - s->start;
    size_t target = fill_target(s, used);
    size_t got;
    char *nl;

    if (s->start > 0) {
        memmove(s->buf, s->buf + s->start, used);
        s->lines_end -= s->start;
        s->end = used;
        s->start = 0;
    }
    FL_TRY(reserve(s, &s->buf, &s->cap, used, buffer_bytes(target)));
    FL_TRY(fl_bytes_read(s->stream, s->buf + used, target - used, &got, r));
    nl = got ? memrchr(s->buf + used, '\n', got) : NULL;
    s->end += got;
    if (nl)
        s->lines_end = (size_t)(nl - s->buf) + 1;
    s->ended = *r == FL_BYTES_END;
    if (s->ended && (s->is_skipping || s->end > s->lines_end)) {
        s->buf[s->end++] = '\n';
        s->lines_end = s->end;
    }
    return FL_OK;
}

static fl_status next_block(fl_source *s, fl_text *into, fl_source_state *state)
{
    fl_bytes_state r = s->ended ? FL_BYTES_END : FL_BYTES_SOME;

    for (;;) {
        bool given = false;

        if (r != FL_BYTES_SOME || is_due(s))
            FL_TRY(give(s, into, &given));
        if (given || r != FL_BYTES_SOME) {
            *state = given                ? FL_SOURCE_TEXT
                     : r == FL_BYTES_WAIT ? FL_SOURCE_WAIT
                                          : FL_SOURCE_END;
            return FL_OK;
        }
        FL_TRY(fill(s, &r));
    }
}

fl_status fl_source_next(fl_source *s, fl_text *into, fl_source_state *state)
{
    fl_status st;

    clear_text(into);
    if (s->failed.status)
        return fl_err_restore(&s->failed);
    st = next_block(s, into, state);
    if (st && st != FL_ERR_NOMEM)
        fl_err_save(&s->failed, st);
    return st;
}
