/* test_cache_damage.c - a cache that is not what it was: no flipped bit passes,
 * no cut file is used, and no file, however made, leads a reader astray. */
#include "cache_kit.h"

#include <sys/stat.h>

#define N_SMALL 12     /* records of a file of 3 KB */
#define N_HOSTILE 5000 /* files with right checksums and wrong numbers */

static char said[256];

static void keep_line(void *arg, fl_log_level level, const char *area,
                      const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    snprintf(said, sizeof(said), "%s", text);
}

static fl_schema write_small(void)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, N_SMALL, 3);

    write_rows(&s, &rows);
    fl_records_release(&rows);
    return s;
}

static void a_flipped_bit_anywhere_is_found(void **state)
{
    fl_schema s = write_small();
    file_bytes b = load_bytes();

    (void)state;
    assert_int_equal(read_all(&s), FL_OK);
    for (size_t i = 0; i < b.len; i++) {
        char bit = (char)(1 << i % 8);
        fl_status st;

        b.data[i] ^= bit;
        store_bytes(b.data, b.len);
        b.data[i] ^= bit;
        st = read_all(&s);
        if (st != FL_ERR_NOTFOUND && st != FL_ERR_CORRUPT)
            fail_msg("byte %zu of %zu: status %d", i, b.len, (int)st);
    }
    fl_free(b.data);
    fl_schema_release(&s);
}

static void a_damaged_chunk_is_named(void **state)
{
    fl_schema s = small_schema();
    fl_records rows = make_rows(&s, 5000, 3);
    fl_columns columns;
    file_bytes b;
    fl_cache *c;

    (void)state;
    write_rows(&s, &rows);
    b = load_bytes();
    b.data[b.len - 4096] ^= 1;
    store_bytes(b.data, b.len);
    c = open_cache(&s);
    assert_non_null(c);
    fl_columns_init(&columns, &s);
    assert_ok(fl_cache_columns(c, 0, &columns));
    assert_int_equal(fl_cache_columns(c, 1, &columns), FL_ERR_CORRUPT);
    assert_said(folder);
    assert_said("chunk 1 of 2");
    assert_said("delete the file");
    fl_columns_release(&columns);
    fl_cache_close(c);
    fl_free(b.data);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static void a_cut_file_is_not_used(void **state)
{
    fl_schema s = write_small();
    file_bytes b = load_bytes();

    (void)state;
    for (size_t len = 0; len < b.len; len++) {
        store_bytes(b.data, len);
        if (read_all(&s) != FL_ERR_NOTFOUND)
            fail_msg("%zu of %zu bytes are used", len, b.len);
    }
    store_bytes(b.data, b.len + 1); /* the text's NUL is there to be read */
    assert_int_equal(read_all(&s), FL_ERR_NOTFOUND);
    fl_free(b.data);
    fl_schema_release(&s);
}

static void why_a_cache_is_not_used_is_in_the_log(void **state)
{
    fl_schema s = write_small();
    file_bytes b = load_bytes();
    fl_cache_key newer = a_key;
    fl_cache *c = NULL;

    (void)state;
    fl_log_set(keep_line, NULL, FL_LOG_INFO);
    newer.source_mtime_ns++;
    assert_ok(fl_cache_open(&c, folder, &newer, &s));
    assert_null(c);
    assert_non_null(strstr(said, "its source has changed"));
    store_bytes(b.data, b.len - 32);
    assert_null(open_cache(&s));
    assert_non_null(strstr(said, "never finished"));
    b.data[8]++; /* the version */
    store_bytes(b.data, b.len);
    assert_null(open_cache(&s));
    assert_non_null(strstr(said, "another version"));
    said[0] = '\0';
    assert_int_equal(count_files(true), 1);
    assert_null(open_cache(&s));
    assert_string_equal(said, "");
    fl_log_set(NULL, NULL, FL_LOG_WARN);
    fl_free(b.data);
    fl_schema_release(&s);
}

/* --- files with right checksums ------------------------------------------ */

/* The parts of a file of one chunk. */
typedef struct parts {
    fl_cache_head head;
    fl_cache_trailer trailer;
    fl_cache_chunk chunk;
} parts;

static parts parts_of(const file_bytes *b)
{
    parts p;

    memcpy(&p.head, b->data, sizeof(p.head));
    memcpy(&p.trailer, b->data + b->len - sizeof(p.trailer), sizeof(p.trailer));
    memcpy(&p.chunk,
           b->data + p.trailer.footer_offset + sizeof(fl_cache_totals),
           sizeof(p.chunk));
    return p;
}

/* Makes the sums right again, where they were before. */
static void repair(file_bytes *b, const parts *p)
{
    char *footer = b->data + p->trailer.footer_offset;
    fl_cache_chunk chunk;
    fl_cache_trailer trailer = p->trailer;

    memcpy(&chunk, footer + sizeof(fl_cache_totals), sizeof(chunk));
    chunk.sum = fl_sum_of(b->data + p->chunk.offset, p->chunk.bytes);
    memcpy(footer + sizeof(fl_cache_totals), &chunk, sizeof(chunk));
    trailer.footer_sum = fl_sum_of(footer, p->trailer.footer_bytes);
    memcpy(b->data + b->len - sizeof(trailer), &trailer, sizeof(trailer));
}

/* Numbers that programs stumble over. */
static uint64_t odd_number(uint64_t x)
{
    static const uint64_t odd[] = { 0,
                                    1,
                                    4096,
                                    4097,
                                    UINT32_MAX,
                                    INT64_MAX,
                                    UINT64_MAX,
                                    UINT64_MAX - 63,
                                    UINT64_C(1) << 61,
                                    UINT64_C(1) << 63 };

    return x % 3 ? odd[x / 3 % FL_LEN(odd)] : x % 9000;
}

/* Some words of the chunk's head and counts, or of the footer, are others. */
static void no_numbers_with_right_sums_lead_astray(void **state)
{
    fl_schema s = write_small();
    file_bytes good = load_bytes(), bad = load_bytes();
    parts p = parts_of(&good);
    uint64_t seed = 9;
    int n_refused = 0;

    (void)state;
    for (int i = 0; i < N_HOSTILE; i++) {
        uint64_t x = draw(&seed), value = odd_number(draw(&seed));
        size_t words = (x & 1 ? p.trailer.footer_bytes : p.chunk.bytes) / 8;
        char *part =
            bad.data + (x & 1 ? p.trailer.footer_offset : p.chunk.offset);

        memcpy(bad.data, good.data, good.len);
        memcpy(part + (x >> 8) % words * 8, &value, x & 2 ? 8 : 4);
        repair(&bad, &p);
        store_bytes(bad.data, bad.len);
        n_refused += read_all(&s) != FL_OK;
    }
    assert_true(n_refused > N_HOSTILE / 20);
    fl_free(good.data);
    fl_free(bad.data);
    fl_schema_release(&s);
}

static void no_trailer_leads_astray(void **state)
{
    fl_schema s = write_small();
    file_bytes b = load_bytes();
    fl_cache_trailer good = parts_of(&b).trailer;
    uint64_t seed = 4;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        fl_cache_trailer t = good;

        if (draw(&seed) & 1)
            t.footer_offset = odd_number(draw(&seed));
        else
            t.footer_bytes = odd_number(draw(&seed));
        if (draw(&seed) & 1)
            t.footer_bytes = b.len - sizeof(t) - t.footer_offset;
        if (memcmp(&t, &good, sizeof(t)) == 0)
            continue;
        memcpy(b.data + b.len - sizeof(t), &t, sizeof(t));
        store_bytes(b.data, b.len);
        assert_int_equal(read_all(&s), FL_ERR_NOTFOUND);
    }
    fl_free(b.data);
    fl_schema_release(&s);
}

