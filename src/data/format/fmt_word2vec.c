/* fmt_word2vec.c - plain text as pairs of words that stand near one another,
 * with words drawn at random beside them (skip-gram with negative sampling), or
 * as whole sentences, of which the operator skip_gram makes the pairs.
 * docs/formats/word2vec.md has the rules.
 *
 * Nothing here has a state: what is drawn at a word depends on the seed, the
 * file, the line, the epoch and the place of the word in its line, by counter.
 * So any number of threads gives the same records.
 *
 *     row = place of the word in its line, whose key goes with the word
 *     column 0: is the word kept?   1: its window   2...: negatives, noise
 */
#include "data/format/fmt_help.h"

#include <math.h>

#include "base/hash.h"
#include "base/rng.h"
#include "data/format/scan.h"
#include "data/format/vocab.h"

#define WINDOW_MAX 1000
#define NEGATIVES_MAX 1024
#define NOISE_MAX 1024
#define SENTENCE_MAX 1000000
/* Words of a line that are kept on the stack. */
#define SHORT_LINE 1024

/* What a record of a pair has, and one of a sentence. */
enum { INPUT, TRUE_LABEL, NEGATIVE, N_OFFERS };
enum { WORDS, NOISE, N_SENTENCE_OFFERS };
enum { DRAW_KEEP, DRAW_WINDOW, DRAW_NEGATIVE };

/* One cell of Walker's alias table: below `below` (of 2^32) it is the word of
   its own number, else the other. */
typedef struct alias {
    uint32_t below, other;
} alias;

typedef struct word2vec {
    fl_vocab *vocab;
    uint32_t n_words, unknown; /* FL_VOCAB_NONE: unknown words are left out */
    uint32_t window, n_negatives;
    uint32_t max_words, n_noise; /* of a sentence; n_noise for each word */
    bool whole;                  /* sentences, not pairs */
    fl_word_case how;
    uint64_t stream;
    alias *cells;        /* one per word */
    double *keep;        /* chance of each word to be kept */
    int offer[N_OFFERS]; /* that each slot has, in the order of the slots */
} word2vec;

/* --- opening -------------------------------------------------------------- */

static fl_status read_options(fl_parser *p, word2vec *s, float *sample)
{
    const char *vocab = fl_parser_option(p, "vocab");
    const char *text = fl_parser_option(p, "sample");
    const char *at = text, *end = text + strlen(text);
    int64_t window, negatives, max_words, noise;
    bool lower;

    if (!*vocab)
        FL_FAIL(FL_ERR_INVAL,
                "format word2vec: no vocabulary: say vocab=FILE, a file of "
                "lines 'word count'");
    if (at == end || !fl_scan_f32(&at, end, sample) || at != end || *sample < 0)
        FL_FAIL(FL_ERR_INVAL,
                "format word2vec: sample=%s is no number of 0 or more", text);
    FL_TRY(fl_parser_option_int(p, "window", 1, WINDOW_MAX, &window));
    FL_TRY(fl_parser_option_int(p, "negatives", 0, NEGATIVES_MAX, &negatives));
    FL_TRY(fl_parser_option_int(p, "max_words", 2, SENTENCE_MAX, &max_words));
    FL_TRY(fl_parser_option_int(p, "noise", 0, NOISE_MAX, &noise));
    FL_TRY(fl_parser_option_bool(p, "lower", &lower));
    s->window = (uint32_t)window;
    s->n_negatives = (uint32_t)negatives;
    s->max_words = (uint32_t)max_words;
    s->n_noise = (uint32_t)noise;
    s->how = lower ? FL_WORDS_LOWER : FL_WORDS_AS_THEY_ARE;
    return fl_vocab_read(&s->vocab, vocab);
}

/* keep = (sqrt(c / (s C)) + 1) (s C) / c, where c is the count of the word and
   C that of all; 1 and more: always. */
static void fill_keep(word2vec *s, double sample)
{
    double mark = sample * (double)fl_vocab_total(s->vocab);

    for (uint32_t i = 0; i < s->n_words; i++) {
        double c = (double)fl_vocab_count_of(s->vocab, i);

        s->keep[i] = mark > 0 && c > 0 ? (sqrt(c / mark) + 1) * mark / c : 1;
    }
}

/* count^0.75 by square roots, which every machine rounds alike. */
static double weight_of(uint64_t count)
{
    double root = sqrt((double)count);

    return root * sqrt(root);
}

