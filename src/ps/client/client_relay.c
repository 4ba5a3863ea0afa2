/* client_relay.c - bytes from trainer to trainer, by way of the servers. */
#include "ps/client/client_inside.h"

#include <inttypes.h>
#include <string.h>

/* --- sending -------------------------------------------------------------- */

fl_status fl_client_mail(fl_client *c, int server, const fl_client_letter *l,
                         bool *is_full, fl_client_done done, void *arg)
{
    fl_request *r;
    fl_part *p;

    FL_ASSERT(server >= 0 && server < c->o.n_servers);
    FL_TRY(fl_request_new(c, FL_TYPE_MAIL, true, (fl_ending){ done, arg }, &r));
    r->is_full = is_full;
    p = &r->parts[server];
    fl_pack_u32(&p->head, l->to);
    fl_pack_u32(&p->head, 0);
    fl_pack_u64(&p->head, l->generation);
    fl_part_add(p, p->head.data, p->head.len);
    fl_part_add(p, l->bytes, l->len);
    return fl_request_send(r);
}

static fl_status read_receipt(const fl_request *r, const fl_part *p)
{
    uint64_t len = p->payload ? fl_payload_len(p->payload) : 0;
    uint32_t is_full;

    if (len != sizeof(is_full))
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) with %" PRIu64
                " bytes instead of %zu",
                fl_frame_type_name(r->type), len, sizeof(is_full));
    memcpy(&is_full, fl_payload_data(p->payload), sizeof(is_full));
    *r->is_full = is_full != 0;
    return FL_OK;
}

/* --- taking --------------------------------------------------------------- */

fl_status fl_client_take(fl_client *c, uint64_t generation, uint64_t *seen,
                         fl_client_mails on_mail, fl_client_done done,
                         void *arg)
{
    fl_request *r;

    FL_TRY(
        fl_request_new(c, FL_TYPE_TAKE, false, (fl_ending){ done, arg }, &r));
    r->cursors = seen;
    r->on_mail = on_mail;
    for (int i = 0; i < c->o.n_servers; i++) {
        fl_part *p = &r->parts[i];

        fl_pack_u64(&p->head, generation);
        fl_pack_u64(&p->head, seen[i]);
        fl_part_add(p, p->head.data, p->head.len);
    }
    return fl_request_send(r);
}

/* Lengths may change in shared memory: each is read once. */
static fl_status read_mails(const fl_request *r, const fl_part *p)
{
    const uint8_t *at = p->payload ? fl_payload_data(p->payload) : NULL;
    uint64_t left = p->payload ? fl_payload_len(p->payload) : 0;
    uint64_t n = 0;

    while (left) {
        uint64_t len = UINT64_MAX;

        if (left >= sizeof(len)) {
            memcpy(&len, at, sizeof(len));
            at += sizeof(len);
            left -= sizeof(len);
        }
        if (len > left)
            FL_FAIL(FL_ERR_CORRUPT,
                    "it answers a request (%s) with mails that do not end "
                    "where the reply does",
                    fl_frame_type_name(r->type));
        FL_TRY(r->on_mail(fl_request_arg(r), at, len));
        at += len;
        left -= len;
        n++;
    }
    r->cursors[p->server] += n;
    return FL_OK;
}

fl_status fl_request_read_mail(const fl_request *r, const fl_part *p)
{
    return r->type == FL_TYPE_MAIL ? read_receipt(r, p) : read_mails(r, p);
}
