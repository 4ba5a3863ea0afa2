/* hash.c - FNV-1a for bytes, edit distance for names. */
#include "base/hash.h"

#include <string.h>

#include "base/alloc.h"

uint64_t fl_hash_bytes(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return fl_mix64(h);
}

uint64_t fl_hash_str(const char *s)
{
    return fl_hash_bytes(s, strlen(s));
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Levenshtein's distance, one row of its table at a time: before letter i of
   `name`, row[j] is the distance of its first i letters to the first j of
   `word`. */
static size_t edit_distance(const char *word, size_t word_len, const char *name,
                            size_t *row)
{
    for (size_t j = 0; j <= word_len; j++)
        row[j] = j;
    for (size_t i = 0; name[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < word_len; j++) {
            size_t replace = diagonal + (name[i] != word[j]);

            diagonal = row[j + 1];
            row[j + 1] = min3(replace, row[j] + 1, row[j + 1] + 1);
        }
    }
    return row[word_len];
}

/* The largest distance at which a name still looks meant. At least one letter
   has to survive, else any two short names would be near. */
static size_t near_limit(size_t word_len)
{
    size_t limit = word_len / 3 > 2 ? word_len / 3 : 2;

    return limit < word_len ? limit : word_len - 1;
}

const char *fl_nearest_name(const char *word, const char *const *names,
                            size_t n)
{
    size_t word_len = strlen(word);
    const char *nearest = NULL;
    size_t *row, best;

    if (word_len == 0)
        return NULL;
    best = near_limit(word_len) + 1;
    row = fl_alloc((word_len + 1) * sizeof(*row));
    for (size_t i = 0; i < n; i++) {
        size_t d = edit_distance(word, word_len, names[i], row);

        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    fl_free(row);
    return nearest;
}
