/* device.h - where the steps of a plan run, and where their values lie.
 *
 * A device says which function of an operator runs on it and where memory for
 * temporaries comes from. The plan looks both up once, so that a step is one
 * call whatever the device. The CPU is the only one there is.
 */
#ifndef FL_EXEC_DEVICE_H
#define FL_EXEC_DEVICE_H

#include "base/buf.h"
#include "ir/op.h"

typedef fl_status (*fl_op_fn)(fl_op_ctx *c);

typedef struct fl_device_ops {
    const char *name;
    /* The operator's function, or that of its gradient; NULL when it has none
       for this device. */
    fl_op_fn (*find)(const fl_op *op, bool is_grad);
    /* Memory that the functions above work on, as fl_buf_reserve has it. */
    void *(*reserve)(fl_buf *b, size_t bytes);
    void (*release)(fl_buf *b);
} fl_device_ops;

extern const fl_device_ops fl_cpu;

#endif
