/* test_record.c - the bytes of a record, for people's tools and for TensorBoard.
 */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "record/crc32c.h"
#include "record/sink.h"

#define TEXT_MAX_BYTES (1 << 20)
#define NOW 1700000000.25

/* A file that a sink writes to. */
typedef struct taken {
    char path[64];
    fl_record_file file;
} taken;

static void open_taken(taken *t)
{
    snprintf(t->path, sizeof(t->path), "/tmp/flotilla-record-XXXXXX");
    t->file = (fl_record_file){ .fd = mkstemp(t->path), .path = t->path };
    assert_true(t->file.fd >= 0);
}

static char *close_taken(taken *t, size_t *len)
{
    char *text;

    close(t->file.fd);
    if (fl_file_read(t->path, TEXT_MAX_BYTES, &text, len))
        fail_msg("%s", fl_last_error());
    unlink(t->path);
    return text;
}

static const fl_record_pass some_pass = { .phase = "train",
                                          .pass = 2,
                                          .step = 300,
                                          .samples = 4000,
                                          .batches = 40,
                                          .seconds = 1.5,
                                          .input_seconds = 0.25,
                                          .peer_seconds = 0,
                                          .loss = 0.5,
                                          .auc = NAN };

static void lines_are_json_objects_with_a_type_and_a_time(void **state)
{
    fl_record_numbers n = { &some_pass, 2000 };
    taken t;
    size_t len;
    char *text;

    (void)state;
    open_taken(&t);
    assert_int_equal(fl_record_lines.pass(&t.file, &n, NOW), 0);
    assert_int_equal(fl_record_lines.number(&t.file, "test/ndcg", 7, 0.75, NOW),
                     0);
    assert_int_equal(fl_record_lines.note(&t.file, "model", "a \"b\"", NOW), 0);
    assert_int_equal(fl_record_lines.server(&t.file, "{\"pulls\":3}", NOW), 0);
    assert_int_equal(fl_record_lines.end(&t.file, NOW), 0);
    text = close_taken(&t, &len);
    assert_string_equal(
        text,
        "{\"type\":\"progress\",\"time\":1700000000.25,\"phase\":\"train\","
        "\"pass\":2,\"step\":300,\"samples\":4000,\"batches\":40,"
        "\"seconds\":1.5,\"input_seconds\":0.25,\"peer_seconds\":0,"
        "\"rate\":2000,\"loss\":0.5,\"auc\":null}\n"
        "{\"type\":\"number\",\"time\":1700000000.25,\"name\":\"test/ndcg\","
        "\"step\":7,\"value\":0.75}\n"
        "{\"type\":\"note\",\"time\":1700000000.25,\"name\":\"model\","
        "\"text\":\"a \\\"b\\\"\"}\n"
        "{\"type\":\"server\",\"time\":1700000000.25,\"counters\":{\"pulls\":3}"
        "}\n"
        "{\"type\":\"end\",\"time\":1700000000.25}\n");
    fl_free(text);
}

/* What TensorBoard 2.x reads as file_version "brain.Event:2", then at step 300
   train/loss 0.5 and train/samples_per_second 2000, then at step 7 test/ndcg
   0.75. */
static const uint8_t events[] = {
#include "events.inc"
};

static void events_have_the_bytes_that_tensorboard_reads(void **state)
{
    fl_record_numbers n = { &some_pass, 2000 };
    taken t;
    size_t len;
    char *text;

    (void)state;
    open_taken(&t);
    assert_int_equal(fl_record_board.begin(&t.file, NULL, NOW), 0);
    assert_int_equal(fl_record_board.pass(&t.file, &n, NOW), 0);
    assert_int_equal(fl_record_board.number(&t.file, "test/ndcg", 7, 0.75, NOW),
                     0);
    text = close_taken(&t, &len);
    assert_int_equal(len, sizeof(events));
    assert_memory_equal(text, events, sizeof(events));
    fl_free(text);
}

