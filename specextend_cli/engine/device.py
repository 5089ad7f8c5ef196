"""Whether a device still computes."""

from __future__ import annotations

import torch

from specextend_cli.errors import DeviceError


def check_alive(device: torch.device) -> None:
    """After an error: DeviceError where the device computes nothing more in this process, whatever is tried.

    Every later call then fails as the first one did. What else fails leaves the device as it was: a capture, a kernel
    that does not fit.
    """
    if device.type == "cuda":
        try:
            torch.cuda.synchronize(device)
        except RuntimeError as error:
            raise DeviceError(str(error)) from error