static uint32_t to_32_bits(double share)
{
    double x = share * 0x1p32;

    return x >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

/* Vose's way: cells with less than their share are filled up from those with
   more. left[i] is what is left of word i, in cells; `small` and `large` are
   stacks that grow towards one another in one array. */
static void fill_cells(alias *cells, double *left, uint32_t *stack, uint32_t n)
{
    uint32_t n_small = 0, large = n;

    for (uint32_t i = 0; i < n; i++) {
        if (left[i] < 1)
            stack[n_small++] = i;
        else
            stack[--large] = i;
        cells[i] = (alias){ .below = UINT32_MAX, .other = i };
    }
    while (n_small && large < n) {
        uint32_t from = stack[large], to = stack[--n_small];

        cells[to] = (alias){ .below = to_32_bits(left[to]), .other = from };
        left[from] -= 1 - left[to];
        if (left[from] < 1) {
            large++;
            stack[n_small++] = from;
        }
    }
}

static fl_status make_cells(word2vec *s)
{
    uint32_t n = s->n_words;
    double *left = fl_try_alloc(n * sizeof(*left));
    uint32_t *stack = fl_try_alloc(n * sizeof(*stack));
    double sum = 0;

    if (left && stack) {
        for (uint32_t i = 0; i < n; i++)
            sum += weight_of(fl_vocab_count_of(s->vocab, i));
        for (uint32_t i = 0; i < n; i++)
            left[i] = weight_of(fl_vocab_count_of(s->vocab, i)) * n / sum;
        fill_cells(s->cells, left, stack, n);
    }
    fl_data_free(left, n * sizeof(*left));
    fl_data_free(stack, n * sizeof(*stack));
    if (!left || !stack)
        FL_FAIL(FL_ERR_NOMEM, "no memory to draw from %u words", n);
    return FL_OK;
}

static fl_status make_tables(word2vec *s, float sample)
{
    s->n_words = fl_vocab_len(s->vocab);
    s->unknown =
        fl_vocab_find(s->vocab, FL_VOCAB_UNKNOWN, strlen(FL_VOCAB_UNKNOWN));
    s->cells = fl_try_alloc(s->n_words * sizeof(*s->cells));
    s->keep = fl_try_alloc(s->n_words * sizeof(*s->keep));
    if (!s->cells || !s->keep)
        FL_FAIL(FL_ERR_NOMEM, "no memory to draw from %u words", s->n_words);
    fill_keep(s, (double)sample);
    return make_cells(s);
}

/* Sentences are given to who asks for one of their slots. */
static bool wants_sentences(const fl_parser *p)
{
    for (uint32_t i = 0; i < p->wanted.n_slots; i++)
        if (!strcmp(p->wanted.slots[i].name, "words") ||
            !strcmp(p->wanted.slots[i].name, "noise"))
            return true;
    return false;
}

static fl_status check_ragged(const fl_parser *p)
{
    for (uint32_t i = 0; i < p->schema.n_slots; i++)
        if (p->schema.slots[i].width)
            FL_FAIL(FL_ERR_INVAL,
                    "slot %s: sentences differ in length, and %u values a "
                    "record are wanted; let it be ragged",
                    p->schema.slots[i].name, p->schema.slots[i].width);
    return FL_OK;
}

static fl_status pick_slots(fl_parser *p, word2vec *s)
{
    const fl_slot of_pairs[N_OFFERS] = {
        [INPUT] = { "input_word", FL_SLOT_IDS, 1, s->n_words },
        [TRUE_LABEL] = { "true_label", FL_SLOT_IDS, 1, s->n_words },
        [NEGATIVE] = { "neg_label", FL_SLOT_IDS, s->n_negatives, s->n_words },
    };
    const fl_slot of_sentences[N_SENTENCE_OFFERS] = {
        [WORDS] = { "words", FL_SLOT_IDS, 0, s->n_words },
        [NOISE] = { "noise", FL_SLOT_IDS, 0, s->n_words },
    };
    int slot_of[N_OFFERS];
    size_t n = s->n_negatives ? N_OFFERS : NEGATIVE;

    s->whole = wants_sentences(p);
    if (s->whole)
        n = s->n_noise ? N_SENTENCE_OFFERS : NOISE;
    FL_TRY(fl_help_pick(p, s->whole ? of_sentences : of_pairs, n, slot_of));
    if (s->whole)
        FL_TRY(check_ragged(p));
    for (size_t i = 0; i < n; i++)
        if (slot_of[i] != FL_NO_SLOT)
            s->offer[slot_of[i]] = (int)i;
    return FL_OK;
}

static fl_status word2vec_open(fl_parser *p, const char *sample_line)
{
    word2vec *s = fl_alloc(sizeof(*s));
    float sample;

    (void)sample_line;
    p->state = s;
    s->stream = fl_rng_stream(p->seed, "word2vec");
    FL_TRY(read_options(p, s, &sample));
    FL_TRY(make_tables(s, sample));
    return pick_slots(p, s);
}

static void word2vec_close(fl_parser *p)
{
    word2vec *s = p->state;

    if (!s)
        return;
    fl_data_free(s->cells, s->n_words * sizeof(*s->cells));
    fl_data_free(s->keep, s->n_words * sizeof(*s->keep));
    fl_vocab_free(s->vocab);
    fl_free(s);
}

/* --- drawing -------------------------------------------------------------- */

/* In [0, n), from the upper half of the bits. */
static uint32_t below(uint64_t bits, uint32_t n)
{
    return (uint32_t)(((bits >> 32) * n) >> 32);
}

/* Draw i at the word whose row of randomness has this key. */
static uint32_t draw_word(const word2vec *s, uint64_t key, uint64_t i)
{
    uint64_t bits = fl_rng_row_bits(key, DRAW_NEGATIVE + i);
    uint32_t cell = below(bits, s->n_words);
    alias a = s->cells[cell];
    uint32_t own = 0 - (uint32_t)((uint32_t)bits < a.below);

    return (cell & own) | (a.other & ~own); /* no branch to guess */
}

/* --- lines ---------------------------------------------------------------- */

/* A word that is known and kept, and the key of its randomness. */
typedef struct token {
    uint64_t key;
    uint32_t id;
} token;

typedef struct sentence {
    uint64_t stream;
    token *tokens;
    size_t n;
} sentence;

/* Takes the word at this place of the line, if it is known and drawn. It is
   written first and then counted, or not: a draw and a write cost less than a
   branch that is often guessed wrong. */
static void take_word(const word2vec *s, uint32_t id, uint64_t place,
                      sentence *out)
{
    uint64_t key = fl_rng_row(out->stream, place);

    if (id == FL_VOCAB_NONE)
        id = s->unknown;
    if (id == FL_VOCAB_NONE)
        return;
    out->tokens[out->n] = (token){ .key = key, .id = id };
    if (fl_rng_row_unit(key, DRAW_KEEP) < s->keep[id])
        out->n++;
}

static void read_words(const word2vec *s, const fl_line *l, sentence *out)
{
    fl_vocab_word words[FL_VOCAB_GROUP];
    uint32_t ids[FL_VOCAB_GROUP];
    const char *at = l->at;
    size_t n = FL_VOCAB_GROUP;

    for (uint64_t place = 0; n == FL_VOCAB_GROUP; place += n) {
        for (n = 0; n < FL_VOCAB_GROUP; n++)
            if (!fl_word_next(&at, l->end, s->how, &words[n]))
                break;
        fl_vocab_find_all(s->vocab, words, n, ids);
        for (size_t i = 0; i < n; i++)
            take_word(s, ids[i], place + i, out);
    }
}

static fl_status write_pair(const fl_parser *p, const token *centre,
                            const token *context, uint64_t pair,
                            fl_row_writer *w)
{
    const word2vec *s = p->state;
    uint32_t ragged = 0;

    FL_TRY(fl_row_open(w, 2 + (size_t)s->n_negatives));
    for (uint32_t i = 0; i < p->schema.n_slots; i++) {
        const fl_slot *slot = &p->schema.slots[i];
        uint32_t n = s->offer[i] == NEGATIVE ? s->n_negatives : 1;

        fl_row_slot(w, slot, ragged, n);
        ragged += slot->width == 0;
        if (s->offer[i] == INPUT)
            fl_row_id(w, centre->id);
        else if (s->offer[i] == TRUE_LABEL)
            fl_row_id(w, context->id);
        else
            for (uint64_t k = 0; k < n; k++)
                fl_row_id(w, draw_word(s, centre->key, pair * n + k));
    }
    fl_row_close(w);
    return FL_OK;
}

/* All pairs of the word number i with those in its window, which is drawn from
   1 to window + 1. */
static fl_status write_centre(const fl_parser *p, const sentence *t, size_t i,
                              fl_row_writer *w)
{
    const word2vec *s = p->state;
    const token *centre = &t->tokens[i];
    uint64_t bits = fl_rng_row_bits(centre->key, DRAW_WINDOW);
    size_t k = 1 + (size_t)below(bits, s->window + 1);
    size_t lo = i > k ? i - k : 0;
    size_t hi = t->n - i > k ? i + k + 1 : t->n;
    uint64_t pair = 0;

    for (size_t j = lo; j < hi; j++)
        if (j != i)
            FL_TRY(write_pair(p, centre, &t->tokens[j], pair++, w));
    return FL_OK;
}

static fl_status write_pairs(const fl_parser *p, const sentence *t,
                             fl_row_writer *w)
{
    for (size_t i = 0; i < t->n; i++)
        FL_TRY(write_centre(p, t, i, w));
    return FL_OK;
}

static void write_words(const token *lo, const token *hi, fl_row_writer *w)
{
    for (; lo < hi; lo++)
        fl_row_id(w, lo->id);
}

/* The place to write to is kept here: in memory it would be read again after
   every id. */
static void write_noise(const word2vec *s, const token *lo, const token *hi,
                        fl_row_writer *w)
{
    fl_row_writer to = *w;

    for (; lo < hi; lo++)
        for (uint64_t k = 0; k < s->n_noise; k++)
            fl_row_id(&to, draw_word(s, lo->key, k));
    *w = to;
}

/* The words [lo, hi) as a record. */
static fl_status write_piece(const fl_parser *p, const token *lo,
                             const token *hi, fl_row_writer *w)
{
    const word2vec *s = p->state;
    uint32_t n = (uint32_t)(hi - lo), ragged = 0;

    FL_TRY(fl_row_open(w, (size_t)n * (1 + s->n_noise)));
    for (uint32_t i = 0; i < p->schema.n_slots; i++) {
        const fl_slot *slot = &p->schema.slots[i];
        bool words = s->offer[i] == WORDS;

        fl_row_slot(w, slot, ragged, words ? n : n * s->n_noise);
        ragged += slot->width == 0;
        if (words)
            write_words(lo, hi, w);
        else
            write_noise(s, lo, hi, w);
    }
    fl_row_close(w);
    return FL_OK;
}

/* Pieces of at most max_words; one word alone has nothing near it. */
static fl_status write_sentence(const fl_parser *p, const sentence *t,
                                fl_row_writer *w)
{
    const word2vec *s = p->state;

    for (size_t lo = 0, hi; lo + 1 < t->n; lo = hi) {
        hi = t->n - lo > s->max_words ? lo + s->max_words : t->n;
        FL_TRY(write_piece(p, t->tokens + lo, t->tokens + hi, w));
    }
    return FL_OK;
}

static bool word2vec_line(const fl_parser *p, const fl_line *l,
                          fl_row_writer *w, fl_bad *bad, fl_status *st)
{
    token on_stack[SHORT_LINE];
    size_t most = (size_t)(l->end - l->at) / 2 + 1;
    size_t bytes = most * sizeof(token);
    sentence t = { .stream = fl_help_line_stream(
                       ((const word2vec *)p->state)->stream, l),
                   .tokens = on_stack };

    (void)bad;
    if (most > SHORT_LINE) {
        t.tokens = fl_try_alloc(bytes);
        if (!t.tokens) {
            *st = fl_err_set(FL_ERR_NOMEM, "no memory for a line of %zu words",
                             most);
            return false;
        }
    }
    read_words(p->state, l, &t);
    *st = ((const word2vec *)p->state)->whole ? write_sentence(p, &t, w)
                                              : write_pairs(p, &t, w);
    if (t.tokens != on_stack)
        fl_data_free(t.tokens, bytes);
    return *st == FL_OK;
}

const fl_format fl_format_word2vec = {
    .name = "word2vec",
    .doc = "plain text; a record is a word, a word near it, and words drawn at "
           "random: slots input_word, true_label, neg_label; or a sentence "
           "and words drawn at random: slots words, noise",
    .options = {
        { .name = "vocab", .otherwise = "",
          .doc = "file of lines 'word count'; must be given" },
        { .name = "window", .otherwise = "5",
          .doc = "each word draws from 1 to one more than this how far it "
                 "sees" },
        { .name = "sample", .otherwise = "0.001",
          .doc = "words more frequent than this are thinned out; 0: none" },
        { .name = "negatives", .otherwise = "5",
          .doc = "words drawn at random for each record" },
        { .name = "max_words", .otherwise = "1000",
          .doc = "sentences: longer ones are cut" },
        { .name = "noise", .otherwise = "2",
          .doc = "sentences: words drawn at random for each word" },
        { .name = "lower", .otherwise = "yes",
          .doc = "yes: A-Z become a-z, and all but a-z is taken out of words" },
    },
    .draws = true,
    .open = word2vec_open,
    .close = word2vec_close,
    .line = word2vec_line,
};
