/* types_kit.h - the messages of tests that use the transport: what they are for
 * is said where a test answers them. */
#ifndef FL_TESTS_RPC_TYPES_KIT_H
#define FL_TESTS_RPC_TYPES_KIT_H

#include "rpc/wire/frame.h"

enum test_type {
    TYPE_READ = 17,
    TYPE_ADD = 18,
    TYPE_MISSING = 23,
    TYPE_PIECES = 25,
    TYPE_OWE = 26
};

static inline const char *type_name(uint16_t type)
{
    static const char *const names[] = {
        [TYPE_READ] = "read",       [TYPE_ADD] = "add",
        [TYPE_MISSING] = "missing", [TYPE_PIECES] = "pieces",
        [TYPE_OWE] = "owe",
    };

    return type < FL_LEN(names) ? names[type] : NULL;
}

#endif
