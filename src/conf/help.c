/* help.c - the settings as a reader meets them: in a terminal, and as
 * docs/settings.md, which a test compares with what is printed here. */
#include "base/vec.h"
#include "conf/conf.h"
#include "conf/key.h"

typedef struct row {
    const fl_key *key;
    char env[FL_KEY_ENV_MAX], range[FL_KEY_RANGE_MAX], def[FL_KEY_NUMBER_MAX];
    const char *range_text, *def_text, *alias;
} row;

static void fill_row(row *r, const fl_key *k)
{
    r->key = k;
    r->range_text = fl_key_range(k, r->range);
    r->def_text = fl_key_print(k, &k->def, r->def);
    r->alias = fl_key_alias(k);
    fl_key_env(k, r->env);
}

static void add_plain(fl_str *out, const row *r)
{
    fl_str_addf(out, "%s = %s\n", r->key->name,
                *r->def_text ? r->def_text : "(empty)");
    fl_str_addf(out, "    %s\n", r->key->text);
    fl_str_addf(out, "    %s: %s; environment: %s%s%s\n",
                fl_key_type_text(r->key), r->range_text, r->env,
                r->alias ? ", else " : "", r->alias ? r->alias : "");
}

static void add_markdown(fl_str *out, const row *r)
{
    fl_str_addf(out, "| `%s` | %s | ", r->key->name, fl_key_type_text(r->key));
    if (*r->def_text)
        fl_str_addf(out, "`%s`", r->def_text);
    else
        fl_str_add(out, "empty");
    fl_str_addf(out, " | %s | `%s`", r->range_text, r->env);
    if (r->alias)
        fl_str_addf(out, ", else `%s`", r->alias);
    fl_str_addf(out, " | %s |\n", r->key->text);
}

static const char markdown_head[] =
    "# Settings\n"
    "\n"
    "A setting belongs to a context. It starts from its default, or from the\n"
    "environment where the variable is set and not empty, and is changed with\n"
    "`fl_ctx_set(ctx, name, value)`. A value out of range is refused, and the\n"
    "message names the setting, the value and the range.\n"
    "\n"
    "This page is printed by `flotilla settings --markdown`; change\n"
    "`src/conf/keys.def`, then print it again.\n"
    "\n"
    "| setting | type | default | range | environment | meaning |\n"
    "|---|---|---|---|---|---|\n";

char *fl_conf_help(fl_help_form form)
{
    fl_str out = { 0 };
    row r;

    fl_str_add(&out, form == FL_HELP_MARKDOWN ? markdown_head : "");
    for (size_t i = 0; i < fl_n_keys; i++) {
        fill_row(&r, &fl_keys[i]);
        if (form == FL_HELP_MARKDOWN)
            add_markdown(&out, &r);
        else
            add_plain(&out, &r);
    }
    return fl_str_take(&out);
}
