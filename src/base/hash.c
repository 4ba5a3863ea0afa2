/* hash.c - FNV-1a for bytes, edit distance for names. */
#include "base/hash.h"

#include <string.h>

#include "base/alloc.h"
#include "flotilla/words.h"

#define FNV_START 0xcbf29ce484222325u

static uint64_t fnv(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

uint64_t fl_hash_bytes(const void *bytes, size_t n)
{
    return fl_mix64(fnv(FNV_START, bytes, n));
}

uint64_t fl_hash_str(const char *s)
{
    return fl_hash_bytes(s, strlen(s));
}

uint64_t fl_hash_column(const char *name)
{
    return fl_mix64(fnv(fnv(FNV_START, name, strlen(name)), "=", 1));
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* The distance of one letter of `name` to each letter of `word`: row[j + 1] is
   that of the letters of `name` so far to the first j + 1 of `word`, rows[1]
   and rows[0] are the rows of one and of two letters before. `swapped` is the
   letter before, or '\0'. */
static void next_row(const char *word, size_t word_len, char letter,
                     char swapped, size_t *const rows[3])
{
    const size_t *top = rows[0], *above = rows[1];
    size_t *row = rows[2];

    row[0] = above[0] + 1;
    for (size_t j = 0; j < word_len; j++) {
        row[j + 1] =
            min3(above[j] + (letter != word[j]), above[j + 1] + 1, row[j] + 1);
        if (j && swapped && word[j - 1] == letter && word[j] == swapped)
            row[j + 1] = min3(row[j + 1], top[j - 1] + 1, row[j + 1]);
    }
}

/* How many letters have to be added, dropped, changed or swapped with their
   neighbour to get from one to the other. `room` holds three rows. */
static size_t edit_distance(const char *word, size_t word_len, const char *name,
                            size_t *room)
{
    size_t *rows[3] = { room, room + word_len + 1, room + 2 * (word_len + 1) };

    for (size_t j = 0; j <= word_len; j++)
        rows[1][j] = j;
    for (size_t i = 0; name[i]; i++) {
        size_t *oldest = rows[0];

        next_row(word, word_len, name[i], i ? name[i - 1] : '\0', rows);
        rows[0] = rows[1];
        rows[1] = rows[2];
        rows[2] = oldest;
    }
    return rows[1][word_len];
}

/* The largest distance at which a name still looks meant: one slip in three
   letters, since two of three make any short name of any other. */
static size_t near_limit(size_t word_len)
{
    size_t limit = word_len / 3 > 1 ? word_len / 3 : 1;

    return limit < word_len ? limit : word_len - 1;
}

const char *fl_nearest_name(const char *word, const char *const *names,
                            size_t n)
{
    size_t word_len = strlen(word);
    const char *nearest = NULL;
    size_t *room, best;

    if (word_len == 0)
        return NULL;
    best = near_limit(word_len) + 1;
    room = fl_alloc(3 * (word_len + 1) * sizeof(*room));
    for (size_t i = 0; i < n; i++) {
        size_t d = edit_distance(word, word_len, names[i], room);

        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    fl_free(room);
    return nearest;
}
