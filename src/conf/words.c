/* words.c - settings in words: cut, looked up, changed and written. */
#include "conf/words.h"

#include <ctype.h>
#include <string.h>

#include "flotilla/words.h"

/* How much of a piece an error shows. */
#define SHOWN 60

/* --- reading -------------------------------------------------------------- */

static bool is_quote(char ch)
{
    return ch == '"' || ch == '\'';
}

static bool is_gap(fl_words_form form, char ch)
{
    return ch == ',' ||
           (form == FL_WORDS_SETTINGS && isspace((unsigned char)ch));
}

static size_t name_len(const char *at)
{
    return strcspn(at, "=,()\"' \t\r\n\v\f");
}

/* Where the value ends that begins at `at`. NULL: brackets or quotes do not
   come in pairs. */
static const char *value_end(const char *at, fl_words_form form)
{
    const char *end;
    int depth = 0;

    if (is_quote(*at)) {
        end = strchr(at + 1, *at);
        return end ? end + 1 : NULL;
    }
    for (; *at && (depth || !is_gap(form, *at)); at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth < 0)
            return NULL;
    }
    return depth ? NULL : at;
}

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* Whole characters of [at, end), or of the text where end is NULL. */
static int shown_len(const char *at, const char *end)
{
    size_t n = end ? (size_t)(end - at) : strlen(at);

    return (int)(n < SHOWN ? n : SHOWN);
}

static fl_status refuse_open(const char *at)
{
    FL_FAIL(FL_ERR_INVAL,
            "'%.*s' has brackets or quotes that do not come in pairs",
            shown_len(at, NULL), at);
}

static fl_status refuse_form(const char *at, const char *end)
{
    FL_FAIL(FL_ERR_INVAL, "'%.*s' is not of the form name=value",
            shown_len(at, end), at);
}

static char *copy(const char *at, size_t n)
{
    char *to = fl_alloc(n + 1);

    memcpy(to, at, n);
    return to;
}

/* A value without its quotes, and without the white space behind it. */
static char *copy_value(const char *at, const char *end)
{
    if (is_quote(*at))
        return copy(at + 1, (size_t)(end - at) - 2);
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    return copy(at, (size_t)(end - at));
}

/* One item; *at moves behind it. */
static fl_status read_item(const char **at, fl_words_form form, fl_word *out)
{
    const char *start = *at;
    size_t n = name_len(start);
    bool has_name = start[n] == '=';
    const char *value = has_name ? start + n + 1 : start;
    const char *end = value_end(value, form);

    if (!end)
        return refuse_open(start);
    if (is_quote(*value) && form == FL_WORDS_LIST)
        *at = skip_space(end);
    else
        *at = end;
    if ((has_name ? !n : form == FL_WORDS_SETTINGS || end == start) ||
        (**at && !is_gap(form, **at)))
        return refuse_form(start, *at == end ? end : NULL);
    out->name = copy(start, has_name ? n : 0);
    out->value = copy_value(value, end);
    return FL_OK;
}

/* A list has something before, between and behind its commas. */
static fl_status read_list(fl_words *w, const char *at)
{
    fl_word item;

    for (;; at++) {
        at = skip_space(at);
        FL_TRY(read_item(&at, FL_WORDS_LIST, &item));
        fl_vec_push(&w->list, item);
        if (!*at)
            return FL_OK;
    }
}

static fl_status read_settings(fl_words *w, const char *at)
{
    fl_word item;

    for (;;) {
        while (is_gap(FL_WORDS_SETTINGS, *at))
            at++;
        if (!*at)
            return FL_OK;
        FL_TRY(read_item(&at, FL_WORDS_SETTINGS, &item));
        fl_vec_push(&w->list, item);
    }
}

fl_status fl_words_read(fl_words *out, const char *text, fl_words_form form)
{
    fl_words w = { 0 };
    fl_status st =
        form == FL_WORDS_LIST ? read_list(&w, text) : read_settings(&w, text);

    if (st)
        fl_words_release(&w);
    else
        *out = w;
    return st;
}

static void release_item(fl_word *w)
{
    fl_free(w->name);
    fl_free(w->value);
}

void fl_words_release(fl_words *w)
{
    for (size_t i = 0; i < w->list.len; i++)
        release_item(&w->list.data[i]);
    fl_vec_release(&w->list);
}

/* --- taking --------------------------------------------------------------- */

fl_status fl_word_parse(const fl_word *w, const fl_key *key, fl_key_value *out)
{
    return fl_err_ctx(fl_key_parse(key, w->value, out), "%s=%s", w->name,
                      w->value);
}

