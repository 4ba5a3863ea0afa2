/* vocab.c - words with their counts and numbers.
 *
 * The bytes of all words lie in one buffer, the words in one array in the order
 * of their numbers, and an open table of numbers finds them by hash. How a word
 * starts is kept beside its number: most words are no more than that, and are
 * known without a look at their bytes. */
#include "data/format/vocab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/vec.h"
#include "data/format/scan.h"
#include "data/format/scan_fast.h"

#define FIRST_CAP 1024
#define FILE_MAX ((size_t)4 << 30)
#define WORDS_MAX ((size_t)1 << 30)

/* The first 16 bytes of a word as numbers, with zeros behind a short one. */
typedef struct word_start {
    uint64_t head, tail;
} word_start;

#define START_BYTES sizeof(word_start)

typedef struct word {
    word_start start;
    size_t at; /* in the bytes */
    uint64_t count;
    uint32_t len;
} word;

struct fl_vocab {
    char *bytes;
    size_t bytes_len, bytes_cap;
    word *words;
    size_t n, cap;
    uint32_t *table; /* number + 1; 0: free. A power of two, half full */
    size_t table_cap;
    uint64_t total;
};

/* --- words of a text ------------------------------------------------------ */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

#define EVERY(byte) ((uint64_t)(byte)*FL_EVERY_BYTE)

/* A mark in the highest bit of each of eight bytes that is a letter, given with
   A-Z as a-z. */
static uint64_t letters_of(uint64_t lower)
{
    uint64_t low = lower & EVERY(0x7f);

    return (low + EVERY(0x80 - 'a')) & ~(low + EVERY(0x7f - 'z')) & ~lower &
           EVERY(0x80);
}

/* A word of letters alone with white space behind it, eight bytes at a time.
   False: it is another one, or the end of the text is near. */
static bool take_letters(const char **at, const char *end, fl_vocab_word *w)
{
    const char *p = *at;
    size_t n = 0;

    for (; end - p >= 8 && n + 8 <= FL_WORD_MAX; p += 8, n += 8) {
        uint64_t lower = fl_load8(p) | EVERY(0x20);
        uint64_t others = ~letters_of(lower) & EVERY(0x80);
        int k = others ? __builtin_ctzll(others) / 8 : 8;

        fl_store8(w->lower + n, lower);
        if (k == 8)
            continue;
        if (!is_space(p[k]))
            return false;
        fl_store8(w->lower + n, lower & ((UINT64_C(1) << 8 * k) - 1));
        fl_store8(w->lower + n + 8, 0);
        w->at = w->lower;
        w->len = n + (size_t)k;
        *at = p + k;
        return true;
    }
    return false;
}

/* Keeps the letters. More than fit are counted only: the length then says that
   the word is too long. */
static void make_lower(fl_vocab_word *w, const char *at, const char *end)
{
    w->at = w->lower;
    w->len = 0;
    for (; at < end; at++) {
        char c = (char)(*at >= 'A' && *at <= 'Z' ? *at + ('a' - 'A') : *at);

        if (c < 'a' || c > 'z')
            continue;
        if (w->len < FL_WORD_MAX)
            w->lower[w->len] = c;
        w->len++;
    }
    if (w->len < FL_WORD_PAD)
        memset(w->lower + w->len, 0, FL_WORD_PAD - w->len);
}

bool fl_word_next(const char **at, const char *end, fl_word_case how,
                  fl_vocab_word *out)
{
    const char *p = *at;

    do {
        while (p < end && is_space(*p))
            p++;
        if (p == end) {
            *at = p;
            return false;
        }
        if (how == FL_WORDS_LOWER && take_letters(&p, end, out))
            break;
        out->at = p;
        while (p < end && !is_space(*p))
            p++;
        out->len = (size_t)(p - out->at);
        if (how == FL_WORDS_LOWER)
            make_lower(out, out->at, p);
    } while (out->len == 0 || out->len > FL_WORD_MAX);
    *at = p;
    return true;
}

