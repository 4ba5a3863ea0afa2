/* train_search.c - trials of `flotilla train`, one after the other.
 *
 * A trial is a command line of its own: that of the search, with the options
 * that are tried behind it. All lines are read and all models built before the
 * first trial begins; each begins with a fresh context.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_job.h"
#include "train_tries.h"

#define DRAWS_MAX 1000 /* of a trial that differs from those before it */

typedef struct trial {
    char room[TRIES_OPTIONS_MAX][TRIES_NAME_MAX];
    const char *values[TRIES_OPTIONS_MAX];
    char **argv;
    const char **rest;
    train_args args;
    train_result result;
    bool has_failed;
} trial;

typedef struct search {
    int argc;
    char **argv;
    const ps_sets *sets;
    const tries *what;
    trial *trials;
    size_t n;
} search;

/* --- making trials ---------------------------------------------------------- */

static uint64_t seed_of(const search *s)
{
    for (int i = 1; i + 1 < s->argc; i++)
        if (!strcmp(s->argv[i], "--seed"))
            return strtoull(s->argv[i + 1], NULL, 10);
    return 0;
}

static bool is_new(const search *s, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        size_t k = 0;

        while (k < s->what->n &&
               !strcmp(s->trials[i].values[k], s->trials[at].values[k]))
            k++;
        if (k == s->what->n)
            return false;
    }
    return true;
}

static void choose_values(search *s, size_t at)
{
    trial *t = &s->trials[at];
    uint64_t again = 0;

    do {
        tries_values(s->what, at, seed_of(s), again, t->room, t->values);
    } while (s->what->random && !is_new(s, at) && ++again < DRAWS_MAX);
}

static int read_trial(search *s, size_t at)
{
    trial *t = &s->trials[at];
    size_t n_words = (size_t)s->argc + 2 * s->what->n;
    int n = s->argc;

    choose_values(s, at);
    t->argv = calloc(n_words + 1, sizeof(*t->argv));
    t->rest = calloc(n_words + 1, sizeof(*t->rest));
    if (!t->argv || !t->rest)
        return cmd_failed(s->argv[0], "no memory for a trial");
    memcpy(t->argv, s->argv, (size_t)n * sizeof(*t->argv));
    for (size_t k = 0; k < s->what->n; k++) {
        t->argv[n++] = (char *)s->what->options[k].name;
        t->argv[n++] = (char *)t->values[k];
    }
    return train_read_args(n, t->argv, t->rest, &t->args);
}

static int check_args(const char *self, const train_args *a)
{
    if (!a->test)
        return cmd_misused(self, "--try compares by what is held out; --test "
                                 "DIR or --split 0.8 says what that is");
    if (a->save || a->infer)
        return cmd_misused(self,
                           "--try keeps no model; leave %s out, and give it to "
                           "the line that --try prints at its end",
                           a->save ? "--save" : "--infer");
    if (a->record || a->tensorboard)
        return cmd_misused(self,
                           "--try has a table of its trials and no record; "
                           "leave %s out, and give it to the line that --try "
                           "prints at its end",
                           a->record ? "--record" : "--tensorboard");
    return CMD_OK;
}

/* What cannot be built is told before anything is trained. */
static int prepare(search *s)
{
    int code = CMD_OK;

    for (size_t i = 0; !code && i < s->n; i++) {
        code = read_trial(s, i);
        if (!code)
            code = check_args(s->argv[0], &s->trials[i].args);
    }
    for (size_t i = 0; !code && i < s->n; i++) {
        fl_ctx *c = ps_open(s->argv[0], s->sets);

        if (!c)
            return CMD_FAILED;
        code = train_try_build(s->argv[0], c, &s->trials[i].args);
        fl_ctx_free(c);
    }
    return code;
}

/* --- running them ----------------------------------------------------------- */

