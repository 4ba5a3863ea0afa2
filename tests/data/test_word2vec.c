/* test_word2vec.c - vocabularies, and text as pairs of words. */
#include "format_kit.h"

#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "data/format/vocab.h"

#define FILE_MAX (1 << 20)
#define N_WORDS 20

static char folder[] = "/tmp/flotilla_word2vec_XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/vocab", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_vocab(const char *text)
{
    assert_ok(fl_file_write(path, text, strlen(text)));
}

/* --- vocabularies --------------------------------------------------------- */

static void expect_built(const char *text, fl_word_case how, uint64_t min_count,
                         fl_vocab_rare rare, const char *expected)
{
    fl_vocab *v = fl_vocab_new();
    char *written = NULL;
    size_t len;

    assert_ok(fl_vocab_count(v, text, strlen(text), how));
    assert_ok(fl_vocab_build(v, min_count, rare));
    assert_ok(fl_vocab_write(v, path));
    assert_ok(fl_file_read(path, FILE_MAX, &written, &len));
    assert_string_equal(written, expected);
    fl_free(written);
    fl_vocab_free(v);
}

static void words_are_sorted_by_count_then_bytes(void **state)
{
    (void)state;
    expect_built("b a\tc b\r\nc  ab\n", FL_WORDS_AS_THEY_ARE, 0, FL_RARE_DROP,
                 "b 2\nc 2\na 1\nab 1\n");
}

static void rare_words_are_dropped_or_unknown(void **state)
{
    const char *text = "a a a b b c d";

    (void)state;
    expect_built(text, FL_WORDS_AS_THEY_ARE, 1, FL_RARE_DROP, "a 3\nb 2\n");
    expect_built(text, FL_WORDS_AS_THEY_ARE, 1, FL_RARE_AS_UNKNOWN,
                 "a 3\n<UNK> 2\nb 2\n");
    expect_built(text, FL_WORDS_AS_THEY_ARE, 9, FL_RARE_AS_UNKNOWN,
                 "<UNK> 7\n");
    expect_built("", FL_WORDS_AS_THEY_ARE, 0, FL_RARE_DROP, "");
}

static void lower_case_keeps_letters_only(void **state)
{
    (void)state;
    expect_built("The, the (THE) 42 -- don't <UNK>", FL_WORDS_LOWER, 0,
                 FL_RARE_DROP, "the 3\ndont 1\nunk 1\n");
}

static void words_that_are_too_long_are_left_out(void **state)
{
    char text[2 * FL_WORD_MAX + 16], expected[FL_WORD_MAX + 8];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[FL_WORD_MAX] = ' ';
    text[2 * FL_WORD_MAX + 2] = '\0'; /* the second has one more */
    snprintf(expected, sizeof(expected), "%.*s 1\n", FL_WORD_MAX, text);
    expect_built(text, FL_WORDS_AS_THEY_ARE, 0, FL_RARE_DROP, expected);
    expect_built(text, FL_WORDS_LOWER, 0, FL_RARE_DROP, expected);
}

/* Letters are taken eight at a time where that is all there is to a word. */
static void words_of_every_length_keep_their_letters(void **state)
{
    static const char *const ends[] = { " ", "\n", ", ", "- x ", "" };
    char letters[40], text[64], expected[64];

    (void)state;
    for (size_t len = 1; len < sizeof(letters); len++)
        for (size_t e = 0; e < sizeof(ends) / sizeof(*ends); e++) {
            letters[0] = 'B';
            for (size_t i = 1; i < len; i++)
                letters[i] = (char)((i % 3 ? 'a' : 'A') + (i * 7 + len) % 26);
            snprintf(text, sizeof(text), "%.*s%s", (int)len, letters, ends[e]);
            for (size_t i = 0; i < len; i++)
                letters[i] = (char)(letters[i] | 0x20);
            snprintf(expected, sizeof(expected), "%.*s 1\n%s", (int)len,
                     letters, strchr(ends[e], 'x') ? "x 1\n" : "");
            expect_built(text, FL_WORDS_LOWER, 0, FL_RARE_DROP, expected);
        }
}

/* Bytes beside the letters, and with the bit that A and a differ in. */
static void what_is_near_the_letters_is_no_letter(void **state)
{
    (void)state;
    expect_built("@bcdefgh [bcdefgh `bcdefgh {bcdefgh \xe1"
                 "bcdefgh \xc1"
                 "bcdefgh bcdefgh bcdefg\x7f ",
                 FL_WORDS_LOWER, 0, FL_RARE_DROP, "bcdefgh 7\nbcdefg 1\n");
}

