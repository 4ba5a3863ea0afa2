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
        self.net(lambda: fluid.optimizer.SGD(0.1))

    def net(self, optimizer, **options):
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), \
                fluid.program_guard(self.main, self.startup):
            x = fluid.layers.data("x", [1000])
            y = fluid.layers.data("y", [1])
            out = fluid.layers.fc(x, 1000, **options)
            loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
            optimizer().minimize(loss)

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
                self.assertEqual(kinds(self.startup.global_block()),
                                 ["fill_constant", "uniform_random", "recv",
                                  "recv", "fetch_barrier", "concat"])
                self.assertIn("fc_0.w_0.block1",
                              self.startup.global_block().vars)
                self.assertEqual(
                    [v.name for v in trainer.global_block().vars.values()
                     if v.is_data], ["x", "y"])
                split = [op for op in trainer.global_block().ops
                         if op.type == "split_byref"]
                for op in split:
                    self.assertEqual(op.input("X"), ["fc_0.w_0@GRAD"])
                    self.assertEqual(op.output_arg_names,
                                     ["fc_0.w_0@GRAD.block0",
                                      "fc_0.w_0@GRAD.block1"])
            del t, trainer, split
            self.tearDown()
            self.setUp()

    def test_a_server_adds_up_the_trainers_of_a_step(self):
        t = self.transpile(config_of("sync"))
        program, startup = t.get_pserver_programs(SERVERS[0])
        serves, = program.blocks[0].ops
        self.assertEqual(serves.type, "listen_and_serv")
        self.assertEqual(serves.attr("distributed_mode"), 0)
        self.assertEqual([b.idx for b in serves.attr("optimize_blocks")],
                         [1, 2])
        self.assertEqual(serves.attr("grad_to_block_id"),
                         ["fc_0.b_0@GRAD:1", "fc_0.w_0@GRAD.block1:2"])
        for block in program.blocks[1:]:
            self.assertEqual(kinds(block), ["sum", "scale", "sgd"])
        self.assertEqual(program.blocks[1].ops[1].attr("scale"), 0.5)
        params = [op.input("Param")[0] for b in program.blocks for op in b.ops
                  if "Param" in op.input_names]
        self.assertEqual(params, ["fc_0.b_0", "fc_0.w_0.block1"])
        self.assertEqual(kinds(startup.global_block()),
                         ["fill_constant", "fill_constant", "uniform_random"])
        self.assertEqual(startup.global_block().ops[2].attr("shape"),
                         [500, 1000])
        self.assertEqual(startup.global_block().var("fc_0.w_0.block1").shape,
                         (500, 1000))
        del t, program, startup, serves, block

    def test_what_runs_is_what_is_printed(self):
        t = self.transpile(config_of("sync"))
        server = t.get_pserver_program(SERVERS[0])
        self.assertIn("op listen_and_serv", str(server))
        self.assertNotIn("op sum", str(server))
        self.assertNotIn("op concat", str(t.get_trainer_program()))
        del t, server

    def test_who_has_what_is_told(self):
        t = self.transpile(config_of("sync"))
        server = t.get_pserver_program(SERVERS[0])
        told = server._parameters_on_pservers
        here = told.get_distributed_vars_by_ep(SERVERS[0])
        self.assertEqual([(v.origin.name, v.slice.shape, v.is_slice, v.offset)
                          for v in here],
                         [("fc_0.b_0", (1000,), False, 0),
                          ("fc_0.w_0", (500, 1000), True, 500000)])
        self.assertEqual(told.get_distributed_var_by_slice(
            "fc_0.w_0.block0").endpoint, SERVERS[1])
        self.assertEqual(len(told.get_distributed_vars_by_vtypes(
            ["Param"], groupby=True)["fc_0.w_0"]), 2)
        self.assertIn("fc_0.w_0.block1", told.overview())
        trainer = t.get_trainer_program(wait_port=False)
        self.assertTrue(trainer._is_chief and trainer._is_distributed)
        self.assertEqual(trainer._endpoints, SERVERS)
        del t, server, trainer

    def test_settings_of_one_config_are_not_those_of_the_next(self):
        config = config_of("sync")
        config.min_block_size = 1 << 20
        t = self.transpile(config)
        self.assertEqual(len(t.get_pserver_program(SERVERS[0]).blocks), 2)
        t = self.transpile(config_of("sync"))
        self.assertEqual(len(t.get_pserver_program(SERVERS[0]).blocks), 3)
        del t

    def test_a_server_without_parameters_has_an_empty_block(self):
        self.net(lambda: fluid.optimizer.SGD(0.1), bias_attr=False)
        config = config_of("sync")
        config.slice_var_up = False
        t = self.transpile(config)
        self.assertEqual([kinds(b) for b in
                          t.get_pserver_program(SERVERS[1]).blocks],
                         [["listen_and_serv"], []])
        del t

    def test_a_schedule_has_blocks_of_its_own(self):
        self.net(lambda: fluid.optimizer.Momentum(
            fluid.layers.piecewise_decay([10, 20], [1.0, 0.5, 0.1]), 0.9,
            regularization=fluid.regularizer.L2Decay(1e-4)))
        t = self.transpile(config_of("sync"))
        program = t.get_pserver_program(SERVERS[0])
        self.assertEqual([kinds(b) for b in program.blocks[1:]], [
            ["increment", "cast", "fill_constant", "fill_constant",
             "less_than", "logical_not", "conditional_block", "fill_constant",
             "fill_constant", "less_than", "logical_not", "logical_and",
             "logical_and", "conditional_block", "fill_constant",
             "conditional_block"], ["assign"], ["assign"], ["assign"]] +
            2 * [["sum", "scale", "scale", "sum", "momentum"]])
        attrs = program.blocks[0].ops[0].all_attrs()
        self.assertEqual([b.idx for b in attrs["optimize_blocks"]], [1, 5, 6])
        self.assertEqual(attrs["lr_decay_block_id"], 1)
        first = program.blocks[1].ops[6]
        self.assertEqual(first.attr("sub_block").idx, 2)
        trainer = t.get_trainer_program(wait_port=False)
        self.assertNotIn("cast", kinds(trainer.global_block()))
        del t, program, trainer, attrs, first

    def test_trainers_that_do_not_wait_send_how_far_they_are(self):
        self.net(lambda: fluid.optimizer.SGD(
            fluid.layers.exponential_decay(1.0, 2100, 0.1)))
        t = self.transpile(config_of("async"), False)
        server, startup = t.get_pserver_programs(SERVERS[1])
        first = server.blocks[1].ops[0]
        self.assertEqual(first.type, "sum")
        self.assertEqual(first.input("X"), ["@LR_DECAY_COUNTER@.trainer_0",
                                            "@LR_DECAY_COUNTER@.trainer_1"])
        self.assertEqual(kinds(startup.global_block()),
                         ["fill_constant"] * 3 + ["uniform_random"])
        ops = t.get_trainer_program(wait_port=False).global_block().ops
        self.assertEqual([op.input("X") for op in ops if op.type == "send"][-1],
                         ["@LR_DECAY_COUNTER@.trainer_0"])
        del t, server, startup, first, ops

    def test_rows_are_asked_for_and_not_received(self):
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), \
                fluid.program_guard(self.main, self.startup):
            ids = fluid.layers.data("ids", [1], dtype="int64")
            rows = [fluid.layers.embedding(ids, [1000, 8], is_sparse=True,
                                           param_attr="w") for _ in range(2)]
            loss = fluid.layers.mean(fluid.layers.fc(rows, 1))
            fluid.optimizer.SGD(0.1).minimize(loss)
        t = self.transpile(config_of("sync"))
        ops = t.get_trainer_program(wait_port=False).global_block().ops
        self.assertEqual(ops[0].type, "distributed_lookup_table")
        self.assertEqual(ops[0].input("Ids"), ["ids", "ids"])
        at = [op.type for op in ops].index("split_selected_rows")
        self.assertEqual(ops[at].output("Out"),
                         ["w@GRAD.block0", "w@GRAD.block1"])
        self.assertEqual(ops[at + 1].attr("epmap"), SERVERS)
        self.assertEqual([op.output("Out") for op in ops if op.type == "recv"],
                         [["fc_0.b_0"], ["fc_0.w_0"], ["fc_0.w_1"]])
        made = [op for op in self.startup.global_block().ops
                if op.type == "fake_init"]
        self.assertEqual([op.output("Out") for op in made], [["w"]])
        del t, ops, made

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
