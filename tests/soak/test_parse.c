/* test_parse.c - damaged program texts, for as long as one likes.
 *
 *     usage: test_parse [seconds]
 *
 * Texts of real programs are cut, doubled, swapped and sprinkled with odd
 * bytes. The reader must take each or name what is wrong; what it takes must
 * come back the same when it is printed and read again; and it must keep
 * nothing of it.
 */
#include "kit.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define TEXT_MAX 20000
#define N_TEXTS 8
#define RSS_SLACK ((uint64_t)16 << 20)

static uint64_t seconds = 60;

/* What a mutation may put into a text. */
static const char *const words[] = {
    "op ",
    "var ",
    "param ",
    "fetch ",
    "seed ",
    "block",
    " -> ",
    "()",
    "(X=",
    "{axis=",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\n",
    "\n\n",
    "#",
    "@",
    "@GRAD",
    "@EMPTY@",
    "@backward",
    "=[",
    "-1",
    "0",
    "1e999",
    "-0.0",
    "nan",
    "inf",
    "99999999999999999999",
    "-9223372036854775808",
    "0x10",
    "f32[-1,4]",
    "f64[0]",
    "i64[1,1,1,1,1,1,1]",
    " data",
    " persist",
    " rows",
    " lod=2",
    " lr=0",
    " init=uniform(0,1)",
    " init=normal(",
    " clip=norm(1)",
    "lookup_table",
    "relu",
    "sum",
    "concat",
    "softmax",
    "adam",
    "mul",
    "true",
    "\t",
    "\r\n",
    "\xff\xfe",
    "\xc3\xa4",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
};

/* --- texts to start from ------------------------------------------------- */

static void build_net(fl_ctx *c, const char *optimizer, const char *settings)
{
    const int64_t one[] = { -1, 1 }, wide[] = { -1, 6 };
    fl_var *x = fl_layers_data(c, "x", FL_DTYPE_F32, 2, wide, 0);
    fl_var *ids = fl_layers_data(c, "ids", FL_DTYPE_I64, 2, one, 1);
    fl_var *label = fl_layers_data(c, "label", FL_DTYPE_I64, 2, one, 0);
    fl_var *e = fl_layers_sequence_pool(
        fl_layers_embedding(ids, 50, 4, .is_sparse = true,
                            .param.regularizer = "l2(0.1)"),
        "sum");
    fl_var *h = fl_layers_fc(fl_layers_concat((fl_var *[]){ e, x }, 2, 1), 8,
                             .act = "relu", .param.clip = "norm(1)");
    fl_var *p = fl_layers_fc(fl_layers_dropout(h, 0.5), 2, .act = "softmax");
    fl_var *loss = fl_layers_mean(fl_layers_cross_entropy(p, label));

    assert_non_null(fl_layers_auc(p, label, NULL));
    assert_non_null(loss);
    assert_ok(fl_minimize(make_optimizer(c, optimizer, settings), loss));
}

static size_t make_texts(char **texts)
{
    static const char *const optimizers[][2] = {
        { "sgd", "learning_rate=0.1" },
        { "adam", "learning_rate=0.001, lazy_mode=true" },
        { "adagrad", "learning_rate=0.1" },
        { "momentum", "learning_rate=0.1, momentum=0.9" },
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers); i++) {
        fl_ctx *c = make_ctx();

        build_net(c, optimizers[i][0], optimizers[i][1]);
        texts[n++] = fl_program_to_text(fl_default_main_program(c));
        texts[n++] = fl_program_to_text(fl_default_startup_program(c));
        fl_ctx_free(c);
    }
    for (size_t i = 0; i < n; i++)
        assert_true(strlen(texts[i]) < TEXT_MAX / 2);
    return n;
}

/* --- damage -------------------------------------------------------------- */

typedef struct damaged {
    char text[TEXT_MAX + 1];
    size_t len;
} damaged;

/* Replaces [at, at + cut) by n bytes; too long a text stays as it is. */
static void splice(damaged *d, size_t at, size_t cut, const char *bytes,
                   size_t n)
{
    char copy[TEXT_MAX];

    if (d->len - cut + n > TEXT_MAX)
        return;
    memcpy(copy, bytes, n); /* they may be bytes of d itself */
    memmove(d->text + at + n, d->text + at + cut, d->len - at - cut);
    memcpy(d->text + at, copy, n);
    d->len += n - cut;
    d->text[d->len] = '\0';
}

