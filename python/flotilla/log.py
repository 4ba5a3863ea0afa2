"""Loggers for scripts."""
import logging


def get_logger(name, level, fmt=None):
    """A logger that writes lines of this form to standard error."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    handler = logging.StreamHandler()
    if fmt:
        handler.setFormatter(logging.Formatter(fmt=fmt))
    logger.addHandler(handler)
    logger.propagate = False
    return logger
