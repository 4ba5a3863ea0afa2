"""Whether what is installed works: a small net is trained, alone and on two
places."""
import numpy as np

from . import compiler, executor, ir, layers, names, optimizer, tensor


def _train(run):
    """The losses of two steps of a net of one layer."""
    main, startup = ir.Program(), ir.Program()
    with ir.program_guard(main, startup), names.guard(), \
            tensor.scope_guard(tensor.Scope()):
        x = layers.data("x", [2])
        loss = layers.mean(layers.square(layers.fc(x, 3)))
        optimizer.SGD(learning_rate=0.1).minimize(loss)
        exe = executor.Executor()
        exe.run(startup)
        feed = {"x": np.array([[1, 2], [3, 4]], "float32")}
        return [float(np.mean(run(exe, main, feed, loss))) for _ in range(2)]


def _alone(exe, main, feed, loss):
    return exe.run(main, feed, [loss])[0]


def _on_two_places(exe, main, feed, loss):
    both = compiler.CompiledProgram(main).with_data_parallel(
        loss_name=loss.name, places=[tensor.CPUPlace()] * 2)
    return exe.run(both, feed, [loss])[0]


def run_check():
    """Trains on one place and on two, and says that both work."""
    for run, how in ((_alone, "alone"), (_on_two_places, "on two places")):
        first, second = _train(run)
        if not second < first:
            raise RuntimeError(f"run_check: training {how} does not learn: its "
                               f"loss went from {first} to {second}")
        print(f"flotilla trains {how}")
    print("flotilla is installed and works")
