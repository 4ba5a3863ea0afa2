/* words.h - settings in words, cut in one place for all who take them.
 *
 * Two forms share names, values, brackets and quotes (docs/formats/words.md):
 *
 *     settings   dim=10 init=uniform(-1,1), optimizer=adam
 *     list       -1, 1, seed=7        columns=a:id b:float,sep=tab
 *
 * Commas and white space lie between settings. Between the items of a list lie
 * commas alone, so that a value may have spaces, and an item may be a value
 * without a name; the arguments of a call such as uniform(-1,1) and the options
 * of a format are lists. flotilla/words.h has what is public.
 */
#ifndef FL_CONF_WORDS_H
#define FL_CONF_WORDS_H

#include "base/vec.h"
#include "conf/key.h"
#include "flotilla/words.h"

typedef struct fl_word {
    char *name; /* "": a value alone, in lists */
    char *value;
} fl_word;

struct fl_words {
    FL_VEC(fl_word) list;
};

typedef enum fl_words_form { FL_WORDS_SETTINGS, FL_WORDS_LIST } fl_words_form;

/* *out is overwritten; nothing of it needs a release after a failure. */
FL_MUST_CHECK
fl_status fl_words_read(fl_words *out, const char *text, fl_words_form form);
void fl_words_release(fl_words *w);

/* The value as the key says, checked against its range. Errors begin with
   name=value. */
FL_MUST_CHECK
fl_status fl_word_parse(const fl_word *w, const fl_key *key, fl_key_value *out);

/* Refuses a name that `owner` does not have: with the nearest one that it has,
   and all of them. */
fl_status fl_word_refuse(const fl_word *w, const char *owner,
                         const char *const *names, size_t n);

/* Adds name=value behind what is there, with a space between; both come from
   words that were read, or need no check. */
void fl_words_add(fl_str *to, const char *name, const char *value);

#endif
