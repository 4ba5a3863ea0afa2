/* fuzz_messages.c - bytes as the request or the reply of any message: refused, or
 * read to what packs to as many bytes again.
 *
 * The first byte chooses the message by its number, and a request when it is
 * below 128; the rest is the payload.
 */
#include "kit.h"

#include <stddef.h>

#include "ps/msg/message.h"

static bool read_again(uint16_t type, const fl_msg_payload *p,
                       fl_msg_bytes bytes, fl_pack *out)
{
    _Alignas(max_align_t) uint8_t fields[FL_MSG_STRUCT_MAX] = { 0 };
    fl_msg_bytes end;

    if (!p->fields)
        return !p->echo(type, bytes, out);
    if (!fl_fields_unpack(p->fields, bytes, fields))
        return false;
    end = fl_fields_pack(out, p->fields, fields);
    if (end.len)
        fl_pack_bytes(out, end.data, (size_t)end.len);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fl_msg_def *m = size ? fl_msg_find(data[0] % 128) : NULL;
    fl_pack again = { 0 };
    void *payload;

    if (!m)
        return 0;
    payload = fl_try_alloc(size - 1);
    MUST(payload);
    memcpy(payload, data + 1, size - 1);
    if (read_again(data[0] % 128, data[0] < 128 ? m->request : m->reply,
                   (fl_msg_bytes){ payload, size - 1 }, &again))
        MUST(again.len == size - 1);
    fl_pack_release(&again);
    fl_data_free(payload, size - 1);
    return 0;
}
