/* fmt_csv_columns.c - the description of the columns of a table in text. */
#include "data/format/fmt_csv.h"

#include <inttypes.h>
#include <math.h>

#include "data/format/fmt_help.h"
#include "data/format/scan.h"

#define RANGE_MAX 1000000
#define BLANKS " \t\r\n" /* between columns: a description may have lines */

static fl_status set_missing(fl_csv_column *c);
static fl_status set_label(fl_csv_column *c);
static fl_status set_time(fl_csv_column *c);
static fl_status set_bar(fl_csv_column *c);

static const struct {
    const char *name;
    fl_slot_kind kind;
    uint32_t width;
    /* What an argument in brackets means; NULL: there is none. */
    fl_status (*set)(fl_csv_column *c);
} kinds[] = {
    [FL_CSV_SKIP] = { "skip", FL_SLOT_IDS, 1, NULL },
    [FL_CSV_FLOAT] = { "float", FL_SLOT_FLOATS, 1, set_missing },
    [FL_CSV_ID] = { "id", FL_SLOT_IDS, 1, NULL },
    [FL_CSV_HEX] = { "hex", FL_SLOT_IDS, 1, NULL },
    [FL_CSV_LABEL] = { "label", FL_SLOT_IDS, 1, set_label },
    [FL_CSV_TIME] = { "time", FL_SLOT_IDS, 1, set_time },
    [FL_CSV_HASH] = { "hash", FL_SLOT_IDS, 1, NULL },
    [FL_CSV_IDS] = { "ids", FL_SLOT_IDS, 0, set_bar },
    [FL_CSV_HASHES] = { "hashes", FL_SLOT_IDS, 0, set_bar },
    [FL_CSV_WORDS] = { "words", FL_SLOT_IDS, 0, NULL },
    [FL_CSV_TRIGRAMS] = { "trigrams", FL_SLOT_IDS, 0, NULL },
};

/* --- arguments of kinds ---------------------------------------------------- */

bool fl_csv_read_missing(const char *text, float *out)
{
    const char *at = text, *end = text + strlen(text);

    if (strcmp(text, "nan") == 0) {
        *out = NAN;
        return true;
    }
    return at < end && fl_scan_f32(&at, end, out) && at == end;
}

static fl_status set_missing(fl_csv_column *c)
{
    if (c->arg && !fl_csv_read_missing(c->arg, &c->missing))
        FL_FAIL(FL_ERR_INVAL,
                "format csv: column %s: float(%s): what an empty field counts "
                "as is a number, or nan",
                c->name, c->arg);
    return FL_OK;
}

static fl_status set_label(fl_csv_column *c)
{
    if (!c->arg || !*c->arg)
        FL_FAIL(FL_ERR_INVAL,
                "format csv: column %s: which text is 1? Write label(yes), or "
                "several apart by a bar",
                c->name);
    return FL_OK;
}

static fl_status set_time(fl_csv_column *c)
{
    if (!c->arg)
        c->arg = fl_strdup("%s");
    if (!fl_csv_time_check(c->arg))
        FL_FAIL(FL_ERR_INVAL,
                "format csv: column %s: time(%s): a form has %%Y or %%y, %%m, "
                "%%d, %%H, %%M, %%S, or %%s for seconds since 1970",
                c->name, c->arg);
    return FL_OK;
}

static fl_status set_bar(fl_csv_column *c)
{
    if (!c->arg)
        return FL_OK;
    if (strlen(c->arg) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "format csv: column %s: %s(%s): one character lies between the "
                "values",
                c->name, kinds[c->kind].name, c->arg);
    c->bar = *c->arg;
    return FL_OK;
}

/* --- columns --------------------------------------------------------------- */

void fl_csv_columns_release(fl_csv_columns *c)
{
    for (size_t i = 0; i < c->list.len; i++) {
        fl_free(c->list.data[i].name);
        fl_free(c->list.data[i].arg);
    }
    fl_vec_release(&c->list);
}

int fl_csv_columns_find(const fl_csv_columns *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->list.len; i++) {
        const char *it = c->list.data[i].name;

        if (fl_csv_is_first(c, i) && strlen(it) == len &&
            memcmp(it, name, len) == 0)
            return (int)c->list.data[i].field;
    }
    return -1;
}

static bool find_kind(const char *name, size_t len, fl_csv_kind *out)
{
    for (size_t i = 0; i < FL_LEN(kinds); i++)
        if (strlen(kinds[i].name) == len &&
            memcmp(kinds[i].name, name, len) == 0) {
            *out = (fl_csv_kind)i;
            return true;
        }
    return false;
}

/* Hashed is "NAME=TEXT": a text has another id in each column, unless they
   share them. */
static uint64_t hash_start(const fl_csv_columns *c, const char *name)
{
    uint64_t h = FL_CSV_HASH_START;

    for (; *name && !c->shared; name++)
        h = fl_csv_hash_step(h, *name);
    return fl_csv_hash_step(h, '=');
}

