/* frame.h - the 64 bytes before every message. docs/formats/wire.md is their
 * description; all numbers are little-endian.
 *
 *      0  u32  magic
 *      4  u16  type          types.def, or one of who uses the transport
 *      6  u16  flags         FL_FRAME_*
 *      8  u64  length        bytes of payload
 *     16  u64  request       number that the reply repeats
 *     24  u64  trace         follows a request from process to process; 0: none
 *     32  u64  sequence      of what must be applied once; 0: may be repeated
 *     40  u32  rank          of the sender
 *     44  u32  incarnation   of the sender, given by the coordinator
 *     48  u64  step          that the sender is at
 *     56  u64  arena         place of the payload in the shared arena, when the
 *                            flag says that it is there; 0 otherwise
 */
#ifndef FL_RPC_WIRE_FRAME_H
#define FL_RPC_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FL_FRAME_BYTES 64
#define FL_FRAME_MAGIC UINT32_C(0x31544c46) /* "FLT1" */
#define FL_PROTOCOL_VERSION 7

enum fl_frame_flag {
    FL_FRAME_REPLY = 1,
    FL_FRAME_ERROR = 2, /* a reply whose payload is a status and a sentence */
    FL_FRAME_ARENA = 4  /* the payload lies in the arena, not behind the head */
};

typedef enum fl_frame_type {
#define FL_TYPE(name, number, doc) FL_TYPE_##name = number,
#include "rpc/wire/types.def"
#undef FL_TYPE
} fl_frame_type;

/* Types above it are not the transport's own. */
#define FL_TYPE_OWN_MAX 15

/* The name of such a type, "pull"; NULL when there is none. */
typedef const char *(*fl_type_name_fn)(uint16_t type);

typedef struct fl_frame {
    uint16_t type, flags;
    uint64_t length, request, trace, sequence;
    uint32_t rank, incarnation;
    uint64_t step, arena;
} fl_frame;

void fl_frame_write(const fl_frame *f, uint8_t out[FL_FRAME_BYTES]);

/* FL_ERR_CORRUPT names what is wrong: magic (and what it looks like: HTTP,
   TLS), an unknown type or flag, an error that is no reply, a place in the
   arena without the flag, a length beyond max_bytes. *out is untouched then.
   `names` may be NULL: there are no types but the transport's own. */
FL_MUST_CHECK
fl_status fl_frame_read(const uint8_t in[FL_FRAME_BYTES], uint64_t max_bytes,
                        fl_type_name_fn names, fl_frame *out);

/* "hello", or "type 77"; until this thread's next call. */
const char *fl_frame_type_name(uint16_t type, fl_type_name_fn names);

/* --- numbers in payloads ------------------------------------------------- */

/* Reads a payload front to back; after a read beyond its end every read gives 0
   and `bad` stays set, so a message is checked once, at its end. */
typedef struct fl_unpack {
    const uint8_t *at, *end;
    bool bad;
} fl_unpack;

fl_unpack fl_unpack_from(const void *payload, uint64_t len);
uint8_t fl_unpack_u8(fl_unpack *u);
uint32_t fl_unpack_u32(fl_unpack *u);
uint64_t fl_unpack_u64(fl_unpack *u);
double fl_unpack_f64(fl_unpack *u);
/* n bytes where they lie; NULL when there are fewer. */
const void *fl_unpack_bytes(fl_unpack *u, uint64_t n);
/* A text with its length before it (u32), copied and NUL-terminated; longer
   than cap - 1, or with a NUL inside, is bad and gives "". */
void fl_unpack_text(fl_unpack *u, char *out, size_t cap);
/* The next place that is a multiple of 8 from the payload's start `base`. */
void fl_unpack_align(fl_unpack *u, const void *base);

/* Writes a payload; grows. All zeros is an empty one. For what we choose the
   size of: growing aborts without memory. */
typedef struct fl_pack {
    uint8_t *data;
    size_t len, cap;
} fl_pack;
void fl_pack_release(fl_pack *p);
void fl_pack_u8(fl_pack *p, uint8_t x);
void fl_pack_u32(fl_pack *p, uint32_t x);
void fl_pack_u64(fl_pack *p, uint64_t x);
void fl_pack_f64(fl_pack *p, double x);
void fl_pack_bytes(fl_pack *p, const void *bytes, size_t n);
void fl_pack_text(fl_pack *p, const char *text);
void fl_pack_align(fl_pack *p);

#endif
