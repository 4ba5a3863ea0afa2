"""What a training script takes from its command line."""
import argparse


def parse_train_configs():
    """--lr and the like, as attributes; a word that is none of them is an
    error that lists them."""
    parser = argparse.ArgumentParser("fleetx")
    parser.add_argument("--lr", type=float, default=0.0001,
                        help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9,
                        help="of optimizers that have one")
    parser.add_argument("--decay", type=float, default=0.9,
                        help="factor of a schedule")
    parser.add_argument("--batch_size", type=int, default=1000,
                        help="lines of a batch")
    parser.add_argument("--epoch", type=int, default=1,
                        help="passes over the data")
    return parser.parse_args()
