/* fuzz_format.c - any text through every format. Each record that comes out is
 * printed and read again where the format can do that, and must be the same.
 *
 * The first byte chooses the format with its options; the rest is a file. One
 * choice takes the first line of the file as the options of a format. */
#include "kit.h"

#include "data/format/fmt_help.h"
#include "data/format/format.h"
#include "data/dataset/source.h"

#define SPEC_MAX 256

typedef struct choice {
    const char *spec; /* NULL: the first line of the input */
    const fl_slot *wanted;
    size_t n_wanted;
    bool empty_slots;
    bool comes_back; /* what is printed is read as the same record */
} choice;

static const fl_slot fixed[] = {
    { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "x", .kind = FL_SLOT_FLOATS, .width = 2 },
    { .name = "a", .kind = FL_SLOT_IDS, .height = 1000 },
};
static const fl_slot ragged[] = {
    { .name = "a", .kind = FL_SLOT_IDS },
    { .name = "x", .kind = FL_SLOT_FLOATS },
    { .name = "b", .kind = FL_SLOT_IDS },
};
static const fl_slot svm[] = {
    { .name = "values", .kind = FL_SLOT_FLOATS, .width = 2 },
    { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "ids", .kind = FL_SLOT_IDS, .height = 100 },
};
static const fl_slot sentences[] = {
    { .name = "words", .kind = FL_SLOT_IDS },
    { .name = "noise", .kind = FL_SLOT_IDS },
};

static const fl_slot ffm[] = {
    { .name = "F3", .kind = FL_SLOT_IDS },
    { .name = "label", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "F0", .kind = FL_SLOT_IDS, .width = 1 },
};

#define WANTED(list) .wanted = list, .n_wanted = FL_LEN(list)

static const choice choices[] = {
    { .spec = NULL, .empty_slots = true },
    { .spec = "multislot", WANTED(fixed), .comes_back = true },
    { .spec = "multislot",
      WANTED(ragged),
      .empty_slots = true,
      .comes_back = true },
    { .spec = "multislot_header", WANTED(ragged), .comes_back = true },
    { .spec = "multislot_header",
      WANTED(fixed),
      .empty_slots = true,
      .comes_back = true },
    { .spec = "criteo" },
    { .spec = "criteo:label=no,hash_size=0" },
    { .spec = "libsvm", .comes_back = true },
    { .spec = "libsvm:label=ids", .empty_slots = true, .comes_back = true },
    { .spec = "libsvm", WANTED(svm), .comes_back = true },
    { .spec = "libffm:fields=3", .empty_slots = true, .comes_back = true },
    { .spec = "libffm:fields=2,values=yes,label=ids", .comes_back = true },
    { .spec = "libffm", WANTED(ffm), .empty_slots = true, .comes_back = true },
    { .spec = "csv:columns=f:float i:id h:hex l:ids s:skip",
      .empty_slots = true,
      .comes_back = true },
    { .spec = "csv:sep=tab,quote=no,missing=-1,columns=f:float g:float i:id *",
      .comes_back = true },
    { .spec = "csv:header=yes,columns=b:id a:float c:ids *",
      .comes_back = true },
    { .spec = "csv:sep=::,na=?,columns=y:label(a|b) t:time(%Y-%m-%d %H:%M) "
              "l:ids(;) m:float(nan)",
      .empty_slots = true },
    { .spec = "csv:sep=space,columns=t:hash u:hashes,hash_size=97",
      .empty_slots = true },
    { .spec = "word2vec:sample=0.01" },
    { .spec = "word2vec:lower=no,sample=0,negatives=0,window=2" },
    { .spec = "csv:columns=t:words+trigrams u:trigrams *,shared=yes",
      .empty_slots = true },
    { .spec = "sessions" },
    { .spec = "sessions:items=100,max_len=5,negatives=3" },
    { .spec = "sessions:cut=yes" },
    { .spec = "word2vec:sample=0.1,max_words=3,noise=2", WANTED(sentences) },
};

static fl_parser *parsers[FL_LEN(choices)];

static bool has_parsers;

static void free_parsers(void)
{
    for (size_t i = 0; i < FL_LEN(choices); i++)
        fl_parser_free(parsers[i]);
}

static fl_status open_parser(fl_parser **out, const choice *c, const char *spec)
{
    return fl_parser_new(out,
                         &(fl_parser_args){ .spec = spec,
                                            .wanted = c->wanted,
                                            .n_wanted = c->n_wanted,
                                            .empty_slots = c->empty_slots });
}