static void words_that_start_alike_are_apart(void **state)
{
    (void)state;
    expect_built("abcdefghXijklmnop abcdefghYijklmnop abcdefghXijklmnop "
                 "abcdefghijklmnop abcdefghijklmnopq abcdefghijklmnopr "
                 "a aa aba abba ab\n",
                 FL_WORDS_AS_THEY_ARE, 0, FL_RARE_DROP,
                 "abcdefghXijklmnop 2\na 1\naa 1\nab 1\naba 1\nabba 1\n"
                 "abcdefghYijklmnop 1\nabcdefghijklmnop 1\n"
                 "abcdefghijklmnopq 1\nabcdefghijklmnopr 1\n");
}

static void a_vocabulary_finds_all_its_words(void **state)
{
    fl_vocab *v = fl_vocab_new();
    char word[16];

    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) {
            int n = snprintf(word, sizeof(word), "w%d", i);

            assert_ok(fl_vocab_count(v, word, (size_t)n, FL_WORDS_AS_THEY_ARE));
        }
    assert_ok(fl_vocab_build(v, 1, FL_RARE_DROP));
    assert_ok(fl_vocab_write(v, path));
    fl_vocab_free(v);
    v = NULL;
    assert_ok(fl_vocab_read(&v, path));
    assert_int_equal(fl_vocab_len(v), 5000);
    assert_int_equal(fl_vocab_total(v), 10000);
    assert_int_equal(fl_vocab_find(v, "w0", 2), 0);
    assert_int_equal(fl_vocab_find(v, "w10", 3), 2);
    assert_int_equal(fl_vocab_find(v, "w", 1), FL_VOCAB_NONE);
    assert_int_equal(fl_vocab_count_of(v, 4999), 2);
    fl_vocab_free(v);
}

static void files_that_are_no_vocabulary_are_refused(void **state)
{
    static const char *const cases[][2] = {
        { "a 1\nb\n", "line 2: no count follows" },
        { "a 1\nb x\n", "line 2: no count follows" },
        { "a 1\nb 1 c\n", "line 2: there is more than" },
        { "a 1\nb 1.5\n", "line 2: there is more than" },
        { "a 1\n\nb 1\n", "line 2: there is no word" },
        { "a 1\nb 2\na 1\n", "line 3: the word was there before" },
        { "a 18446744073709551615\nb 1\n", "line 2: the counts are too large" },
        { "", "no word was counted" },
        { "a 0\n", "no word was counted" },
    };
    fl_vocab *v = NULL;

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        write_vocab(cases[i][0]);
        assert_int_equal(fl_vocab_read(&v, path), FL_ERR_CORRUPT);
        assert_null(v);
        assert_says(fl_last_error(), cases[i][1]);
    }
    assert_true(fl_vocab_read(&v, "/tmp/there/is/no/vocabulary") != FL_OK);
}

static void a_vocabulary_without_memory_fails(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 16; n++) {
        fl_vocab *v = fl_vocab_new();
        fl_status st;

        fl_alloc_fail_after(n);
        st = fl_vocab_count(v, "a b a", 5, FL_WORDS_AS_THEY_ARE);
        if (!st)
            st = fl_vocab_build(v, 0, FL_RARE_AS_UNKNOWN);
        fl_alloc_fail_after(0);
        assert_true(st == FL_OK || st == FL_ERR_NOMEM);
        assert_true(n > 1 || st == FL_ERR_NOMEM);
        fl_vocab_free(v);
    }
}

/* --- pairs ---------------------------------------------------------------- */

static const char small_vocab[] = "the 60\ncat 30\nsat 10\n";

static parsed open_seeded(const char *vocab, const char *options, uint64_t seed)
{
    char spec[256];

    write_vocab(vocab);
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s%s", path, options);
    return open_format(&(fl_parser_args){ .spec = spec, .seed = seed });
}

static parsed open_text(const char *vocab, const char *options)
{
    return open_seeded(vocab, options, 7);
}

static void expect_pairs(const char *vocab, const char *options,
                         const char *text, const char *expected)
{
    parsed f = open_text(vocab, options);

    assert_ok(feed_file(&f, text));
    expect_records(&f, expected);
    close_format(&f);
}

static void near_words_make_pairs_both_ways(void **state)
{
    (void)state;
    expect_pairs(small_vocab, ",sample=0,negatives=0", "the cat\n\nsat\n",
                 "input_word=0 true_label=1\ninput_word=1 true_label=0\n");
    expect_pairs(small_vocab, ",sample=0,negatives=0", "", "");
}

