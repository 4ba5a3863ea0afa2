/* test_file.c - whole files in a folder of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../sys_faults.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/thread.h"

#define MANY 100000

static char folder[] = "/tmp/fl_test_file_XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/model", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void assert_file_is(const char *bytes, size_t n)
{
    char *text = NULL;
    size_t len = 0;

    assert_int_equal(fl_file_read(path, MANY, &text, &len), FL_OK);
    assert_int_equal(len, n);
    assert_memory_equal(text, bytes, n);
    assert_int_equal(text[len], '\0');
    fl_free(text);
}

static int count_files(void)
{
    DIR *d = opendir(folder);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void what_was_written_is_read_back(void **state)
{
    char *many = fl_alloc(MANY);

    (void)state;
    for (int i = 0; i < MANY; i++)
        many[i] = (char)(i * 31 >> 3);
    assert_int_equal(fl_file_write(path, many, MANY), FL_OK);
    assert_file_is(many, MANY);
    assert_int_equal(fl_file_write(path, "a\0b", 3), FL_OK);
    assert_file_is("a\0b", 3);
    assert_int_equal(fl_file_write(path, "", 0), FL_OK);
    assert_file_is("", 0);
    assert_int_equal(count_files(), 1);
    fl_free(many);
}

static void the_limit_is_exact(void **state)
{
    char *text = (char *)path;
    size_t len = 99;

    (void)state;
    assert_int_equal(fl_file_write(path, "12345", 5), FL_OK);
    assert_int_equal(fl_file_read(path, 4, &text, &len), FL_ERR_INVAL);
    assert_ptr_equal(text, path);
    assert_int_equal(len, 99);
    assert_non_null(strstr(fl_last_error(), path));
    assert_non_null(strstr(fl_last_error(), "4 bytes"));
    assert_int_equal(fl_file_read(path, 5, &text, &len), FL_OK);
    assert_string_equal(text, "12345");
    fl_free(text);
}

static void a_file_without_a_size_is_read_to_its_end(void **state)
{
    char *text = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(fl_file_read("/proc/self/status", MANY, &text, &len),
                     FL_OK);
    assert_true(len > 100);
    assert_int_equal(strlen(text), len);
    assert_non_null(strstr(text, "VmRSS"));
    fl_free(text);
    assert_int_equal(fl_file_read("/dev/zero", MANY, &text, &len),
                     FL_ERR_INVAL);
}

static void errors_name_path_cause_and_cure(void **state)
{
    char *text = NULL;
    size_t len;

    (void)state;
    assert_int_equal(fl_file_read("/no/such/file", MANY, &text, &len),
                     FL_ERR_NOTFOUND);
    assert_string_equal(fl_last_error(),
                        "cannot open /no/such/file: No such file or "
                        "directory; check that the path exists");
    assert_int_equal(fl_file_read(folder, MANY, &text, &len), FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), "name a file, not a folder"));
    assert_int_equal(fl_file_write("/no/such/file", "x", 1), FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), "/no/such/file: No such file"));
    assert_null(text);
}

/* A folder cannot be replaced by a file: the rename fails, after all bytes
   were written. */
static void a_failed_write_leaves_nothing_behind(void **state)
{
    char inner[80];
    int before;

    (void)state;
    snprintf(inner, sizeof(inner), "%s/inner", folder);
    assert_int_equal(mkdir(inner, 0777), 0);
    before = count_files();
    assert_int_equal(fl_file_write(inner, "x", 1), FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), inner));
    assert_int_equal(count_files(), before);
    assert_int_equal(rmdir(inner), 0);
}

static void a_reader_of_the_old_file_keeps_it(void **state)
{
    char old[8] = { 0 };
    FILE *f;

    (void)state;
    assert_int_equal(fl_file_write(path, "old", 3), FL_OK);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fl_file_write(path, "new one", 7), FL_OK);
    assert_int_equal(fread(old, 1, sizeof(old), f), 3);
    assert_string_equal(old, "old");
    fclose(f);
    assert_file_is("new one", 7);
}

