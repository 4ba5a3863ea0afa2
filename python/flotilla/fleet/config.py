"""What strategies are made of: how parameters are dealt to servers, what
trainers and servers do while they run. A strategy tells the library what
differs from the defaults."""
import os


class DistributedMode:
    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


# --- which server has what ---------------------------------------------------

class PSDispatcher:
    """Which server has a variable; the library deals by its own rule of the
    same name, and this one tells it."""

    word = None

    def __init__(self, pserver_endpoints):
        self._eps = pserver_endpoints
        self._step = 0

    @property
    def eps(self):
        return self._eps

    def reset(self):
        self._step = 0

    def dispatch(self, varlist):
        raise NotImplementedError("a dispatcher says dispatch(varlist)")


class HashName(PSDispatcher):
    word = "hash"

    def _hash_block(self, block_str, total):
        return hash(block_str) % total

    def dispatch(self, varlist):
        return [self._eps[self._hash_block(v.name(), len(self._eps))]
                for v in varlist]


class RoundRobin(PSDispatcher):
    word = "round_robin"

    def dispatch(self, varlist):
        found = []
        for _ in varlist:
            found.append(self._eps[self._step])
            self._step = (self._step + 1) % len(self._eps)
        return found


# --- programs ----------------------------------------------------------------

class DistributeTranspilerConfig:
    """How a program is cut over servers, with 1.8's names."""

    slice_var_up = True
    split_method = None
    min_block_size = 8192
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode = None
    _split = False
    _sync = True

    # Who trains with whom, and what Python itself sees to.
    _OF_MODE = ("sync_mode", "half_async", "completely_not_async", "mode",
                "runtime_split_send_recv", "geo_sgd_mode", "wait_port",
                "print_log")

    @property
    def runtime_split_send_recv(self):
        """Whether gradients are cut when they are sent."""
        return self._split

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value):
        if value is None:
            raise ValueError("runtime_split_send_recv can't be None")
        if value and self._sync:
            raise ValueError("runtime_split_send_recv is for training that is "
                             "not synchronous; set sync_mode = False first")
        self._split = value

    @property
    def sync_mode(self):
        """Whether workers wait for each other."""
        return self._sync

    @sync_mode.setter
    def sync_mode(self, value):
        if value is None:
            raise ValueError("sync_mode can't be None")
        if value and self._split:
            raise ValueError("sync_mode contradicts runtime_split_send_recv; "
                             "set that to False first")
        self._sync = value

    def _kind(self):
        """The mode that the switches mean."""
        if self.geo_sgd_mode:
            return "geo"
        if self._sync or self.completely_not_async:
            return "sync"
        return "async" if self._split and not self.half_async else "half_async"

    def _changed(self, kind):
        """{name: value} of what differs from the defaults, for the library."""
        found = {}
        for name, value in vars(self).items():
            if (name.startswith("_") or name in self._OF_MODE or
                    value == getattr(type(self), name, None)):
                continue
            found[name] = value
        if kind != "geo":
            found.pop("geo_sgd_need_push_nums", None)
        if "split_method" in found:
            found["split_method"] = _dealer(found["split_method"])
        return found


def _dealer(method):
    word = getattr(method, "word", method)
    if not isinstance(word, str):
        raise TypeError(f"split_method: HashName or RoundRobin, not {method!r}")
    return word


# --- running -----------------------------------------------------------------

_OF_ASYNC = {"communicator_max_merge_var_num": None,
             "communicator_send_queue_size": None,
             "communicator_independent_recv_thread": "1",
             "communicator_min_send_grad_num_before_recv": None,
             "communicator_thread_pool_size": "5",
             "communicator_send_wait_times": "5",
             "communicator_is_sgd_optimizer": "1"}
_OF_NOBODY = {"rpc_deadline": "180000", "rpc_retry_times": "3"}
# Not of 1.8: how values and gradients travel, f32 or bf16.
OF_WIRE = ("wire_pull", "wire_push")


class TrainerRuntimeConfig:
    """How a trainer of mode async merges and sends; other modes have nothing
    to choose there but wire_pull and wire_push, which geo has not."""

    def __init__(self):
        self.mode = None
        self.runtime_configs = {
            name: os.getenv("FLAGS_" + name,
                            value or os.getenv("CPU_NUM", "1"))
            for name, value in {**_OF_ASYNC, **_OF_NOBODY}.items()}
        self.runtime_configs.update(
            {name: os.getenv("FLOTILLA_" + name.upper(), "f32")
             for name in OF_WIRE})
        self._first = dict(self.runtime_configs)

    def get_communicator_flags(self):
        """What Fluid's communicator reads in this mode. Where threads wait for
        each other there are as many batches to merge as threads."""
        if self.mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC):
            self.runtime_configs.update(
                dict.fromkeys(("communicator_max_merge_var_num",
                               "communicator_send_queue_size"),
                              os.getenv("CPU_NUM", "1")))
        all_of_1_8 = (*_OF_ASYNC, *_OF_NOBODY)
        names = {None: all_of_1_8, DistributedMode.ASYNC: all_of_1_8,
                 DistributedMode.GEO: ("communicator_thread_pool_size",
                                       "communicator_send_wait_times")}
        others = ("communicator_max_merge_var_num",
                  "communicator_send_wait_times",
                  "communicator_thread_pool_size",
                  "communicator_send_queue_size")
        return {n: str(self.runtime_configs[n])
                for n in names.get(self.mode, others)}

    def _changed(self):
        """{name: value} of what a user has set, and the library reads."""
        return {n: v for n, v in self.runtime_configs.items()
                if n not in _OF_NOBODY and str(v) != self._first.get(n)}

    def __repr__(self):
        lines = [f"{k:<45}{v}" for k, v in
                 self.get_communicator_flags().items()]
        return "\n".join(["", "TrainerRuntimeConfig", *lines, ""])


class ServerRuntimeConfig:
    """Threads of a server: the same ones do everything, so the largest number
    that was set counts."""

    def __init__(self):
        for name in ("send", "get", "prefetch"):
            flag = f"rpc_{name}_thread_num"
            setattr(self, "_" + flag, int(os.getenv("FLAGS_" + flag, "12")))

    def _changed(self):
        n = max(vars(self).values())
        return {} if n == 12 else {"server_threads": n}
