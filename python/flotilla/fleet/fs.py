"""File systems that checkpoints and data go to: the machine's own, and HDFS
through its command."""
import os
import shutil
import subprocess

from .util import part_of


class FS:
    """What a file system does."""

    def _wanted(self, *args):
        """Refuses, unless whoever inherits writes it."""
        raise NotImplementedError(f"{type(self).__name__} does not do this")

    list_dirs = ls_dir = stat = upload = download = mkdir = mv = rmr = rm = \
        delete = need_upload_download = _wanted


class LocalFS(FS):
    def list_dirs(self, fs_path):
        """Names of the folders in a folder."""
        return [n for n in self.ls_dir(fs_path)
                if self.is_dir(os.path.join(fs_path, n))]

    def ls_dir(self, fs_path):
        """Names of what is in a folder."""
        return sorted(os.listdir(fs_path)) if self.stat(fs_path) else []

    def stat(self, fs_path):
        """Whether it is there."""
        return os.path.exists(fs_path)

    is_exist = stat

    def is_dir(self, fs_path):
        """Whether it is a folder."""
        return os.path.isdir(fs_path)

    def is_file(self, fs_path):
        """Whether it is a file."""
        return os.path.isfile(fs_path)

    def mkdir(self, fs_path):
        """Makes a folder and those above it."""
        if os.path.isfile(fs_path):
            raise AssertionError(f"{fs_path} is already a file")
        os.makedirs(fs_path, exist_ok=True)

    mkdirs = mkdir

    def mv(self, fs_src_path, fs_dst_path):
        """Gives a file or a folder another path."""
        os.rename(fs_src_path, fs_dst_path)

    rename = mv

    def rmr(self, fs_path):
        """Removes a folder with all that is in it."""
        shutil.rmtree(fs_path)

    def rm(self, fs_path):
        """Removes a file."""
        os.remove(fs_path)

    def delete(self, fs_path):
        """Removes a file or a folder."""
        if self.is_file(fs_path):
            self.rm(fs_path)
        elif self.stat(fs_path):
            self.rmr(fs_path)

    def touch(self, fs_path, exist_ok=True):
        """Makes an empty file."""
        with open(fs_path, "a" if exist_ok else "x", encoding="utf-8"):
            pass

    def need_upload_download(self):
        """Whether files are elsewhere: no."""
        return False


class HDFSClient(FS):
    """`hadoop fs` of an installation, with its configs as -D words."""

    def __init__(self, hadoop_home, configs, time_out=20 * 60 * 1000,
                 sleep_inter=1000):
        self._home = hadoop_home  # scripts may leave it out, and not use it
        self._command = [f"{hadoop_home}/bin/hadoop", "fs"]
        self._command += [f"-D{k}={v}" for k, v in (configs or {}).items()]
        self._seconds = time_out / 1000

    def _run(self, *words, check=True):
        if not self._home:
            raise ValueError("HDFSClient: no hadoop_home was given, so there "
                             "is no hadoop to call; give its folder")
        done = subprocess.run(self._command + list(words), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=self._seconds)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(self._command + list(words))} ended "
                               f"with {done.returncode}: "
                               f"{done.stderr.strip()}")
        return done

    def _test(self, flag, path):
        return self._run("-test", flag, path, check=False).returncode == 0

    def cat(self, hdfs_path=None):
        """The text of a file."""
        return self._run("-cat", hdfs_path).stdout.rstrip("\n") \
            if self.is_file(hdfs_path) else ""

    def is_exist(self, hdfs_path=None):
        """Whether it is there."""
        return self._test("-e", hdfs_path)

    stat = is_exist

    def is_dir(self, hdfs_path=None):
        """Whether it is a folder."""
        return self._test("-d", hdfs_path)

    def is_file(self, hdfs_path=None):
        """Whether it is a file."""
        return self.is_exist(hdfs_path) and not self.is_dir(hdfs_path)

    def _listed(self, flag, path):
        """(is a folder, path) of each line."""
        lines = self._run(flag, path).stdout.splitlines()
        rows = [line.split(None, 7) for line in lines]
        return [(r[0].startswith("d"), r[7]) for r in rows if len(r) == 8]

    def ls(self, hdfs_path):
        """Paths of what is in a folder."""
        return [path for _, path in self._listed("-ls", hdfs_path)]

    def lsr(self, hdfs_path, excludes=()):
        """Paths of all files below a folder."""
        return [path for is_dir, path in self._listed("-lsr", hdfs_path)
                if not is_dir and os.path.basename(path) not in excludes]

    def ls_dir(self, fs_path):
        """Names of what is in a folder."""
        found = self._listed("-ls", fs_path)
        return ([os.path.basename(p) for is_dir, p in found if is_dir],
                [os.path.basename(p) for is_dir, p in found if not is_dir])

    def list_dirs(self, fs_path):
        """Names of the folders in a folder."""
        return self.ls_dir(fs_path)[0] if self.is_exist(fs_path) else []

    def delete(self, hdfs_path):
        """Removes a file or a folder."""
        if self.is_exist(hdfs_path):
            self._run("-rmr" if self.is_dir(hdfs_path) else "-rm", hdfs_path)
        return True

    rmr = rm = delete

    def rename(self, hdfs_src_path, hdfs_dst_path, overwrite=False):
        """Gives a file or a folder another path."""
        if overwrite:
            self.delete(hdfs_dst_path)
        self._run("-mv", hdfs_src_path, hdfs_dst_path)
        return True

    mv = rename

    @staticmethod
    def make_local_dirs(local_path):
        """Makes a folder of this machine."""
        os.makedirs(local_path, exist_ok=True)

    def makedirs(self, hdfs_path):
        """Makes a folder and those above it."""
        if not self.is_exist(hdfs_path):
            self._run("-mkdir", "-p", hdfs_path)
        return True

    mkdir = makedirs

    def download(self, hdfs_path, local_path, multi_processes=5,
                 overwrite=False, retry_times=5):
        """Copies a file or a folder to this machine."""
        if overwrite:
            LocalFS().delete(local_path)
        self._run("-get", hdfs_path, local_path)
        return True

    def upload(self, local_path, hdfs_path, multi_processes=5, overwrite=False,
               retry_times=5, sync=True):
        """Copies a file or a folder of this machine there."""
        if overwrite:
            self.delete(hdfs_path)
        self._run("-put", local_path, hdfs_path)
        return True

    def upload_dir(self, dest_dir, local_dir, overwrite=False):
        """Copies a folder of this machine there."""
        return self.upload(local_dir, dest_dir, overwrite=overwrite)

    @staticmethod
    def split_files(files, trainer_id, trainers):
        """The share of a list of files that a worker has."""
        return part_of(files, trainer_id, trainers)

    def need_upload_download(self):
        """Whether files are elsewhere: yes."""
        return True


class BDFS(HDFSClient):
    """The hadoop of PATH, with a name and a user."""

    def __init__(self, hdfs_name, hdfs_ugi, time_out=20 * 60 * 1000,
                 sleep_inter=1000):
        super().__init__("", {"fs.default.name": hdfs_name,
                              "hadoop.job.ugi": hdfs_ugi}, time_out)
        self._command[0] = "hadoop"
