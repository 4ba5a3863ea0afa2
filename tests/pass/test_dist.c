/* test_dist.c - runs the cases of one file of programs that are distributed.
 *
 *     case: a sentence
 *     with: words                   may be missing; see read_words
 *     the main program
 *     ---- startup
 *     the startup program           may be missing
 *     ---- changed                  or ---- same, or ---- error
 *     the main program afterwards   nothing: it has stayed the same
 *     ---- startup
 *     the startup program           without: it has stayed the same
 *     ---- placement
 *     BLOCK rows FROM+N on SERVER   without: not looked at
 *     ---- declaration
 *     server NUMBER                 without: not looked at
 *     both programs of a server, as one
 *
 * The name of the file is that of the pass, which runs after those that it
 * builds on; in transpile.test the word mode=M names a list of passes. Behind
 * ---- error stand pieces of the message, one per line. Besides the texts,
 * every case checks that both programs verify and read back as themselves, and
 * that a second run leaves everything alone. */
#include "case_kit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "pass/dist.h"

/* Parts of a case, in the order in which they may stand. */
typedef enum part {
    MAIN,
    STARTUP,
    NEW_MAIN,
    NEW_STARTUP,
    PLACEMENT,
    DECLARATION,
    WRONG,
    N_PARTS
} part;

typedef enum verdict { NONE, CHANGED, SAME, ERROR } verdict;

typedef struct dist_case {
    text_case head;
    char *with;
    fl_str text[N_PARTS];
    bool has[N_PARTS];
    part at;
    verdict verdict;
} dist_case;

/* What a pass builds on; transpile.test has modes instead. */
static const struct {
    const char *pass, *before;
} order[] = {
    { "canon_lr", "" },
    { "canon_power", "" },
    { "dist_sparse", "" },
    { "dist_place", "" },
    { "dist_server", "dist_place" },
    { "dist_send", "dist_pull dist_place" },
    { "dist_recv", "dist_pull dist_place dist_send" },
    { "dist_geo", "dist_pull dist_place" },
    { "dist_startup", "dist_place" },
    { "dist_collective", "dist_pull" },
};

static const struct {
    const char *mode, *passes;
} modes[] = {
    { "sync",
      "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "
      "dist_place dist_server dist_send "
      "dist_recv dist_startup" },
    { "async",
      "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "
      "dist_place dist_server dist_send "
      "dist_startup" },
    { "collective", "canon_decay canon_clip canon_lr canon_power dist_pull "
                    "dist_server dist_collective" },
    { "geo", "canon_decay canon_clip canon_lr canon_power dist_sparse "
             "dist_pull dist_place "
             "dist_server dist_geo "
             "dist_startup" },
};

/* --- reading the file ----------------------------------------------------- */

static void go_to(dist_case *c, part at)
{
    c->at = at;
    c->has[at] = true;
}

static void read_bar(dist_case *c, const char *what)
{
    static const char *const verdicts[] = { "", "changed", "same", "error" };

    for (int v = CHANGED; v <= ERROR; v++)
        if (!strcmp(what, verdicts[v])) {
            c->verdict = (verdict)v;
            go_to(c, v == ERROR ? WRONG : NEW_MAIN);
            return;
        }
    if (!strcmp(what, "startup"))
        go_to(c, c->verdict ? NEW_STARTUP : STARTUP);
    else if (!strcmp(what, "placement"))
        go_to(c, PLACEMENT);
    else if (!strcmp(what, "declaration"))
        go_to(c, DECLARATION);
    else
        fail_msg("---- %s means nothing", what);
}

static void read_line(void *arg, const char *line)
{
    dist_case *c = arg;
    const char *rest;

    if ((rest = after_prefix(line, "with: ")))
        c->with = fl_strdup(rest);
    else if ((rest = after_prefix(line, "---- ")))
        read_bar(c, rest);
    else
        fl_str_addf(&c->text[c->at], "%s\n", line);
}

static void release(void *arg)
{
    dist_case *c = arg;

    fl_free(c->with);
    for (int k = 0; k < N_PARTS; k++)
        fl_str_release(&c->text[k]);
}

