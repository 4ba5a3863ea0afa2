/* board.c - a record for TensorBoard: events with scalars in TFRecord frames,
 * FOLDER/WHO/events.out.tfevents.SECONDS.HOST.PID, docs/formats/tensorboard.md.
 *
 *     u64 length | u32 masked crc of the length | bytes | u32 masked crc of them
 *
 * The bytes are an Event of protobuf: a dozen of them, so that they are written
 * by hand.
 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/vec.h"
#include "record/crc32c.h"
#include "record/sink.h"

#define HOST_MAX 256
#define MASK UINT32_C(0xa282ead8)

typedef struct bytes {
    fl_str s;
} bytes;

static void add(bytes *b, const void *from, size_t n)
{
    while (b->s.cap < b->s.len + n + 1)
        b->s.data = fl_vec_grow(b->s.data, &b->s.cap, 1);
    memcpy(b->s.data + b->s.len, from, n);
    b->s.len += n;
}

static void add_number(bytes *b, uint64_t x, size_t n)
{
    uint8_t le[sizeof(x)];

    for (size_t i = 0; i < n; i++)
        le[i] = (uint8_t)(x >> (8 * i));
    add(b, le, n);
}

/* --- protobuf ------------------------------------------------------------- */

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void add_varint(bytes *b, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        add_number(b, (x & 0x7f) | 0x80, 1);
    add_number(b, x, 1);
}

static void add_field(bytes *b, unsigned field, unsigned wire)
{
    add_varint(b, field << 3 | wire);
}

static void add_f64(bytes *b, unsigned field, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    add_field(b, field, WIRE_64);
    add_number(b, bits, sizeof(bits));
}

static void add_f32(bytes *b, unsigned field, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    add_field(b, field, WIRE_32);
    add_number(b, bits, sizeof(bits));
}

static void add_bytes(bytes *b, unsigned field, const void *from, size_t n)
{
    add_field(b, field, WIRE_BYTES);
    add_varint(b, n);
    add(b, from, n);
}

/* --- frames --------------------------------------------------------------- */

static uint32_t masked(const void *from, size_t n)
{
    uint32_t crc = fl_crc32c(from, n);

    return ((crc >> 15) | (crc << 17)) + MASK;
}

/* One write. */
static int put(const fl_record_file *f, const bytes *event)
{
    bytes frame = { 0 };
    int err;

    add_number(&frame, event->s.len, sizeof(uint64_t));
    add_number(&frame, masked(frame.s.data, sizeof(uint64_t)),
               sizeof(uint32_t));
    add(&frame, event->s.data, event->s.len);
    add_number(&frame, masked(event->s.data, event->s.len), sizeof(uint32_t));
    err = fl_file_put(f->fd, frame.s.data, frame.s.len);
    fl_str_release(&frame.s);
    return err;
}

/* --- events --------------------------------------------------------------- */

enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_NUMBER };

static void add_scalar(bytes *summary, const char *tag, double x)
{
    bytes value = { 0 };

    if (isnan(x))
        return;
    add_bytes(&value, VALUE_TAG, tag, strlen(tag));
    add_f32(&value, VALUE_NUMBER, (float)x);
    add_bytes(summary, SUMMARY_VALUE, value.s.data, value.s.len);
    fl_str_release(&value.s);
}

/* An event of these scalars, unless there are none. Releases them. */
static int put_scalars(const fl_record_file *f, bytes *summary, uint64_t step,
                       double now)
{
    bytes event = { 0 };
    int err = 0;

    if (summary->s.len) {
        add_f64(&event, EVENT_TIME, now);
        add_field(&event, EVENT_STEP, WIRE_VARINT);
        add_varint(&event, step);
        add_bytes(&event, EVENT_SUMMARY, summary->s.data, summary->s.len);
        err = put(f, &event);
    }
    fl_str_release(&event.s);
    fl_str_release(&summary->s);
    return err;
}

/* --- the sink ------------------------------------------------------------- */

static const char *folder(const fl_conf *conf)
{
    return conf->tensorboard_dir;
}

static fl_status name(const char *in, const char *who, double now, char **path)
{
    char host[HOST_MAX] = "";
    fl_str s = { 0 };
    fl_status st;

    (void)gethostname(host, sizeof(host) - 1);
    fl_str_addf(&s, "%s/%s", in, who);
    st = fl_record_folder(s.data);
    if (st) {
        fl_str_release(&s);
        return st;
    }
    fl_str_addf(&s, "/events.out.tfevents.%.0f.%s.%d", floor(now), host,
                (int)getpid());
    *path = fl_str_take(&s);
    return FL_OK;
}

static int begin(const fl_record_file *f, const fl_record_start *a, double now)
{
    static const char version[] = "brain.Event:2";
    bytes event = { 0 };
    int err;

    (void)a;
    add_f64(&event, EVENT_TIME, now);
    add_bytes(&event, EVENT_VERSION, version, sizeof(version) - 1);
    err = put(f, &event);
    fl_str_release(&event.s);
    return err;
}

/* Curves over steps; the numbers of a whole pass are points of their own. */
static int pass(const fl_record_file *f, const fl_record_numbers *n, double now)
{
    const fl_record_pass *p = n->pass;
    const struct {
        const char *name;
        double value;
    } all[] = { { "loss", p->loss },
                { "auc", p->auc },
                { "samples_per_second", n->rate } };
    bytes summary = { 0 };

    for (size_t i = 0; i < FL_LEN(all); i++) {
        char tag[64];

        snprintf(tag, sizeof(tag), "%s%s/%s", p->phase,
                 p->is_last ? "_pass" : "", all[i].name);
        add_scalar(&summary, tag, all[i].value);
    }
    return put_scalars(f, &summary, p->step, now);
}

static int number(const fl_record_file *f, const char *what, uint64_t step,
                  double value, double now)
{
    bytes summary = { 0 };

    add_scalar(&summary, what, value);
    return put_scalars(f, &summary, step, now);
}

const fl_record_sink fl_record_board = {
    .is_for_curves = true,
    .folder = folder,
    .name = name,
    .begin = begin,
    .pass = pass,
    .number = number,
};
