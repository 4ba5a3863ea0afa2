"""Roles and strategies, without a job."""
import os
import unittest
from unittest import mock

import paddle.distributed.fleet as fleet2
import paddle.fluid as fluid
import paddle.fluid.incubate.fleet.base.role_maker as role_maker
from paddle.fluid.incubate.fleet.collective import (CollectiveOptimizer,
                                                    DistributedStrategy)
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import \
    fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.\
    distributed_strategy import ModeStrategy, StrategyFactory
from paddle.fluid.transpiler.distribute_transpiler import (
    DistributedMode, DistributeTranspilerConfig)

SERVERS = {"PADDLE_TRAINERS_NUM": "2",
           "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36001,127.0.0.2:36001"}


def environment(**variables):
    return mock.patch.dict(os.environ, {**SERVERS, **variables})


class Roles(unittest.TestCase):
    def test_a_worker_is_read_from_the_environment(self):
        with environment(TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="1"):
            role = role_maker.PaddleCloudRoleMaker()
            role.generate_role()
        self.assertTrue(role.is_worker() and not role.is_server())
        self.assertEqual((role.worker_num(), role.worker_index()), (2, 1))
        self.assertEqual(role.get_pserver_endpoints(),
                         ["127.0.0.1:36001", "127.0.0.2:36001"])

    def test_a_server_is_read_from_the_environment(self):
        with environment(TRAINING_ROLE="PSERVER", POD_IP="127.0.0.2",
                         PADDLE_PORT="36001"):
            role = role_maker.GeneralRoleMaker()
            self.assertTrue(role.is_server())
            self.assertEqual(role.server_index(), 1)
            self.assertEqual(role.get_local_endpoint(), "127.0.0.2:36001")

    def test_a_role_that_there_is_not_is_named(self):
        with environment(TRAINING_ROLE="TEST"):
            role = role_maker.PaddleCloudRoleMaker()
            with self.assertRaisesRegex(ValueError, "TRAINING_ROLE"):
                role.generate_role()

    def test_what_is_given_by_hand_is_checked(self):
        good = dict(current_id=0, role=role_maker.Role.SERVER, worker_num=2,
                    server_endpoints=["127.0.0.1:36011"])
        role_maker.UserDefinedRoleMaker(**good)
        for bad in (dict(server_endpoints=None), dict(server_endpoints=[]),
                    dict(server_endpoints=[3]), dict(current_id="0"),
                    dict(server_endpoints=["a:1", "a:1"]),
                    dict(current_id=-1), dict(current_id=1), dict(role=3),
                    dict(worker_num="1"), dict(worker_num=0)):
            with self.subTest(bad=bad):
                with self.assertRaises((TypeError, ValueError)):
                    role_maker.UserDefinedRoleMaker(**{**good, **bad})

    def test_a_role_maker_of_ones_own_is_taken(self):
        class Mine(role_maker.RoleMakerBase):
            def is_worker(self):
                return True

            def is_server(self):
                return False

            def worker_index(self):
                return 1

            def worker_num(self):
                return 3

            def get_pserver_endpoints(self):
                return ["127.0.0.1:36011"]

        fleet2.init(Mine())
        self.assertEqual((fleet2.worker_index(), fleet2.worker_num(),
                          fleet2.server_num()), (1, 3, 1))
        self.assertEqual(fleet2.split_files(["a", "b", "c", "d"]), ["c"])

    def test_another_thing_is_no_role_maker(self):
        with self.assertRaisesRegex(TypeError, "role maker"):
            fleet.init("pserver")

    def test_mpi_is_answered_with_what_there_is(self):
        with self.assertRaisesRegex(NotImplementedError, "fleetrun"):
            role_maker.MPISymetricRoleMaker()


