/* train_tries.c - what is to be tried, out of the command line. */
#include "train_tries.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

/* --- one option ------------------------------------------------------------- */

/* Trials differ in how they train, not in what they are judged on, and nothing
   of them is kept. */
static const char *const not_tried[] = {
    "--data",       "--test",       "--split",        "--key",
    "--metrics",    "--test-every", "--epochs",       "--patience",
    "--save",       "--infer",      "--record",       "--tensorboard",
    "--mode",       "--strategy",   "--dump-program", "--try",
    "--try-random",
};

static int refuse_name(const char *self, const char *name)
{
    for (size_t i = 0; i < sizeof(not_tried) / sizeof(not_tried[0]); i++)
        if (!strcmp(name, not_tried[i]))
            return cmd_misused(self,
                               "--try compares ways to train; %s is the same "
                               "for all trials, give it apart",
                               name);
    return CMD_OK;
}

/* learning_rate is --learning-rate. */
static void name_option(tries_option *o, const char *word, size_t len)
{
    snprintf(o->name, sizeof(o->name), "--%.*s", (int)len, word);
    for (char *c = o->name; *c; c++)
        if (*c == '_')
            *c = '-';
}

static bool is_taken(const tries *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->options[i].name, name))
            return true;
    return false;
}

static bool is_whole(const char *text, size_t len)
{
    return len && strspn(text, "0123456789") >= len;
}

/* "0.0001..0.1"; false: it is none. */
static bool read_range(tries_option *o, const char *text)
{
    const char *dots = strstr(text, "..");
    char *end;

    if (!dots || strchr(text, ','))
        return false;
    o->lo = strtod(text, &end);
    /* A number may take the first dot for its own. */
    if (end == text || (end != dots && end != dots + 1))
        return false;
    o->hi = strtod(dots + 2, &end);
    o->is_whole = is_whole(text, (size_t)(dots - text)) &&
                  is_whole(dots + 2, strlen(dots + 2));
    return end != dots + 2 && !*end && o->lo >= 0 && o->lo < o->hi &&
           isfinite(o->hi);
}

static bool read_list(tries_option *o, const char *text)
{
    size_t n = 1;

    for (const char *c = text; *c; c++)
        n += *c == ',';
    o->text = strdup(text);
    o->values = calloc(n, sizeof(*o->values));
    if (!o->text || !o->values)
        return false;
    for (char *at = o->text; at;) {
        char *comma = strchr(at, ',');

        if (comma)
            *comma++ = '\0';
        if (!*at)
            return false;
        o->values[o->n++] = at;
        at = comma;
    }
    return true;
}

static int take_try(const char *self, tries *t, const char *word)
{
    const char *equals = word ? strchr(word, '=') : NULL;
    tries_option *o = &t->options[t->n];

    if (!equals || equals == word || !equals[1] ||
        equals - word > TRIES_NAME_MAX - 3)
        return cmd_misused(self, "--try needs OPTION=VALUE,VALUE,... behind "
                                 "it, as in --try width=8,16");
    if (t->n == TRIES_OPTIONS_MAX)
        return cmd_misused(self, "--try: at most %d options",
                           TRIES_OPTIONS_MAX);
    name_option(o, word, (size_t)(equals - word));
    if (is_taken(t, o->name))
        return cmd_misused(self,
                           "--try has %s twice; give all its values at "
                           "once",
                           o->name);
    t->n++;
    if (!read_range(o, equals + 1) &&
        (strstr(equals + 1, "..") || !read_list(o, equals + 1)))
        return cmd_misused(self,
                           "--try %s: values are apart by commas, or a range "
                           "LOW..HIGH of numbers of 0 or more",
                           word);
    return refuse_name(self, o->name);
}

/* --- all of them ------------------------------------------------------------ */

