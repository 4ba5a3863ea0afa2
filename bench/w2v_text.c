/* w2v_text.c - reading a corpus, drawing pairs, comparing with people. */
#include "w2v_text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctr_data.h"
#include "harness.h"

#define WORD_MAX 40
#define MIN_COUNT 6
#define SLOTS ((size_t)1 << 21) /* of the hash table of words */
#define THINNING 0.001
#define WINDOW 6 /* words on each side at most */
#define PATH_LEN_MAX 512
#define PAIRS_MAX 4000

/* --- files ---------------------------------------------------------------- */

static FILE *open_gz(const char *dir, const char *name)
{
    char path[PATH_LEN_MAX], command[PATH_LEN_MAX + 32];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (strchr(path, '\'') || !(f = fopen(path, "r")))
        return NULL;
    fclose(f);
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    return popen(command, "r");
}

/* The next word of letters, in small ones; tags are left out. */
static bool next_word(FILE *f, char out[WORD_MAX])
{
    size_t n = 0;
    int c;

    while ((c = getc(f)) != EOF) {
        if (c == '<')
            while (c != '>' && c != EOF)
                c = getc(f);
        if (isalpha(c) && n + 1 < WORD_MAX)
            out[n++] = (char)tolower(c);
        else if (isspace(c) && n)
            break;
    }
    out[n] = 0;
    return n > 0;
}

/* --- the vocabulary ------------------------------------------------------- */

typedef struct entry {
    char *word;
    uint64_t count;
    int32_t id; /* -1: rare */
} entry;

typedef struct words {
    entry *slots; /* [SLOTS] */
    size_t n;
} words;

/* The entry of a word, or the free one where it would go. */
static entry *find(const words *w, const char *word)
{
    uint64_t h = 14695981039346656037u;

    for (const char *p = word; *p; p++)
        h = (h ^ (uint8_t)*p) * 1099511628211u;
    h ^= h >> 32;
    while (w->slots[h % SLOTS].word && strcmp(w->slots[h % SLOTS].word, word))
        h++;
    return &w->slots[h % SLOTS];
}

static void end(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    exit(1);
}

/* Every word of the text as the number of its slot. */
static size_t count_words(words *w, FILE *f, int32_t *text, size_t max)
{
    char word[WORD_MAX];
    size_t n = 0;

    while (n < max && next_word(f, word)) {
        entry *e = find(w, word);

        if (!e->word) {
            if (w->n++ > SLOTS / 2)
                end("too many different words");
            e->word = strdup(word);
        }
        e->count++;
        text[n++] = (int32_t)(e - w->slots);
    }
    return n;
}

static int by_count(const void *a, const void *b)
{
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->word, y->word);
}

/* Numbers the words that are frequent enough, and takes their names. */
static void number_words(w2v_text *t, words *w)
{
    entry **all = bench_alloc(w->n * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < SLOTS; i++)
        if (w->slots[i].word)
            all[n++] = &w->slots[i];
    qsort(all, n, sizeof *all, by_count);
    t->words = bench_alloc(n * sizeof *t->words);
    t->counts = bench_alloc(n * sizeof *t->counts);
    for (size_t i = 0; i < n; i++) {
        all[i]->id = all[i]->count < MIN_COUNT ? -1 : (int32_t)i;
        if (all[i]->id < 0) {
            free(all[i]->word);
            continue;
        }
        t->words[i] = all[i]->word;
        t->counts[i] = all[i]->count;
        t->n_words = i + 1;
    }
    free(all);
}

/* Frequent words are dropped at random; rare ones always. */
static void thin_out(w2v_text *t, const words *w, int32_t *text, size_t n)
{
    const double limit = THINNING * (double)n;
    uint64_t random = 1;

    for (size_t i = 0; i < n; i++) {
        const entry *e = &w->slots[text[i]];
        double keep =
            (sqrt((double)e->count / limit) + 1) * limit / (double)e->count;

        if (e->id >= 0 && ctr_uniform(&random) < keep)
            text[t->len++] = e->id;
    }
    t->ids = text;
}

static void add_up_noise(w2v_text *t)
{
    double sum = 0;

    t->noise = bench_alloc(t->n_words * sizeof *t->noise);
    for (size_t i = 0; i < t->n_words; i++)
        t->noise[i] = sum += pow((double)t->counts[i], 0.75);
}

static FILE *open_corpus(const char *dir)
{
    FILE *f = open_gz(dir, "enwiki2018_AA.txt.gz");

    return f ? f : open_gz(dir, "text8_head.gz");
}

void w2v_text_copy(const char *dir, FILE *out, size_t max_words,
                   size_t line_words)
{
    FILE *f = open_corpus(dir);
    char word[WORD_MAX];

    if (!f)
        end("the corpus is gone");
    for (size_t i = 1; i <= max_words && next_word(f, word); i++)
        fprintf(out, "%s%c", word, i % line_words ? ' ' : '\n');
    pclose(f);
}

