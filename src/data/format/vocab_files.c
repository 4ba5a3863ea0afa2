/* vocab_files.c - a vocabulary from files of text. */
#include "data/dataset/source.h"
#include "data/format/vocab.h"
#include "flotilla/data.h"
#include "base/args.h"

#include <poll.h>

#define BLOCK_BYTES (256u << 10)
#define LINE_MAX_BYTES (16u << 20)
#define POLL_MS 1000

/* A pipe that has nothing yet is waited for: there is nothing else to do. */
static void wait_for(const fl_source *s)
{
    struct pollfd p = { .fd = fl_source_fd(s), .events = POLLIN };

    (void)poll(&p, 1, POLL_MS);
}

static fl_status count_source(fl_vocab *v, fl_source *s, fl_word_case how)
{
    fl_text text = { 0 };
    fl_source_state state = FL_SOURCE_TEXT;
    fl_status st = FL_OK;

    while (!st && state != FL_SOURCE_END) {
        st = fl_source_next(s, &text, &state);
        if (!st && state == FL_SOURCE_WAIT)
            wait_for(s);
        if (!st && state == FL_SOURCE_TEXT && text.too_long.len)
            st = fl_err_set(FL_ERR_CORRUPT,
                            "%s:%llu is longer than %u bytes; cut it into "
                            "lines, for example with `fold -s -w 10000`",
                            fl_source_path(s),
                            (unsigned long long)text.too_long.data[0].number,
                            LINE_MAX_BYTES);
        if (!st && state == FL_SOURCE_TEXT)
            st = fl_vocab_count(v, text.data, text.len, how);
    }
    fl_text_release(&text);
    return st;
}

static fl_status count_file(fl_vocab *v, const char *path,
                            const fl_vocabulary_args *a)
{
    fl_source_options o = { .pipe_command = a->pipe_command,
                            .block_bytes = BLOCK_BYTES,
                            .line_max = LINE_MAX_BYTES };
    fl_source *s;
    fl_status st;

    FL_TRY(fl_source_open(&s, path, &o));
    st = count_source(v, s,
                      a->keep_case ? FL_WORDS_AS_THEY_ARE : FL_WORDS_LOWER);
    fl_source_close(s);
    return st;
}

static fl_status build(fl_vocab *v, const fl_paths *files, const char *out_path,
                       uint64_t *n_words, const fl_vocabulary_args *a)
{
    for (size_t i = 0; i < files->len; i++)
        FL_TRY(count_file(v, files->data[i], a));
    FL_TRY(fl_vocab_build(v, a->min_count,
                          a->unknown ? FL_RARE_AS_UNKNOWN : FL_RARE_DROP));
    FL_TRY(fl_vocab_write(v, out_path));
    if (n_words)
        *n_words = fl_vocab_len(v);
    return FL_OK;
}

fl_status fl_vocabulary_build_with(const char *const *paths, size_t n_paths,
                                   const char *out_path, uint64_t *n_words,
                                   const fl_vocabulary_args *args)
{
    fl_paths files = { 0 };
    fl_vocabulary_args a;
    fl_vocab *v;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_vocabulary_args, &a, args));
    FL_TRY(fl_paths_expand(paths, n_paths, &files));
    v = fl_vocab_new();
    st = build(v, &files, out_path, n_words, &a);
    fl_vocab_free(v);
    fl_paths_release(&files);
    return st;
}