static int take_random(const char *self, tries *t, const char *word)
{
    char *end = NULL;

    if (word && is_whole(word, strlen(word)))
        t->random = strtoull(word, &end, 10);
    if (!end || *end || !t->random || t->random > TRIES_MAX)
        return cmd_misused(self,
                           "--try-random needs a whole number in 1..%d, not "
                           "'%s'",
                           TRIES_MAX, word ? word : "");
    return CMD_OK;
}

/* Combinations of all lists; 0: there are ranges, TRIES_MAX + 1: too many. */
static size_t combinations(const tries *t)
{
    size_t n = 1;

    for (size_t i = 0; i < t->n; i++) {
        n *= t->options[i].n;
        if (n > TRIES_MAX)
            n = TRIES_MAX + 1;
    }
    return n;
}

static bool has_range(const tries *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (!t->options[i].n)
            return true;
    return false;
}

static int check(const char *self, const tries *t)
{
    size_t n = combinations(t);

    if (!t->n && t->random)
        return cmd_misused(self, "--try-random draws of what? --try "
                                 "OPTION=VALUES says it");
    if (t->n && !t->random && has_range(t))
        return cmd_misused(self, "a range of --try is drawn from: --try-random "
                                 "N says how often");
    if (!t->random && n > TRIES_MAX)
        return cmd_misused(self,
                           "--try: more than %d combinations; --try-random N "
                           "draws some of them",
                           TRIES_MAX);
    if (t->random && !has_range(t) && t->random >= n)
        return cmd_misused(self,
                           "--try-random %" PRIu64 " of %zu combinations; "
                           "leave it out, and all are tried",
                           t->random, n);
    return CMD_OK;
}

int tries_take(tries *t, int *argc, char **argv)
{
    int code = CMD_OK, n = 1;

    *t = (tries){ 0 };
    for (int i = 1; !code && i < *argc; i++) {
        bool is_try = !strcmp(argv[i], "--try");

        if (!is_try && strcmp(argv[i], "--try-random") != 0) {
            argv[n++] = argv[i];
            continue;
        }
        i++;
        code = is_try ? take_try(argv[0], t, i < *argc ? argv[i] : NULL)
                      : take_random(argv[0], t, i < *argc ? argv[i] : NULL);
    }
    *argc = n;
    return code ? code : check(argv[0], t);
}

void tries_release(tries *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->options[i].text);
        free(t->options[i].values);
    }
}

size_t tries_count(const tries *t)
{
    return t->random ? (size_t)t->random : combinations(t);
}

/* --- values ----------------------------------------------------------------- */

/* A number in [0, 1) out of the numbers of a draw. */
static double draw(uint64_t seed, uint64_t trial, uint64_t option,
                   uint64_t again)
{
    uint64_t x = seed;
    const uint64_t parts[] = { trial, option, again };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        x += parts[i] + UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return (double)(x >> 11) / 9007199254740992.0;
}

/* On a scale of ratios, where the range allows it: as many between 0.001 and
   0.01 as between 0.01 and 0.1. */
static double between(double lo, double hi, double u)
{
    return lo > 0 ? lo * pow(hi / lo, u) : u * hi;
}

static const char *from_range(const tries_option *o, double u,
                              char room[TRIES_NAME_MAX])
{
    if (o->is_whole)
        snprintf(room, TRIES_NAME_MAX, "%.0f",
                 fmin(o->hi, floor(between(o->lo, o->hi + 1, u))));
    else
        snprintf(room, TRIES_NAME_MAX, "%.3g", between(o->lo, o->hi, u));
    return room;
}

void tries_values(const tries *t, size_t i, uint64_t seed, uint64_t again,
                  char room[][TRIES_NAME_MAX], const char **values)
{
    size_t rest = i;

    /* The last option changes fastest. */
    for (size_t k = t->n; k-- > 0;) {
        const tries_option *o = &t->options[k];
        double u = draw(seed, i, k, again);

        if (!o->n)
            values[k] = from_range(o, u, room[k]);
        else if (t->random)
            values[k] = o->values[(size_t)(u * (double)o->n)];
        else
            values[k] = o->values[rest % o->n];
        rest /= o->n ? o->n : 1;
    }
}
