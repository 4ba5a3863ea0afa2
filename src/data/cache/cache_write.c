/* cache_write.c - the writing side of a cache.
 *
 * Rows are copied into the open part under the lock. Whoever fills it takes it
 * away and, with the lock released, turns it into the bytes of a chunk and
 * writes them; the lock is held once more to give the chunk its place. Parts
 * are recycled, so there are as many as threads that add at one time, plus one.
 *
 * A failure anywhere breaks the writer for good: rows may be missing then, and
 * such a file must never get its name.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/thread.h"
#include "data/cache/cache_disk.h"

/* Long records make a chunk of fewer of them: readers hold a whole one. */
#define PART_WORDS ((size_t)2 << 20)

#define FIRST_PART_WORDS ((size_t)64 << 10)

/* Records on their way into a chunk. */
typedef struct part {
    struct part *next; /* among the spare ones */
    uint32_t *words;
    size_t len, cap;
    size_t n;
    size_t starts[FL_CACHE_RECORDS];
    const uint32_t *rows[FL_CACHE_RECORDS];
    fl_columns columns;
    char *bytes; /* of the chunk */
    size_t bytes_cap;
} part;

struct fl_cache_writer {
    const fl_schema *schema;
    fl_file_writer *file;

    fl_mutex mu; /* guards what follows */
    part *open;  /* NULL: none has rows */
    part *spare;
    FL_VEC(fl_cache_chunk) chunks;
    uint64_t end; /* of the last chunk in the file */
    uint64_t n_records;
    fl_err error; /* the first one */
};

/* --- file ---------------------------------------------------------------- */

static fl_status in_cache(fl_status st)
{
    return fl_err_ctx(st, "writing the data cache, which the job can do "
                          "without");
}

static fl_status write_at(const fl_cache_writer *w, const void *bytes,
                          size_t len, uint64_t offset)
{
    return in_cache(fl_file_writer_add_at(w->file, bytes, len, offset));
}

static fl_status make_directory(const char *directory)
{
    struct stat st;

    if (mkdir(directory, 0777) == 0)
        return FL_OK;
    if (errno != EEXIST)
        return fl_file_failed("make the cache directory", directory, errno);
    if (stat(directory, &st) == 0 && !S_ISDIR(st.st_mode))
        return fl_file_failed("use the cache directory", directory, ENOTDIR);
    return FL_OK;
}

/* --- making and freeing -------------------------------------------------- */

static void part_free(part *p)
{
    if (!p)
        return;
    fl_data_free(p->words, p->cap * sizeof(*p->words));
    fl_columns_release(&p->columns);
    fl_data_free(p->bytes, p->bytes_cap);
    fl_data_free(p, sizeof(*p));
}

void fl_cache_writer_drop(fl_cache_writer *w)
{
    if (!w)
        return;
    part_free(w->open);
    while (w->spare) {
        part *next = w->spare->next;

        part_free(w->spare);
        w->spare = next;
    }
    fl_file_writer_drop(w->file);
    fl_vec_release(&w->chunks);
    fl_mutex_release(&w->mu);
    fl_free(w);
}

static fl_status start_file(fl_cache_writer *w, const char *directory,
                            const fl_cache_key *k)
{
    fl_str path = { 0 };
    fl_cache_head *head;
    fl_status st;

    FL_TRY(make_directory(directory));
    fl_cache_add_path(&path, directory, k);
    st = in_cache(fl_file_writer_open(&w->file, path.data));
    fl_str_release(&path);
    FL_TRY(st);
    head = fl_cache_header_new(k, w->schema);
    st = write_at(w, head, head->bytes, 0);
    w->end = head->bytes;
    fl_free(head);
    return st;
}

fl_status fl_cache_writer_new(fl_cache_writer **out, const char *directory,
                              const fl_cache_key *k, const fl_schema *s)
{
    fl_cache_writer *w;
    fl_status st;

    FL_TRY(fl_cache_check_machine());
    w = fl_alloc(sizeof(*w));
    w->schema = s;
    fl_mutex_init(&w->mu);
    st = start_file(w, directory, k);
    if (st)
        fl_cache_writer_drop(w);
    else
        *out = w;
    return st;
}

/* --- chunks -------------------------------------------------------------- */

static size_t padded_values(const fl_columns *c, uint32_t i)
{
    return fl_cache_padded(c->cols[i].n_values *
                           fl_slot_bytes(&c->schema->slots[i]));
}

