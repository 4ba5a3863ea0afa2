"""Who a process is in its job."""
import enum


class Role(enum.IntEnum):
    WORKER = 1
    SERVER = 2


class RoleMakerBase:
    def _given(self):
        """What the library takes: None for the environment."""
        raise NotImplementedError


class PaddleCloudRoleMaker(RoleMakerBase):
    """As the variables of the environment say, which fleetrun sets."""

    def __init__(self, is_collective=False, **kwargs):
        if kwargs:
            raise TypeError(f"PaddleCloudRoleMaker has no {sorted(kwargs)[0]}; "
                            "UserDefinedRoleMaker takes what is given by hand")
        self._is_collective = is_collective

    def _given(self):
        if self._is_collective:
            return (0, 0, 0, None, None, True)
        return None


class UserDefinedRoleMaker(RoleMakerBase):
    def __init__(self, current_id=0, role=Role.WORKER, worker_num=0,
                 server_endpoints=None, worker_endpoints=None,
                 is_collective=False, **kwargs):
        if kwargs:
            raise TypeError(f"UserDefinedRoleMaker has no {sorted(kwargs)[0]}")
        if not isinstance(server_endpoints or [], list):
            raise TypeError("server_endpoints must be as string list")
        if not isinstance(current_id, int):
            raise TypeError("current_id must be as int")
        if current_id < 0:
            raise ValueError("current_id must be greater than or equal to 0")
        self._role = (int(role), current_id, worker_num,
                      ",".join(worker_endpoints or []) or None,
                      ",".join(server_endpoints or []) or None, is_collective)

    def _given(self):
        return self._role


class UserDefinedCollectiveRoleMaker(UserDefinedRoleMaker):
    def __init__(self, current_id=0, worker_endpoints=None):
        super().__init__(current_id, worker_endpoints=worker_endpoints,
                         is_collective=True)