/* --- the settings of a case ----------------------------------------------- */

typedef struct setting {
    fl_dist_config config;
    const char *passes; /* of the mode */
} setting;

static const char *const servers[] = { "s0:1", "s1:2", "s2:3" };

static void choose_mode(setting *s, const char *mode)
{
    for (size_t i = 0; i < FL_LEN(modes); i++)
        if (!strcmp(modes[i].mode, mode)) {
            s->passes = modes[i].passes;
            s->config.mode = modes[i].mode;
            s->config.server_adds = !strcmp(mode, "geo");
            return;
        }
    fail_msg("there is no mode %s", mode);
}

static void read_word(setting *s, const char *word)
{
    const char *value;

    if ((value = after_prefix(word, "min_block_size=")))
        s->config.min_block_size = strtoull(value, NULL, 10);
    else if ((value = after_prefix(word, "bucket=")))
        s->config.bucket_bytes = strtoull(value, NULL, 10);
    else if ((value = after_prefix(word, "last_bucket=")))
        s->config.last_bucket_bytes = strtoull(value, NULL, 10);
    else if ((value = after_prefix(word, "merge_steps=")))
        s->config.merge_steps = strtoull(value, NULL, 10);
    else if ((value = after_prefix(word, "local_steps=")))
        s->config.local_steps = strtoull(value, NULL, 10);
    else if ((value = after_prefix(word, "servers=")))
        s->config.n_servers = (int)strtol(value, NULL, 10);
    else if ((value = after_prefix(word, "mode=")))
        choose_mode(s, value);
    else if (!strcmp(word, "round_robin"))
        s->config.round_robin = true;
    else if (!strcmp(word, "whole"))
        s->config.slice_var_up = false;
    else if (!strcmp(word, "server_adds"))
        s->config.server_adds = true;
    else if (*word)
        fail_msg("with: %s means nothing", word);
}

static setting read_words(const dist_case *c)
{
    setting s = { .config = { .mode = "test",
                              .servers = servers,
                              .n_servers = 2,
                              .n_trainers = 2,
                              .min_block_size = 8192,
                              .slice_var_up = true } };
    char *words = fl_strdup(c->with ? c->with : ""), *at = words, *word;

    while ((word = strsep(&at, " ")))
        read_word(&s, word);
    fl_free(words);
    for (size_t i = 0; i < FL_LEN(order) && !s.passes; i++)
        if (!strcmp(order[i].pass, c->head.pass))
            s.passes = order[i].before;
    assert_non_null(s.passes);
    return s;
}

/* --- running one case ----------------------------------------------------- */

static fl_program *parse(const char *text)
{
    fl_program *p = NULL;

    if (fl_program_parse(text, &fl_ops, &p))
        fail_msg("%s", fl_last_error());
    return p;
}

static fl_status run(const dist_case *c, const setting *s, fl_dist **out,
                     bool *changed)
{
    fl_program *main = parse(fl_str_text(&c->text[MAIN]));
    fl_program *startup = parse(fl_str_text(&c->text[STARTUP]));
    const fl_pass *pass = fl_pass_find(c->head.pass);
    fl_status st = fl_dist_new(out, &s->config, main, startup, s->passes, NULL);

    *changed = true;
    if (!st && pass) {
        *changed = false;
        st = pass->spread(*out, changed);
    }
    fl_program_free(main);
    fl_program_free(startup);
    return st;
}

static void expect_text(const fl_program *p, const char *want)
{
    char *text = fl_program_print(p);

    assert_string_equal(text, want);
    fl_free(text);
}

static void expect_program(const dist_case *c, part new, part old,
                           const fl_program *p)
{
    bool is_new = c->has[new] && c->text[new].len;
    fl_program *before = parse(fl_str_text(&c->text[old]));
    char *text = fl_program_print(before);

    if (is_new)
        expect_text(p, fl_str_text(&c->text[new]));
    else if (c->has[new] || new == NEW_STARTUP)
        expect_text(p, text);
    fl_free(text);
    fl_program_free(before);
}