/* --- storage -------------------------------------------------------------- */

fl_vocab *fl_vocab_new(void)
{
    return fl_alloc(sizeof(fl_vocab));
}

void fl_vocab_free(fl_vocab *v)
{
    if (!v)
        return;
    fl_data_free(v->bytes, v->bytes_cap);
    fl_data_free(v->words, v->cap * sizeof(*v->words));
    fl_data_free(v->table, v->table_cap * sizeof(*v->table));
    fl_free(v);
}

static fl_status grow(void **data, size_t *cap, size_t used, size_t need,
                      size_t item_bytes)
{
    size_t n = *cap ? *cap : FIRST_CAP;
    void *p;

    if (need <= *cap)
        return FL_OK;
    while (n < need)
        n *= 2;
    p = fl_try_alloc(n * item_bytes);
    if (!p)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a vocabulary of %zu bytes",
                n * item_bytes);
    if (used)
        memcpy(p, *data, used * item_bytes);
    fl_data_free(*data, *cap * item_bytes);
    *data = p;
    *cap = n;
    return FL_OK;
}

static word_start start_of(const char *at, size_t len)
{
    char bytes[START_BYTES] = { 0 };

    memcpy(bytes, at, len < START_BYTES ? len : START_BYTES);
    return (word_start){ fl_load8(bytes), fl_load8(bytes + 8) };
}

static word_start start_of_word(const fl_vocab_word *w)
{
    if (w->at != w->lower)
        return start_of(w->at, w->len);
    return (word_start){ fl_load8(w->lower), fl_load8(w->lower + 8) };
}

/* A word that is looked for, and the place where it may be first. */
typedef struct search {
    const char *at;
    size_t len, place;
    word_start start;
} search;

static search search_for(const fl_vocab *v, const char *at, size_t len,
                         word_start s)
{
    uint64_t hash =
        fl_mix64(s.head ^ (s.tail + len) * UINT64_C(0x9e3779b97f4a7c15));

    if (len > START_BYTES)
        hash = fl_hash_bytes(at, len);
    return (search){ .at = at,
                     .len = len,
                     .place = (size_t)hash & (v->table_cap - 1),
                     .start = s };
}

static bool is_word(const fl_vocab *v, const search *s, const word *w)
{
    return w->start.head == s->start.head && w->start.tail == s->start.tail &&
           w->len == s->len &&
           (s->len <= START_BYTES ||
            memcmp(v->bytes + w->at, s->at, s->len) == 0);
}

/* Place of the word in the table, or the free one where it belongs. */
static size_t find_place(const fl_vocab *v, const search *s)
{
    size_t i = s->place;

    while (v->table[i] && !is_word(v, s, &v->words[v->table[i] - 1]))
        i = (i + 1) & (v->table_cap - 1);
    return i;
}

static size_t probe(const fl_vocab *v, const char *at, size_t len)
{
    search s = search_for(v, at, len, start_of(at, len));

    return find_place(v, &s);
}

/* Enters all words into a table of this size. */
static fl_status make_table(fl_vocab *v, size_t cap)
{
    uint32_t *table = fl_try_alloc(cap * sizeof(*table));

    if (!table)
        FL_FAIL(FL_ERR_NOMEM, "no memory for the index of %zu words", v->n);
    memset(table, 0, cap * sizeof(*table));
    fl_data_free(v->table, v->table_cap * sizeof(*v->table));
    v->table = table;
    v->table_cap = cap;
    for (size_t i = 0; i < v->n; i++) {
        const word *w = &v->words[i];

        table[probe(v, v->bytes + w->at, w->len)] = (uint32_t)(i + 1);
    }
    return FL_OK;
}

