/* st_reader.c - reading safetensors files where they lie.
 *
 * Nothing in the header is believed: offsets are compared with each other and
 * with the size of the file before any of them is used, and the bytes of the
 * tensors are neither copied nor touched.
 */
#include "ckpt/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"
#include "ckpt/json_in.h"

#define LENGTH_BYTES 8
#define HEADER_MAX ((uint64_t)100 << 20) /* that of the public package */
#define METADATA "__metadata__"

struct fl_st_file {
    char *path;
    const unsigned char *bytes; /* the map */
    size_t n_bytes;
    uint64_t data; /* where the tensors begin */
    fl_arena arena;
    FL_VEC(fl_st_tensor) tensors; /* in the order of their bytes */
    fl_map by_name;               /* to entries of tensors */
};

/* --- one tensor of the header --------------------------------------------- */

static fl_status read_shape(const fl_st_file *f, const cJSON *item,
                            fl_st_tensor *t)
{
    FL_TRY(fl_json_in_shape(item, t->name, f->path, &t->shape));
    if (fl_st_tensor_bytes(t, &t->bytes))
        FL_FAIL(FL_ERR_CORRUPT, "%s: tensor %s is larger than any file",
                f->path, t->name);
    return FL_OK;
}

/* Where it lies, which is checked against its size and the file's. */
static fl_status read_offsets(const fl_st_file *f, const cJSON *offsets,
                              fl_st_tensor *t)
{
    uint64_t lo, hi, room = f->n_bytes - f->data;

    if (cJSON_GetArraySize(offsets) != 2)
        FL_FAIL(FL_ERR_CORRUPT, "%s: tensor %s has no two data_offsets",
                f->path, t->name);
    FL_TRY(fl_json_in_number(cJSON_GetArrayItem(offsets, 0), "data_offsets",
                             f->path, &lo));
    FL_TRY(fl_json_in_number(cJSON_GetArrayItem(offsets, 1), "data_offsets",
                             f->path, &hi));
    if (hi < lo || hi > room || hi - lo != t->bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: tensor %s of %llu bytes cannot lie at %llu to %llu of the "
                "%llu bytes of data; the file is cut off or damaged",
                f->path, t->name, (unsigned long long)t->bytes,
                (unsigned long long)lo, (unsigned long long)hi,
                (unsigned long long)room);
    t->offset = f->data + lo;
    if (t->offset % fl_st_type_bytes(t->type))
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: tensor %s begins at byte %llu, where a %s cannot be read "
                "in place; write the file anew with wider types first",
                f->path, t->name, (unsigned long long)t->offset,
                fl_st_type_text(t->type));
    return FL_OK;
}

static fl_status read_tensor(fl_st_file *f, const cJSON *item)
{
    fl_st_tensor t = { .name = fl_arena_strdup(&f->arena, item->string) };
    const cJSON *offsets;
    const char *type;

    FL_TRY(fl_json_in_text(item, "dtype", f->path, &type));
    if (!fl_st_type_parse(type, &t.type))
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "%s: tensor %s is of type %s; known are F32, F64, I32, I64, "
                "U32, U64, U8 and BOOL",
                f->path, t.name, type);
    FL_TRY(read_shape(f, item, &t));
    FL_TRY(fl_json_in_array(item, "data_offsets", f->path, &offsets));
    FL_TRY(read_offsets(f, offsets, &t));
    fl_vec_push(&f->tensors, t);
    return FL_OK;
}

/* --- the whole header ----------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const fl_st_tensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* No byte of the data belongs to two tensors or to none. */
static fl_status check_places(const fl_st_file *f)
{
    uint64_t at = f->data;

    for (size_t i = 0; i < f->tensors.len; i++) {
        const fl_st_tensor *t = &f->tensors.data[i];

        if (t->offset != at)
            FL_FAIL(FL_ERR_CORRUPT,
                    "%s: tensor %s begins at byte %llu, the one before it ends "
                    "at %llu; the file is damaged",
                    f->path, t->name, (unsigned long long)t->offset,
                    (unsigned long long)at);
        at += t->bytes;
    }
    if (at != f->n_bytes)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s has %llu bytes, but its tensors end at %llu; the file is "
                "damaged",
                f->path, (unsigned long long)f->n_bytes,
                (unsigned long long)at);
    return FL_OK;
}

