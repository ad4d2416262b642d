# SPDX-License-Identifier: Apache-2.0
"""The energy that torch's GPU has taken, by NVML, which the driver's package installs."""

import ctypes
from typing import Any


class Meter:
    """Counts joules of the whole board. The counter moves every 20 to 100 ms."""

    def __init__(self, library: ctypes.CDLL, device: ctypes.c_void_p) -> None:
        self.library, self.device = library, device

    def joules(self) -> float:
        """J since the driver was loaded."""
        millijoules = ctypes.c_ulonglong()
        error = self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(millijoules))
        if error:
            raise RuntimeError(f"nvmlDeviceGetTotalEnergyConsumption: error {error}")
        return millijoules.value * 1e-3


def bus_of(properties: Any) -> bytes:
    """How NVML names the device of torch.cuda.get_device_properties."""
    return b"%08x:%02x:%02x.0" % (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)


def meter_of(properties: Any) -> Meter | None:
    """The meter of that device; None where there is no NVML, or it counts no energy."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(bus_of(properties), ctypes.byref(device)):
            return None
        meter = Meter(library, device)
        meter.joules()
    except (OSError, AttributeError, RuntimeError):
        return None
    return meter
