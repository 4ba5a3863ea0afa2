/* test_records.c - ten million click records in memory cost little more than
 * their ids and floats. */
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "kit.h"
#include "../make.h"

#define RECORDS 10000000
#define CATEGORIES 26
#define NUMBERS 13

/* One line with 26 lists of one id, 13 numbers and a label, over and over. */
static void make_command(char *out, size_t cap)
{
    size_t len = 0;

    len += (size_t)snprintf(out, cap, "yes '");
    for (int i = 0; i < CATEGORIES; i++)
        len += (size_t)snprintf(out + len, cap - len, "1 %d ", 123456 + i);
    len += (size_t)snprintf(out + len, cap - len, "%d", NUMBERS);
    for (int i = 0; i < NUMBERS; i++)
        len += (size_t)snprintf(out + len, cap - len, " 0.%d", i + 1);
    snprintf(out + len, cap - len, " 1 1' | head -n %d", RECORDS);
}

static void make_slots(fl_slot *slots, char names[][4])
{
    for (int i = 0; i < CATEGORIES; i++) {
        snprintf(names[i], sizeof(names[i]), "C%d", i + 1);
        slots[i] = (fl_slot){ .name = names[i], .kind = FL_SLOT_IDS };
    }
    slots[CATEGORIES] = (fl_slot){ "dense", FL_SLOT_FLOATS, NUMBERS, 0 };
    slots[CATEGORIES + 1] = (fl_slot){ "label", FL_SLOT_IDS, 1, 0 };
}

static void records_cost_little_more_than_their_values(void **state)
{
    const double raw = 8.0 * (CATEGORIES + 1) + 4.0 * NUMBERS;
    char path[] = "/tmp/flotilla-records-XXXXXX", command[1024];
    char names[CATEGORIES][4];
    const char *paths[] = { path };
    fl_slot slots[CATEGORIES + 2];
    fl_ctx *ctx = make_ctx();
    fl_dataset *d;
    double bytes;

    (void)state;
    close(mkstemp(path));
    make_command(command, sizeof(command));
    make_slots(slots, names);
    assert_ok(fl_dataset_new(&d, ctx, "InMemoryDataset"));
    assert_ok(fl_dataset_set_slots(d, slots, CATEGORIES + 2));
    assert_ok(fl_dataset_set_filelist(d, paths, 1));
    fl_dataset_set_thread(d, 2);
    fl_dataset_set_pipe_command(d, command);
    assert_ok(fl_dataset_load_into_memory(d));
    assert_int_equal(fl_dataset_get_memory_data_size(d), RECORDS);
    bytes = (double)fl_dataset_memory_bytes(d) / RECORDS;
    printf("%.1f bytes a record, %.3f of its ids and floats\n", bytes,
           bytes / raw);
    assert_true(bytes <= 1.3 * raw);
    assert_ok(fl_dataset_local_shuffle(d));
    fl_dataset_release_memory(d);
    assert_int_equal(fl_dataset_memory_bytes(d), 0);
    fl_dataset_free(d);
    fl_ctx_free(ctx);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_cost_little_more_than_their_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