/* RFC 3720, B.4. */
static void the_checksum_is_castagnolis(void **state)
{
    uint8_t bytes[32] = { 0 };

    (void)state;
    assert_int_equal(fl_crc32c(bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(fl_crc32c(bytes, sizeof(bytes)), 0x62a8ab43);
    assert_int_equal(fl_crc32c("123456789", 9), 0xe3069283);
}

static void nothing_is_written_where_nobody_asks(void **state)
{
    fl_record *r;
    fl_conf conf;

    (void)state;
    assert_int_equal(fl_conf_init(&conf), FL_OK);
    assert_int_equal(fl_record_open(&r, &(fl_record_start){ .conf = &conf,
                                                            .who = "process" }),
                     FL_OK);
    assert_null(r);
    fl_record_add_note(r, "a", "b");
    fl_record_close(r);
    fl_conf_release(&conf);
}

static void a_run_adds_to_the_file_of_the_one_before(void **state)
{
    char dir[] = "/tmp/flotilla-record-XXXXXX", path[128];
    char *text;
    size_t len;
    fl_conf conf;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(fl_conf_init(&conf), FL_OK);
    assert_int_equal(fl_conf_set(&conf, "record_dir", dir), FL_OK);
    assert_int_equal(fl_conf_set(&conf, "join_token", "hush"), FL_OK);
    for (int i = 0; i < 2; i++) {
        fl_record *r;

        assert_int_equal(
            fl_record_open(&r, &(fl_record_start){ .conf = &conf,
                                                   .who = "worker-3",
                                                   .versions = "x 1\n" }),
            FL_OK);
        assert_int_equal(fl_record_next_pass(r), 1);
        fl_record_close(r);
    }
    snprintf(path, sizeof(path), "%s/worker-3.jsonl", dir);
    if (fl_file_read(path, TEXT_MAX_BYTES, &text, &len))
        fail_msg("%s", fl_last_error());
    assert_non_null(strstr(strstr(text, "\"begin\"") + 1, "\"begin\""));
    assert_non_null(strstr(text, "\"who\":\"worker-3\""));
    assert_non_null(strstr(text, "\"join_token\":\"(set)\""));
    assert_null(strstr(text, "hush"));
    fl_free(text);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    fl_conf_release(&conf);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state)
{
    fl_record *r;
    fl_conf conf;

    (void)state;
    assert_int_equal(fl_conf_init(&conf), FL_OK);
    assert_int_equal(fl_conf_set(&conf, "record_dir", "/proc/no/such"), FL_OK);
    assert_int_not_equal(
        fl_record_open(&r,
                       &(fl_record_start){ .conf = &conf, .who = "process" }),
        FL_OK);
    assert_non_null(strstr(fl_last_error(), "the record of this run"));
    assert_non_null(strstr(fl_last_error(), "/proc/no/such"));
    fl_conf_release(&conf);
}

/* /dev/full stands for it. */
static void a_full_disk_is_told_when_the_record_begins(void **state)
{
    char dir[] = "/tmp/flotilla-record-XXXXXX", path[128];
    fl_record *r;
    fl_conf conf;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/process.jsonl", dir);
    assert_int_equal(fl_conf_init(&conf), FL_OK);
    assert_int_equal(fl_conf_set(&conf, "record_dir", dir), FL_OK);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_not_equal(
        fl_record_open(&r,
                       &(fl_record_start){ .conf = &conf, .who = "process" }),
        FL_OK);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    fl_conf_release(&conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_json_objects_with_a_type_and_a_time),
        cmocka_unit_test(events_have_the_bytes_that_tensorboard_reads),
        cmocka_unit_test(the_checksum_is_castagnolis),
        cmocka_unit_test(nothing_is_written_where_nobody_asks),
        cmocka_unit_test(a_run_adds_to_the_file_of_the_one_before),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_an_error),
        cmocka_unit_test(a_full_disk_is_told_when_the_record_begins),
    };

    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
