/* models_lines.c - made lines: what is frequent is so as in real data, what is
 * to be learnt does not matter here. */
#include "models_lines.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEED 7

static uint64_t draw(uint64_t *state, uint64_t below)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

/* Small numbers are frequent: the product of two. */
static uint64_t often(uint64_t *state, uint64_t below)
{
    return draw(state, below) * draw(state, below) / below;
}

static void click_line(FILE *f, uint64_t *s)
{
    fputs("13", f);
    for (int i = 0; i < 13; i++)
        fprintf(f, " 0.%03" PRIu64, draw(s, 1000));
    for (uint64_t i = 0; i < 26; i++)
        fprintf(f, " 1 %" PRIu64, i * 10000 + often(s, 10000));
    fprintf(f, " 1 %" PRIu64 "\n", draw(s, 2));
}

static void adult_line(FILE *f, uint64_t *s)
{
    fprintf(f, "0.%02" PRIu64 ",w%" PRIu64 ",0.1,e%" PRIu64 ",0.5,m%" PRIu64,
            draw(s, 100), often(s, 9), often(s, 16), often(s, 7));
    fprintf(f, ",o%" PRIu64 ",r%" PRIu64 ",a%" PRIu64 ",s%" PRIu64,
            often(s, 15), often(s, 6), often(s, 5), draw(s, 2));
    fprintf(f, ",0,0,0.%02" PRIu64 ",c%" PRIu64 ",%" PRIu64 "\n", draw(s, 100),
            often(s, 42), draw(s, 2));
}

static void frappe_line(FILE *f, uint64_t *s)
{
    fputs(draw(s, 3) ? "-1" : "1", f);
    for (uint64_t i = 0; i < 10; i++)
        fprintf(f, " %" PRIu64 ":1", i * 500 + often(s, 500));
    fputc('\n', f);
}

/* 2 to 8 clicks, 4.9 on average in the set that this follows. */
static void session_line(FILE *f, uint64_t *s)
{
    for (uint64_t n = 2 + draw(s, 7); n; n--)
        fprintf(f, "%" PRIu64 "%c", 1 + often(s, 43000), n > 1 ? ' ' : '\n');
}

static void put_words(FILE *f, uint64_t *s, uint64_t n)
{
    while (n--)
        fprintf(f, "word%" PRIu64 "%s", often(s, 20000), n ? " " : "");
}

static void tagged_line(FILE *f, uint64_t *s)
{
    fprintf(f, "%" PRIu64 "\t", draw(s, 20));
    put_words(f, s, 4 + draw(s, 10));
    fputc('\n', f);
}

static void news_line(FILE *f, uint64_t *s)
{
    fputs("1,", f);
    put_words(f, s, 4 + draw(s, 6));
    fputc(',', f);
    put_words(f, s, 20 + draw(s, 25));
    fputc('\n', f);
}

const models_lines models_lines_all[] = {
    { "ctr_dnn", "multislot", 20000, 0, click_line },
    { "wide_deep", NULL, 20000, 0, adult_line },
    { "deepfm", NULL, 20000, 0, frappe_line },
    { "gru4rec", NULL, 500, 0, session_line },
    { "ssr", NULL, 10000, 0, session_line },
    { "tagspace", NULL, 10000, 0, tagged_line },
    { "multiview_simnet", NULL, 4000, 0, news_line },
};
const size_t models_lines_count =
    sizeof models_lines_all / sizeof *models_lines_all;

void models_lines_write(const models_lines *of, const char *path)
{
    FILE *f = fopen(path, "w");
    uint64_t state = SEED;

    for (size_t i = 0; f && i < of->n; i++)
        of->line(f, &state);
    if (f && !fclose(f))
        return;
    perror(path);
    exit(1);
}
