/* kit.h - a folder per test, and what the library said in the meantime. */
#ifndef FL_TESTS_CKPT_KIT_H
#define FL_TESTS_CKPT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"
#include "../folder.h"

static char kit_dir[FOLDER_BYTES];
static fl_str kit_log;

static inline void kit_hear(void *arg, fl_log_level level, const char *area,
                            const char *text)
{
    (void)arg;
    (void)level;
    fl_str_addf(&kit_log, "%s: %s\n", area, text);
}

static inline int kit_set_up(void **state)
{
    (void)state;
    fl_str_release(&kit_log);
    fl_log_set(kit_hear, NULL, FL_LOG_INFO);
    return folder_make(kit_dir, "ckpt") ? 0 : -1;
}

static inline int kit_remove_one(const char *path, const struct stat *is,
                                 int type, struct FTW *walk)
{
    (void)is;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline void kit_remove(const char *path)
{
    nftw(path, kit_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int kit_tear_down(void **state)
{
    (void)state;
    kit_remove(kit_dir);
    fl_str_release(&kit_log);
    fl_log_set(NULL, NULL, FL_LOG_INFO);
    return 0;
}

/* A path in the folder of the test; a few of them live at a time. */
static inline const char *kit_path(const char *name)
{
    static char paths[8][512];
    static size_t next;
    char *path = paths[next++ % FL_LEN(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s", kit_dir, name);
    return path;
}

/* As it is, without the care of fl_file_write. */
static inline void kit_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline char *kit_read(const char *path, size_t *len)
{
    char *text = NULL;
    size_t n;

    assert_int_equal(fl_file_read(path, (size_t)1 << 30, &text, &n), FL_OK);
    if (len)
        *len = n;
    return text;
}

/* Changes one byte of a file. */
static inline void kit_flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    int c;

    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    c = fgetc(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_true(fputc(c ^ 0x10, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not have '%s'", text, part);
}

#define assert_said(part) assert_has(fl_last_error(), part)
#define assert_logged(part) assert_has(fl_str_text(&kit_log), part)

/* The call fails with the code and a sentence that has the part. */
#define assert_refused(call, code, part)                                       \
    do {                                                                       \
        assert_int_equal(call, code);                                          \
        assert_said(part);                                                     \
    } while (0)

#define assert_ok(call)                                                        \
    do {                                                                       \
        if (call)                                                              \
            fail_msg("%s: %s", #call, fl_last_error());                        \
    } while (0)

#define KIT_TEST(name)                                                         \
    cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)

#endif