static fl_status index_names(fl_st_file *f)
{
    for (size_t i = 0; i < f->tensors.len; i++) {
        const char *name = f->tensors.data[i].name;

        if (fl_map_find(&f->by_name, name))
            FL_FAIL(FL_ERR_CORRUPT, "%s has two tensors called %s", f->path,
                    name);
        fl_map_put(&f->by_name, name, &f->tensors.data[i]);
    }
    return FL_OK;
}

static fl_status read_items(fl_st_file *f, const cJSON *header)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, header)
    {
        if (strcmp(item->string, METADATA) != 0)
            FL_TRY(read_tensor(f, item));
    }
    if (f->tensors.len)
        qsort(f->tensors.data, f->tensors.len, sizeof(*f->tensors.data),
              by_place);
    FL_TRY(check_places(f));
    return index_names(f);
}

static fl_status read_header(fl_st_file *f)
{
    uint64_t n = 0;
    cJSON *header;
    fl_status st;

    for (int i = LENGTH_BYTES - 1; i >= 0 && f->n_bytes >= LENGTH_BYTES; i--)
        n = n << 8 | f->bytes[i];
    if (f->n_bytes < LENGTH_BYTES || n > HEADER_MAX ||
        n > f->n_bytes - LENGTH_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s is no safetensors file, or is cut off: its header does not "
                "fit in its %zu bytes",
                f->path, f->n_bytes);
    f->data = LENGTH_BYTES + n;
    FL_TRY(fl_json_in_parse(&header, (const char *)f->bytes + LENGTH_BYTES,
                            (size_t)n, f->path));
    st = read_items(f, header);
    cJSON_Delete(header);
    return st;
}

/* --- the file ------------------------------------------------------------- */

/* An empty file cannot be mapped; it has no header, either. */
static fl_status map_file(fl_st_file *f, int fd)
{
    struct stat st;
    void *map;

    if (fstat(fd, &st) != 0)
        return fl_file_failed("read", f->path, errno);
    if (!S_ISREG(st.st_mode))
        FL_FAIL(FL_ERR_INVAL, "%s is no regular file", f->path);
    if (st.st_size == 0)
        FL_FAIL(FL_ERR_CORRUPT, "%s is empty", f->path);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return fl_file_failed("map", f->path, errno);
    f->bytes = map;
    f->n_bytes = (size_t)st.st_size;
    return FL_OK;
}

fl_status fl_st_open(fl_st_file **out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    fl_st_file *f;
    fl_status st;

    if (fd < 0)
        return fl_file_failed("open", path, errno);
    f = fl_alloc(sizeof(*f));
    f->path = fl_strdup(path);
    fl_arena_init(&f->arena, 4096);
    st = map_file(f, fd);
    close(fd);
    if (!st)
        st = read_header(f);
    if (st)
        fl_st_close(f);
    else
        *out = f;
    return st;
}

void fl_st_close(fl_st_file *f)
{
    if (!f)
        return;
    if (f->bytes)
        munmap((void *)(uintptr_t)f->bytes, f->n_bytes);
    fl_map_release(&f->by_name);
    fl_vec_release(&f->tensors);
    fl_arena_release(&f->arena);
    fl_free(f->path);
    fl_free(f);
}

const char *fl_st_path(const fl_st_file *f)
{
    return f->path;
}

uint64_t fl_st_file_bytes(const fl_st_file *f)
{
    return f->n_bytes;
}

const fl_st_tensor *fl_st_at(const fl_st_file *f, size_t i)
{
    return i < f->tensors.len ? &f->tensors.data[i] : NULL;
}

const fl_st_tensor *fl_st_find(const fl_st_file *f, const char *name)
{
    return fl_map_find(&f->by_name, name);
}

void fl_st_set_sum(fl_st_file *f, const char *name, uint64_t xxh3)
{
    fl_st_tensor *t = fl_map_find(&f->by_name, name);

    FL_ASSERT(t);
    t->xxh3 = xxh3;
}

const void *fl_st_bytes(const fl_st_file *f, const fl_st_tensor *t)
{
    return f->bytes + t->offset;
}

fl_status fl_st_verify(const fl_st_file *f, const fl_st_tensor *t,
                       uint64_t xxh3)
{
    uint64_t is = XXH3_64bits(fl_st_bytes(f, t), t->bytes);

    if (is != xxh3)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: tensor %s has the checksum %016llx instead of %016llx; "
                "the file is damaged",
                f->path, t->name, (unsigned long long)is,
                (unsigned long long)xxh3);
    return FL_OK;
}
