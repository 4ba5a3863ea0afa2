/* source_kit.h - what the tests of sources share: a folder for their files,
 * and a transcript of what a source gives beside what it should give. */
#ifndef FL_TESTS_DATA_SOURCE_KIT_H
#define FL_TESTS_DATA_SOURCE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/dataset/source.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

/* A test whose files go when it ends. */
#define TEST(name) cmocka_unit_test_teardown(name, empty_folder)

#define WAIT_MS 20000
#define PACKED_MAX (1 << 20)
#define BLOCK 4096
#define LINE_MAX_BYTES 100000

static char folder[] = "/tmp/flotilla_source_XXXXXX";

/* --- a folder for the files ----------------------------------------------- */

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

/* Every test leaves the folder empty, whatever it put there. */
static inline int empty_folder(void **state)
{
    char command[128];

    (void)state;
    fl_alloc_fail_after(0);
    snprintf(command, sizeof(command), "rm -rf %s/*  %s/.h*", folder, folder);
    return system(command);
}

static inline int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* Valid until the fourth call from now. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static inline const char *put_bytes(const char *name, const void *bytes,
                                    size_t len)
{
    const char *path = in_folder(name);

    assert_ok(fl_file_write(path, bytes, len));
    return path;
}

static inline const char *put(const char *name, const char *text)
{
    return put_bytes(name, text, strlen(text));
}

/* --- compressing ---------------------------------------------------------- */

static inline size_t gzip(unsigned char *to, const void *text, size_t len)
{
    z_stream z = { 0 };

    assert_int_equal(
        deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
        Z_OK);
    z.next_in = (Bytef *)text;
    z.avail_in = (uInt)len;
    z.next_out = to;
    z.avail_out = PACKED_MAX;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return z.total_out;
}

static inline size_t zstd(unsigned char *to, const void *text, size_t len)
{
    size_t n = ZSTD_compress(to, PACKED_MAX, text, len, 3);

    assert_false(ZSTD_isError(n));
    return n;
}

/* --- reading -------------------------------------------------------------- */

static inline fl_source_options options(size_t block_bytes, size_t line_max)
{
    return (fl_source_options){ .block_bytes = block_bytes,
                                .line_max = line_max };
}

static const fl_source_options usual = { .block_bytes = BLOCK,
                                         .line_max = LINE_MAX_BYTES };

static inline fl_source_options through(const char *command)
{
    fl_source_options o = usual;

    o.pipe_command = command;
    return o;
}

static inline fl_source *open_source(const char *path,
                                     const fl_source_options *o)
{
    fl_source *s = NULL;

    assert_ok(fl_source_open(&s, path, o));
    assert_string_equal(fl_source_path(s), path);
    return s;
}

static inline void wait_for(const fl_source *s)
{
    struct pollfd p = { .fd = fl_source_fd(s), .events = POLLIN };

    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

/* Lines as "number:text", a line that was too long as "number!what was kept".
   Built from bytes, since text may have NULs. */
typedef struct script {
    FL_VEC(char) bytes;
} script;

static inline void write_line(script *to, uint64_t number, char mark,
                              const char *text, size_t len)
{
    char head[32];
    int n = snprintf(head, sizeof(head), "%" PRIu64 "%c", number, mark);

    for (int i = 0; i < n; i++)
        fl_vec_push(&to->bytes, head[i]);
    for (size_t i = 0; i < len; i++)
        fl_vec_push(&to->bytes, text[i]);
    fl_vec_push(&to->bytes, '\n');
}

/* What should come out, in the plainest way. */
static inline void write_expected(script *to, const char *text, size_t len,
                                  size_t line_max)
{
    const char *at = text, *end = text + len;

    for (uint64_t number = 1; at < end; number++) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((nl ? nl : end) - at);

        if (n <= line_max)
            write_line(to, number, ':', at, n);
        else
            write_line(to, number, '!', at,
                       n < FL_LONG_LINE_KEPT ? n : FL_LONG_LINE_KEPT);
        at += n + 1;
    }
}