static void unknown_words_are_left_out_or_one_word(void **state)
{
    (void)state;
    expect_pairs(small_vocab, ",sample=0,negatives=0", "the big cat",
                 "input_word=0 true_label=1\ninput_word=1 true_label=0\n");
    expect_pairs("<UNK> 5\nthe 5\n", ",sample=0,negatives=0", "the big",
                 "input_word=1 true_label=0\ninput_word=0 true_label=1\n");
}

static void words_are_made_lower_case_unless_told_otherwise(void **state)
{
    const char *vocab = "the 5\nThe 4\ncat. 3\ncat 2\n";

    (void)state;
    expect_pairs(vocab, ",sample=0,negatives=0", "The cat.",
                 "input_word=0 true_label=3\ninput_word=3 true_label=0\n");
    expect_pairs(vocab, ",sample=0,negatives=0,lower=no", "The cat.",
                 "input_word=1 true_label=2\ninput_word=2 true_label=1\n");
}

/* Twenty words with falling counts, and a text of many lines with them. */
static char *make_vocab(void)
{
    fl_str s = { 0 };

    for (int i = 0; i < N_WORDS; i++)
        fl_str_addf(&s, "%c %d\n", 'a' + i, 1000 / (i + 1));
    return fl_str_take(&s);
}

static char *make_text(size_t n_lines, size_t n_words)
{
    fl_str s = { 0 };

    for (size_t i = 0; i < n_lines; i++) {
        for (size_t k = 0; k < n_words; k++)
            fl_str_addf(&s, "%c ",
                        'a' + (int)(fl_mix64(i * n_words + k) % N_WORDS));
        fl_str_add(&s, "\n");
    }
    return fl_str_take(&s);
}

/* What the threads of a pass would do: each takes some of the lines. */
static void feed_by_line(parsed *f, const char *text, fl_line first)
{
    while (*text) {
        size_t len = strcspn(text, "\n") + 1;
        char *line = fl_alloc(len + 1);

        memcpy(line, text, len);
        assert_ok(feed_lines(f, line, first));
        fl_free(line);
        text += len;
        first.number++;
    }
}

static void draws_depend_on_the_place_alone(void **state)
{
    char *vocab = make_vocab(), *text = make_text(50, 12);
    fl_line first = { .number = 1, .file = 99, .epoch = 3 };
    parsed whole = open_text(vocab, ""), pieces = open_text(vocab, "");

    (void)state;
    assert_ok(feed_lines(&whole, text, first));
    feed_by_line(&pieces, text, first);
    assert_true(whole.rows.n > 0);
    assert_int_equal(whole.rows.len, pieces.rows.len);
    assert_memory_equal(whole.rows.words, pieces.rows.words,
                        whole.rows.len * sizeof(*whole.rows.words));
    close_format(&whole);
    close_format(&pieces);
    fl_free(vocab);
    fl_free(text);
}

static uint64_t hash_of(fl_line first, uint64_t seed)
{
    char *vocab = make_vocab(), *text = make_text(20, 12);
    parsed f = open_seeded(vocab, "", seed);
    char *said;
    uint64_t h;

    assert_ok(feed_lines(&f, text, first));
    said = describe(&f);
    h = fl_hash_str(said);
    fl_free(said);
    close_format(&f);
    fl_free(vocab);
    fl_free(text);
    return h;
}

static void seed_file_line_and_epoch_change_the_draws(void **state)
{
    fl_line base = { .number = 1, .file = 2, .epoch = 3 };
    uint64_t h = hash_of(base, 1);
    fl_line other = base;

    (void)state;
    assert_true(h == hash_of(base, 1));
    assert_true(h != hash_of(base, 2));
    other.number = 2;
    assert_true(h != hash_of(other, 1));
    other = base;
    other.file = 3;
    assert_true(h != hash_of(other, 1));
    other = base;
    other.epoch = 2;
    assert_true(h != hash_of(other, 1));
}

/* Share of each word among the negatives against count^0.75. */
static void negatives_follow_the_counts(void **state)
{
    char *vocab = make_vocab(), *text = make_text(400, 20);
    parsed f = open_text(vocab, ",sample=0,negatives=8");
    double seen[N_WORDS] = { 0 }, weight[N_WORDS], sum = 0, n = 0;
    fl_row_part parts[3];

    (void)state;
    assert_ok(feed_file(&f, text));
    for (size_t i = 0; i < f.rows.n; i++) {
        fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, i), parts);
        assert_int_equal(parts[2].n, 8);
        for (uint32_t k = 0; k < 8; k++, n++)
            seen[fl_help_id(&parts[2], k)]++;
    }
    for (int i = 0; i < N_WORDS; i++)
        sum += weight[i] = pow(1000 / (i + 1), 0.75);
    for (int i = 0; i < N_WORDS; i++) {
        double p = weight[i] / sum;

        /* Five deviations: never by chance with fixed draws. */
        assert_true(fabs(seen[i] / n - p) < 5 * sqrt(p * (1 - p) / n));
    }
    close_format(&f);
    fl_free(vocab);
    fl_free(text);
}