/* A rate that is too high ends a trial, but not the search. */
static void run_trial(search *s, size_t at)
{
    trial *t = &s->trials[at];
    fl_ctx *c = ps_open(s->argv[0], s->sets);

    printf("trial %zu of %zu:", at + 1, s->n);
    for (size_t k = 0; k < s->what->n; k++)
        printf(" %s %s", s->what->options[k].name, t->values[k]);
    putchar('\n');
    fflush(stdout);
    t->has_failed = !c || train_run(s->argv[0], c, &t->args, &t->result);
    fl_ctx_free(c);
}

/* --- the table -------------------------------------------------------------- */

/* The best one first, those that failed last. */
static int compare(const void *a, const void *b)
{
    const trial *x = *(trial *const *)a, *y = *(trial *const *)b;

    if (x->has_failed || y->has_failed)
        return (int)x->has_failed - (int)y->has_failed;
    if (train_is_better(&x->result.held_out, &y->result.held_out))
        return -1;
    return train_is_better(&y->result.held_out, &x->result.held_out);
}

static int width_of(const search *s, size_t k)
{
    size_t width = strlen(s->what->options[k].name + 2);

    for (size_t i = 0; i < s->n; i++) {
        size_t len = strlen(s->trials[i].values[k]);

        width = len > width ? len : width;
    }
    return (int)width;
}

static void print_trial(const search *s, const trial *t)
{
    printf("%6zu", (size_t)(t - s->trials) + 1);
    for (size_t k = 0; k < s->what->n; k++)
        printf("  %*s", width_of(s, k), t->values[k]);
    if (t->has_failed) {
        puts("  failed, see above");
        return;
    }
    printf("  %5zu", t->result.epoch);
    train_print_values(stdout, &t->result.held_out);
    putchar('\n');
}

static void print_table(const search *s, trial *const *sorted)
{
    printf(" trial");
    for (size_t k = 0; k < s->what->n; k++)
        printf("  %*s", width_of(s, k), s->what->options[k].name + 2);
    printf("  epoch");
    train_print_names(stdout, &sorted[0]->result.held_out);
    putchar('\n');
    for (size_t i = 0; i < s->n; i++)
        print_trial(s, sorted[i]);
}

/* As a shell takes it. */
static void print_word(const char *word)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_-+=./,:@%";

    if (*word && !word[strspn(word, plain)]) {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word; word++)
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    putchar('\'');
}

static void print_line(const search *s, const trial *best)
{
    printf("the best: flotilla");
    for (char **word = best->argv; *word; word++)
        print_word(*word);
    for (int i = 0; i < s->sets->n; i++) {
        printf(" --set");
        print_word(s->sets->words[i]);
    }
    putchar('\n');
}

static int tell(const search *s)
{
    trial **sorted = calloc(s->n, sizeof(trial *));
    int code = CMD_OK;

    if (!sorted)
        return cmd_failed(s->argv[0], "no memory for the table");
    for (size_t i = 0; i < s->n; i++)
        sorted[i] = &s->trials[i];
    qsort(sorted, s->n, sizeof(trial *), compare);
    if (sorted[0]->has_failed) {
        code = cmd_failed(s->argv[0], "none of the %zu trials could be trained",
                          s->n);
    } else {
        print_table(s, sorted);
        print_line(s, sorted[0]);
    }
    free(sorted);
    return code;
}

/* --- the search ------------------------------------------------------------- */

static void release(search *s)
{
    for (size_t i = 0; s->trials && i < s->n; i++) {
        free(s->trials[i].argv);
        free(s->trials[i].rest);
    }
    free(s->trials);
}

int train_search(int argc, char **argv, const ps_sets *sets, const tries *what)
{
    search s = { .argc = argc,
                 .argv = argv,
                 .sets = sets,
                 .what = what,
                 .n = tries_count(what) };
    int code;

    s.trials = calloc(s.n, sizeof(*s.trials));
    if (!s.trials)
        return cmd_failed(argv[0], "no memory for %zu trials", s.n);
    for (size_t i = 0; i < s.n; i++)
        s.trials[i].args = train_defaults();
    code = prepare(&s);
    for (size_t i = 0; !code && i < s.n; i++)
        run_trial(&s, i);
    if (!code)
        code = tell(&s);
    release(&s);
    return code;
}
