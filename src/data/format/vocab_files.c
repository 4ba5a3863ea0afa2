/* vocab_files.c - a vocabulary from files of text. */
#include "data/dataset/source.h"
#include "data/format/vocab.h"
#include "flotilla/data.h"
#include "base/args.h"

typedef struct counting {
    fl_vocab *vocab;
    fl_word_case how;
} counting;

static fl_status count_text(void *arg, const fl_text *text, bool *is_enough)
{
    const counting *c = arg;

    (void)is_enough;
    return fl_vocab_count(c->vocab, text->data, text->len, c->how);
}

static fl_status build(fl_vocab *v, const fl_paths *files, const char *out_path,
                       uint64_t *n_words, const fl_vocabulary_args *a)
{
    counting c = { v, a->keep_case ? FL_WORDS_AS_THEY_ARE : FL_WORDS_LOWER };

    for (size_t i = 0; i < files->len; i++)
        FL_TRY(fl_source_read_all(files->data[i], a->pipe_command, count_text,
                                  &c));
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