/* Every word sees k others on either side, k uniform in 1 ... window + 1. */
static void windows_are_uniform(void **state)
{
    parsed f = open_text(small_vocab, ",sample=0,negatives=0,window=2");
    fl_str text = { 0 };
    size_t n = 20000;

    (void)state;
    for (size_t i = 0; i < n; i++)
        fl_str_add(&text, "cat ");
    assert_ok(feed_file(&f, fl_str_text(&text)));
    /* 2 (1 + 2 + 3) / 3 = 4 pairs a word, with a deviation of 1.63. */
    assert_true(fabs((double)f.rows.n / (double)n - 4) < 0.06);
    fl_str_release(&text);
    close_format(&f);
}

/* keep = (sqrt(c / (s C)) + 1) s C / c. With c = C = 100 and s = 0.01 that is
   0.11. */
static void frequent_words_are_thinned_out(void **state)
{
    parsed f = open_text("cat 100\n", ",sample=0.01,negatives=0,window=1");
    fl_str text = { 0 };
    size_t n = 50000;

    (void)state;
    for (size_t i = 0; i < n; i++)
        fl_str_add(&text, "cat ");
    assert_ok(feed_file(&f, fl_str_text(&text)));
    /* A kept word has 2 (1 + 2) / 2 = 3 pairs. */
    assert_true(fabs((double)f.rows.n / (double)n / 3 - 0.11) < 0.01);
    fl_str_release(&text);
    close_format(&f);
}

static void wanted_slots_of_a_text_are_matched(void **state)
{
    static const fl_slot wanted[] = {
        { .name = "neg_label", .kind = FL_SLOT_IDS, .width = 5, .height = 9 },
        { .name = "input_word", .kind = FL_SLOT_IDS },
    };
    char spec[128];
    parsed f;

    (void)state;
    write_vocab(small_vocab);
    snprintf(spec, sizeof(spec), "word2vec:sample=0,vocab=%s", path);
    f = open_format(
        &(fl_parser_args){ .spec = spec, .wanted = wanted, .n_wanted = 2 });
    assert_ok(feed_file(&f, "the cat"));
    assert_int_equal(f.rows.n, 2);
    assert_int_equal(f.parser->schema.slots[0].height, 9);
    close_format(&f);
    expect_wanted_refused(spec, (fl_slot){ .name = "neg_label", .width = 4 },
                          "slot neg_label has 5 values");
    expect_wanted_refused(spec, (fl_slot){ .name = "input_word", .height = 2 },
                          "the format gives ids below 3");
}

/* --- sentences ------------------------------------------------------------ */

static const fl_slot sentence_slots[] = {
    { .name = "words", .kind = FL_SLOT_IDS },
    { .name = "noise", .kind = FL_SLOT_IDS },
};

static parsed open_sentences(const char *vocab, const char *options,
                             size_t n_slots)
{
    char spec[256];

    write_vocab(vocab);
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s%s", path, options);
    return open_format(&(fl_parser_args){ .spec = spec,
                                          .seed = 7,
                                          .wanted = sentence_slots,
                                          .n_wanted = n_slots });
}

static void who_asks_for_words_gets_sentences(void **state)
{
    parsed f = open_sentences(small_vocab, ",sample=0", 1);

    (void)state;
    assert_ok(feed_file(&f, "the cat big sat\n\nsat\ncat cat\n"));
    expect_records(&f, "words=0 1 2\nwords=1 1\n");
    close_format(&f);
}

static void long_sentences_are_cut(void **state)
{
    parsed f = open_sentences(small_vocab, ",sample=0,max_words=2", 1);

    (void)state;
    assert_ok(feed_file(&f, "the cat sat the cat\nthe cat sat the\n"));
    expect_records(&f, "words=0 1\nwords=2 0\nwords=0 1\nwords=2 0\n");
    close_format(&f);
}

/* Share of each word among the noise against count^0.75, so many for each
   word. */
