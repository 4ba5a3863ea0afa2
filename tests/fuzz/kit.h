/* kit.h - what the fuzz targets share. A target is a file with this function;
 * README.md tells how to run one. */
#ifndef FL_TESTS_FUZZ_KIT_H
#define FL_TESTS_FUZZ_KIT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input. Always on. */
#define MUST(cond) FL_ASSERT(cond)

/* A folder of this process, made when it is first asked for and removed with
   its one file at the end. */
static char kit_folder[] = "/tmp/flotilla_fuzz_XXXXXX";
static char kit_file[sizeof(kit_folder) + 8];
static bool kit_has_folder;

static inline void kit_remove(void)
{
    unlink(kit_file);
    rmdir(kit_folder);
}

static inline const char *kit_path(void)
{
    if (!kit_has_folder) {
        MUST(mkdtemp(kit_folder));
        kit_has_folder = true;
        snprintf(kit_file, sizeof(kit_file), "%s/file", kit_folder);
        MUST(atexit(kit_remove) == 0);
    }
    return kit_file;
}

/* Without the care of fl_file_write, which would be most of the time. */
static inline void kit_write(const void *bytes, size_t n)
{
    FILE *f = fopen(kit_path(), "wb");

    MUST(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

#endif
