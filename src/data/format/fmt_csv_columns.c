/* fmt_csv_columns.c - the description of the columns of a table in text. */
#include "data/format/fmt_csv.h"

#include <inttypes.h>

#include "data/format/fmt_help.h"

static const struct {
    const char *name;
    fl_slot_kind kind;
    uint32_t width;
} kinds[] = {
    [FL_CSV_SKIP] = { "skip", FL_SLOT_IDS, 1 },
    [FL_CSV_FLOAT] = { "float", FL_SLOT_FLOATS, 1 },
    [FL_CSV_ID] = { "id", FL_SLOT_IDS, 1 },
    [FL_CSV_HEX] = { "hex", FL_SLOT_IDS, 1 },
    [FL_CSV_HASH] = { "hash", FL_SLOT_IDS, 1 },
    [FL_CSV_IDS] = { "ids", FL_SLOT_IDS, 0 },
    [FL_CSV_HASHES] = { "hashes", FL_SLOT_IDS, 0 },
    [FL_CSV_WORDS] = { "words", FL_SLOT_IDS, 0 },
    [FL_CSV_TRIGRAMS] = { "trigrams", FL_SLOT_IDS, 0 },
};

void fl_csv_columns_release(fl_csv_columns *c)
{
    for (size_t i = 0; i < c->list.len; i++)
        fl_free(c->list.data[i].name);
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

static fl_status add_way(fl_csv_columns *c, const char *name, fl_csv_kind kind)
{
    fl_csv_column column = { .slot = FL_NO_SLOT,
                             .kind = kind,
                             .field = c->n_fields };

    if (c->list.len == FL_CSV_COLUMNS_MAX)
        FL_FAIL(FL_ERR_INVAL, "format csv: more than %d columns",
                FL_CSV_COLUMNS_MAX);
    column.name = fl_strdup(name);
    column.hash = hash_start(c, name);
    fl_vec_push(&c->list, column);
    return FL_OK;
}

static fl_status no_column(const char *name, const char *kind_list)
{
    FL_FAIL(FL_ERR_INVAL,
            "format csv: '%s%s%s' describes no column: write NAME:KIND with "
            "float, id, ids, hash, hashes, words, trigrams, hex or skip",
            name, kind_list ? ":" : "", kind_list ? kind_list : "");
}

/* kind_list is KIND+KIND ...: the first way is called as the column is, others
   NAME.KIND. */
static fl_status add_ways(fl_csv_columns *c, const char *name,
                          const char *kind_list)
{
    const char *at = kind_list;
    size_t len;

    do {
        fl_str called = { 0 };
        fl_csv_kind kind;
        fl_status st;

        len = strcspn(at, "+");
        if (!find_kind(at, len, &kind) ||
            (kind == FL_CSV_SKIP && strcmp(kind_list, "skip") != 0))
            return no_column(name, kind_list);
        fl_str_add(&called, name);
        if (at != kind_list)
            fl_str_addf(&called, ".%s", kinds[kind].name);
        st = add_way(c, fl_str_text(&called), kind);
        fl_str_release(&called);
        FL_TRY(st);
        at += len + 1;
    } while (at[-1]);
    return FL_OK;
}

/* item is NAME:KIND; the name may have colons of its own. */
static fl_status add_column(fl_csv_columns *c, char *item)
{
    char *colon = strrchr(item, ':');

    if (!colon)
        return no_column(item, NULL);
    *colon = '\0';
    if (!*item && strcmp(colon + 1, "skip") != 0)
        FL_FAIL(FL_ERR_INVAL, "format csv: column %u has no name",
                c->n_fields + 1);
    if (*item && fl_csv_columns_find(c, item, strlen(item)) >= 0)
        FL_FAIL(FL_ERR_INVAL, "format csv: two columns are called %s", item);
    FL_TRY(add_ways(c, item, colon + 1));
    c->n_fields++;
    return FL_OK;
}

/* Cuts the next word off *at; NULL when there is none. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \t");
    size_t len = strcspn(word, " \t");

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
                .kind = kinds[it->kind].kind,
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