static void a_new_file_follows_the_umask(void **state)
{
    mode_t before = umask(027);
    struct stat st;

    (void)state;
    unlink(path);
    assert_int_equal(fl_file_write(path, "x", 1), FL_OK);
    umask(before);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

static void a_file_keeps_its_mode(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(fl_file_write(path, "x", 1), FL_OK);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(fl_file_write(path, "y", 1), FL_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_name_without_a_folder_is_in_this_one(void **state)
{
    char *here = getcwd(NULL, 0);

    (void)state;
    assert_non_null(here);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(fl_file_write("model", "here", 4), FL_OK);
    assert_int_equal(chdir(here), 0);
    assert_file_is("here", 4);
    free(here);
}

#define WRITES 50
#define WRITE_BYTES 3000

/* cmocka's assertions belong to the main thread; the other one reports. */
static void write_often(void *arg)
{
    char bytes[WRITE_BYTES];
    fl_status *st = arg;

    memset(bytes, 'b', sizeof(bytes));
    for (int i = 0; i < WRITES && *st == FL_OK; i++)
        *st = fl_file_write(path, bytes, sizeof(bytes));
}

static void a_reader_sees_one_writer_or_the_other(void **state)
{
    char bytes[WRITE_BYTES];
    fl_status theirs = FL_OK;
    fl_thread *t = NULL;

    (void)state;
    memset(bytes, 'a', sizeof(bytes));
    assert_int_equal(fl_file_write(path, bytes, sizeof(bytes)), FL_OK);
    assert_int_equal(fl_thread_start(&t, "writer", write_often, &theirs),
                     FL_OK);
    for (int i = 0; i < WRITES; i++) {
        char *text = NULL;
        size_t len = 0;

        assert_int_equal(fl_file_write(path, bytes, sizeof(bytes)), FL_OK);
        assert_int_equal(fl_file_read(path, MANY, &text, &len), FL_OK);
        assert_int_equal(len, WRITE_BYTES);
        assert_int_equal(strspn(text, text[0] == 'a' ? "a" : "b"), len);
        fl_free(text);
    }
    fl_thread_join(t);
    assert_int_equal(theirs, FL_OK);
    assert_int_equal(count_files(), 1);
}

static void a_device_is_written_to_and_stays_one(void **state)
{
    char pipe_path[256];
    struct stat st;
    char got[8] = { 0 };
    int fd;

    (void)state;
    snprintf(pipe_path, sizeof(pipe_path), "%s.fifo", path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    fd = open(pipe_path, O_RDWR);
    assert_int_equal(fl_file_write(pipe_path, "hello", 5), FL_OK);
    assert_int_equal(read(fd, got, sizeof(got)), 5);
    assert_string_equal(got, "hello");
    assert_int_equal(stat(pipe_path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    close(fd);
    unlink(pipe_path);
}

static void a_link_leads_to_the_file_that_is_written(void **state)
{
    char link_path[256];
    struct stat st;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    snprintf(link_path, sizeof(link_path), "%s.link", path);
    assert_int_equal(fl_file_write(path, "old", 3), FL_OK);
    assert_int_equal(symlink(path, link_path), 0);
    assert_int_equal(fl_file_write(link_path, "new!", 4), FL_OK);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(fl_file_read(path, 100, &text, &len), FL_OK);
    assert_string_equal(text, "new!");
    fl_free(text);
    unlink(link_path);
}

static void a_link_that_dangles_says_where_the_file_belongs(void **state)
{
    char link_path[256];
    struct stat st;

    (void)state;
    unlink(path);
    snprintf(link_path, sizeof(link_path), "%s.link", path);
    assert_int_equal(symlink("model", link_path), 0);
    assert_int_equal(fl_file_write(link_path, "new!", 4), FL_OK);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    unlink(link_path);
    assert_file_is("new!", 4);
}

/* As the shell's `(echo a; tool -o /dev/stdout) >file` wants it. */
static void a_descriptor_by_name_is_written_where_it_stands(void **state)
{
    char name[64];
    int fd;

    (void)state;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_int_equal(write(fd, "before ", 7), 7);
    snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    assert_int_equal(fl_file_write(name, "after", 5), FL_OK);
    close(fd);
    assert_file_is("before after", 12);
    assert_int_equal(fl_file_write(name, "x", 1), FL_ERR_IO);
    assert_non_null(strstr(fl_last_error(), name));
}

static void a_writer_that_is_dropped_leaves_the_old_file(void **state)
{
    fl_file_writer *w = NULL;

    (void)state;
    assert_int_equal(fl_file_write(path, "old", 3), FL_OK);
    assert_int_equal(fl_file_writer_open(&w, path), FL_OK);
    assert_int_equal(fl_file_writer_add(w, "new", 3), FL_OK);
    fl_file_writer_drop(w);
    fl_file_writer_drop(NULL);
    assert_file_is("old", 3);
    assert_int_equal(count_files(), 1);
}

/* Open, write, sync, rename; then the folder is opened and synced. */
static void every_call_that_fails_leaves_the_old_or_the_new_file(void **state)
{
    (void)state;
    for (int at = 1; at <= 6; at++) {
        fl_status st;

        assert_int_equal(fl_file_write(path, "old", 3), FL_OK);
        faults_begin(FAULT_FAIL, at);
        st = fl_file_write(path, "new", 3);
        fl_sys_replace(NULL);
        assert_int_equal(st, FL_ERR_IO);
        assert_file_is(at <= 4 ? "old" : "new", 3);
        assert_int_equal(count_files(), 1);
    }
}

static void a_short_write_is_gone_on_with(void **state)
{
    fl_file_writer *w = NULL;

    (void)state;
    faults_begin(FAULT_SHORT, 2);
    assert_int_equal(fl_file_write(path, "longer", 6), FL_OK);
    assert_file_is("longer", 6);
    faults_begin(FAULT_SHORT, 2);
    assert_int_equal(fl_file_writer_open(&w, path), FL_OK);
    assert_int_equal(fl_file_writer_add_at(w, "still longer", 12, 0), FL_OK);
    assert_int_equal(fl_file_writer_commit(w), FL_OK);
    fl_sys_replace(NULL);
    assert_file_is("still longer", 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(a_file_without_a_size_is_read_to_its_end),
        cmocka_unit_test(errors_name_path_cause_and_cure),
        cmocka_unit_test(a_failed_write_leaves_nothing_behind),
        cmocka_unit_test(a_reader_of_the_old_file_keeps_it),
        cmocka_unit_test(a_new_file_follows_the_umask),
        cmocka_unit_test(a_file_keeps_its_mode),
        cmocka_unit_test(a_name_without_a_folder_is_in_this_one),
        cmocka_unit_test(a_reader_sees_one_writer_or_the_other),
        cmocka_unit_test(a_device_is_written_to_and_stays_one),
        cmocka_unit_test(a_link_leads_to_the_file_that_is_written),
        cmocka_unit_test(a_link_that_dangles_says_where_the_file_belongs),
        cmocka_unit_test(a_descriptor_by_name_is_written_where_it_stands),
        cmocka_unit_test(a_writer_that_is_dropped_leaves_the_old_file),
        cmocka_unit_test(every_call_that_fails_leaves_the_old_or_the_new_file),
        cmocka_unit_test(a_short_write_is_gone_on_with),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
