/* fuzz_cache.c - bytes as a cache file: it is refused or read, and what is read
 * are records.
 *
 * The first byte chooses. 0: the rest is the file. Else a good file is taken
 * and changed, by bytes of the input in groups of four: a place (two bytes),
 * what to do there, and a value; an even first byte then makes the checksums
 * right again, so that what lies behind them is reached as well. */
#include "kit.h"

#include "base/log.h"
#include "data/cache/cache_disk.h"

#define N_ROWS 12
#define GOOD_MAX 65536

static const fl_slot slots[] = {
    { .name = "label", .kind = FL_SLOT_IDS, .width = 1, .height = 2 },
    { .name = "dense", .kind = FL_SLOT_FLOATS, .width = 3 },
    { .name = "ids", .kind = FL_SLOT_IDS },
    { .name = "values", .kind = FL_SLOT_FLOATS },
};
static const fl_cache_key key = { .source = "source",
                                  .source_bytes = 100,
                                  .source_mtime_ns = 7,
                                  .parser_hash = 9,
                                  .pipe_command = "cat" };

static fl_schema schema;
static char cache_path[PATH_MAX];
static unsigned char good[GOOD_MAX];
static size_t good_len;

static void write_row(fl_row_writer *w, uint32_t i)
{
    uint32_t n = i == 5 ? 300 : i % 4;

    MUST(!fl_row_open(w, 4 + 2 * (size_t)n));
    fl_row_slot(w, &slots[0], 0, 1);
    fl_row_id(w, i % 2);
    for (uint32_t k = 0; k < 3; k++)
        fl_row_float(w, (float)k);
    fl_row_slot(w, &slots[2], 0, n);
    for (uint32_t k = 0; k < n; k++)
        fl_row_id(w, i * 100 + k);
    fl_row_slot(w, &slots[3], 1, n);
    for (uint32_t k = 0; k < n; k++)
        fl_row_float(w, 0.5f);
    fl_row_close(w);
}

static void read_good(void)
{
    FILE *f = fopen(cache_path, "rb");

    MUST(f);
    good_len = fread(good, 1, sizeof(good), f);
    MUST(good_len > 0 && good_len < sizeof(good));
    fclose(f);
}

static void keep_quiet(void *arg, fl_log_level level, const char *area,
                       const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

static void release(void)
{
    unlink(cache_path);
    fl_schema_release(&schema);
}

/* kit_remove runs after release: what is registered last comes first. */
static void make_good(void)
{
    fl_cache_writer *writer = NULL;
    fl_records rows = { 0 };
    fl_row_writer w = { .schema = &schema, .rows = &rows };

    fl_log_set(keep_quiet, NULL, FL_LOG_ERROR);
    MUST(!fl_schema_init(&schema, slots, FL_LEN(slots)));
    (void)kit_path();
    fl_cache_path(&key, kit_folder, cache_path, sizeof(cache_path));
    MUST(atexit(release) == 0);
    for (uint32_t i = 0; i < N_ROWS; i++)
        write_row(&w, i);
    MUST(!fl_cache_writer_new(&writer, kit_folder, &key, &schema));
    MUST(!fl_cache_writer_add(writer, &rows));
    MUST(!fl_cache_writer_commit(writer, N_ROWS, 0));
    fl_records_release(&rows);
    read_good();
}

/* --- changing ------------------------------------------------------------- */

static void change(unsigned char *file, size_t n, const uint8_t *data,
                   size_t size)
{
    for (; size >= 4; data += 4, size -= 4) {
        size_t at = (size_t)(data[0] | data[1] << 8) % n;

        switch (data[2] % 5) {
        case 0:
            file[at] = data[3];
            break;
        case 1:
            file[at] ^= data[3];
            break;
        case 2:
            file[at] = (unsigned char)(file[at] + data[3]);
            break;
        case 3:
            memset(file + at, data[3], n - at < 8 ? n - at : 8);
            break;
        default: /* from the end, where footer and trailer are */
            file[n - 1 - at % (n < 160 ? n : 160)] = data[3];
        }
    }
}

static void repair_chunks(unsigned char *file, size_t n, unsigned char *footer,
                          size_t bytes)
{
    for (size_t at = sizeof(fl_cache_totals);
         at + sizeof(fl_cache_chunk) <= bytes; at += sizeof(fl_cache_chunk)) {
        fl_cache_chunk c;

        memcpy(&c, footer + at, sizeof(c));
        if (c.offset <= n && c.bytes <= n - c.offset &&
            c.bytes % FL_CACHE_ALIGN == 0)
            c.sum = fl_sum_of(file + c.offset, c.bytes);
        memcpy(footer + at, &c, sizeof(c));
    }
}

static void repair(unsigned char *file, size_t n)
{
    fl_cache_trailer t;
    fl_cache_head h;

    if (n < sizeof(t) + sizeof(h))
        return;
    memcpy(&h, file, sizeof(h));
    if (h.bytes <= n && h.bytes % FL_CACHE_ALIGN == 0) {
        h.sum = 0;
        memcpy(file, &h, sizeof(h));
        h.sum = fl_sum_of(file, h.bytes);
        memcpy(file, &h, sizeof(h));
    }
    memcpy(&t, file + n - sizeof(t), sizeof(t));
    if (t.footer_offset > n || t.footer_bytes > n - t.footer_offset ||
        t.footer_bytes % FL_CACHE_ALIGN)
        return;
    repair_chunks(file, n, file + t.footer_offset, t.footer_bytes);
    t.footer_sum = fl_sum_of(file + t.footer_offset, t.footer_bytes);
    memcpy(file + n - sizeof(t), &t, sizeof(t));
}

/* --- reading -------------------------------------------------------------- */

static void check_chunk(const fl_cache *c, size_t i)
{
    fl_records rows = { 0 };
    fl_columns columns;
    size_t at = 0;
    fl_status by_row, by_column;

    fl_columns_init(&columns, &schema);
    by_row = fl_cache_rows(c, i, &rows);
    by_column = fl_cache_columns(c, i, &columns);
    MUST(by_row == by_column);
    if (!by_row) {
        MUST(rows.n == columns.n_rows);
        for (size_t r = 0; r < rows.n; r++)
            at += fl_row_words(&schema, fl_records_at(&rows, r));
        MUST(at == rows.len);
    }
    fl_columns_release(&columns);
    fl_records_release(&rows);
}

static void write_cache(const unsigned char *file, size_t n)
{
    FILE *f = fopen(cache_path, "wb");

    MUST(f && fwrite(file, 1, n, f) == n && fclose(f) == 0);
}

static void read_cache(void)
{
    fl_cache *c = NULL;

    if (!fl_cache_open(&c, kit_folder, &key, &schema) && c)
        for (size_t i = 0; i < fl_cache_chunks(c); i++)
            check_chunk(c, i);
    fl_cache_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!good_len)
        make_good();
    if (size < 1)
        return 0;
    if (data[0]) {
        unsigned char *file = fl_alloc(good_len);

        memcpy(file, good, good_len);
        change(file, good_len, data + 1, size - 1);
        if (data[0] % 2 == 0)
            repair(file, good_len);
        write_cache(file, good_len);
        fl_free(file);
    } else {
        write_cache(data + 1, size - 1);
    }
    read_cache();
    return 0;
}
