/* fuzz_declare.c - bytes as a declaration: it is refused or read; what was read
 * says the same when it is written again, and a store makes it or says why not.
 */
#include "kit.h"

#include <inttypes.h>

#include "ops/ops.h"
#include "ps/store/store.h"

/* More would only take time: each is made like the first. */
#define MADE_MAX 8

static void write_lines(fl_str *to, const char *lines)
{
    for (const char *end; *lines; lines = end + 1) {
        end = strchr(lines, '\n');
        fl_str_addf(to, "| %.*s\n", (int)(end - lines), lines);
    }
}

static char *write_again(const fl_declaration *d)
{
    fl_str text = { 0 };

    fl_str_addf(&text, "seed %" PRIu64 "\n", d->seed);
    for (size_t i = 0; i < d->items.len; i++) {
        const fl_declared *item = &d->items.data[i];

        if (item->kind == FL_DECLARED_TABLE) {
            fl_str_addf(&text, "table %s %s\n", item->name, item->text);
            continue;
        }
        fl_str_addf(&text, "program %s %" PRIu64 "\n", item->name, item->n);
        write_lines(&text, item->startup);
        fl_str_add(&text, "|---\n");
        write_lines(&text, item->text);
    }
    return fl_str_take(&text);
}

static void check_again(const fl_declaration *d)
{
    char *text = write_again(d);
    fl_declaration again;

    MUST(!fl_declaration_parse(&again, text, strlen(text)));
    MUST(again.seed == d->seed && again.items.len == d->items.len);
    for (size_t i = 0; i < d->items.len; i++) {
        const fl_declared *a = &d->items.data[i], *b = &again.items.data[i];

        MUST(a->kind == b->kind && a->n == b->n && !strcmp(a->name, b->name));
        MUST(!strcmp(a->text, b->text));
        MUST(!a->startup == !b->startup);
        MUST(!a->startup || !strcmp(a->startup, b->startup));
    }
    fl_declaration_release(&again);
    fl_free(text);
}

static void make(const char *text, size_t len)
{
    fl_store *s;
    fl_conf conf;

    MUST(!fl_conf_init(&conf));
    s = fl_store_new(&fl_ops, &conf);
    if (!fl_store_declare(s, text, len))
        MUST(!fl_store_declare(s, text, len));
    fl_store_free(s);
    fl_conf_release(&conf);
}

/* The bytes end where the memory ends, for the sanitizer to see. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fl_alloc(size + !size);
    fl_declaration d;

    if (size)
        memcpy(text, data, size);
    if (!fl_declaration_parse(&d, text, size)) {
        check_again(&d);
        if (d.items.len <= MADE_MAX)
            make(text, size);
        fl_declaration_release(&d);
    }
    fl_free(text);
    return 0;
}
