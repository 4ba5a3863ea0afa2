"""Pictures as arrays: height, width, and blue, green and red. Pillow opens and
scales them."""
import io
import os
import pickle
import tarfile

import numpy as np


def _pillow():
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("paddle.dataset.image needs Pillow: pip install "
                          "pillow") from None
    return Image


def _array(picture, is_color):
    found = np.asarray(picture.convert("RGB" if is_color else "L"))
    return found[:, :, ::-1] if is_color else found


def load_image_bytes(bytes, is_color=True):
    return _array(_pillow().open(io.BytesIO(bytes)), is_color)


def load_image(file, is_color=True):
    return _array(_pillow().open(file), is_color)


def resize_short(im, size):
    """Its shorter side becomes so long."""
    height, width = im.shape[:2]
    scale = size / min(height, width)
    picture = _pillow().fromarray(np.ascontiguousarray(im))
    return np.asarray(picture.resize((int(width * scale),
                                      int(height * scale))))


def to_chw(im, order=(2, 0, 1)):
    if im.ndim != len(order):
        raise AssertionError(f"a picture of {im.ndim} dimensions is not in "
                             f"order {order}")
    return im.transpose(order)


def _crop(im, size, top, left):
    return im[top:top + size, left:left + size]


def center_crop(im, size, is_color=True):
    return _crop(im, size, (im.shape[0] - size) // 2,
                 (im.shape[1] - size) // 2)


def random_crop(im, size, is_color=True):
    return _crop(im, size, np.random.randint(0, im.shape[0] - size + 1),
                 np.random.randint(0, im.shape[1] - size + 1))


def left_right_flip(im, is_color=True):
    return im[:, ::-1]


def simple_transform(im, resize_size, crop_size, is_train, is_color=True,
                     mean=None):
    """Scaled, cut (for training at random, and turned over half of the time),
    less a mean for each channel or each number."""
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size, is_color)
        if np.random.randint(2) == 0:
            im = left_right_flip(im, is_color)
    else:
        im = center_crop(im, crop_size, is_color)
    if im.ndim == 3:
        im = to_chw(im)
    im = im.astype("float32")
    if mean is not None:
        mean = np.array(mean, dtype=np.float32)
        if mean.ndim == 1 and is_color:
            mean = mean[:, np.newaxis, np.newaxis]
        im -= mean
    return im


def load_and_transform(filename, resize_size, crop_size, is_train,
                       is_color=True, mean=None):
    return simple_transform(load_image(filename, is_color), resize_size,
                            crop_size, is_train, is_color, mean)


def batch_images_from_tar(data_file, dataset_name, img2label,
                          num_per_batch=1024):
    """Writes the pictures that have labels to files beside the archive, so many
    each; gives the path of a list of these files, which is made once."""
    folder = os.path.join(f"{data_file}_batch", dataset_name)
    listing = os.path.join(folder, "batch_names.txt")
    if os.path.exists(listing):
        return listing
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(data_file) as archive:
        found = [(archive.extractfile(m).read(), img2label[m.name])
                 for m in archive if m.name in img2label]
    paths = []
    for at in range(0, len(found), num_per_batch):
        part = found[at:at + num_per_batch]
        paths.append(os.path.join(folder, f"batch_{len(paths):05d}"))
        with open(paths[-1], "wb") as f:
            pickle.dump({"data": [d for d, _ in part],
                         "label": [n for _, n in part]}, f, protocol=2)
    with open(listing, "w", encoding="utf-8") as f:
        f.writelines(os.path.abspath(p) + "\n" for p in paths)
    return listing
