"""What a user says of a parameter."""
from . import initializer as init
from . import regularizer as decay


class ParamAttr:
    """What a parameter is: name, first value, rate, decay, clip."""

    def __init__(self, name=None, initializer=None, learning_rate=1.0,
                 regularizer=None, trainable=True, do_model_average=True):
        if not (name is None or isinstance(name, str)):
            raise TypeError(f"the name of a parameter is a str, not {name!r}")
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average

    def _set_default_initializer(self, initializer):
        if self.initializer is None:
            self.initializer = initializer

    def _to_kwargs(self, with_initializer=False):
        kwargs = {"name": self.name,
                  "optimize_attr": {"learning_rate": self.learning_rate},
                  "regularizer": self.regularizer,
                  "trainable": self.trainable,
                  "do_model_average": self.do_model_average}
        if with_initializer:
            kwargs["initializer"] = self.initializer
        return kwargs

    @staticmethod
    def _to_attr(arg):
        """A ParamAttr of what stands for one: None, a name, an initializer, a
        regularizer, False for no parameter, or a list of them."""
        if arg is None:
            return ParamAttr()
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(a) for a in arg]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, init.Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, decay.WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        if isinstance(arg, bool):
            return ParamAttr._to_attr(None) if arg else False
        raise TypeError(f"{type(arg)} cast to ParamAttr")


class WeightNormParamAttr(ParamAttr):
    """A parameter that is learned as a length and a direction, w = g v / |v|;
    the norm is over all axes but dim, or over all."""

    def __init__(self, dim=None, name=None, initializer=None,
                 learning_rate=1.0, regularizer=None, trainable=True,
                 do_model_average=False):
        super().__init__(name, initializer, learning_rate, regularizer,
                         trainable, do_model_average)
        self.dim = dim
