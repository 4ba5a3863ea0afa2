"""Who a process is in its job. The library reads and checks roles; a role maker
says where they come from."""
import enum
import logging

from .. import _core


class Role(enum.IntEnum):
    WORKER = 1
    SERVER = 2


class RoleMakerBase:
    """A user's own role maker says is_worker, is_server, worker_index,
    server_index and worker_num, and has the two lists of endpoints."""

    def __init__(self):
        self._worker_endpoints = []
        self._server_endpoints = []
        self._role_is_generated = False
        self._role = None
        self._current_id = -1
        self._fleet = None

    # --- who this is ---

    def generate_role(self):
        self._role_is_generated = True

    def _given(self):
        """What the library takes: None for the environment, else (role, id,
        workers, their endpoints, those of servers, is_collective)."""
        serves = self.is_server()
        return (int(Role.SERVER if serves else Role.WORKER),
                self.server_index() if serves else self.worker_index(),
                int(self.worker_num()),
                ",".join(self.get_trainer_endpoints()) or None,
                ",".join(self.get_pserver_endpoints()) or None, False)

    def _wanted(self, name):
        raise NotImplementedError(f"{type(self).__name__} is to say {name}")

    def is_worker(self):
        self._wanted("is_worker")

    def is_server(self):
        self._wanted("is_server")

    def is_first_worker(self):
        """Whether this is worker 0."""
        return self.is_worker() and self.worker_index() == 0

    def worker_num(self):
        self._wanted("worker_num")

    def server_num(self):
        """How many servers the job has."""
        return len(self.get_pserver_endpoints())

    def worker_index(self):
        self._wanted("worker_index")

    def server_index(self):
        self._wanted("server_index")

    def get_trainer_endpoints(self):
        return self._worker_endpoints

    def get_pserver_endpoints(self):
        return self._server_endpoints

    def to_string(self):
        """Who this is and who the others are, as text."""
        return (f"role: {self._role}, current_id: {self._current_id}, "
                f"worker_endpoints: {self._worker_endpoints}, "
                f"server_endpoints: {self._server_endpoints}")

    # --- together, once a fleet has it ---

    def _util(self):
        if self._fleet is None:
            raise RuntimeError(f"{type(self).__name__}: workers meet through "
                               "their fleet; call fleet.init(role) first")
        return self._fleet.util

    def all_gather(self, input):
        """What each worker gave, in their order."""
        return self._util().all_gather(input)

    def all_reduce_worker(self, input, output, mode="sum"):
        """Adds arrays up over all workers, or takes the largest or
        smallest."""
        for i, x in enumerate(self._util().all_reduce(input, mode)):
            output[i] = x

    def barrier_worker(self):
        """Waits for all workers."""
        if self.is_worker():
            self._util().barrier()

    def barrier_all(self):
        """Waits for all members."""
        raise NotImplementedError(
            "barrier_all: servers are not where workers wait; barrier_worker "
            "is, and servers are there before it returns")


def _list(text):
    return [e for e in text.split(",") if e]


class _LibraryRole(RoleMakerBase):
    """Read and checked by the library, out of what _given says."""

    def generate_role(self):
        """Finds out who this process is."""
        if self._role_is_generated:
            return
        look = _core.fleet_look(_core.fleet_new(_core.ctx_new(),
                                                self._given()))
        self._role = Role.WORKER if look["is_worker"] else Role.SERVER
        self._worker_endpoints = _list(look["worker_endpoints"])
        self._server_endpoints = _list(look["server_endpoints"])
        self._current_id = max(look["worker_index"], look["server_index"])
        self._n_workers = look["worker_num"]
        self._role_is_generated = True

    def is_worker(self):
        """Whether this process is a worker."""
        self.generate_role()
        return self._role == Role.WORKER

    def is_server(self):
        """Whether this process is a server."""
        self.generate_role()
        return self._role == Role.SERVER

    def worker_num(self):
        """How many workers the job has."""
        self.generate_role()
        return self._n_workers

    def worker_index(self):
        """Among workers; on a server its own number, as Fluid has it."""
        self.generate_role()
        return self._current_id

    server_index = worker_index

    def get_trainer_endpoints(self):
        """Addresses of the workers."""
        self.generate_role()
        return self._worker_endpoints

    def get_pserver_endpoints(self):
        """Addresses of the servers."""
        self.generate_role()
        return self._server_endpoints


