/* fuzz_frame.c - bytes as a head, and as a payload of packed numbers. A head
 * that is read is written again to the same bytes; a payload is read only
 * inside its bounds, whatever order the reads come in. */
#include "kit.h"

#include "ps/msg/message.h"

#define MAX_BYTES (UINT64_C(1) << 30)

static void check_head(const uint8_t *data)
{
    uint8_t again[FL_FRAME_BYTES];
    fl_frame f;

    if (fl_frame_read(data, MAX_BYTES, fl_msg_find_name, &f)) {
        MUST(fl_last_error()[0]);
        return;
    }
    MUST(f.length <= MAX_BYTES);
    MUST(fl_msg_name(f.type)[0]);
    fl_frame_write(&f, again);
    MUST(memcmp(again, data, sizeof(again)) == 0);
}

static void read_one(fl_unpack *u, uint8_t kind, const void *base)
{
    char text[16] = "";

    switch (kind % 7) {
    case 0:
        (void)fl_unpack_u8(u);
        break;
    case 1:
        (void)fl_unpack_u32(u);
        break;
    case 2:
        (void)fl_unpack_u64(u);
        break;
    case 3:
        (void)fl_unpack_f64(u);
        break;
    case 4:
        (void)fl_unpack_bytes(u, fl_unpack_u8(u));
        break;
    case 5:
        fl_unpack_text(u, text, sizeof(text));
        MUST(memchr(text, '\0', sizeof(text)));
        break;
    default:
        fl_unpack_align(u, base);
        MUST(u->bad || (u->at - (const uint8_t *)base) % 8 == 0);
    }
}

/* The first half says what to read, the second half is read. Its bytes end
   where the memory ends, for the sanitizer to see. */
static void check_payload(const uint8_t *data, size_t size)
{
    size_t half = size / 2, n = size - half;
    uint8_t *copy = fl_alloc(n + !n);
    fl_unpack u = { .at = copy, .end = copy + n };

    if (n)
        memcpy(copy, data + half, n);
    for (size_t i = 0; i < half; i++) {
        const uint8_t *before = u.at;
        bool was_bad = u.bad;

        read_one(&u, data[i], copy);
        MUST(u.at >= before && u.at <= u.end);
        MUST(!was_bad || (u.bad && u.at == before));
    }
    fl_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= FL_FRAME_BYTES)
        check_head(data);
    check_payload(data, size);
    return 0;
}
