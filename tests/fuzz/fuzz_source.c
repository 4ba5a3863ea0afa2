/* fuzz_source.c - bytes as a file: whatever they are, what comes out is whole
 * lines, and of a plain file all of them.
 *
 * The first byte chooses the sizes, so that lines are cut by blocks and by the
 * limit in many ways; the rest is the file. */
#include "kit.h"

#include "data/dataset/source.h"

/* Few bytes of gzip can become very many. */
#define OUT_MAX ((size_t)32 << 20)

static const fl_source_options sizes[] = {
    { .block_bytes = 1, .line_max = 8 },
    { .block_bytes = 16, .line_max = 4 },
    { .block_bytes = 64, .line_max = 1 << 20 },
    { .block_bytes = 1 << 16, .line_max = 64 },
    { .block_bytes = 1 << 16, .line_max = 1 << 20 },
};

static void check_text(const fl_text *t, uint64_t next_line)
{
    size_t n = 0;

    for (size_t i = 0; i < t->len; i++)
        n += t->data[i] == '\n';
    MUST(n == t->n_lines);
    MUST(t->len == 0 || t->data[t->len - 1] == '\n');
    MUST(t->n_lines == 0 || t->first_line >= next_line);
    for (size_t i = 0; t->len && i < FL_TEXT_PADDING; i++)
        MUST(t->data[t->len + i] == 0);
}

/* The text without line breaks of its own must be the file, all of it. */
static void check_whole(const uint8_t *file, size_t n, const fl_str *seen)
{
    bool cut = n > 0 && file[n - 1] != '\n';

    MUST(seen->len == n + cut);
    MUST(n == 0 || memcmp(seen->data, file, n) == 0);
}

/* A file that ends inside the mark of zstd counts as one that was cut. */
static bool is_plain(const uint8_t *file, size_t n)
{
    static const uint8_t gzip[] = { 0x1f, 0x8b };
    static const uint8_t zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
    static const uint8_t skipped[] = { 0x2a, 0x4d, 0x18 };

    if (n < 2)
        return true;
    if (memcmp(file, gzip, 2) == 0 || memcmp(file, zstd, n < 4 ? n : 4) == 0)
        return false;
    return n < 4 || (file[0] & 0xf0) != 0x50 ||
           memcmp(file + 1, skipped, 3) != 0;
}

static void add_bytes(fl_str *to, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fl_vec_push(to, bytes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fl_source_options *o;
    fl_source_state state = FL_SOURCE_TEXT;
    fl_source *s = NULL;
    fl_text text = { 0 };
    fl_str seen = { 0 };
    size_t n_long = 0, total = 0;
    uint64_t next_line = 1;
    fl_status st;

    if (size < 1)
        return 0;
    o = &sizes[data[0] % FL_LEN(sizes)];
    kit_write(data + 1, size - 1);
    st = fl_source_open(&s, kit_path(), o);
    while (!st && state != FL_SOURCE_END && total < OUT_MAX) {
        st = fl_source_next(s, &text, &state);
        MUST(st || state != FL_SOURCE_WAIT);
        if (st || state == FL_SOURCE_END)
            break;
        check_text(&text, next_line);
        next_line = text.first_line + text.n_lines;
        n_long += text.too_long.len;
        total += text.len + 1;
        add_bytes(&seen, text.data, text.len);
    }
    if (is_plain(data + 1, size - 1)) {
        MUST(!st && state == FL_SOURCE_END);
        if (!n_long)
            check_whole(data + 1, size - 1, &seen);
    }
    fl_str_release(&seen);
    fl_text_release(&text);
    fl_source_close(s);
    return 0;
}