static void noise_follows_the_counts(void **state)
{
    char *vocab = make_vocab(), *text = make_text(400, 20);
    parsed f = open_sentences(vocab, ",sample=0,noise=3", 2);
    double seen[N_WORDS] = { 0 }, weight[N_WORDS], sum = 0, n = 0;
    fl_row_part parts[2];

    (void)state;
    assert_ok(feed_file(&f, text));
    assert_int_equal(f.rows.n, 400);
    for (size_t i = 0; i < f.rows.n; i++) {
        fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, i), parts);
        assert_int_equal(parts[0].n, 20);
        assert_int_equal(parts[1].n, 60);
        for (uint32_t k = 0; k < parts[1].n; k++, n++)
            seen[fl_help_id(&parts[1], k)]++;
    }
    for (int i = 0; i < N_WORDS; i++)
        sum += weight[i] = pow(1000 / (i + 1), 0.75);
    for (int i = 0; i < N_WORDS; i++) {
        double p = weight[i] / sum;

        assert_true(fabs(seen[i] / n - p) < 5 * sqrt(p * (1 - p) / n));
    }
    close_format(&f);
    fl_free(vocab);
    fl_free(text);
}

static void sentences_and_pairs_do_not_mix(void **state)
{
    char spec[128];

    (void)state;
    write_vocab(small_vocab);
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s,noise=0", path);
    expect_wanted_refused(spec, (fl_slot){ .name = "words", .width = 4 },
                          "slot words: sentences differ in length");
    expect_wanted_refused(spec, (fl_slot){ .name = "noise" },
                          "no slot called noise");
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s,max_words=1", path);
    expect_spec_refused(spec, "max_words=1");
}

static void settings_of_a_text_are_checked(void **state)
{
    char spec[128];

    (void)state;
    write_vocab(small_vocab);
    expect_spec_refused("word2vec", "say vocab=FILE");
    expect_spec_refused("word2vec:vocab=/tmp/there/is/none", "/tmp/there");
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s,window=0", path);
    expect_spec_refused(spec, "window=0");
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s,sample=-1", path);
    expect_spec_refused(spec, "sample=-1");
    snprintf(spec, sizeof(spec), "word2vec:vocab=%s,lower=maybe", path);
    expect_spec_refused(spec, "lower=maybe");
}

static void a_text_without_memory_fails(void **state)
{
    char *text = make_text(1, 3000), spec[128];
    char *vocab = make_vocab();
    fl_status st = FL_ERR_NOMEM;

    (void)state;
    write_vocab(vocab);
    snprintf(spec, sizeof(spec), "word2vec:sample=0,vocab=%s", path);
    for (uint64_t n = 1; st; n++) {
        parsed f = { 0 };

        fl_alloc_fail_after(n);
        st = fl_parser_new(&f.parser, &(fl_parser_args){ .spec = spec });
        if (!st)
            st = feed_file(&f, text);
        fl_alloc_fail_after(0);
        assert_true(st == FL_OK || st == FL_ERR_NOMEM);
        assert_true(n < 100);
        close_format(&f);
    }
    fl_free(text);
    fl_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_sorted_by_count_then_bytes),
        cmocka_unit_test(rare_words_are_dropped_or_unknown),
        cmocka_unit_test(lower_case_keeps_letters_only),
        cmocka_unit_test(words_that_are_too_long_are_left_out),
        cmocka_unit_test(words_of_every_length_keep_their_letters),
        cmocka_unit_test(what_is_near_the_letters_is_no_letter),
        cmocka_unit_test(words_that_start_alike_are_apart),
        cmocka_unit_test(a_vocabulary_finds_all_its_words),
        cmocka_unit_test(files_that_are_no_vocabulary_are_refused),
        cmocka_unit_test(a_vocabulary_without_memory_fails),
        cmocka_unit_test(near_words_make_pairs_both_ways),
        cmocka_unit_test(unknown_words_are_left_out_or_one_word),
        cmocka_unit_test(words_are_made_lower_case_unless_told_otherwise),
        cmocka_unit_test(draws_depend_on_the_place_alone),
        cmocka_unit_test(seed_file_line_and_epoch_change_the_draws),
        cmocka_unit_test(negatives_follow_the_counts),
        cmocka_unit_test(windows_are_uniform),
        cmocka_unit_test(frequent_words_are_thinned_out),
        cmocka_unit_test(wanted_slots_of_a_text_are_matched),
        cmocka_unit_test(who_asks_for_words_gets_sentences),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(noise_follows_the_counts),
        cmocka_unit_test(sentences_and_pairs_do_not_mix),
        cmocka_unit_test(settings_of_a_text_are_checked),
        cmocka_unit_test(a_text_without_memory_fails),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