static inline void check_padding(const char *at)
{
    for (int i = 0; i < FL_TEXT_PADDING; i++)
        assert_int_equal(at[i], 0);
}

static inline void write_block(script *to, const fl_text *t)
{
    const char *at = t->data, *end = t->data + t->len;
    uint64_t number = t->first_line;

    assert_true(t->len + FL_TEXT_PADDING <= t->cap);
    check_padding(end);
    assert_true(t->too_long.len + t->n_lines > 0);
    for (; at < end; number++) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));

        assert_non_null(nl);
        write_line(to, number, ':', at, (size_t)(nl - at));
        at = nl + 1;
    }
    assert_int_equal(number - t->first_line, t->n_lines);
    if (!t->too_long.len)
        return;
    assert_int_equal(t->too_long.len, 1);
    assert_int_equal(t->n_lines, 0);
    assert_int_equal(t->too_long.data[0].number, t->first_line);
    write_line(to, t->first_line, '!', t->data + t->too_long.data[0].at,
               t->too_long.data[0].len);
    check_padding(t->data + t->too_long.data[0].at + t->too_long.data[0].len);
}

/* Reads to the end or to an error. */
static inline fl_status read_all(fl_source *s, script *to)
{
    fl_source_state state = FL_SOURCE_TEXT;
    fl_text text = { 0 };
    fl_status st = FL_OK;

    while (!st && state != FL_SOURCE_END) {
        st = fl_source_next(s, &text, &state);
        if (!st && state == FL_SOURCE_TEXT)
            write_block(to, &text);
        if (!st && state == FL_SOURCE_WAIT)
            wait_for(s);
    }
    fl_text_release(&text);
    return st;
}

static inline void expect_same(const script *got, const script *wanted)
{
    assert_int_equal(got->bytes.len, wanted->bytes.len);
    if (wanted->bytes.len)
        assert_memory_equal(got->bytes.data, wanted->bytes.data,
                            wanted->bytes.len);
}

static inline void expect_text(const char *path, const fl_source_options *o,
                               const char *text, size_t len)
{
    fl_source *s = open_source(path, o);
    script got = { 0 }, wanted = { 0 };

    assert_ok(read_all(s, &got));
    write_expected(&wanted, text, len, o->line_max);
    expect_same(&got, &wanted);
    fl_vec_release(&got.bytes);
    fl_vec_release(&wanted.bytes);
    fl_source_close(s);
}

static inline void expect_lines(const char *path, const fl_source_options *o,
                                const char *text)
{
    expect_text(path, o, text, strlen(text));
}

static inline void expect_said(const char *said)
{
    if (!strstr(fl_last_error(), said))
        fail_msg("'%s' does not say '%s'", fl_last_error(), said);
}

/* Reads until it fails, and looks for the words in the sentence; the second
   call gives the same. */
static inline void expect_failure(const char *path, const fl_source_options *o,
                                  fl_status status, const char *said)
{
    fl_source *s = open_source(path, o);
    fl_source_state state;
    fl_text text = { 0 };
    script got = { 0 };

    assert_int_equal(read_all(s, &got), status);
    expect_said(path);
    expect_said(said);
    assert_int_equal(fl_source_next(s, &text, &state), status);
    expect_said(said);
    fl_vec_release(&got.bytes);
    fl_text_release(&text);
    fl_source_close(s);
}

/* Lines of random lengths, with empty ones, NULs and "\r\n" among them. */
static inline void make_text(char *to, size_t len, uint64_t seed,
                             size_t longest)
{
    uint64_t left = 0;

    for (size_t i = 0; i < len; i++) {
        uint64_t x = fl_mix64(seed * 1000003 + i);

        if (left == 0) {
            to[i] = '\n';
            left = x % (longest + 1) + 1;
            if (i && x % 7 == 0)
                to[i - 1] = '\r';
        } else {
            to[i] = (char)(x % 100 ? 'a' + x % 26 : 0);
        }
        left--;
    }
}

#endif
