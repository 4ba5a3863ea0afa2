/* device.c - the devices there are. */
#include "exec/device.h"

static fl_op_fn find_on_cpu(const fl_op *op, bool is_grad)
{
    return is_grad ? op->back : op->run;
}

const fl_device_ops fl_cpu = {
    .name = "cpu",
    .find = find_on_cpu,
    .reserve = fl_buf_reserve,
    .release = fl_buf_release,
};