/* arg is NULL, or taken. */
static fl_status add_way(fl_csv_columns *c, const char *name, fl_csv_kind kind,
                         char *arg)
{
    fl_csv_column column = { .slot = FL_NO_SLOT,
                             .kind = kind,
                             .field = c->n_fields,
                             .arg = arg,
                             .bar = FL_CSV_BAR,
                             .missing = c->missing };

    if (c->list.len == FL_CSV_COLUMNS_MAX) {
        fl_free(arg);
        FL_FAIL(FL_ERR_INVAL, "format csv: more than %d columns",
                FL_CSV_COLUMNS_MAX);
    }
    column.name = fl_strdup(name);
    column.hash = hash_start(c, name);
    fl_vec_push(&c->list, column);
    if (!kinds[kind].set)
        return FL_OK;
    return kinds[kind].set(&c->list.data[c->list.len - 1]);
}

static fl_status no_column(const char *name, const char *kind_list)
{
    FL_FAIL(FL_ERR_INVAL,
            "format csv: '%s%s%s' describes no column: write NAME:KIND with "
            "float, id, ids, hash, hashes, words, trigrams, hex, label(TEXT), "
            "time(FORM) or skip",
            name, kind_list ? ":" : "", kind_list ? kind_list : "");
}

/* One KIND or KIND(ARGUMENT), of `len` bytes. */
static bool read_kind(const char *at, size_t len, fl_csv_kind *kind, char **arg)
{
    size_t n = strcspn(at, "(+");

    *arg = NULL;
    if (!find_kind(at, n, kind))
        return false;
    if (n == len)
        return true;
    if (!kinds[*kind].set || at[len - 1] != ')')
        return false;
    *arg = fl_alloc(len - n - 1);
    memcpy(*arg, at + n + 1, len - n - 2);
    return true;
}

/* Of the first KIND of a list: up to a plus outside of brackets. */
static size_t kind_length(const char *at)
{
    size_t n = strcspn(at, "(+");
    const char *end = at[n] == '(' ? strchr(at, ')') : NULL;

    return end ? (size_t)(end - at) + 1 : n;
}

static fl_status add_called(fl_csv_columns *c, const char *name, bool is_first,
                            fl_csv_kind kind, char *arg)
{
    fl_str called = { 0 };
    fl_status st;

    fl_str_add(&called, name);
    if (!is_first)
        fl_str_addf(&called, ".%s", kinds[kind].name);
    st = add_way(c, fl_str_text(&called), kind, arg);
    fl_str_release(&called);
    return st;
}

/* kind_list is KIND+KIND ...: the first way is called as the column is, others
   NAME.KIND. */
static fl_status add_ways(fl_csv_columns *c, const char *name,
                          const char *kind_list)
{
    const char *at = kind_list;
    size_t len;

    do {
        fl_csv_kind kind;
        char *arg;

        len = kind_length(at);
        if ((at[len] && at[len] != '+') || !read_kind(at, len, &kind, &arg) ||
            (kind == FL_CSV_SKIP && strcmp(kind_list, "skip") != 0))
            return no_column(name, kind_list);
        FL_TRY(add_called(c, name, at == kind_list, kind, arg));
        at += len + 1;
    } while (at[-1]);
    return FL_OK;
}

/* Where the kinds begin in NAME:KIND(ARGUMENT): the name may have colons of
   its own, and so may an argument. NULL when there is no kind. */
static char *find_colon(char *item)
{
    for (char *at = item; (at = strchr(at, ':')); at++) {
        size_t n = strcspn(at + 1, "(+");
        fl_csv_kind kind;

        if (find_kind(at + 1, n, &kind))
            return at;
    }
    return NULL;
}

static fl_status add_named(fl_csv_columns *c, const char *name,
                           const char *kind_list)
{
    if (!*name && strcmp(kind_list, "skip") != 0)
        FL_FAIL(FL_ERR_INVAL, "format csv: column %u has no name",
                c->n_fields + 1);
    if (*name && fl_csv_columns_find(c, name, strlen(name)) >= 0)
        FL_FAIL(FL_ERR_INVAL, "format csv: two columns are called %s", name);
    FL_TRY(add_ways(c, name, kind_list));
    c->n_fields++;
    return FL_OK;
}

/* Columns that count: C1..C26. */
typedef struct range {
    int stem; /* bytes of the name before the number */
    unsigned lo, hi;
} range;

/* Where the number at the end of a text of n bytes begins. */
static size_t find_number(const char *text, size_t n)
{
    while (n && text[n - 1] >= '0' && text[n - 1] <= '9')
        n--;
    return n;
}

static bool read_number(const char *at, const char *end, unsigned *out)
{
    uint64_t x;

    if (!fl_scan_u64(&at, end, &x) || at != end || x > RANGE_MAX)
        return false;
    *out = (unsigned)x;
    return true;
}

