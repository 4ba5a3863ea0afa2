"""A model of clicks and its data, in a few lines.

    fleetrun --server_num=1 --worker_num=2 ctr_app.py [--lr=0.0001] [--epoch=2]

./train_data is a folder of lines of Criteo's logs; without it, `flotilla
datagen --lines 4000 --out train_data/part-0` makes some.
"""
import fleetx as X
import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker
import paddle.fluid as fluid

configs = X.parse_train_configs()
fleet.init(role_maker.PaddleCloudRoleMaker())

model = X.applications.MultiSlotCTR()
loader = model.load_criteo_from_file("./train_data",
                                     batch_size=configs.batch_size)

strategy = fleet.DistributedStrategy()
strategy.a_sync = False
optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(configs.lr),
                                        strategy)
optimizer.minimize(model.loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    X.Trainer(fluid.CPUPlace()).fit(model, loader, epoch=configs.epoch)
