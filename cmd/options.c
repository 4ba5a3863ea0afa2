/* options.c - options of a subcommand, out of a table. */
#include "options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "nearest.h"

/* Digits alone: no sign, no blanks. False as well when it does not fit. */
static bool read_digits(const char **at, uint64_t *out)
{
    const char *p = *at;
    uint64_t x = 0;

    while (*p >= '0' && *p <= '9') {
        uint64_t digit = (uint64_t)(*p++ - '0');

        if (x > (UINT64_MAX - digit) / 10)
            return false;
        x = x * 10 + digit;
    }
    if (p == *at)
        return false;
    *at = p;
    *out = x;
    return true;
}

/* Takes the letter of a size away and gives how far it shifts. */
static int read_unit(const char **at)
{
    static const char units[] = "KMGT";
    const char *unit = **at ? strchr(units, **at) : NULL;

    if (!unit)
        return 0;
    ++*at;
    return 10 * (int)(unit - units + 1);
}

static bool read_number(const option *o, const char *text)
{
    uint64_t x;
    int shift;

    if (!read_digits(&text, &x))
        return false;
    shift = o->kind == OPTION_SIZE ? read_unit(&text) : 0;
    if (*text || x > UINT64_MAX >> shift)
        return false;
    x <<= shift;
    if (x < o->lo || x > o->hi)
        return false;
    *(uint64_t *)o->to = x;
    return true;
}

static bool read_share(const option *o, const char *text)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || *end || !(x >= 0 && x <= 1))
        return false;
    *(double *)o->to = x;
    return true;
}

static int read_value(const options *all, const option *o, const char *text)
{
    static const char *const unit[] = {
        [OPTION_COUNT] = "",
        [OPTION_SIZE] = ", with K, M, G or T behind it if you like",
    };

    if (o->kind == OPTION_TEXT) {
        *(const char **)o->to = text;
    } else if (o->kind == OPTION_SHARE) {
        if (!read_share(o, text))
            return cmd_misused(all->self, "%s needs a share in 0..1, not '%s'",
                               o->name, text);
    } else if (!read_number(o, text)) {
        return cmd_misused(all->self,
                           "%s needs a whole number in %" PRIu64 "..%" PRIu64
                           "%s, not '%s'",
                           o->name, o->lo, o->hi, unit[o->kind], text);
    }
    return CMD_OK;
}

static const option *find(const options *o, const char *word)
{
    for (size_t i = 0; i < o->n; i++)
        if (!strcmp(o->all[i].name, word))
            return &o->all[i];
    return NULL;
}

/* Names the nearest option that the action takes, if one is near. */
static int no_option(const options *o, const char *word)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < o->n; i++)
        if (!o->all[i].users || (o->all[i].users & o->user))
            nearest = nearer_name(word, nearest, o->all[i].name);
    if (nearest)
        return cmd_misused(o->self, "there is no option '%s'; did you mean %s?",
                           word, nearest);
    return cmd_misused(o->self, "there is no option '%s'", word);
}

/* The option word at argv[*i], and its value behind it, if it takes one. */
static int read_option(const options *o, int argc, char **argv, int *i,
                       uint64_t *given)
{
    const option *found = find(o, argv[*i]);
    uint64_t bit;

    if (!found)
        return no_option(o, argv[*i]);
    if (found->users && !(found->users & o->user))
        return cmd_misused(o->self, "%s has no use for %s; leave it out",
                           o->action, found->name);
    bit = (uint64_t)1 << (found - o->all);
    if (*given & bit)
        return cmd_misused(o->self, "%s is there twice", found->name);
    *given |= bit;
    if (found->kind == OPTION_FLAG) {
        *(bool *)found->to = true;
        return CMD_OK;
    }
    if (++*i == argc)
        return cmd_misused(o->self, "%s needs a value behind it", found->name);
    return read_value(o, found, argv[*i]);
}

int options_read(const options *o, int argc, char **argv, const char **rest,
                 size_t *n_rest, uint64_t *given)
{
    uint64_t seen = 0;

    *n_rest = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || !argv[i][1])
            rest[(*n_rest)++] = argv[i];
        else if (read_option(o, argc, argv, &i, &seen))
            return CMD_USAGE;
    }
    if (given)
        *given = seen;
    return CMD_OK;
}
