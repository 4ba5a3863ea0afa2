"""DistributeTranspiler's programs, as scripts of 1.8 look at them. The lists are
those of PaddlePaddle 1.8.5."""
import gc
import unittest

import paddle.fluid as fluid

SERVERS = ["127.0.0.1:6174", "127.0.0.1:6175"]
FORWARD = ["mul", "elementwise_add", "elementwise_sub", "square", "mean",
           "fill_constant", "mean_grad", "square_grad", "elementwise_sub_grad",
           "elementwise_add_grad", "send", "mul_grad"]
TRAINERS = {
    "sync": FORWARD + ["split_byref", "send", "send_barrier", "recv", "recv",
                       "fetch_barrier", "concat"],
    "half_async": FORWARD + ["split_byref", "send", "recv", "recv", "concat"],
    "async": FORWARD + ["send", "recv", "recv"],
}


def kinds(block):
    return [op.type for op in block.ops]


def config_of(mode):
    config = fluid.DistributeTranspilerConfig()
    if mode != "sync":
        config.sync_mode = False
        config.runtime_split_send_recv = mode == "async"
    return config


class Programs(unittest.TestCase):
    def setUp(self):
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), \
                fluid.program_guard(self.main, self.startup):
            x = fluid.layers.data("x", [1000])
            y = fluid.layers.data("y", [1])
            out = fluid.layers.fc(x, 1000)
            loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
            fluid.optimizer.SGD(0.1).minimize(loss)

    def tearDown(self):
        """A process is in one job: programs of the last one go first."""
        del self.main, self.startup
        gc.collect()

    def transpile(self, config, sync_mode=True):
        t = fluid.DistributeTranspiler(config)
        t.transpile(0, self.main, ",".join(SERVERS), 2, sync_mode,
                    self.startup)
        return t

    def test_a_job_that_has_not_begun_makes_room_for_the_next(self):
        first = self.transpile(config_of("sync"))
        server = first.get_pserver_program(SERVERS[0])
        second = self.transpile(config_of("async"), False)
        self.assertEqual(kinds(second.get_trainer_program().global_block()),
                         TRAINERS["async"])
        self.assertEqual(kinds(server.global_block()), ["listen_and_serv"])

    def test_a_trainer_of_every_mode(self):
        for mode, wanted in TRAINERS.items():
            with self.subTest(mode=mode):
                t = self.transpile(config_of(mode), mode == "sync")
                trainer = t.get_trainer_program(wait_port=False)
                self.assertIs(trainer, self.main)
                self.assertEqual(kinds(trainer.global_block()), wanted)
                self.assertEqual(kinds(self.startup.global_block())[-4:],
                                 ["recv", "recv", "fetch_barrier", "concat"])
                split = [op for op in trainer.global_block().ops
                         if op.type == "split_byref"]
                for op in split:
                    self.assertEqual(op.input("X"), ["fc_0.w_0@GRAD"])
                    self.assertEqual(op.output_arg_names,
                                     ["fc_0.w_0.block0@GRAD",
                                      "fc_0.w_0.block1@GRAD"])
            del t, trainer, split
            self.tearDown()
            self.setUp()

    def test_a_server_adds_up_the_trainers_of_a_step(self):
        t = self.transpile(config_of("sync"))
        program, startup = t.get_pserver_programs(SERVERS[0])
        self.assertEqual(kinds(program.blocks[0]), ["listen_and_serv"])
        self.assertEqual(program.blocks[0].ops[0].attr("distributed_mode"), 0)
        self.assertEqual(kinds(program.blocks[1]), ["sum", "scale", "sgd"])
        self.assertEqual(program.blocks[1].ops[1].attr("scale"), 0.5)
        params = [op.input("Param")[0] for b in program.blocks for op in b.ops
                  if "Param" in op.input_names]
        self.assertIn("fc_0.w_0.block0", params)
        self.assertEqual(startup.global_block().var("fc_0.w_0.block0").shape,
                         (500, 1000))
        del t, program, startup

    def test_a_server_of_async_updates_at_once(self):
        t = self.transpile(config_of("async"), False)
        program = t.get_pserver_program(SERVERS[1])
        self.assertEqual(program.blocks[0].ops[0].attr("distributed_mode"), 1)
        self.assertEqual(kinds(program.blocks[1]), ["sgd"])
        del t, program

    def test_what_is_for_gpus_is_refused(self):
        config = fluid.DistributeTranspilerConfig()
        config.mode = "nccl2"
        with self.assertRaisesRegex(NotImplementedError, "collective fleet"):
            self.transpile(config)

    def test_a_program_comes_after_transpile(self):
        with self.assertRaisesRegex(RuntimeError, "transpile"):
            fluid.DistributeTranspiler().get_trainer_program()


if __name__ == "__main__":
    unittest.main()
