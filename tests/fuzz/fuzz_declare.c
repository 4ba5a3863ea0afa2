/* fuzz_declare.c - bytes as a declaration: a store runs it or says why not, and
 * takes it a second time where it took it once. */
#include "kit.h"

#include "ops/ops.h"
#include "ps/store/store.h"

/* Larger variables would only take time: each is filled like a small one. */
#define VAR_BYTES_MAX (1 << 16)

/* The bytes end where the memory ends, for the sanitizer to see. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fl_alloc(size + !size);
    fl_store *s;
    fl_conf conf;

    if (size)
        memcpy(text, data, size);
    MUST(!fl_conf_init(&conf));
    conf.max_message_bytes = VAR_BYTES_MAX;
    s = fl_store_new(&fl_ops, &conf);
    if (!fl_store_declare(s, text, size))
        MUST(!fl_store_declare(s, text, size));
    fl_store_free(s);
    fl_conf_release(&conf);
    fl_free(text);
    return 0;
}
