"""Names that are there and refuse when they are called, with what to do
instead."""


def add(kind, called, why):
    """Methods of a class: {name: why not}."""
    for name, reason in why.items():
        setattr(kind, name, _method(f"{called}.{name}", name, reason))


def _method(called, name, why):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{called}: {why}")

    refuse.__name__ = name
    refuse.__doc__ = f"Refuses: {why}."
    return refuse