static bool is_range(const char *name, range *out)
{
    const char *dots = strstr(name, "..");
    const char *second = dots ? dots + 2 : NULL, *end = name + strlen(name);
    size_t stem;

    if (!dots)
        return false;
    stem = find_number(name, (size_t)(dots - name));
    out->stem = (int)stem;
    return strncmp(name, second, stem) == 0 &&
           find_number(second, (size_t)(end - second)) == stem &&
           read_number(name + stem, dots, &out->lo) &&
           read_number(second + stem, end, &out->hi) && out->lo <= out->hi;
}

static fl_status add_range(fl_csv_columns *c, const char *name, const range *r,
                           const char *kind_list)
{
    for (unsigned i = r->lo; i <= r->hi; i++) {
        fl_str called = { 0 };
        fl_status st;

        fl_str_addf(&called, "%.*s%u", r->stem, name, i);
        st = add_named(c, fl_str_text(&called), kind_list);
        fl_str_release(&called);
        FL_TRY(st);
    }
    return FL_OK;
}

/* item is NAME:KIND; the name may have colons of its own. */
static fl_status add_column(fl_csv_columns *c, char *item)
{
    char *colon = find_colon(item);
    range r;

    if (!colon)
        return no_column(item, NULL);
    *colon = '\0';
    if (is_range(item, &r))
        return add_range(c, item, &r, colon + 1);
    return add_named(c, item, colon + 1);
}

/* Cuts the next word off *at; NULL when there is none. Blanks in brackets are
   of the word. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, BLANKS);
    size_t len = 0;
    bool inside = false;

    for (; word[len] && (inside || !strchr(BLANKS, word[len])); len++)
        inside = word[len] == '(' || (inside && word[len] != ')');
    if (!len)
        return NULL;
    *at = word + len;
    if (**at)
        *(*at)++ = '\0';
    return word;
}

static fl_status add_columns(fl_csv_columns *c, char *text)
{
    for (char *word; (word = next_word(&text));) {
        if (c->rest)
            FL_FAIL(FL_ERR_INVAL,
                    "format csv: '%s' follows the * that ends the columns",
                    word);
        if (strcmp(word, "*") == 0)
            c->rest = true;
        else
            FL_TRY(add_column(c, word));
    }
    if (c->list.len == 0)
        FL_FAIL(FL_ERR_INVAL,
                "format csv: no column is described: say, for example, "
                "columns=click:float site:hash *");
    return FL_OK;
}

fl_status fl_csv_columns_parse(fl_csv_columns *c, const char *text)
{
    char *copy = fl_strdup(text);
    fl_status st = add_columns(c, copy);

    fl_free(copy);
    return st;
}

/* A hash of 64 bits fits no height. */
static fl_status check_heights(const fl_csv_columns *c, const fl_schema *s,
                               uint64_t hash_size)
{
    for (size_t i = 0; i < c->list.len && hash_size == 0; i++) {
        const fl_csv_column *it = &c->list.data[i];

        if (fl_csv_is_hash(it->kind) && it->slot != FL_NO_SLOT &&
            s->slots[it->slot].height)
            FL_FAIL(FL_ERR_INVAL,
                    "format csv: the ids of slot %s are bounded: set hash_size "
                    "to %" PRIu64 " or less",
                    it->name, s->slots[it->slot].height);
    }
    return FL_OK;
}

/* A label is what is wanted: ids, or floats. */
static fl_slot_kind kind_of(const fl_parser *p, const fl_csv_column *c)
{
    for (size_t i = 0; c->kind == FL_CSV_LABEL && i < p->wanted.n_slots; i++)
        if (strcmp(p->wanted.slots[i].name, c->name) == 0)
            return p->wanted.slots[i].kind;
    return kinds[c->kind].kind;
}

fl_status fl_csv_columns_pick(fl_csv_columns *c, fl_parser *p,
                              uint64_t hash_size)
{
    size_t n = 0;
    fl_slot *offers = fl_alloc(c->list.len * sizeof(*offers));
    int *slot_of = fl_alloc(c->list.len * sizeof(*slot_of));
    fl_status st;

    for (size_t i = 0; i < c->list.len; i++) {
        const fl_csv_column *it = &c->list.data[i];

        if (it->kind != FL_CSV_SKIP)
            offers[n++] = (fl_slot){
                .name = it->name,
                .kind = kind_of(p, it),
                .width = kinds[it->kind].width,
                .height = fl_csv_is_hash(it->kind) ? hash_size : 0,
            };
    }
    st = fl_help_pick(p, offers, n, slot_of);
    n = 0;
    for (size_t i = 0; i < c->list.len; i++)
        if (c->list.data[i].kind != FL_CSV_SKIP)
            c->list.data[i].slot = slot_of[n++];
    fl_free(offers);
    fl_free(slot_of);
    return st ? st : check_heights(c, &p->schema, hash_size);
}