bool w2v_text_open(w2v_text *t, const char *dir, size_t max_words)
{
    FILE *f = open_corpus(dir);
    words w = { 0 };
    int32_t *text;
    size_t n;

    *t = (w2v_text){ 0 };
    if (!f)
        return false;
    w.slots = bench_alloc(SLOTS * sizeof *w.slots);
    text = bench_alloc(max_words * sizeof *text);
    n = count_words(&w, f, text, max_words);
    pclose(f);
    if (!n)
        end("the corpus has no words");
    t->n_read = n;
    number_words(t, &w);
    thin_out(t, &w, text, n);
    add_up_noise(t);
    free(w.slots);
    return true;
}

void w2v_text_close(w2v_text *t)
{
    for (size_t i = 0; i < t->n_words; i++)
        free(t->words[i]);
    free(t->words);
    free(t->counts);
    free(t->ids);
    free(t->noise);
}

/* --- pairs ---------------------------------------------------------------- */

w2v_reader w2v_reader_of(const w2v_text *t, int part, int n_parts)
{
    size_t lo = t->len * (size_t)part / (size_t)n_parts;
    size_t hi = t->len * (size_t)(part + 1) / (size_t)n_parts;

    return (w2v_reader){
        .text = t, .lo = lo, .hi = hi, .at = lo, .random = (uint64_t)part + 1
    };
}

static void open_window(w2v_reader *r)
{
    int64_t width = 1 + (int64_t)(ctr_random(&r->random) % WINDOW);
    int64_t left = (int64_t)(r->at - r->lo);
    int64_t right = (int64_t)(r->hi - r->at) - 1;

    r->left = left < width ? left : width;
    r->right = right < width ? right : width;
}

/* How far from r->at the next word beside it is; 0: there is none left. */
static int64_t next_beside(w2v_reader *r)
{
    if (r->left)
        return -r->left--;
    return r->right ? r->right-- : 0;
}

static int64_t draw_negative(w2v_reader *r)
{
    const w2v_text *t = r->text;
    double x = ctr_uniform(&r->random) * t->noise[t->n_words - 1];
    size_t lo = 0, hi = t->n_words - 1;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (t->noise[mid] <= x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (int64_t)lo;
}

void w2v_read(w2v_reader *r, int64_t *centers, int64_t *contexts, size_t n,
              int64_t *negatives, size_t n_negatives)
{
    const int32_t *ids = r->text->ids;

    for (size_t i = 0; i < n;) {
        int64_t beside = next_beside(r);

        if (beside) {
            centers[i] = ids[r->at];
            contexts[i++] = ids[(int64_t)r->at + beside];
            continue;
        }
        r->n_read++;
        if (++r->at == r->hi)
            r->at = r->lo;
        open_window(r);
    }
    for (size_t i = 0; i < n_negatives; i++)
        negatives[i] = draw_negative(r);
}

/* --- people --------------------------------------------------------------- */

static int64_t find_word(const w2v_text *t, const char *word)
{
    char small[WORD_MAX];
    size_t n = 0;

    for (; word[n] && n + 1 < WORD_MAX; n++)
        small[n] = (char)tolower((unsigned char)word[n]);
    small[n] = 0;
    for (size_t i = 0; i < t->n_words; i++)
        if (!strcmp(t->words[i], small))
            return (int64_t)i;
    return -1;
}

static double cosine(const float *a, const float *b, int dim)
{
    double ab = 0, aa = 0, bb = 0;

    for (int i = 0; i < dim; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* Ranks of n numbers, equal ones sharing the mean of theirs. */
static void ranks_of(const double *x, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        double less = 0, same = 0;

        for (size_t k = 0; k < n; k++) {
            less += x[k] < x[i];
            same += x[k] == x[i];
        }
        out[i] = less + (same - 1) / 2;
    }
}

static double correlation(const double *x, const double *y, size_t n)
{
    double mx = 0, my = 0, xy = 0, xx = 0, yy = 0;

    for (size_t i = 0; i < n; i++) {
        mx += x[i] / (double)n;
        my += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static double rank_correlation(const double *x, const double *y, size_t n)
{
    double *rx = bench_alloc(n * sizeof *rx), *ry = bench_alloc(n * sizeof *ry);
    double r;

    ranks_of(x, n, rx);
    ranks_of(y, n, ry);
    r = correlation(rx, ry, n);
    free(rx);
    free(ry);
    return r;
}

double w2v_spearman(const w2v_text *t, const char *dir, const char *list,
                    const float *rows, int dim, size_t *n_missing)
{
    char name[PATH_LEN_MAX / 2], a[WORD_MAX], b[WORD_MAX];
    double *people = bench_alloc(2 * PAIRS_MAX * sizeof *people);
    double *ours = people + PAIRS_MAX, score, r;
    size_t n = 0;
    FILE *f;

    snprintf(name, sizeof name, "word-sim/%s.txt.gz", list);
    f = open_gz(dir, name);
    if (!f)
        end("a list of word pairs is missing");
    *n_missing = 0;
    while (n < PAIRS_MAX && fscanf(f, "%39s %39s %lf", a, b, &score) == 3) {
        int64_t x = find_word(t, a), y = find_word(t, b);

        if (x < 0 || y < 0) {
            ++*n_missing;
            continue;
        }
        people[n] = score;
        ours[n++] = cosine(rows + x * dim, rows + y * dim, dim);
    }
    pclose(f);
    r = rank_correlation(people, ours, n);
    free(people);
    return r;
}