class Strategies(unittest.TestCase):
    def test_the_factory_makes_the_four_modes(self):
        for name in ("sync", "half_async", "async", "geo"):
            made = getattr(StrategyFactory, f"create_{name}_strategy")()
            self.assertEqual(made._kind_in(fleet), name)
            self.assertEqual(made.get_program_config()._kind(), name)
            self.assertEqual(made._words_in(fleet), "")

    def test_a_config_is_changed_in_place_as_an_object_and_by_a_dict(self):
        made = StrategyFactory.create_sync_strategy()
        made.get_program_config().min_block_size = 81920
        self.assertEqual(made._words_in(fleet), "min_block_size=81920")
        other = DistributeTranspilerConfig()
        other.slice_var_up = False
        made.set_program_config(other)
        self.assertEqual(made._words_in(fleet), "slice_var_up=false")
        made.set_program_config({"min_block_size": 9000})
        made.set_server_runtime_config({"_rpc_send_thread_num": 20})
        self.assertEqual(made._words_in(fleet), "slice_var_up=false "
                         "min_block_size=9000 server_threads=20")

    def test_a_key_that_there_is_not_is_named(self):
        made = StrategyFactory.create_async_strategy()
        for change in ("program_config", "trainer_runtime_config",
                       "server_runtime_config", "execute_strategy",
                       "build_strategy"):
            with self.assertRaisesRegex(ValueError, "doesn't have key: no"):
                getattr(made, "set_" + change)({"no": 1})
            with self.assertRaises(TypeError):
                getattr(made, "set_" + change)(3)

    def test_only_async_is_told_how_to_send(self):
        change = {"communicator_send_queue_size": 7}
        made = StrategyFactory.create_async_strategy()
        made.set_trainer_runtime_config(change)
        self.assertIn("communicator_send_queue_size=7", made._words_in(fleet))
        made = StrategyFactory.create_geo_strategy(5)
        made.set_trainer_runtime_config(change)
        with self.assertLogs("flotilla", "WARNING") as said:
            self.assertEqual(made._words_in(fleet), "geo_sgd_need_push_nums=5")
        self.assertIn("has no use for communicator_send_queue_size",
                      said.output[0])

    def test_switches_of_a_config_say_the_mode(self):
        config = DistributeTranspilerConfig()
        self.assertEqual(config._kind(), "sync")
        with self.assertRaises(ValueError):
            config.runtime_split_send_recv = True
        config.sync_mode = False
        self.assertEqual(config._kind(), "half_async")
        config.runtime_split_send_recv = True
        self.assertEqual(config._kind(), "async")
        with self.assertRaises(ValueError):
            config.sync_mode = True
        config.geo_sgd_mode = True
        self.assertEqual(config._kind(), "geo")
        for name in ("sync_mode", "runtime_split_send_recv"):
            with self.assertRaises(ValueError):
                setattr(config, name, None)

    def test_the_class_of_all_modes_is_none_itself(self):
        with self.assertRaisesRegex(NotImplementedError, "StrategyFactory"):
            ModeStrategy()

    def test_what_trainers_run_is_as_1_8_says_it(self):
        made = StrategyFactory.create_geo_strategy()
        config = made.get_trainer_runtime_config()
        self.assertEqual(config.mode, DistributedMode.GEO)
        self.assertEqual(config.get_communicator_flags(),
                         {"communicator_thread_pool_size": "5",
                          "communicator_send_wait_times": "5"})
        made = StrategyFactory.create_sync_strategy()
        config = made.get_trainer_runtime_config()
        config.runtime_configs["communicator_send_queue_size"] = "50"
        with mock.patch.dict(os.environ, CPU_NUM="2"):
            self.assertEqual(config.get_communicator_flags(),
                             {"communicator_max_merge_var_num": "2",
                              "communicator_send_wait_times": "5",
                              "communicator_thread_pool_size": "5",
                              "communicator_send_queue_size": "2"})

    def test_settings_of_2_x_go_to_the_kind_of_job(self):
        made = fleet2.DistributedStrategy()
        self.assertTrue(made.a_sync)
        made.a_sync = False
        made.amp = False
        made.localsgd_configs = {"k_steps": 3}
        made.a_sync_configs = {"k_steps": 100}
        servers = mock.Mock(server_num=lambda: 1)
        alone = mock.Mock(server_num=lambda: 0)
        self.assertEqual(made._words_in(servers),
                         "a_sync=false a_sync_configs.k_steps=100")
        self.assertEqual(made._words_in(alone), "")
        made.localsgd = True
        self.assertEqual(made._words_in(alone),
                         "localsgd_configs.k_steps=3 localsgd=true")
        with self.assertRaises(ValueError):
            made.a_sync = 1

    def test_how_numbers_travel_is_a_setting_of_trainers(self):
        for name in ("sync", "half_async", "async", "geo"):
            made = getattr(StrategyFactory, f"create_{name}_strategy")()
            self.assertNotIn("wire", made._words_in(fleet))
            made.set_trainer_runtime_config({"wire_pull": "bf16"})
            config = made.get_trainer_runtime_config()
            config.runtime_configs["wire_push"] = "bf16"
            self.assertIn("wire_pull=bf16 wire_push=bf16",
                          made._words_in(fleet))
            self.assertNotIn("wire_pull", config.get_communicator_flags())
        made = fleet2.DistributedStrategy()
        self.assertEqual(made.wire_pull, "f32")
        made.wire_pull, made.wire_push = "bf16", "f32"
        self.assertEqual(made._words_in(mock.Mock(server_num=lambda: 1)),
                         "wire_pull=bf16")

    def test_strategies_say_how_products_are_computed(self):
        made = StrategyFactory.create_geo_strategy(7)
        self.assertEqual(made.precision, "f32")
        made.precision, made.precision_deny = "bf16", "fc_0,fc_1"
        self.assertIn("precision=bf16 precision_deny=fc_0,fc_1",
                      made._words_in(fleet))
        made = fleet2.DistributedStrategy()
        self.assertEqual(made.precision, "f32")
        made.precision = "auto"
        for n in (0, 1):
            self.assertEqual(made._words_in(mock.Mock(server_num=lambda: n)),
                             "precision=auto")

    def test_a_strategy_may_compute_again(self):
        made = DistributedStrategy()
        made.forward_recompute = True
        with self.assertRaisesRegex(ValueError, "recompute_checkpoints"):
            made._checkpoints()
        made.recompute_checkpoints = ["a"]
        sgd = fluid.optimizer.SGD(0.1)
        around = made._around(sgd)
        self.assertIsInstance(around, fluid.optimizer.RecomputeOptimizer)
        with self.assertRaisesRegex(ValueError, "already"):
            made._around(around)
        made = fleet2.DistributedStrategy()
        self.assertIs(made._around(sgd), sgd)
        made.recompute = True
        with self.assertRaisesRegex(ValueError, "recompute_configs"):
            made._around(sgd)
        made.recompute_configs = {"checkpoints": ["a"]}
        self.assertEqual(made._around(sgd)._checkpoints, ["a"])
        self.assertEqual(made._words_in(mock.Mock(server_num=lambda: 0)), "")

    def test_what_a_collective_strategy_has_not_is_named(self):
        made = DistributedStrategy()
        with self.assertRaisesRegex(AttributeError, "use_locl_sgd"):
            made.use_locl_sgd = True
        made.collective_mode = "ring"
        with self.assertRaisesRegex(ValueError, "not 'ring'"):
            made._words_in(fleet)

    def test_a_collective_strategy_is_a_build_strategy(self):
        made = DistributedStrategy()
        self.assertIsInstance(made, fluid.BuildStrategy)
        made.use_local_sgd = True
        self.assertEqual(made._words_in(fleet), "localsgd=true")
        CollectiveOptimizer(fluid.optimizer.SGD(0.1), strategy=None)

    def test_another_thing_is_no_strategy(self):
        with self.assertRaisesRegex(TypeError, "strategy is wanted"):
            CollectiveOptimizer(fluid.optimizer.SGD(0.1), "strategy")
        with self.assertRaisesRegex(TypeError, "optimizer is wanted"):
            CollectiveOptimizer("SGD")


if __name__ == "__main__":
    unittest.main()
