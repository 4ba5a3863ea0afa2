/* source_all.c - all text of a file, for who has nothing else to do. */
#include "data/dataset/source.h"

#include <poll.h>

#define BLOCK_BYTES (256u << 10)
#define LINE_MAX_BYTES (16u << 20)
#define POLL_MS 1000

/* A pipe that has nothing yet is waited for. */
static void wait_for(const fl_source *s)
{
    struct pollfd p = { .fd = fl_source_fd(s), .events = POLLIN };

    (void)poll(&p, 1, POLL_MS);
}

static fl_status check_lines(const fl_source *s, const fl_text *text)
{
    if (text->too_long.len)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s:%llu is longer than %u bytes; cut it into lines, for "
                "example with `fold -s -w 10000`",
                fl_source_path(s),
                (unsigned long long)text->too_long.data[0].number,
                LINE_MAX_BYTES);
    return FL_OK;
}

static fl_status read_all(fl_source *s, fl_on_text fn, void *arg)
{
    fl_text text = { 0 };
    fl_source_state state = FL_SOURCE_TEXT;
    bool is_enough = false;
    fl_status st = FL_OK;

    while (!st && !is_enough && state != FL_SOURCE_END) {
        st = fl_source_next(s, &text, &state);
        if (!st && state == FL_SOURCE_WAIT)
            wait_for(s);
        if (!st && state == FL_SOURCE_TEXT)
            st = check_lines(s, &text);
        if (!st && state == FL_SOURCE_TEXT)
            st = fn(arg, &text, &is_enough);
    }
    fl_text_release(&text);
    return st;
}

fl_status fl_source_read_all(const char *path, const char *pipe_command,
                             fl_on_text fn, void *arg)
{
    fl_source_options o = { .pipe_command = pipe_command,
                            .block_bytes = BLOCK_BYTES,
                            .line_max = LINE_MAX_BYTES };
    fl_source *s;
    fl_status st;

    FL_TRY(fl_source_open(&s, path, &o));
    st = read_all(s, fn, arg);
    fl_source_close(s);
    return st;
}
