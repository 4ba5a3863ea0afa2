/* fuzz_words.c - bytes as settings in words: they are refused or read, and what
 * was read says the same when it is written, changed and read again. */
#include "kit.h"

#include "conf/words.h"

static void check_same(const fl_words *a, const fl_words *b)
{
    MUST(a->list.len == b->list.len);
    for (size_t i = 0; i < a->list.len; i++) {
        MUST(!strcmp(fl_words_name(a, i), fl_words_name(b, i)));
        MUST(!strcmp(fl_words_value(a, i), fl_words_value(b, i)));
    }
}

static void check_again(const fl_words *w)
{
    char *text = fl_words_text(w);
    fl_words *again = NULL;

    MUST(!fl_words_new(&again, text));
    check_same(w, again);
    fl_words_free(again);
    fl_free(text);
}

/* Every name set to its own value: one of each is left, and all still count. */
static void check_set(fl_words *w)
{
    for (size_t i = 0; i < fl_words_count(w); i++) {
        const char *name = fl_words_name(w, i);
        char *value = fl_strdup(fl_words_get(w, name));

        MUST(!fl_words_set(w, name, value));
        MUST(!strcmp(fl_words_get(w, fl_words_name(w, i)), value));
        fl_free(value);
    }
    check_again(w);
}

static void check_list(const char *text)
{
    fl_words w;

    if (fl_words_read(&w, text, FL_WORDS_LIST))
        return;
    MUST(w.list.len > 0);
    fl_words_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fl_alloc(size + 1);
    fl_words *w = NULL;

    if (size)
        memcpy(text, data, size);
    if (!fl_words_new(&w, text)) {
        check_again(w);
        check_set(w);
        fl_words_free(w);
    }
    check_list(text);
    fl_free(text);
    return 0;
}
