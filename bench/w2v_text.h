/* w2v_text.h - a corpus for word2vec: vocabulary, pairs of words, and lists of
 * word pairs with the scores that people gave.
 *
 * The directory has enwiki2018_AA.txt.gz, or else text8_head.gz, and word-sim/
 * with lists "word word score". Nothing of it is copied.
 */
#ifndef BENCH_W2V_TEXT_H
#define BENCH_W2V_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct w2v_text {
    char **words; /* by number, the most frequent first */
    uint64_t *counts;
    size_t n_words;
    size_t n_read; /* words of the text, rare ones too */
    int32_t *ids;  /* the text without rare words, thinned out */
    size_t len;
    double *noise; /* sums of counts^0.75, for drawing negatives */
} w2v_text;

/* Reads at most max_words; false when the directory has no corpus. */
bool w2v_text_open(w2v_text *t, const char *dir, size_t max_words);
void w2v_text_close(w2v_text *t);

/* The first max_words of the corpus as lines of so many. */
void w2v_text_copy(const char *dir, FILE *out, size_t max_words,
                   size_t line_words);

/* One reader's part of the text, over and over. */
typedef struct w2v_reader {
    const w2v_text *text;
    size_t lo, hi, at;
    int64_t left, right; /* context that is still to come, around at */
    uint64_t random;
    size_t n_read; /* words so far */
} w2v_reader;

/* Part `part` of n_parts. */
w2v_reader w2v_reader_of(const w2v_text *t, int part, int n_parts);

/* The next n pairs of a word and one beside it, and n_negatives words drawn for
   all of them. */
void w2v_read(w2v_reader *r, int64_t *centers, int64_t *contexts, size_t n,
              int64_t *negatives, size_t n_negatives);

/* Rank correlation of the cosines of rows [n_words, dim] with the scores of a
   list; pairs with a word that the text has not are left out and counted. */
double w2v_spearman(const w2v_text *t, const char *dir, const char *list,
                    const float *rows, int dim, size_t *n_missing);

#endif
