/* buf.c - memory that grows. */
#include "base/buf.h"

#include <string.h>

#include "base/alloc.h"

void *fl_buf_reserve(fl_buf *b, size_t bytes)
{
    void *data;

    if (b->data && bytes <= b->bytes)
        return b->data;
    data = fl_try_alloc(bytes);
    if (!data)
        return NULL;
    fl_buf_release(b);
    *b = (fl_buf){ data, bytes };
    return data;
}

void *fl_buf_zeros(fl_buf *b, size_t bytes)
{
    void *data = fl_buf_reserve(b, bytes);

    if (data)
        memset(data, 0, bytes);
    return data;
}

void fl_buf_release(fl_buf *b)
{
    fl_data_free(b->data, b->bytes);
    *b = (fl_buf){ 0 };
}
