/* fuzz_manifest.c - bytes as a manifest: refused, or read to what prints and
 * reads back the same. */
#include "kit.h"

#include "ckpt/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_manifest m, again;
    char *text, *twice;

    if (fl_manifest_parse(&m, (const char *)data, size, "input"))
        return 0;
    text = fl_manifest_print(&m);
    MUST(!fl_manifest_parse(&again, text, strlen(text), "printed"));
    twice = fl_manifest_print(&again);
    MUST(!strcmp(text, twice));
    for (size_t i = 0; i < m.files.len; i++)
        MUST(fl_manifest_find_file(&again, m.files.data[i].name));
    fl_free(twice);
    fl_free(text);
    fl_manifest_release(&again);
    fl_manifest_release(&m);
    return 0;
}