static void ids_beyond_the_height_are_refused(void **state)
{
    fl_slot slot = {
        .name = "id", .kind = FL_SLOT_IDS, .width = 1, .height = 10
    };
    uint64_t id = 10;
    fl_schema s;
    fl_records rows;
    file_bytes b;
    parts p;

    (void)state;
    assert_ok(fl_schema_init(&s, &slot, 1));
    rows = make_rows(&s, 3, 1);
    write_rows(&s, &rows);
    b = load_bytes();
    p = parts_of(&b);
    memcpy(b.data + p.chunk.offset + FL_CACHE_ALIGN + 8, &id, sizeof(id));
    repair(&b, &p);
    store_bytes(b.data, b.len);
    assert_int_equal(read_all(&s), FL_ERR_CORRUPT);
    assert_said("an id is beyond its limit");
    fl_free(b.data);
    fl_records_release(&rows);
    fl_schema_release(&s);
}

static void a_pipe_in_its_place_is_not_waited_for(void **state)
{
    fl_schema s = small_schema();
    char path[PATH_ROOM];

    (void)state;
    cache_path(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(open_cache(&s));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_null(open_cache(&s));
    fl_schema_release(&s);
}

/* --- the format ---------------------------------------------------------- */

/* Caches outlive the library that wrote them: another value here needs another
   version. */
static void the_checksum_is_pinned(void **state)
{
    unsigned char bytes[256];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    assert_true(fl_sum_of(bytes, 0) == UINT64_C(0x002bb742d0bce1f3));
    assert_true(fl_sum_of(bytes, 64) == UINT64_C(0x0e1b3c36b25d785b));
    assert_true(fl_sum_of(bytes, 256) == UINT64_C(0xbec588c44858c8cf));
}

static void the_bytes_of_a_file_are_pinned(void **state)
{
    fl_schema s = write_small();
    file_bytes b = load_bytes();

    (void)state;
    assert_int_equal(b.len, 2912);
    assert_true(fl_hash_bytes(b.data, b.len) == UINT64_C(0xb6e6060f01b8057b));
    fl_free(b.data);
    fl_schema_release(&s);
}

static void copying_sums_like_adding(void **state)
{
    char from[512], to[512];
    uint64_t seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (char)draw(&seed);
    for (size_t n = 0; n <= sizeof(from) - FL_CACHE_ALIGN; n++) {
        fl_layers_sum s;

        memset(to, 0, sizeof(to));
        fl_sum_init(&s);
        fl_sum_copy(&s, to, from, n);
        assert_memory_equal(to, from, n);
        assert_int_equal(to[n], 0);
        assert_true(fl_sum_end(&s) == fl_sum_of(from, fl_cache_padded(n)));
    }
}

#define test_in_folder(f) cmocka_unit_test_teardown(f, clear_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_folder(a_flipped_bit_anywhere_is_found),
        test_in_folder(a_damaged_chunk_is_named),
        test_in_folder(a_cut_file_is_not_used),
        test_in_folder(why_a_cache_is_not_used_is_in_the_log),
        test_in_folder(no_numbers_with_right_sums_lead_astray),
        test_in_folder(no_trailer_leads_astray),
        test_in_folder(ids_beyond_the_height_are_refused),
        test_in_folder(a_pipe_in_its_place_is_not_waited_for),
        test_in_folder(the_checksum_is_pinned),
        test_in_folder(the_bytes_of_a_file_are_pinned),
        test_in_folder(copying_sums_like_adding),
    };

    return cmocka_run_group_tests_name("cache damage", tests, make_folder,
                                       remove_folder);
}
