/* vocab.h - words with their counts and numbers.
 *
 * Made by counting text and then building, or read from a file of lines
 *
 *     word count
 *
 * where the number of a word is that of its line, from 0. Owner thread only
 * until it is built or read; any thread may look things up afterwards.
 */
#ifndef FL_DATA_FORMAT_VOCAB_H
#define FL_DATA_FORMAT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FL_VOCAB_NONE UINT32_MAX
/* The word that stands for all that are not in the vocabulary. */
#define FL_VOCAB_UNKNOWN "<UNK>"
/* Longer words are left out. */
#define FL_WORD_MAX 255
#define FL_VOCAB_GROUP 16

/* --- words of a text ----------------------------------------------------- */

typedef enum fl_word_case {
    FL_WORDS_AS_THEY_ARE,
    FL_WORDS_LOWER /* A-Z become a-z, and only those are kept */
} fl_word_case;

/* Behind a short word in `lower` there are zeros, up to FL_WORD_PAD bytes. */
#define FL_WORD_PAD 16
typedef struct fl_vocab_word {
    const char *at; /* in the text, or in `lower` */
    size_t len;
    char lower[FL_WORD_MAX + FL_WORD_PAD];
} fl_vocab_word;

/* The next word at *at, which moves behind it; false when there is none.
   Words are apart by white space. */
bool fl_word_next(const char **at, const char *end, fl_word_case how,
                  fl_vocab_word *out);

/* --- vocabulary ---------------------------------------------------------- */

typedef struct fl_vocab fl_vocab;

fl_vocab *fl_vocab_new(void);
void fl_vocab_free(fl_vocab *v);

/* Counts the words of a text; whole words only, so a text is best cut at its
   lines. Fails with FL_ERR_NOMEM. */
FL_MUST_CHECK
fl_status fl_vocab_count(fl_vocab *v, const char *text, size_t len,
                         fl_word_case how);

typedef enum fl_vocab_rare {
    FL_RARE_DROP,
    FL_RARE_AS_UNKNOWN /* their counts become that of FL_VOCAB_UNKNOWN */
} fl_vocab_rare;

/* Keeps the words that were counted more than min_count times, and numbers
   them by falling count, equal ones by their bytes. */
FL_MUST_CHECK
fl_status fl_vocab_build(fl_vocab *v, uint64_t min_count, fl_vocab_rare rare);

FL_MUST_CHECK
fl_status fl_vocab_write(const fl_vocab *v, const char *path);

/* Errors name the file and the line. */
FL_MUST_CHECK
fl_status fl_vocab_read(fl_vocab **out, const char *path);

uint32_t fl_vocab_len(const fl_vocab *v);
/* Number of the word, or FL_VOCAB_NONE. */
uint32_t fl_vocab_find(const fl_vocab *v, const char *word, size_t len);
/* Those of n words, at most FL_VOCAB_GROUP, which costs less than one by one. */
void fl_vocab_find_all(const fl_vocab *v, const fl_vocab_word *words, size_t n,
                       uint32_t *out);
uint64_t fl_vocab_count_of(const fl_vocab *v, uint32_t i);
/* All counts together. */
uint64_t fl_vocab_total(const fl_vocab *v);

#endif
