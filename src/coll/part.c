/* part.c - the heads of parts. */
#include "coll/part.h"

#include <string.h>

#include "rpc/wire/frame.h"

void fl_coll_part_pack(const fl_coll_part *p, uint8_t head[FL_COLL_HEAD_BYTES])
{
    fl_pack out = { .data = head, .cap = FL_COLL_HEAD_BYTES };

    fl_pack_u32(&out, p->at.ring);
    fl_pack_u8(&out, p->sign.kind);
    fl_pack_u8(&out, p->sign.op);
    fl_pack_u8(&out, p->sign.dtype);
    fl_pack_u8(&out, p->sign.is_ragged);
    fl_pack_u64(&out, p->at.number);
    fl_pack_u64(&out, p->sign.n);
    fl_pack_u32(&out, p->sign.root);
    fl_pack_u32(&out, 0);
    fl_pack_u32(&out, p->step);
    fl_pack_u32(&out, p->status);
    fl_pack_u64(&out, p->chunk);
    /* It never grew: the memory is the caller's. */
    FL_ASSERT(out.data == head && out.len == FL_COLL_HEAD_BYTES);
}

fl_status fl_coll_part_read(int from, const void *bytes, size_t n,
                            fl_coll_part *out)
{
    fl_unpack u = fl_unpack_from(bytes, n);
    fl_coll_part p = { .from = from };

    p.at.ring = fl_unpack_u32(&u);
    p.sign.kind = fl_unpack_u8(&u);
    p.sign.op = fl_unpack_u8(&u);
    p.sign.dtype = fl_unpack_u8(&u);
    p.sign.is_ragged = fl_unpack_u8(&u);
    p.at.number = fl_unpack_u64(&u);
    p.sign.n = fl_unpack_u64(&u);
    p.sign.root = fl_unpack_u32(&u);
    (void)fl_unpack_u32(&u);
    p.step = fl_unpack_u32(&u);
    p.status = fl_unpack_u32(&u);
    p.chunk = fl_unpack_u64(&u);
    if (u.bad)
        FL_FAIL(FL_ERR_CORRUPT,
                "worker %d sends a part of a collective call with %zu bytes, "
                "and its head alone has %d",
                from, n, FL_COLL_HEAD_BYTES);
    p.bytes = u.at;
    p.n = (size_t)(u.end - u.at);
    *out = p;
    return FL_OK;
}
