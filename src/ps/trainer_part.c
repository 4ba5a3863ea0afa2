/* trainer_part.c - what a trainer brings to the cut of a save, as bytes. */
#include "ps/trainer_part.h"

#include <inttypes.h>

static void pack_long(fl_pack *p, fl_msg_bytes b)
{
    fl_pack_u64(p, b.len);
    if (b.len)
        fl_pack_bytes(p, b.data, (size_t)b.len);
}

static fl_msg_bytes read_long(fl_unpack *u)
{
    uint64_t len = fl_unpack_u64(u);
    const void *data = fl_unpack_bytes(u, len);

    return (fl_msg_bytes){ data, data ? len : 0 };
}

/* --- writing -------------------------------------------------------------- */

static void pack_lists(fl_pack *p, const fl_trainer_part *part)
{
    fl_pack_u32(p, (uint32_t)part->wholes.len);
    for (size_t i = 0; i < part->wholes.len; i++) {
        fl_pack_text(p, part->wholes.data[i].name);
        fl_named_pack_meta(p, &part->wholes.data[i].value);
    }
    fl_pack_u32(p, (uint32_t)part->tables.len);
    for (size_t i = 0; i < part->tables.len; i++) {
        fl_pack_text(p, part->tables.data[i].name);
        pack_long(p, part->tables.data[i].settings);
    }
}

void fl_trainer_part_pack(fl_pack *p, const fl_trainer_part *part)
{
    fl_pack_u64(p, part->seed);
    fl_pack_u64(p, part->main_version);
    fl_pack_u64(p, part->startup_version);
    fl_pack_text(p, part->mode);
    pack_long(p, part->position);
    pack_long(p, part->program);
    pack_long(p, part->startup);
    pack_lists(p, part);
    fl_pack_align(p);
    for (size_t i = 0; i < part->values.len; i++) {
        const fl_named *v = &part->values.data[i];
        fl_status st = fl_named_pack(p, v->name, &v->value);

        FL_ASSERT(!st); /* it was looked at before */
    }
}

/* --- reading -------------------------------------------------------------- */

static void read_lists(fl_unpack *u, fl_trainer_part *out)
{
    uint32_t n = fl_unpack_u32(u);

    for (uint32_t i = 0; i < n && !u->bad; i++) {
        fl_named v = { .value = { .size = sizeof(fl_tensor) } };

        fl_unpack_text(u, v.name, sizeof(v.name));
        fl_named_read_meta(u, &v.value);
        fl_vec_push(&out->wholes, v);
    }
    n = fl_unpack_u32(u);
    for (uint32_t i = 0; i < n && !u->bad; i++) {
        fl_part_table t = { 0 };

        fl_unpack_text(u, t.name, sizeof(t.name));
        t.settings = read_long(u);
        fl_vec_push(&out->tables, t);
    }
}

fl_status fl_trainer_part_read(fl_trainer_part *out, fl_msg_bytes bytes)
{
    fl_unpack u = fl_unpack_from(bytes.data, bytes.len);
    fl_named v;

    *out = (fl_trainer_part){ .seed = fl_unpack_u64(&u) };
    out->main_version = fl_unpack_u64(&u);
    out->startup_version = fl_unpack_u64(&u);
    fl_unpack_text(&u, out->mode, sizeof(out->mode));
    out->position = read_long(&u);
    out->program = read_long(&u);
    out->startup = read_long(&u);
    read_lists(&u, out);
    fl_unpack_align(&u, bytes.data);
    while (fl_named_next(&u, bytes.data, &v))
        fl_vec_push(&out->values, v);
    if (!u.bad)
        return FL_OK;
    fl_trainer_part_release(out);
    FL_FAIL(FL_ERR_CORRUPT,
            "what a trainer brings to a save, %" PRIu64
            " bytes, does not parse",
            bytes.len);
}

void fl_trainer_part_release(fl_trainer_part *p)
{
    fl_vec_release(&p->wholes);
    fl_vec_release(&p->tables);
    fl_vec_release(&p->values);
}
