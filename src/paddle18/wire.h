/* wire.h - protobuf messages (proto2) into structs, by tables that say which
 * field goes where.
 *
 *     typedef struct point { int64_t x; fl_wire_list tags; } point;
 *     static const fl_wire_member point_members[] = {
 *         { 1, FL_WIRE_INT, offsetof(point, x), "x", .is_required = true },
 *         { 2, FL_WIRE_TEXTS, offsetof(point, tags), "tags" },
 *     };
 *
 * Numbers that no table has are skipped, as the format asks for. Everything
 * that is made lies in the arena, counted before it is made: a message takes a
 * fixed multiple of its own bytes at most. Nothing of a message is believed
 * before it is checked: it may be a stranger's.
 */
#ifndef FL_PADDLE18_WIRE_H
#define FL_PADDLE18_WIRE_H

#include <stdint.h>

#include "base/arena.h"

typedef enum fl_wire_kind {
    FL_WIRE_INT,      /* int64_t, also for bools and enums */
    FL_WIRE_FLOAT,    /* double */
    FL_WIRE_TEXT,     /* const char *, NULL when it is not there */
    FL_WIRE_MESSAGE,  /* a pointer to its struct, NULL when it is not there */
    FL_WIRE_INTS,     /* fl_wire_list of int64_t; packed or not */
    FL_WIRE_FLOATS,   /* of double; packed or not */
    FL_WIRE_TEXTS,    /* of const char * */
    FL_WIRE_MESSAGES, /* of structs */
} fl_wire_kind;

typedef struct fl_wire_list {
    void *items;
    size_t n;
} fl_wire_list;

typedef struct fl_wire_message fl_wire_message;

typedef struct fl_wire_member {
    uint32_t number;
    fl_wire_kind kind;
    size_t offset;
    const char *name;
    bool is_required;
    const fl_wire_message *message; /* of FL_WIRE_MESSAGE and _MESSAGES */
} fl_wire_member;

#define FL_WIRE_MEMBERS_MAX 16

struct fl_wire_message {
    const char *name;
    size_t bytes; /* of the struct */
    const fl_wire_member *members;
    size_t n_members;
};

/* Reads one message into `out`, a struct of zeros. FL_ERR_CORRUPT names the
   message, the field and the byte, counted from `bytes`. */
FL_MUST_CHECK
fl_status fl_wire_read(const fl_wire_message *m, const void *bytes, size_t len,
                       fl_arena *arena, void *out);

#endif