static char *placement_text(const fl_dist *d)
{
    fl_str out = { 0 };

    for (size_t i = 0; i < d->blocks.len; i++) {
        const fl_dist_block *b = &d->blocks.data[i];

        fl_str_addf(&out, "%s rows %" PRIu64 "+%" PRIu64 " on %s\n", b->name,
                    b->from_row, b->n_rows, d->config.servers[b->server]);
    }
    fl_str_add(&out, "");
    return fl_str_take(&out);
}

static char *print_servers(const fl_dist *d)
{
    fl_str out = { 0 };

    for (size_t i = 0; i < d->servers.len; i++)
        fl_str_addf(&out, "server %zu\n%s", i, d->servers.data[i].declared);
    fl_str_add(&out, "");
    return fl_str_take(&out);
}

static void expect_rest(const dist_case *c, const fl_dist *d)
{
    char *placement = placement_text(d);

    if (c->has[PLACEMENT])
        assert_string_equal(placement, fl_str_text(&c->text[PLACEMENT]));
    if (c->has[DECLARATION]) {
        char *declared = print_servers(d);

        assert_string_equal(declared, fl_str_text(&c->text[DECLARATION]));
        fl_free(declared);
    }
    fl_free(placement);
}

static void is_sound(const fl_program *p)
{
    char *text = fl_program_print(p);
    fl_program *q;

    if (fl_program_verify(p))
        fail_msg("%s", fl_last_error());
    q = parse(text);
    expect_text(q, text);
    fl_program_free(q);
    fl_free(text);
}

static void run_again(const char *pass, fl_dist *d)
{
    bool changed = false;

    if (fl_pass_find(pass)->spread(d, &changed))
        fail_msg("%s", fl_last_error());
    if (changed)
        fail_msg("a second run of %s changes something", pass);
}

static void stays_the_same(const char *passes, fl_dist *d)
{
    char *main = fl_program_print(d->main);
    char *startup = fl_program_print(d->startup);
    char *declared = print_servers(d), *again;
    char *list = fl_strdup(passes), *at = list, *pass;

    while ((pass = strsep(&at, " ")))
        run_again(pass, d);
    expect_text(d->main, main);
    expect_text(d->startup, startup);
    again = print_servers(d);
    assert_string_equal(again, declared);
    fl_free(again);
    fl_free(main);
    fl_free(startup);
    fl_free(declared);
    fl_free(list);
}

static void expect_error(const dist_case *c, fl_status st)
{
    char *pieces = fl_strdup(fl_str_text(&c->text[WRONG])), *at = pieces;
    char *piece;

    assert_int_not_equal(st, FL_OK);
    while ((piece = strsep(&at, "\n")))
        if (!strstr(fl_last_error(), piece))
            fail_msg("'%s' is not in '%s'", piece, fl_last_error());
    fl_free(pieces);
}

static void runs_as_written(void **state)
{
    const dist_case *c = *state;
    setting s = read_words(c);
    bool changed = false;
    fl_dist *d = NULL;
    fl_status st = run(c, &s, &d, &changed);

    assert_int_not_equal(c->verdict, NONE);
    if (c->verdict == ERROR) {
        expect_error(c, st);
        fl_dist_free(d);
        return;
    }
    if (st)
        fail_msg("%s", fl_last_error());
    assert_int_equal(changed, c->verdict == CHANGED);
    if (c->verdict == CHANGED || !*s.passes)
        expect_program(c, NEW_MAIN, MAIN, d->main);
    expect_program(c, NEW_STARTUP, STARTUP, d->startup);
    expect_rest(c, d);
    is_sound(d->main);
    is_sound(d->startup);
    stays_the_same(fl_pass_find(c->head.pass) ? c->head.pass : s.passes, d);
    fl_dist_free(d);
}

int main(int argc, char **argv)
{
    static const case_kind kind = { sizeof(dist_case), read_line, release,
                                    runs_as_written };

    return cases_main(&kind, argc, argv);
}