static size_t line_start(const damaged *d, size_t at)
{
    while (at && d->text[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_len(const damaged *d, size_t at)
{
    const char *end = memchr(d->text + at, '\n', d->len - at);

    return end ? (size_t)(end - d->text) - at + 1 : d->len - at;
}

static size_t up_to(uint64_t *s, size_t n)
{
    return (size_t)(draw(s) % (n + 1));
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void damage(damaged *d, const char *other, uint64_t *s)
{
    size_t at = up_to(s, d->len);
    size_t span = smaller(up_to(s, 40), d->len - at);
    size_t from = line_start(d, up_to(s, d->len));
    const char *word = words[draw(s) % (sizeof(words) / sizeof(*words))];
    char byte = (char)(1 + draw(s) % 255);

    switch (draw(s) % 9) {
    case 0: /* another byte */
        splice(d, at, smaller(1, d->len - at), &byte, 1);
        break;
    case 1: /* a span goes */
        splice(d, at, span, "", 0);
        break;
    case 2: /* a span comes twice */
        splice(d, at, 0, d->text + at, span);
        break;
    case 3: /* a word comes in */
        splice(d, at, 0, word, strlen(word));
        break;
    case 4: /* a word instead of a span */
        splice(d, at, span / 4, word, strlen(word));
        break;
    case 5: /* a line goes */
        splice(d, from, line_len(d, from), "", 0);
        break;
    case 6: /* a line comes again elsewhere */
        splice(d, line_start(d, at), 0, d->text + from, line_len(d, from));
        break;
    case 7: /* the end is missing */
        splice(d, at, d->len - at, "", 0);
        break;
    case 8: /* goes on as another text */
        from = up_to(s, strlen(other));
        splice(d, at, d->len - at, other + from, strlen(other + from));
        break;
    }
}

/* --- reading ------------------------------------------------------------- */

static void check_taken(fl_ctx *c, fl_program *p)
{
    char *printed = fl_program_to_text(p);
    fl_program *again;
    char *reprinted;

    assert_ok(fl_program_from_text(&again, c, printed));
    reprinted = fl_program_to_text(again);
    assert_string_equal(reprinted, printed);
    fl_text_free(reprinted);
    fl_text_free(printed);
    fl_program_free(again);
}

static bool is_about_the_text(fl_status st)
{
    return st == FL_ERR_INVAL || st == FL_ERR_CORRUPT ||
           st == FL_ERR_NOTFOUND || st == FL_ERR_EXISTS || st == FL_ERR_TYPE ||
           st == FL_ERR_UNSUPPORTED;
}

/* The text gets memory of exactly its size, so that a sanitizer sees a reader
   that goes on behind it. */
static bool read_text(fl_ctx *c, const damaged *d)
{
    char *text = malloc(d->len + 1);
    fl_program *p = NULL;
    fl_status st;

    memcpy(text, d->text, d->len + 1);
    st = fl_program_from_text(&p, c, text);
    free(text);
    if (st) {
        assert_true(is_about_the_text(st));
        assert_true(strlen(fl_last_error()) > 10);
        assert_null(p);
        return false;
    }
    check_taken(c, p);
    fl_program_free(p);
    return true;
}

static void damaged_programs_are_taken_or_named(void **state)
{
    static damaged d;
    uint64_t deadline = fl_now_ns() + seconds * 1000000000u;
    uint64_t warm = fl_now_ns() + seconds * 200000000u;
    uint64_t s = 1, n = 0, n_taken = 0, rss_warm = 0;
    char *texts[N_TEXTS];
    size_t n_texts = make_texts(texts), bytes_before = fl_data_bytes();
    fl_ctx *c = make_ctx();

    (void)state;
    while (fl_now_ns() < deadline) {
        const char *text = texts[draw(&s) % n_texts];

        d.len = strlen(text);
        memcpy(d.text, text, d.len + 1);
        for (uint64_t k = draw(&s) % 5; k != UINT64_MAX; k--)
            damage(&d, texts[draw(&s) % n_texts], &s);
        n_taken += read_text(c, &d);
        n++;
        if (!rss_warm && fl_now_ns() > warm)
            rss_warm = process_bytes("VmRSS");
    }
    printf("%llu texts, %llu of them taken; %.1f MB after a fifth of the time, "
           "%.1f MB at the end\n",
           (unsigned long long)n, (unsigned long long)n_taken,
           (double)rss_warm / (1 << 20),
           (double)process_bytes("VmRSS") / (1 << 20));
    assert_true(n_taken > 0 && n_taken < n);
    assert_true(process_bytes("VmRSS") <= rss_warm + RSS_SLACK);
    fl_ctx_free(c);
    assert_int_equal(fl_data_bytes(), bytes_before);
    for (size_t i = 0; i < n_texts; i++)
        fl_text_free(texts[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_programs_are_taken_or_named),
    };

    seconds = first_argument(argc, argv, seconds);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