class PaddleCloudRoleMaker(_LibraryRole):
    """As the variables of the environment say, which fleetrun sets."""

    def __init__(self, is_collective=False, **kwargs):
        super().__init__()
        _refuse(self, kwargs, ())
        self._is_collective = is_collective

    def _given(self):
        if self._is_collective:
            return (0, 0, 0, None, None, True)
        return None


class GeneralRoleMaker(PaddleCloudRoleMaker):
    """From the environment; settings of a meeting place are taken, which
    members of a job here find at their server 0."""

    _MEETING = ("path", "iface", "prefix", "http_ip_port", "http_server_d",
                "init_timeout_seconds", "run_timeout_seconds", "use_ps_gpu",
                "hdfs_name", "hdfs_ugi", "use_local_tensor")

    def __init__(self, **kwargs):
        _refuse(self, kwargs, self._MEETING)
        super().__init__()
        if kwargs:
            logging.getLogger("flotilla").warning(
                "GeneralRoleMaker: members of a job meet at server 0; %s "
                "changes nothing", ", ".join(sorted(kwargs)))

    def get_local_endpoint(self):
        """The address of this process."""
        if self.is_server():
            return self.get_pserver_endpoints()[self.server_index()]
        return self.get_trainer_endpoints()[self.worker_index()]


class MPISymetricRoleMaker(RoleMakerBase):
    def __init__(self):
        raise NotImplementedError(
            "MPISymetricRoleMaker: start fleetrun under mpirun, which sets the "
            "environment, and take PaddleCloudRoleMaker")


class UserDefinedRoleMaker(_LibraryRole):
    def __init__(self, current_id=0, role=Role.WORKER, worker_num=0,
                 server_endpoints=None, worker_endpoints=None,
                 is_collective=False, **kwargs):
        super().__init__()
        _refuse(self, kwargs, ())
        if not is_collective:
            _check_endpoints("server_endpoints", server_endpoints)
        if worker_endpoints is not None or is_collective:
            _check_endpoints("worker_endpoints", worker_endpoints)
            worker_num = worker_num or len(worker_endpoints)
        if role not in tuple(Role):
            raise TypeError("role must be as Role")
        peers = (server_endpoints if role == Role.SERVER else worker_endpoints)
        _check_count("current_id", current_id, 0, len(peers or ()) or None)
        _check_count("worker_num", worker_num, 1, None)
        self._all = (int(role), current_id, worker_num,
                     ",".join(worker_endpoints or []) or None,
                     ",".join(server_endpoints or []) or None, is_collective)

    def _given(self):
        return self._all


class UserDefinedCollectiveRoleMaker(UserDefinedRoleMaker):
    def __init__(self, current_id=0, worker_endpoints=None):
        super().__init__(current_id, worker_endpoints=worker_endpoints,
                         is_collective=True)


# --- what is given -----------------------------------------------------------

def _refuse(maker, kwargs, known):
    for name in sorted(set(kwargs) - set(known)):
        raise TypeError(f"{type(maker).__name__} has no {name}; "
                        "UserDefinedRoleMaker takes what is given by hand")


def _check_endpoints(name, given):
    if not isinstance(given, list):
        raise TypeError(f"{name} must be as string list, not {given!r}")
    for one in given:
        if not isinstance(one, str):
            raise TypeError(f"{name}: {one!r} is no string")
    if not given:
        raise ValueError(f"{name} must have at least one entry")
    if len(given) != len(set(given)):
        raise ValueError(f"{name} has an entry twice: {given}")


def _check_count(name, n, low, below):
    if not isinstance(n, int):
        raise TypeError(f"{name} must be as int, not {n!r}")
    if n < low or (below is not None and n >= below):
        raise ValueError(f"{name}={n}: it is at least {low}" + (
            "" if below is None else f" and below {below}, the number of "
            "endpoints"))