/* The word, new with count 0 when it was not there. */
static fl_status enter(fl_vocab *v, const char *at, size_t len, word **out)
{
    size_t slot;

    if (2 * (v->n + 1) > v->table_cap)
        FL_TRY(make_table(v, v->table_cap ? 2 * v->table_cap : FIRST_CAP));
    slot = probe(v, at, len);
    if (v->table[slot]) {
        *out = &v->words[v->table[slot] - 1];
        return FL_OK;
    }
    if (v->n == WORDS_MAX)
        FL_FAIL(FL_ERR_NOMEM, "a vocabulary has %zu words at most", WORDS_MAX);
    FL_TRY(grow((void **)&v->bytes, &v->bytes_cap, v->bytes_len,
                v->bytes_len + len, 1));
    FL_TRY(
        grow((void **)&v->words, &v->cap, v->n, v->n + 1, sizeof(*v->words)));
    memcpy(v->bytes + v->bytes_len, at, len);
    v->words[v->n] = (word){ .start = start_of(at, len),
                             .at = v->bytes_len,
                             .len = (uint32_t)len };
    v->bytes_len += len;
    *out = &v->words[v->n++];
    v->table[slot] = (uint32_t)v->n;
    return FL_OK;
}

/* --- making --------------------------------------------------------------- */

fl_status fl_vocab_count(fl_vocab *v, const char *text, size_t len,
                         fl_word_case how)
{
    const char *end = text + len;
    fl_vocab_word w;
    word *it;

    while (fl_word_next(&text, end, how, &w)) {
        FL_TRY(enter(v, w.at, w.len, &it));
        it->count++;
        v->total++;
    }
    return FL_OK;
}

/* A word that can be sorted without the vocabulary. */
typedef struct ranked {
    const char *at;
    word w;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    size_t len = x->w.len < y->w.len ? x->w.len : y->w.len;
    int order;

    if (x->w.count != y->w.count)
        return x->w.count < y->w.count ? 1 : -1;
    order = memcmp(x->at, y->at, len);
    if (order)
        return order;
    return (x->w.len > y->w.len) - (x->w.len < y->w.len);
}

static fl_status sort_words(fl_vocab *v)
{
    size_t bytes = v->n * sizeof(ranked);
    ranked *r;

    if (v->n == 0)
        return FL_OK;
    r = fl_try_alloc(bytes);
    if (!r)
        FL_FAIL(FL_ERR_NOMEM, "no memory to sort %zu words", v->n);
    for (size_t i = 0; i < v->n; i++)
        r[i] = (ranked){ .at = v->bytes + v->words[i].at, .w = v->words[i] };
    qsort(r, v->n, sizeof(*r), by_rank);
    for (size_t i = 0; i < v->n; i++)
        v->words[i] = r[i].w;
    fl_data_free(r, bytes);
    return make_table(v, v->table_cap);
}

/* Words that are not kept go; their counts are summed up. */
static uint64_t drop_rare(fl_vocab *v, uint64_t min_count)
{
    uint64_t dropped = 0;
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        if (v->words[i].count > min_count)
            v->words[n++] = v->words[i];
        else
            dropped += v->words[i].count;
    }
    v->n = n;
    return dropped;
}

fl_status fl_vocab_build(fl_vocab *v, uint64_t min_count, fl_vocab_rare rare)
{
    uint64_t dropped = drop_rare(v, min_count);
    word *unknown;

    FL_TRY(make_table(v, v->table_cap ? v->table_cap : FIRST_CAP));
    v->total -= dropped;
    if (rare == FL_RARE_AS_UNKNOWN) {
        FL_TRY(enter(v, FL_VOCAB_UNKNOWN, strlen(FL_VOCAB_UNKNOWN), &unknown));
        unknown->count += dropped;
        v->total += dropped;
    }
    return sort_words(v);
}

/* --- files ---------------------------------------------------------------- */