static size_t head_bytes(const fl_schema *s)
{
    return fl_cache_padded(s->n_slots * sizeof(uint64_t));
}

static size_t chunk_bytes(const fl_columns *c)
{
    const fl_schema *s = c->schema;
    size_t bytes = head_bytes(s);

    bytes += s->n_ragged * fl_cache_padded(c->n_rows * sizeof(uint32_t));
    for (uint32_t i = 0; i < s->n_slots; i++)
        bytes += padded_values(c, i);
    return bytes;
}

static fl_status reserve_bytes(part *p, size_t need)
{
    if (need <= p->bytes_cap)
        return FL_OK;
    fl_data_free(p->bytes, p->bytes_cap);
    p->bytes_cap = 0;
    p->bytes = fl_try_alloc(need);
    if (!p->bytes)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of a data cache", need);
    p->bytes_cap = need;
    return FL_OK;
}

static char *put_counts(char *at, const fl_columns *c, uint32_t i)
{
    const int64_t *offsets = c->cols[i].offsets;
    uint32_t *counts = (uint32_t *)(void *)at;

    for (size_t r = 0; r < c->n_rows; r++)
        counts[r] = (uint32_t)(offsets[r + 1] - offsets[r]);
    return at + fl_cache_padded(c->n_rows * sizeof(*counts));
}

/* Lays the columns out as a chunk. */
static void put_columns(char *to, const fl_columns *c)
{
    const fl_schema *s = c->schema;
    char *at = to + head_bytes(s);

    for (uint32_t i = 0; i < s->n_slots; i++) {
        uint64_t n_values = c->cols[i].n_values;

        memcpy(to + i * sizeof(n_values), &n_values, sizeof(n_values));
        if (s->slots[i].width == 0)
            at = put_counts(at, c, i);
        memcpy(at, c->cols[i].values, n_values * fl_slot_bytes(&s->slots[i]));
        at += padded_values(c, i);
    }
}

/* Gives the chunk its place, where nobody else will write. */
static uint64_t place_chunk(fl_cache_writer *w, fl_cache_chunk chunk)
{
    fl_lock(&w->mu);
    chunk.offset = w->end;
    w->end += chunk.bytes;
    w->n_records += chunk.records;
    fl_vec_push(&w->chunks, chunk);
    fl_unlock(&w->mu);
    return chunk.offset;
}

static fl_status write_part(fl_cache_writer *w, part *p)
{
    fl_cache_chunk chunk = { .records = p->n };

    for (size_t i = 0; i < p->n; i++)
        p->rows[i] = p->words + p->starts[i];
    FL_TRY(fl_columns_gather(&p->columns, p->rows, p->n));
    chunk.bytes = chunk_bytes(&p->columns);
    FL_TRY(reserve_bytes(p, chunk.bytes));
    memset(p->bytes, 0, chunk.bytes);
    put_columns(p->bytes, &p->columns);
    chunk.sum = fl_sum_of(p->bytes, chunk.bytes);
    return write_at(w, p->bytes, chunk.bytes, place_chunk(w, chunk));
}

/* --- adding -------------------------------------------------------------- */

/* Under the lock. */
static fl_status open_part(fl_cache_writer *w)
{
    part *p = w->spare;

    if (w->open)
        return FL_OK;
    if (p) {
        w->spare = p->next;
    } else {
        p = fl_try_alloc(sizeof(*p));
        if (!p)
            FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of a data cache",
                    sizeof(*p));
        p->words = NULL;
        p->bytes = NULL;
        p->cap = p->bytes_cap = 0;
        fl_columns_init(&p->columns, w->schema);
    }
    p->len = p->n = 0;
    w->open = p;
    return FL_OK;
}

static fl_status reserve_words(part *p, size_t need)
{
    size_t cap = p->cap * 2 > FIRST_PART_WORDS ? p->cap * 2 : FIRST_PART_WORDS;
    uint32_t *words;

    if (need <= p->cap)
        return FL_OK;
    cap = cap > need ? cap : need;
    words = fl_try_alloc(cap * sizeof(*words));
    if (!words)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu words of a data cache", cap);
    if (p->len)
        memcpy(words, p->words, p->len * sizeof(*words));
    fl_data_free(p->words, p->cap * sizeof(*words));
    p->words = words;
    p->cap = cap;
    return FL_OK;
}

