/* words.h - settings in words: "dim=10 init=uniform(-1,1), optimizer=adam".
 *
 * Optimizers, tables, strategies and formats take their settings as words;
 * docs/formats/words.md has the grammar. These functions read such a text, build
 * one from names and values, and change one:
 *
 *     fl_words *w = NULL;
 *
 *     fl_words_new(&w, "dim=10 optimizer=adam");
 *     fl_words_set(w, "dim", "16");
 *     text = fl_words_text(w);             dim=16 optimizer=adam
 *
 * Whether a name or a value means something is said by who takes the text. One
 * thread at a time.
 */
#ifndef FLOTILLA_WORDS_H
#define FLOTILLA_WORDS_H

#include <stddef.h>

#include "flotilla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_words fl_words;

/* text may be NULL or empty. Fails with the piece that is no name=value. */
FL_API FL_MUST_CHECK
fl_status fl_words_new(fl_words **out, const char *text);
FL_API void fl_words_free(fl_words *w);

/* The value of a name without its quotes, or NULL. Of several the last one
   counts. Borrowed until the name is set. */
FL_API const char *fl_words_get(const fl_words *w, const char *name);

/* Sets the name in its place or at the end; a value of NULL removes it. Quotes
   are added to the text where the value needs them. Fails when the name is none
   or the value cannot be written: it has both kinds of quotes. */
FL_API FL_MUST_CHECK
fl_status fl_words_set(fl_words *w, const char *name, const char *value);

/* All of them in their order, from 0; borrowed likewise. */
FL_API size_t fl_words_count(const fl_words *w);
FL_API const char *fl_words_name(const fl_words *w, size_t i);
FL_API const char *fl_words_value(const fl_words *w, size_t i);

/* As one text, which reads back the same. Free with fl_text_free. */
FL_API char *fl_words_text(const fl_words *w);

/* The nearest of n names to `word` by edit distance, for "did you mean"; NULL
   when none is near. */
FL_API const char *fl_nearest_name(const char *word, const char *const *names,
                                   size_t n);

#ifdef __cplusplus
}
#endif
#endif