fl_status fl_vocab_write(const fl_vocab *v, const char *path)
{
    fl_str out = { 0 };
    fl_status st;

    for (size_t i = 0; i < v->n; i++)
        fl_str_addf(&out, "%.*s %" PRIu64 "\n", (int)v->words[i].len,
                    v->bytes + v->words[i].at, v->words[i].count);
    st = fl_file_write(path, fl_str_text(&out), out.len);
    fl_str_release(&out);
    return st;
}

static fl_status bad_line(const char *path, size_t number, const char *why)
{
    FL_FAIL(FL_ERR_CORRUPT, "vocabulary %s, line %zu: %s", path, number, why);
}

static fl_status read_line(fl_vocab *v, const char *path, size_t number,
                           const char *at, const char *end)
{
    uint64_t count;
    fl_vocab_word w;
    word *it;

    if (!fl_word_next(&at, end, FL_WORDS_AS_THEY_ARE, &w))
        return bad_line(path, number, "there is no word of 1 to 255 bytes");
    while (at < end && is_space(*at))
        at++;
    if (at == end || !fl_scan_u64(&at, end, &count))
        return bad_line(path, number, "no count follows the word");
    while (at < end && is_space(*at))
        at++;
    if (at != end)
        return bad_line(path, number, "there is more than a word and a count");
    if (count > UINT64_MAX - v->total)
        return bad_line(path, number, "the counts are too large");
    FL_TRY(enter(v, w.at, w.len, &it));
    if (it != &v->words[v->n - 1] || v->n != number)
        return bad_line(path, number, "the word was there before");
    it->count = count;
    v->total += count;
    return FL_OK;
}

static fl_status read_lines(fl_vocab *v, const char *path, const char *text,
                            size_t len)
{
    const char *at = text, *end = text + len;

    for (size_t number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop ? stop : end;
        FL_TRY(read_line(v, path, number, at, stop));
        at = stop < end ? stop + 1 : end;
    }
    if (v->total == 0)
        FL_FAIL(FL_ERR_CORRUPT, "vocabulary %s: no word was counted", path);
    return FL_OK;
}

fl_status fl_vocab_read(fl_vocab **out, const char *path)
{
    fl_vocab *v = fl_vocab_new();
    char *text = NULL;
    size_t len;
    fl_status st = fl_file_read(path, FILE_MAX, &text, &len);

    if (!st)
        st = read_lines(v, path, text, len);
    fl_free(text);
    if (st)
        fl_vocab_free(v);
    else
        *out = v;
    return st;
}

/* --- looking up ----------------------------------------------------------- */

uint32_t fl_vocab_len(const fl_vocab *v)
{
    return (uint32_t)v->n;
}

uint32_t fl_vocab_find(const fl_vocab *v, const char *at, size_t len)
{
    uint32_t found = v->table_cap ? v->table[probe(v, at, len)] : 0;

    return found ? found - 1 : FL_VOCAB_NONE;
}

/* Most of the time goes into waiting for the table and then for the word; so
   they are asked for in turn, for all words. */
void fl_vocab_find_all(const fl_vocab *v, const fl_vocab_word *words, size_t n,
                       uint32_t *out)
{
    search all[FL_VOCAB_GROUP];

    FL_DEBUG_ASSERT(n <= FL_VOCAB_GROUP && v->table_cap);
    for (size_t i = 0; i < n; i++) {
        all[i] =
            search_for(v, words[i].at, words[i].len, start_of_word(&words[i]));
        __builtin_prefetch(&v->table[all[i].place]);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t first = v->table[all[i].place];

        __builtin_prefetch(&v->words[first ? first - 1 : 0]);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t found = v->table[find_place(v, &all[i])];

        out[i] = found ? found - 1 : FL_VOCAB_NONE;
    }
}

uint64_t fl_vocab_count_of(const fl_vocab *v, uint32_t i)
{
    FL_DEBUG_ASSERT(i < v->n);
    return v->words[i].count;
}

uint64_t fl_vocab_total(const fl_vocab *v)
{
    return v->total;
}
