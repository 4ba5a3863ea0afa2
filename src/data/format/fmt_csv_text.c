/* fmt_csv_text.c - a text column as the ids of its words, or of the letter
 * trigrams of its words. Letters are bytes; A-Z count as a-z. */
#include "data/format/fmt_csv.h"

#include "base/hash.h"
#include "data/format/fmt_help.h"

#define EDGE '#' /* before the first letter of a word and behind the last */

uint64_t fl_csv_id(uint64_t h, uint64_t hash_size)
{
    h = fl_mix64(h);
    return hash_size ? h % hash_size : h;
}

/* The letter at *at, which moves behind it; a doubled quote is one. */
static char next_letter(const fl_csv_field *f, const char **at)
{
    char c = **at;

    *at += 1 + (f->quoted && c == '"');
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool in_word(const fl_csv_field *f, const char *at)
{
    return at < f->end && !fl_help_is_blank(*at);
}

uint32_t fl_csv_text_count(fl_csv_kind kind, const fl_csv_field *f)
{
    uint32_t n = 0;

    if (kind == FL_CSV_WORDS)
        return fl_help_count_words(f->at, f->end);
    for (const char *at = f->at; at < f->end;) {
        n += !fl_help_is_blank(*at);
        next_letter(f, &at);
    }
    return n;
}

static void put_word(const fl_csv_column *c, const fl_csv_field *f,
                     const char **at, uint64_t hash_size, fl_row_writer *w)
{
    uint64_t h = c->hash;

    while (in_word(f, *at))
        h = fl_csv_hash_step(h, next_letter(f, at));
    fl_row_id(w, fl_csv_id(h, hash_size));
}

static uint64_t hash_three(uint64_t h, char x, char y, char z)
{
    return fl_csv_hash_step(fl_csv_hash_step(fl_csv_hash_step(h, x), y), z);
}

/* As many as the word has letters: #cat# has #ca, cat and at#. */
static void put_trigrams(const fl_csv_column *c, const fl_csv_field *f,
                         const char **at, uint64_t hash_size, fl_row_writer *w)
{
    char x = EDGE, y = next_letter(f, at);

    while (in_word(f, *at)) {
        char z = next_letter(f, at);

        fl_row_id(w, fl_csv_id(hash_three(c->hash, x, y, z), hash_size));
        x = y;
        y = z;
    }
    fl_row_id(w, fl_csv_id(hash_three(c->hash, x, y, EDGE), hash_size));
}

void fl_csv_text_put(const fl_csv_column *c, const fl_csv_field *f,
                     uint64_t hash_size, fl_row_writer *w)
{
    const char *at = fl_help_skip_blanks(f->at, f->end);

    while (at < f->end) {
        if (c->kind == FL_CSV_WORDS)
            put_word(c, f, &at, hash_size, w);
        else
            put_trigrams(c, f, &at, hash_size, w);
        at = fl_help_skip_blanks(at, f->end);
    }
}