static bool is_full(const part *p)
{
    return p->n == FL_CACHE_RECORDS || p->len >= PART_WORDS;
}

static size_t end_of_row(const fl_records *rows, size_t i)
{
    return i + 1 < rows->n ? rows->starts[i + 1] : rows->len;
}

/* Copies as many of the rows from *from on as the part takes, one at least. */
static fl_status copy_rows(part *p, const fl_records *rows, size_t *from)
{
    size_t first = rows->starts[*from];
    size_t i = *from, left = PART_WORDS - p->len, n_words;

    do
        p->starts[p->n + i - *from] = p->len + rows->starts[i] - first;
    while (++i < rows->n && p->n + i - *from < FL_CACHE_RECORDS &&
           end_of_row(rows, i) - first <= left);
    n_words = end_of_row(rows, i - 1) - first;
    FL_TRY(reserve_words(p, p->len + n_words));
    memcpy(p->words + p->len, rows->words + first, n_words * sizeof(*p->words));
    p->len += n_words;
    p->n += i - *from;
    *from = i;
    return FL_OK;
}

/* Copies some rows; a part that cannot take more leaves through *full. Under
   the lock. */
static fl_status add_some(fl_cache_writer *w, const fl_records *rows,
                          size_t *from, part **full)
{
    if (w->error.status)
        return fl_err_restore(&w->error);
    FL_TRY(open_part(w));
    FL_TRY(copy_rows(w->open, rows, from));
    if (is_full(w->open) || *from < rows->n) {
        *full = w->open;
        w->open = NULL;
    }
    return FL_OK;
}

/* Takes a part back, and remembers the first error. */
static void settle(fl_cache_writer *w, part *p, fl_status st)
{
    fl_lock(&w->mu);
    if (p) {
        p->next = w->spare;
        w->spare = p;
    }
    if (st && !w->error.status)
        fl_err_save(&w->error, st);
    fl_unlock(&w->mu);
}

fl_status fl_cache_writer_add(fl_cache_writer *w, const fl_records *rows)
{
    size_t from = 0;

    while (from < rows->n) {
        part *full = NULL;
        fl_status st;

        fl_lock(&w->mu);
        st = add_some(w, rows, &from, &full);
        fl_unlock(&w->mu);
        if (full)
            st = write_part(w, full);
        if (full || st)
            settle(w, full, st);
        if (st)
            return st;
    }
    return FL_OK;
}

/* --- the end ------------------------------------------------------------- */

static fl_status write_trailer(const fl_cache_writer *w, const char *footer,
                               size_t bytes)
{
    fl_cache_trailer trailer = { .footer_offset = w->end,
                                 .footer_bytes = bytes,
                                 .footer_sum = fl_sum_of(footer, bytes),
                                 .magic = FL_CACHE_END_MAGIC };

    return write_at(w, &trailer, sizeof(trailer), w->end + bytes);
}

static fl_status write_footer(const fl_cache_writer *w, uint64_t n_lines,
                              uint64_t n_bad)
{
    fl_cache_totals totals = { .chunks = w->chunks.len,
                               .records = w->n_records,
                               .lines = n_lines,
                               .bad_lines = n_bad };
    size_t directory = w->chunks.len * sizeof(*w->chunks.data);
    size_t bytes = fl_cache_padded(sizeof(totals) + directory);
    char *footer = fl_try_alloc(bytes);
    fl_status st;

    if (!footer)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of a data cache", bytes);
    memset(footer, 0, bytes);
    memcpy(footer, &totals, sizeof(totals));
    if (directory)
        memcpy(footer + sizeof(totals), w->chunks.data, directory);
    st = write_at(w, footer, bytes, w->end);
    if (!st)
        st = write_trailer(w, footer, bytes);
    fl_data_free(footer, bytes);
    return st;
}

static fl_status finish(fl_cache_writer *w, uint64_t n_lines, uint64_t n_bad)
{
    fl_status st;

    if (w->error.status)
        return fl_err_restore(&w->error);
    if (w->open)
        FL_TRY(write_part(w, w->open));
    FL_TRY(write_footer(w, n_lines, n_bad));
    st = in_cache(fl_file_writer_commit(w->file));
    w->file = NULL;
    return st;
}

fl_status fl_cache_writer_commit(fl_cache_writer *w, uint64_t n_lines,
                                 uint64_t n_bad)
{
    fl_status st = finish(w, n_lines, n_bad);

    fl_cache_writer_drop(w);
    return st;
}
