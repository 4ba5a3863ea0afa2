#include "data/dataset/split_out.h"

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "flotilla/file.h"

#define BUFFER_BYTES ((size_t)256 << 10)
#define GZIP_WINDOW (15 + 16) /* zlib: with the head of a gzip file */
#define GZIP_MEMORY 8

struct fl_split_out {
    fl_file_writer *file;
    bool is_gzip;
    z_stream zip;
    size_t len; /* bytes that wait, plain */
    char waiting[BUFFER_BYTES];
    unsigned char packed[BUFFER_BYTES];
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

fl_status fl_split_out_open(fl_split_out **out, const char *path)
{
    fl_split_out *o = fl_alloc(sizeof(*o));
    fl_status st = fl_file_writer_open(&o->file, path);

    o->is_gzip = !st && ends_with(path, ".gz");
    if (o->is_gzip &&
        deflateInit2(&o->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW,
                     GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        o->is_gzip = false;
        st = fl_err_set(FL_ERR_NOMEM, "%s: no memory to compress it", path);
    }
    if (st)
        fl_split_out_drop(o);
    else
        *out = o;
    return st;
}

void fl_split_out_drop(fl_split_out *o)
{
    if (!o)
        return;
    if (o->is_gzip)
        deflateEnd(&o->zip);
    fl_file_writer_drop(o->file);
    fl_free(o);
}

/* All that waits, and with Z_FINISH what the end of the file needs. */
static fl_status pack(fl_split_out *o, int flush)
{
    o->zip.next_in = (unsigned char *)o->waiting;
    o->zip.avail_in = (unsigned)o->len;
    do {
        o->zip.next_out = o->packed;
        o->zip.avail_out = sizeof(o->packed);
        FL_ASSERT(deflate(&o->zip, flush) != Z_STREAM_ERROR);
        FL_TRY(fl_file_writer_add(o->file, o->packed,
                                  sizeof(o->packed) - o->zip.avail_out));
    } while (!o->zip.avail_out);
    return FL_OK;
}

static fl_status flush_out(fl_split_out *o, int flush)
{
    if (o->is_gzip)
        FL_TRY(pack(o, flush));
    else
        FL_TRY(fl_file_writer_add(o->file, o->waiting, o->len));
    o->len = 0;
    return FL_OK;
}

fl_status fl_split_out_add(fl_split_out *o, const char *bytes, size_t n)
{
    while (n) {
        size_t room = sizeof(o->waiting) - o->len;
        size_t some = n < room ? n : room;

        memcpy(o->waiting + o->len, bytes, some);
        o->len += some;
        bytes += some;
        n -= some;
        if (o->len == sizeof(o->waiting))
            FL_TRY(flush_out(o, Z_NO_FLUSH));
    }
    return FL_OK;
}

fl_status fl_split_out_commit(fl_split_out *o)
{
    fl_status st = flush_out(o, Z_FINISH);
    fl_file_writer *file = o->file;

    if (!st) {
        o->file = NULL;
        st = fl_file_writer_commit(file);
    }
    fl_split_out_drop(o);
    return st;
}
