"""Ratings of films: user, gender, age and job; film, categories and words of
its title; the rating from -5 to 5."""
import collections
import functools
import re
import zipfile

import numpy as np

from . import common

URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"
age_table = [1, 18, 25, 35, 45, 50, 56]

_Meta = collections.namedtuple("_Meta", "movies users categories titles")


class MovieInfo:
    """A film: its number, categories and title."""

    def __init__(self, index, categories, title):
        self.index = int(index)
        self.categories = categories
        self.title = title

    def value(self):
        meta = _meta()
        return [self.index, [meta.categories[c] for c in self.categories],
                [meta.titles[w.lower()] for w in self.title.split()]]

    def __repr__(self):
        return (f"<MovieInfo id({self.index}), title({self.title}), "
                f"categories({self.categories})>")


class UserInfo:
    """Somebody who rated films."""

    def __init__(self, index, gender, age, job_id):
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self):
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __repr__(self):
        return (f"<UserInfo id({self.index}), gender("
                f"{'M' if self.is_male else 'F'}), age({age_table[self.age]}),"
                f" job({self.job_id})>")


def _lines(name):
    with zipfile.ZipFile(fetch()) as archive:
        with archive.open(f"ml-1m/{name}.dat") as f:
            for line in f:
                yield line.decode("latin-1").strip().split("::")


def _numbered(names):
    return {name: i for i, name in enumerate(sorted(names))}


@functools.lru_cache(maxsize=None)
def _meta():
    movies = {}
    for number, title, categories in _lines("movies"):
        name = re.match(r"^(.*)\((\d+)\)$", title).group(1)
        movies[int(number)] = MovieInfo(number, categories.split("|"), name)
    users = {int(u[0]): UserInfo(*u[:4]) for u in _lines("users")}
    return _Meta(movies, users,
                 _numbered({c for m in movies.values()
                            for c in m.categories}),
                 _numbered({w.lower() for m in movies.values()
                            for w in m.title.split()}))


def _reader(is_test, rand_seed=0, test_ratio=0.1):
    def reader():
        meta, random = _meta(), np.random.RandomState(rand_seed)
        for user, movie, rating, _ in _lines("ratings"):
            if (random.random_sample() < test_ratio) == is_test:
                yield (meta.users[int(user)].value() +
                       meta.movies[int(movie)].value() +
                       [[float(rating) * 2 - 5.0]])

    return reader


def train(**options):
    return _reader(False, **options)


def test(**options):
    return _reader(True, **options)


def get_movie_title_dict():
    return _meta().titles


def movie_categories():
    return _meta().categories


def user_info():
    return _meta().users


def movie_info():
    return _meta().movies


def max_movie_id():
    return max(_meta().movies)


def max_user_id():
    return max(_meta().users)


def max_job_id():
    return max(u.job_id for u in _meta().users.values())


def fetch():
    return common.download(URL, "movielens", MD5)