/* Opened once: an input is a text, not a format. */
static fl_parser *parser_of(size_t i)
{
    static const char vocab[] = "a 50\nthe 40\ncat 9\nThe 3\n<UNK> 2\n";
    char spec[SPEC_MAX];

    if (parsers[i])
        return parsers[i];
    snprintf(spec, sizeof(spec), "%s", choices[i].spec);
    if (strncmp(spec, "word2vec", 8) == 0) {
        kit_write(vocab, strlen(vocab));
        snprintf(spec, sizeof(spec), "%s,vocab=%s", choices[i].spec,
                 kit_path());
    }
    if (open_parser(&parsers[i], &choices[i], spec))
        fl_die(__FILE__, __LINE__, "%s: %s", spec, fl_last_error());
    MUST(has_parsers || atexit(free_parsers) == 0);
    has_parsers = true;
    return parsers[i];
}

typedef struct result {
    fl_records rows;
    size_t n_bad;
} result;

static fl_status note_bad(void *arg, const fl_line *l, const fl_bad *bad)
{
    result *r = arg;

    MUST(l->at <= l->end);
    MUST(memchr(bad->reason, 0, sizeof(bad->reason)) && bad->reason[0]);
    r->n_bad++;
    return FL_OK;
}

/* The file as a pass reads it: its first line through the head, then all
   lines. The bytes behind the padding are not there. */
static fl_status read_text(const fl_parser *p, const char *text, size_t n,
                           result *out)
{
    char *copy = fl_alloc(n + FL_TEXT_PADDING);
    fl_line first = { .number = 1, .at = copy };
    const char *stop;
    void *head = NULL;
    fl_status st = FL_OK;

    if (n)
        memcpy(copy, text, n);
    stop = memchr(copy, '\n', n);
    first.end = stop ? stop : copy + n;
    if (first.end > copy && first.end[-1] == '\r')
        first.end--;
    if (p->format->head && n)
        st = p->format->head(p, &first, &head);
    first.head = head;
    first.end = copy + n;
    if (!st)
        st = fl_parse_lines(p, first, &out->rows, note_bad, out);
    fl_free(head);
    fl_free(copy);
    return st;
}

/* Records must lie one behind the other, without gaps. */
static void check_rows(const fl_parser *p, const fl_records *r)
{
    size_t at = 0;

    for (size_t i = 0; i < r->n; i++) {
        MUST(r->starts[i] == at);
        at += fl_row_words(&p->schema, fl_records_at(r, i));
    }
    MUST(at == r->len);
}

static void check_printed(const fl_parser *p, const uint32_t *row)
{
    size_t n_words = fl_row_words(&p->schema, row);
    result again = { 0 };
    fl_str text = { 0 };

    if (p->format->print_head)
        p->format->print_head(p, &text);
    p->format->print(p, row, &text);
    MUST(text.len == 0 || text.data[text.len - 1] != '\n');
    fl_str_add(&text, "\n");
    MUST(!read_text(p, text.data, text.len, &again));
    MUST(again.n_bad == 0 && again.rows.n == 1);
    MUST(again.rows.len == n_words);
    MUST(!memcmp(again.rows.words, row, n_words * sizeof(*row)));
    fl_records_release(&again.rows);
    fl_str_release(&text);
}

static void run(const fl_parser *p, const choice *c, const char *text, size_t n)
{
    result r = { 0 };

    if (!read_text(p, text, n, &r)) {
        check_rows(p, &r.rows);
        for (size_t i = 0; i < r.rows.n && c->comes_back; i++)
            check_printed(p, fl_records_at(&r.rows, i));
    }
    fl_records_release(&r.rows);
}

/* A vocabulary could be any file of this machine, hence no word2vec. */
static void run_with_spec(const choice *c, const char *text, size_t n)
{
    const char *stop = memchr(text, '\n', n);
    size_t len = stop ? (size_t)(stop - text) : n;
    char spec[SPEC_MAX];
    fl_parser *p = NULL;

    if (len >= sizeof(spec))
        return;
    memcpy(spec, text, len);
    spec[len] = '\0';
    if (strncmp(spec, "word2vec", 8) == 0)
        return;
    if (!open_parser(&p, c, spec))
        run(p, c, stop ? stop + 1 : "", stop ? n - len - 1 : 0);
    fl_parser_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    size_t i;

    if (size < 1)
        return 0;
    i = data[0] % FL_LEN(choices);
    if (choices[i].spec)
        run(parser_of(i), &choices[i], text, size - 1);
    else
        run_with_spec(&choices[i], text, size - 1);
    return 0;
}