fl_status fl_word_refuse(const fl_word *w, const char *owner,
                         const char *const *names, size_t n)
{
    const char *near = fl_nearest_name(w->name, names, n);
    fl_str all = { 0 };

    for (size_t i = 0; i < n; i++)
        fl_str_addf(&all, "%s%s", i ? ", " : "", names[i]);
    (void)fl_err_set(FL_ERR_INVAL, "%s has no setting %.*s; %s%s%sthere are %s",
                     owner, shown_len(w->name, NULL), w->name,
                     near ? "did you mean " : "", near ? near : "",
                     near ? "? " : "", fl_str_text(&all));
    fl_str_release(&all);
    return FL_ERR_INVAL;
}

/* --- public --------------------------------------------------------------- */

fl_status fl_words_new(fl_words **out, const char *text)
{
    fl_words *w = fl_alloc(sizeof(*w));
    fl_status st = fl_words_read(w, text ? text : "", FL_WORDS_SETTINGS);

    if (st)
        fl_free(w);
    else
        *out = w;
    return st;
}

void fl_words_free(fl_words *w)
{
    if (!w)
        return;
    fl_words_release(w);
    fl_free(w);
}

const char *fl_words_get(const fl_words *w, const char *name)
{
    for (size_t i = w->list.len; i--;)
        if (!strcmp(w->list.data[i].name, name))
            return w->list.data[i].value;
    return NULL;
}

/* The quotes that a value needs around it: "" for none, NULL when it has both
   kinds in it. */
static const char *quotes_for(const char *value)
{
    const char *end = value_end(value, FL_WORDS_SETTINGS);

    if (!is_quote(*value) && end && !*end)
        return "";
    if (!strchr(value, '"'))
        return "\"";
    return strchr(value, '\'') ? NULL : "'";
}

static fl_status check_pair(const char *name, const char *value)
{
    if (!*name || name[name_len(name)])
        FL_FAIL(FL_ERR_INVAL,
                "'%.*s' is no name of a setting: a name has no spaces, commas, "
                "brackets, quotes or = in it",
                shown_len(name, NULL), name);
    if (!quotes_for(value))
        FL_FAIL(FL_ERR_INVAL,
                "%.*s: the value %.*s has both kinds of quotes in it, and can "
                "stand in neither",
                shown_len(name, NULL), name, shown_len(value, NULL), value);
    return FL_OK;
}

/* Removes all entries of that name. Returns the place of the first, or that
   behind the last entry. */
static size_t remove_name(fl_words *w, const char *name)
{
    size_t n = 0, place = SIZE_MAX;

    for (size_t i = 0; i < w->list.len; i++) {
        if (strcmp(w->list.data[i].name, name)) {
            w->list.data[n++] = w->list.data[i];
            continue;
        }
        place = place < n ? place : n;
        release_item(&w->list.data[i]);
    }
    w->list.len = n;
    return place < n ? place : n;
}

/* Name and value are copied first: they may be what is replaced. */
fl_status fl_words_set(fl_words *w, const char *name, const char *value)
{
    fl_word item;
    size_t place;

    FL_TRY(check_pair(name, value ? value : ""));
    item = (fl_word){ fl_strdup(name), fl_strdup(value ? value : "") };
    place = remove_name(w, item.name);
    if (!value) {
        release_item(&item);
        return FL_OK;
    }
    fl_vec_push(&w->list, item);
    for (size_t i = w->list.len - 1; i > place; i--)
        w->list.data[i] = w->list.data[i - 1];
    w->list.data[place] = item;
    return FL_OK;
}

size_t fl_words_count(const fl_words *w)
{
    return w->list.len;
}

const char *fl_words_name(const fl_words *w, size_t i)
{
    FL_ASSERT(i < w->list.len);
    return w->list.data[i].name;
}

const char *fl_words_value(const fl_words *w, size_t i)
{
    FL_ASSERT(i < w->list.len);
    return w->list.data[i].value;
}

void fl_words_add(fl_str *to, const char *name, const char *value)
{
    const char *quote = quotes_for(value);

    FL_ASSERT(quote);
    fl_str_addf(to, "%s%s=%s%s%s", to->len ? " " : "", name, quote, value,
                quote);
}

char *fl_words_text(const fl_words *w)
{
    fl_str text = { 0 };

    for (size_t i = 0; i < w->list.len; i++)
        fl_words_add(&text, w->list.data[i].name, w->list.data[i].value);
    return fl_str_take(&text);
}
